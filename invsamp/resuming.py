"""`resume`: go on with a run that a directory holds."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from invsamp.arguments import boolean, integer, mapping
from invsamp.engine.driver import serialization as states
from invsamp.engine.driver.blas_threads import one_thread
from invsamp.engine.driver.checkpoint_loop import NOTICE, fingerprint, obey, record, start_run
from invsamp.engine.driver.engine import Engine
from invsamp.engine.driver.recorded_variables import Record, as_record
from invsamp.engine.driver.running_moments import without_large
from invsamp.engine.driver.signals import Interrupts
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.evaluate.contract import Evaluator
from invsamp.ladder import Sampler
from invsamp.parallel.evaluator_lifecycle import evaluated, evaluator_of
from invsamp.parallel.messages import Communicator
from invsamp.protocols import Array, Facts, Observed, Potential, Problem
from invsamp.results.partial_results import announce
from invsamp.results.run import Run
from invsamp.sampling import as_problem
from invsamp.storage import manifest as manifests
from invsamp.storage.contents import versions
from invsamp.storage.directory import RunDirectory, as_path, check_segments, read_problem
from invsamp.storage.lock import DirectoryInUseError
from invsamp.storage.segments import read_constants
from invsamp.storage.state import Header, read_state
from invsamp.storage.stored import CONSTANTS
from invsamp.warning_codes import InvsampWarning, coded


def resume(
    directory: str | os.PathLike[str],
    posterior: Problem | Potential | None = None,
    *,
    sampler: Sampler | None = None,
    draws: int | None = None,
    progress: bool = True,
    comm: Communicator | None = None,
    executor: Executor | Evaluator | None = None,
    record: Mapping[str, Callable[[Array], object]] | None = None,
    evaluations: int | None = None,
) -> Run:
    """Go on with a run that was stopped or killed, to the same draws, bit for bit; or ask more draws of it.

    Parameters
    ----------
    directory : path
        As it was given to `invsamp.sample`. Of a finished run it may be one that no one can write to.
    posterior : Posterior, Target or Potential, optional
        The one that was sampled. By default it is read from the directory, where it could be pickled: **that runs
        the code that the file names, so do it with directories that you trust**. Its functions must be importable.
        If it is given, nothing that the directory holds is executed.
    sampler : Sampler, optional
        The one that was used. Only needed if it has parts of your own, and the posterior is given.
    draws : int, optional
        Of each chain, in all, those made before included. By default as many as were asked for. They are those of a run
        that had so many from the start, and the same ``warmup``. Only a schedule that is spread over the run keeps the
        length that was asked for first, and where nothing was chosen, that length has decided what was tried and kept.
    progress : bool
        Whether to show a bar.
    comm : mpi4py.MPI.Comm, optional
        As of `invsamp.sample`. There may be more or fewer processes than before.
    executor : concurrent.futures.Executor, or `invsamp.evaluate.Evaluator`, optional
        As of `invsamp.sample`; it need not be that of before.
    record : mapping of names to functions, optional
        The functions that were recorded, by the same names; needed where there were some and the posterior is given.
    evaluations : int, optional
        A larger budget, those made before included, for a run that was given one (`invsamp.sample`).

    Returns
    -------
    Run
        The whole run, from its first draw. A run that is finished is returned as it is.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    ValueError
        If the posterior or the sampler is not that of the run: with what differs, energies included. If the posterior
        cannot be read from the directory. If ``draws`` is less than there are, or ``evaluations`` than the budget
        before. If a file of the run is truncated or damaged: with its name.
    DirectoryInUseError
        If another process writes to it: with its number and host.
    OSError
        If the directory cannot be written to.
    KeyboardInterrupt, SystemExit
        After a checkpoint, on Ctrl-C, SIGTERM and SIGHUP.

    Warns
    -----
    UserWarning
        If the versions of Python, NumPy and the like have changed, or the energies differ in their last digits: then
        the draws are as good, but not the same bit for bit.

    Examples
    --------
    >>> import tempfile
    >>> import invsamp as iv
    >>> density = iv.LogDensity(lambda x: -0.5 * x[:, 0] ** 2, lambda x: -x, dimension=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     settings = {"draws": 20, "warmup": 0, "seed": 1, "progress": False, "directory": f"{folder}/run"}
    ...     run = iv.sample(iv.Target(density), iv.mala(1.0), **settings)
    ...     more = iv.resume(f"{folder}/run", iv.Target(density), draws=40, progress=False)
    ...     print(bool((more.theta[:, :20] == run.theta).all()))
    ...
    True
    """
    path = as_path(directory)
    boolean("progress", progress)
    header, payload = read_state(path)
    problem, used, kept = _parts(path, header, payload, posterior, sampler, record)
    _check_same(path, header.about, problem, used)
    plan = _plan(header.about["plan"], draws, evaluations)
    engine = Engine(problem, used, plan)
    engine.record = kept
    evaluator = evaluator_of(engine, executor, comm, {})
    with one_thread():
        run = evaluated(engine, evaluator, partial(_carried_on, engine, path, header.about, progress))
    if header.draws != plan.draws and evaluator.drives:
        announce(run, stacklevel=2)
    return run


def _carried_on(engine: Engine, path: Path, about: Facts, progress: bool) -> Run:
    """The whole run, from where its directory says that it stands."""
    plan = engine.plan
    if (over := _over(path, plan)) is not None:
        return over
    with _opened(path, about) as kept, Interrupts(NOTICE) as interrupts:
        saved = states.decode(kept.payload)
        engine.given = saved["start"]
        if saved["engine"] is not None:
            engine.take_form(saved["engine"])
            # before models are corrected as they were
            _check_energies(engine, path, about, kept.header.fingerprint)
            engine.restore(saved["engine"])
        if (plan.draws, plan.evaluations) != (about["plan"]["draws"], about["plan"].get("evaluations")):
            kept.describe(dict(about) | {"plan": asdict(plan)})
        if saved["engine"] is None:
            start_run(engine, kept)
        received = record(engine, kept, interrupts, progress)
    obey(received, engine, path)
    return Run.load(path)


def _over(path: Path, plan: Plan) -> Run | None:
    """A run that is finished, which is only read: it may lie where no one can write."""
    header = read_state(path)[0]
    if header.draws != plan.draws:
        return None
    with suppress(OSError, DirectoryInUseError):  # where that can be, what a kill in the end has left over is removed
        RunDirectory.open(path).close()
    check_segments(path, header)
    return Run.load(path)


def _opened(path: Path, about: Mapping[str, object]) -> RunDirectory:
    """The directory, unless another process has changed the run since it was read."""
    directory = RunDirectory.open(path)
    if directory.header.about != about:
        directory.close()
        raise ValueError(f"directory must not be in use: another process has just changed the run in {path}")
    return directory


def _parts(
    path: Path, header: Header, payload: bytes, posterior: Any, sampler: object, record: object
) -> tuple[Problem, Sampler, Record]:
    """The problem, the sampler and what is recorded: given, decoded, or from the pickle, which is not touched if a
    posterior is given."""
    kept: Record | None = None
    used = states.decode(payload)["sampler"] if sampler is None else sampler
    again = f"Call iv.resume(directory, posterior{(', sampler=sampler' if used is None else '')})"
    if posterior is None:
        try:
            posterior, pickled, kept = read_problem(path, header)
        except Exception as error:  # whatever a module that has changed may raise
            why = _why(header.about, error)
            raise ValueError(f"posterior must be given to resume {path}: it {why}. {again}") from error
        used = pickled if used is None else used
    elif used is None:
        raise ValueError(f"sampler must be given to resume {path}: it has parts of your own. {again}")
    if not isinstance(used, Sampler):
        raise ValueError(f"sampler must be a Sampler, as the presets return it, got {used!r}")
    problem = as_problem(posterior, "posterior")
    return problem, used, _recorded(path, header.about, problem, kept, record)


def _recorded(path: Path, about: Facts, problem: Problem, kept: Record | None, record: object) -> Record:
    """Quantities that the run records, by the given functions, or else by those of the pickle."""
    if record is None and kept is not None:
        return kept
    names = about["record"]
    given = {} if record is None else mapping("record", record, "a mapping of names to functions of theta, or None")
    if set(given) != set(names):
        raise ValueError(f"record must have the functions {names} of the run in {path}, got {list(given)}")
    keep, every = about["keep"], about.get("every")
    functions = {name: given[name] for name in names}
    if every is not None:
        return without_large(as_record(problem, functions, True), problem, every)
    return as_record(problem, functions, True if keep is None else keep or False)


def _why(about: Mapping[str, object], error: Exception) -> str:
    kept = about["posterior"]
    if isinstance(error, FileNotFoundError):
        return f"{kept}, and is missing" if kept == "pickled" else str(kept)
    return f"was pickled there, but cannot be read in this process ({type(error).__name__}: {error})"


def _check_same(path: Path, about: Facts, problem: Problem, sampler: Sampler) -> None:
    before, now = dict(about["settings"]), manifests.describe(problem, sampler)
    data = [] if before.pop("data", None) == now.pop("data", None) else [_data_difference(path, problem)]
    found = manifests.differences(before, now)
    if found or data:
        name = "posterior" if data or not all(line.startswith("sampler") for line in found) else "sampler"
        raise ValueError(f"{name} must be that of the run in {path}; " + "; ".join(found + data))


def _data_difference(path: Path, problem: Problem) -> str:
    try:
        before = read_constants(path / CONSTANTS)["observed_data"]["data"]
    except (OSError, RuntimeError, LookupError, ValueError):
        return "the data are others"  # known by the hash; the file that holds them is damaged, or there were none
    if not isinstance(problem, Observed):
        return "there were data"
    return manifests.compare_data(before, np.asarray(problem.data))


def _check_energies(engine: Engine, path: Path, about: Mapping[str, object], before: Facts) -> None:
    now = fingerprint(engine, np.array(before["position"]))
    found = manifests.compare_energies(before["energies"], now["energies"])
    if found:
        raise ValueError(
            f"posterior must be that of the run in {path}, but although it looks the same, it has other "
            f"values at the positions {before['position']}: " + "; ".join(found)
        )
    _warn_of_last_digits(about, before["energies"] != now["energies"])


def _warn_of_last_digits(about: Mapping[str, object], differ: bool) -> None:
    """Say it where the draws to come may not be, bit for bit, those of an uninterrupted run."""
    changed = manifests.differences(about["versions"], versions())
    if changed or differ:
        why = "; ".join(changed) or "the energies differ from the run's in their last digits"
        message = coded(
            "IV-RESUMED", f"the next draws may differ from those of an uninterrupted run in their last digits: {why}"
        )
        warnings.warn(message, InvsampWarning, stacklevel=6)


def _plan(before: Facts, draws: int | None, evaluations: int | None) -> Plan:
    plan = Plan(**before)
    if evaluations is not None:
        if plan.evaluations is None:
            raise ValueError(f"evaluations must be None for a run that was given no budget, got {evaluations!r}")
        plan = replace(plan, evaluations=integer("evaluations", evaluations, least=plan.evaluations))
    if draws is None:
        return plan
    more = replace(plan, draws=draws)
    if more.draws < plan.draws:
        raise ValueError(f"draws must be at least the {plan.draws} that were requested before, got {draws}")
    return more
