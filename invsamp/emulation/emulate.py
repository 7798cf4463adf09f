"""`emulate`: the posterior of an expensive simulator without derivatives, from about a hundred runs of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from invsamp.arguments import boolean, instance, integer, optional, wrong
from invsamp.emulation.emulated_run import EmulatedRun, with_report
from invsamp.emulation.emulation import Emulated, emulated
from invsamp.emulation.final_draws import drawn
from invsamp.emulation.findings import facts, ignored_inputs, messages, of_draws
from invsamp.emulation.progress import Bar
from invsamp.emulation.runs.inputs import inputs_of
from invsamp.emulation.runs.journal import Journal
from invsamp.emulation.runs.simulation_runs import Simulations
from invsamp.emulation.runs.simulator import with_runs
from invsamp.emulation.runs.stop import stopped
from invsamp.engine.driver.blas_threads import one_thread
from invsamp.parallel.communicator import alone, world
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, Plain
from invsamp.results.partial_results import announce
from invsamp.simulations.running import executor_of
from invsamp.simulations.stored_model import StoredModel
from invsamp.storage.directory import as_path

#: What a cheap simulator was run for, and what came of it.
Cheap = tuple[Simulations, Emulated]
#: Simulations for each input, at least; of the cheap simulator for each of the expensive one, at most.
LEAST, CHEAP = 4, 10


def emulate(
    posterior: Posterior,
    simulations: int = 200,
    batch: int = 8,
    *,
    trend: str | None = None,
    descents: int = 8,
    draws: int = 1000,
    chains: int = 4,
    seed: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    executor: Any = None,
    progress: bool = True,
) -> EmulatedRun:
    """Draw from the posterior of an expensive simulator, which needs no derivatives, by some hundred runs of it.

    The simulator is run at quasi-random points of the prior. From the best of these local optimizations look for modes,
    all at the same time and on shared simulations. If the points do not predict each other, each optimization first
    takes differences for its own slopes, with at most a third of the budget. Then a Gaussian process emulates the
    outputs, its posterior is sampled, and a batch of simulations follows: three quarters of them posterior draws, the
    others where the emulator knows least. The energies of these draws are predicted from all other simulations. Rounds
    end once the errors of these predictions change no mean by more than 0.1 sds, and the posterior no longer changes.
    They also end when the budget is spent, which a warning reports. The emulator's own uncertainty widens the
    likelihood. Unknown parameters of the noise take no simulations.

    Parameters
    ----------
    posterior : Posterior
        Its finest model is emulated.
    simulations : int
        Budget: at least four for each unknown input.
    batch : int
        Simulations at the same time, at least 4.
    trend : str, optional
        A cheaper fidelity. Its outputs are emulated first, from at most ten times as many simulations, and the emulator
        of the finest model learns by how much these differ from them (Kennedy and O'Hagan 2000, Biometrika 87, 1-13).
        It has to take the same parameters.
    descents : int
        Local optimizations, at most. More find modes of smaller basins. While no minimum fits the data, as many follow
        again, twice at most.
    draws, chains : int
        Of the run that is returned; they take no simulations.
    seed : int, optional
        Fixes everything, if the simulator does not draw random numbers itself.
    directory : path, optional
        A database of all simulations is kept there (`invsamp.simulations`). Called again with the same arguments after
        a kill, the emulation goes on where it stood, and nothing is simulated twice. Simulations that a database holds
        before are learned from, too.
    executor : optional
        Runs the simulations of a wave at the same time. Any object with a method ``submit`` or ``map``: an executor of
        `concurrent.futures` or mpi4py, a Dask client, ``submitit.AutoExecutor``.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    EmulatedRun
        A `Run`; ``run.certify()`` checks it by further simulations.

    Raises
    ------
    ValueError
        If an argument is wrong; if the posterior was posed by its log likelihood, which has no outputs; if no one can
        draw from its prior, or it has no gradient.
    RuntimeError
        If all simulations of the first wave fail. If MPI started several processes and there is no executor.
    ModelError
        If the number of outputs changes.
    KeyboardInterrupt, SystemExit
        On Ctrl-C; on SIGTERM and SIGHUP. The message says how to go on.

    Warns
    -----
    UserWarning
        If the budget was spent before the rule was met; if a mode was found by one descent alone, or none fits the
        data. If simulations fail at posterior draws; if the simulator is noisy, or ignores a parameter.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> prior = iv.Prior(rate=iv.LogNormal(0.0, 1.0))
    >>> times = np.linspace(0.2, 2.0, 10)
    >>> model = lambda theta: np.exp(-theta * times)
    >>> posterior = iv.Posterior(prior, model, np.exp(-1.5 * times), iv.GaussianNoise(0.05))
    >>> run = iv.emulate(posterior, simulations=60, seed=1, progress=False)
    >>> run.report["emulation"]["stopped_by_rule"]
    True
    """
    instance("posterior", posterior, Posterior, "a Posterior")
    if not posterior.predicts:
        raise ValueError("posterior must have a forward model, whose outputs are emulated, got a log likelihood")
    boolean("progress", progress)
    if (why := posterior.prior.no_derivatives) is not None:
        raise ValueError(f"posterior must have a prior with a gradient, which chains on the emulator follow: {why}")
    posterior.sample_start(np.random.default_rng(0), 1)  # a prior that no one can draw from is refused first
    unknown = inputs_of(posterior).coordinates.dimension
    budget = integer("simulations", simulations, least=1)
    if budget < LEAST * unknown:
        raise ValueError(
            f"simulations must be at least {LEAST} for each of the {unknown} unknown inputs, "
            f"{LEAST * unknown}, got {budget}: an emulator of fewer is not accurate"
        )
    batch, descents = integer("batch", batch, least=4), integer("descents", descents, least=1)
    draws, chains = integer("draws", draws, least=1), integer("chains", chains, least=1)
    executor = executor_of("executor", executor)
    if executor is None and (comm := world()) is not None:
        raise RuntimeError(
            f"emulate must run in one process, got {comm.size} that MPI started. Let the others run "
            "simulations: mpiexec -n 32 python -m mpi4py.futures script.py, with "
            "executor=mpi4py.futures.MPIPoolExecutor()"
        )
    seed = optional(integer, "seed", seed, least=0)
    path = None if directory is None else as_path(directory)
    journal = None if path is None else Journal(path)
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
        if journal is not None and journal.begun:
            seed = int(journal.settings({})["seed"])
    settings = {"seed": seed, "batch": batch, "descents": descents, "trend": trend}
    cheap = None
    if trend is not None:
        cheap = _below(_coarser(posterior, trend), CHEAP * budget, path, executor, settings, progress)
    runs = _simulations(with_runs(posterior, path, executor), budget, journal, settings)
    with stopped(lambda: _kept(runs, path)):
        made = _emulated(runs, settings, progress, cheap)
    with alone():  # MPI's other processes, if there are any, wait for simulations
        run = drawn(made.fitted, draws, chains, seed)
    findings = messages(runs, made) + of_draws(made, run)
    if idle := ignored_inputs(runs, made):
        findings.append(f"the outputs do not depend on {idle}: their posterior is the prior")
    found = EmulatedRun(with_report(run, facts(runs, made), findings), runs, made)
    announce(found, stacklevel=2)
    return found


def _coarser(posterior: Posterior, trend: object) -> Posterior:
    """The posterior of the cheap simulator alone."""
    others = list(posterior.fidelities[:-1])
    if trend not in others:
        right = f"one of {others}" if others else "None, as the posterior has a single fidelity"
        raise wrong("trend", right, trend)
    name = str(trend)
    takes, finest = posterior.unknown_names(name), posterior.unknown_names(posterior.fidelities[-1])
    if takes != finest:
        raise ValueError(f"trend must take the parameters of the finest model, {finest}, got {name!r} with {takes}")
    return posterior.alone(name)


def _below(
    posterior: Posterior, budget: int, path: Path | None, executor: Any, settings: Plain, progress: bool
) -> Cheap:
    """The emulation of a cheap simulator."""
    own = None if path is None else path / "trend"
    journal = None if own is None else Journal(own)
    runs = _simulations(with_runs(posterior, own, executor), budget, journal, settings)
    with stopped(lambda: _kept(runs, path)):
        return runs, _emulated(runs, settings, progress, None)


def _emulated(
    runs: Simulations, settings: Plain, progress: bool, cheap: tuple[Simulations, Emulated] | None
) -> Emulated:
    """An emulation with its bar."""
    batch, descents = settings["batch"], settings["descents"]
    bar = Bar(runs, batch, progress)
    try:
        # far from all simulations the emulator may leave floating point: such a position has no posterior density
        with one_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return emulated(runs, batch, descents, np.random.default_rng(settings["seed"]), bar.say, cheap)
    finally:
        bar.close()


def _kept(simulations: Simulations, path: Path | None) -> str:
    """The state of an emulation that was stopped, and how to continue it."""
    model = simulations.model.model
    if not isinstance(model, StoredModel):
        return "stopped: nothing is kept. With directory= the simulations would be"
    how = "The next emulation learns from them" if path is None else "The same call resumes from there"
    return f"stopped: {len(model.database)} finished simulations are in {model.database.folder}. {how}"


def _simulations(posterior: Posterior, budget: int, journal: Journal | None, settings: Plain) -> Simulations:
    """The simulations to come, with those that a database held when the emulation began."""
    model = posterior.forward[posterior.fidelities[-1]]
    known = _known(posterior, model) if isinstance(model, StoredModel) else None
    if journal is not None:
        wanted = dict(settings)
        if not journal.begun:
            wanted["earlier"] = 0 if known is None else len(known[0])
        count = journal.settings(wanted)["earlier"]
        known = None if known is None else (known[0][:count], known[1][:count])
    return Simulations(posterior, budget, journal, known)


def _known(posterior: Posterior, model: StoredModel) -> tuple[Array, Array]:
    """Natural values of the unknown inputs, and outputs, of all simulations that a database has and that fit."""
    table = model.database.table()
    posed = posterior._posed[posterior.fidelities[-1]].model  # noqa: SLF001
    fixed = posed._fixed  # noqa: SLF001
    theta = np.asarray(table.theta)
    fits = np.ones(len(theta), dtype=bool) if fixed is None else ~((theta != fixed) & ~np.isnan(fixed)).any(axis=1)
    theta = theta if fixed is None else theta[:, np.isnan(fixed)]
    outputs = table.outputs if table.outputs.shape[1] else np.full((len(theta), posed.observations), np.nan)
    return theta[fits], outputs[fits]
