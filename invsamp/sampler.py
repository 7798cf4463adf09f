"""`sample`: pose, warm up, run, and hand back a `Run`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from invsamp.arguments import boolean, instance
from invsamp.contract import Array, Potential, Problem
from invsamp.diagnostics import load_arviz
from invsamp.engine.draws import Draws
from invsamp.engine.engine import Engine
from invsamp.engine.handing_back import announce, handed_back, say
from invsamp.engine.interrupts import Interrupts, leave
from invsamp.engine.plan import Plan
from invsamp.engine.progress import Bar
from invsamp.engine.ranks import Alone, Ranks
from invsamp.engine.recording import begin_run, check_segment
from invsamp.engine.starts import given_start
from invsamp.engine.threads import one_thread
from invsamp.ladder import Sampler
from invsamp.parallel.agreement import check_equal, run_settings
from invsamp.parallel.carry import carry, communicator
from invsamp.posing.potential import Target
from invsamp.presets import mala
from invsamp.results.run import Run
from invsamp.storage.directory import as_path


def sample(
    problem: Problem | Potential,
    sampler: Sampler | None = None,
    *,
    draws: int = 1000,
    warmup: int | None = None,
    thin: int = 1,
    chains: int = 4,
    seed: int | None = None,
    start: Array | Mapping[str, Array] | None = None,
    progress: bool = True,
    directory: str | os.PathLike[str] | None = None,
    segment: int | None = None,
    comm: Any = None,
    check_gradient: bool = True,
) -> Run:
    """Draw from a posterior.

    Processes that were started together by ``mpiexec`` all call it, share the rungs between them, and all get the run.
    The draws do not depend on how many there are, nor on the number of threads: BLAS has one while the run is made. A
    forward model that gains by more can have them in processes of its own (`invsamp.isolated`).

    Parameters
    ----------
    problem : Posterior, Target or Potential
        What to sample.
    sampler : Sampler, optional
        From a preset (`mala`, `sgld`, `cyclic_sgld`, `sghmc`, `relangevin`, `resgld`, `r2sgld`,
        `multi_variance_resgld`, `fast_resgld`) or composed by hand. Default: `mala`.
    draws : int
        Draws kept for each chain.
    warmup : int, optional
        Steps before the first draw, in which step size, preconditioner and variances are found. Default:
        half of ``draws * thin``, at least 500.
    thin : int
        Steps per draw.
    chains : int
        Independent chains (of the whole ladder), advanced together.
    seed : int, optional
        Fixes the draws. Default: taken from the system and told in ``run.report["seed"]``.
    start : ndarray (dimension,) or (chains, dimension), or mapping of names to values, optional
        Natural parameters at which every rung starts. Default: draws from the prior.
    progress : bool
        Whether to show a bar.
    directory : path, optional
        Keep the run there: draws in segments and the state to go on from, so that `invsamp.resume` continues to the
        same draws, bit for bit, after a kill at any moment. New or empty. Memory stays bounded, however long the run.
    segment : int, optional
        Draws of each chain in a segment. By default what takes about half a minute. The draws do not depend on it.
    comm : mpi4py.MPI.Comm, optional
        Processes that make the run together. Default: all that were started together.
    check_gradient : bool
        Whether gradients are held against differences of energies before the first step, at two starts: some ten solves
        of each fidelity, in ``run.report["gradient_check_evaluations"]``. The draws do not depend on it.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If an argument is wrong: its name, its value and what would be right are in the message. Nothing has
        been solved by then. If the directory holds something already.
    ModelError
        A `ValueError`: if a gradient is not that of its energy and the sampler has no acceptance step, which would
        leave the draws biased. With one, it is a warning.
    RuntimeError
        If every solve fails: at the start, or for 200 steps in a row. If gradients are noisier than a rung may have
        them (`invsamp.ladder.GradientNoise`), at the end of warm-up.
    """
    problem = as_problem(problem)
    sampler = mala() if sampler is None else sampler
    instance("sampler", sampler, Sampler, "a Sampler, as the presets return it")
    boolean("progress", progress)
    engine = Engine(problem, sampler, plan(draws, warmup, thin, chains, seed, check_gradient))
    positions = None if start is None else given_start(problem, engine.walked.sampling_domain, start, chains)
    path = None if directory is None else as_path(directory)
    check_segment(segment)
    if path is None and segment is not None:
        raise ValueError(f"segment must be None without a directory to write segments to, got {segment!r}")
    with one_thread():
        if (together := communicator(problem, comm)) is not None:
            given = "the system's" if seed is None else seed
            begun = None if positions is None else positions.tolist()
            check_equal(together, run_settings(engine) | {"seed": given, "start": begun, "stored": path is not None})
            wanted = together.bcast(engine.plan)  # a seed of the system's is one of each process

            def work(ranks: Ranks) -> Run | None:
                return _made(Engine(problem, sampler, wanted, ranks), positions, progress, path, segment)

            run = carry(together, engine, work)
        else:
            run = _made(engine, positions, progress, path, segment)
    assert run is not None  # the root has made it, and here it is
    return run


def _made(
    engine: Engine,
    positions: Array | None,
    progress: bool,
    path: Path | None,
    segment: int | None,
) -> Run | None:
    """The run from its first solve to its last; None but on the root."""
    if path is not None:
        return begin_run(engine, path, positions, segment=segment, progress=progress)
    engine.ranks.on_root(load_arviz)  # which may fail, and must not do so when the draws are made
    engine.begin(positions)
    run = handed_back(engine, _run(engine, progress))
    if run is not None:
        announce(run, stacklevel=3)
    return run


def plan(draws: int, warmup: int | None, thin: int, chains: int, seed: int | None, check_gradient: bool = True) -> Plan:
    """The plan of a run from the arguments of `sample`; `ValueError` where they make none."""
    if seed is None:
        entropy = np.random.SeedSequence().entropy
        assert isinstance(entropy, int)  # what the system gives
        seed = entropy
    if warmup is not None:
        return Plan(draws, warmup, thin, chains, seed, check_gradient=check_gradient)
    checked = Plan(draws, 0, thin, chains, seed)
    steps = max(500, checked.draws * checked.thin // 2)
    return Plan(draws, steps, thin, chains, seed, check_gradient=check_gradient)


def as_problem(problem: Problem | Potential, name: str = "problem") -> Problem:
    """What to sample as a problem; `ValueError` if it is none."""
    if isinstance(problem, Problem):
        return problem
    if isinstance(problem, Potential):
        return Target(problem)
    raise ValueError(f"{name} must be a Posterior, a Target or a Potential, got {type(problem).__name__}")


def _run(engine: Engine, progress: bool) -> Draws:
    """All draws, in memory; those that were made so far if the user interrupts them."""
    plan = engine.plan
    kept, warmup, thin, steps = Draws(engine, plan.draws), plan.warmup, plan.thin, plan.steps
    bar = Bar(engine, progress)
    # alone, a step that hangs can be left; several processes have to end at the same step
    together = nullcontext() if isinstance(engine.ranks, Alone) else Interrupts()
    received = None
    try:
        with together as interrupts:
            while engine.done < steps:
                engine.step()
                bar.tick()
                made = engine.done - warmup
                if made > 0 and made % thin == 0:
                    kept.append()
                if interrupts is None:
                    continue
                received = engine.ranks.stop(interrupts.received, last=engine.done == steps)
                if received is not None:
                    words = f"stopped after {engine.done} of {steps} steps"
                    leave(received, words if engine.ranks.root else "")
    except KeyboardInterrupt:
        # of several processes, either all have agreed to end, or this one alone cannot go on
        if not kept.count or (interrupts is not None and received is None):
            raise
        if engine.ranks.root:
            message = f"interrupted: the run holds the {kept.count} draws that were made, of {plan.draws}"
            say(message, stacklevel=4)
    finally:
        bar.close()
    return kept
