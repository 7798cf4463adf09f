"""`sample`: prepare, warm up, sample, and return a `Run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from invsamp.arguments import boolean, instance, integer, optional
from invsamp.emulation.emulate import emulate
from invsamp.engine.driver.blas_threads import one_thread
from invsamp.engine.driver.checkpoint_loop import begin_run
from invsamp.engine.driver.engine import Engine
from invsamp.engine.driver.loop import in_memory
from invsamp.engine.driver.recorded_variables import as_record
from invsamp.engine.driver.running_moments import within_memory
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.rungs.initial_points import given_start
from invsamp.evaluate.contract import Evaluator
from invsamp.ladder import Sampler
from invsamp.ladder.automatic import Automatic
from invsamp.modes import Modes
from invsamp.parallel.evaluator_lifecycle import evaluated, evaluator_of
from invsamp.parallel.messages import Communicator
from invsamp.posing.expressions.variable_names import check_modes
from invsamp.posing.forward_models.guarded_model import is_torch_module
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.posterior.target import Target
from invsamp.protocols import Array, Potential, Problem
from invsamp.results.partial_results import announce, completed_run, warn
from invsamp.results.run import Run
from invsamp.storage.arviz_data import load_arviz
from invsamp.storage.directory import as_path

#: Steps of warm-up at least where none are asked for; and where it finds the ladder, in four rounds.
SHORTEST, SHORTEST_SEARCH = 500, 1500


def sample(
    problem: Problem | Potential,
    sampler: Sampler | None = None,
    *,
    draws: int = 1000,
    warmup: int | None = None,
    thin: int = 1,
    chains: int = 4,
    seed: int | None = None,
    start: Array | Mapping[str, Array] | Modes | None = None,
    progress: bool = True,
    directory: str | os.PathLike[str] | None = None,
    segment: int | None = None,
    comm: Communicator | None = None,
    check_gradient: bool = True,
    executor: Executor | Evaluator | None = None,
    record: Mapping[str, Callable[[Array], object]] | None = None,
    keep: bool | Sequence[str] = True,
    evaluations: int | None = None,
    simulations: int | None = None,
) -> Run:
    """Draw from a posterior.

    Processes that were started together by ``mpiexec`` all call it, solve together, and all get the run.
    The draws do not depend on how many there are, nor on the number of threads: BLAS has one while the run is made. A
    forward model that gains by more can have them in processes of its own (`invsamp.parallel.isolated`).

    Parameters
    ----------
    problem : Posterior, Target or Potential
        What to sample.
    sampler : Sampler, optional
        From a preset (`mala`, `sgld`, `cyclic_sgld`, `sghmc`, `parallel_tempering`, `resgld`, `r2sgld`,
        `multi_variance_resgld`, `fast_resgld`) or composed by hand. By default optimizations from the prior and pilot
        runs choose: one kernel, `mams`, or a ladder from the prior to the posterior. Where it pays, chains move on a
        corrected coarse fidelity, and the fine one decides (`surrogate_exchange`).
        ``run.report["decisions"]`` says which and why. A posterior whose forward model has no derivatives is given to
        `invsamp.emulate`.
    draws : int
        Draws kept for each chain.
    warmup : int, optional
        Steps before the first draw, in which step size, preconditioner and variances are found. Default: half of
        ``draws * thin``, at least 500, and 1500 where it also finds the ladder; fewer where one rung alone,
        Metropolis-adjusted, finds that nothing changes any more. ``run.report["warmup"]`` says how many there were.
    thin : int
        Steps per draw.
    chains : int
        Independent chains (of the whole ladder), advanced together.
    seed : int, optional
        Fixes the draws. Default: taken from the system and reported in ``run.report["seed"]``.
    start : ndarray (dimension,) or (chains, dimension), mapping of names to values, or Modes, optional
        Natural parameters at which every rung starts; (rungs, chains, dimension): those of each rung, of a ladder that
        warm-up finds those of the first one (``len(sampler.rungs)``). Of what `maximize` found: draws of its Gaussians.
        Default: draws from the prior.
    progress : bool
        Whether to show a bar.
    directory : path, optional
        Keep the run there: draws in segments and the state to continue from, so that `invsamp.resume` resumes to the
        same draws, bit for bit, after a kill at any moment. New or empty. Memory stays bounded, however long the run.
    segment : int, optional
        Draws of each chain in a segment. By default what takes about half a minute. The draws do not depend on it.
    comm : mpi4py.MPI.Comm, optional
        Processes that make the run together. Default: all that were started together.
    check_gradient : bool
        Whether the models are checked. Gradients are compared with differences of energies before the first step, at
        two starts: some ten solves of each fidelity, in ``run.report["gradient_check_evaluations"]``. Before the first
        step and after the last a few positions are evaluated again, alone and together. These 25 solves or so of each
        fidelity show whether energies depend on the batch, or on earlier calls (``run.report["repeated"]``). Given
        step sizes of kernels that accept every move are refused if they are unstable, in
        ``run.report["step_stability"]``. The draws do not depend on it.
    executor : concurrent.futures.Executor, or `invsamp.evaluate.Evaluator`, optional
        Evaluates for this process: a pool of processes, ``mpi4py.futures.MPIPoolExecutor``, Dask's
        ``Client.get_executor()``, or something of your own; `invsamp.evaluate.executed` gives one a time limit. The
        draws are the same. It pays where a solve takes milliseconds, and is not shut down.
    record : mapping of names to functions, optional
        Quantities of interest: functions of theta (batch, dimension) -> (batch, ...), as of a forward model
        ``lambda theta: model(theta).max(axis=1)``, or of a network `invsamp.torch.ModulePosterior.outputs`. Each draw
        that is kept of the posterior has them, evaluated by this process alone; ``run.draws(name)``, summary and
        warnings know them as they know parameters. Choose ``thin`` so that they cost little beside the steps.
    keep : bool or sequence of names
        Which parameters the run keeps: all, of all rungs. None, or those that are named, of the posterior's draws
        alone. Where all would take more than 256 MiB, blocks of more than 2,000 numbers (a field's values, the weights
        of a network) are not kept whole. `Run.moments` has their means and sds over all draws. `Run.thinned` has every
        k-th draw in single precision: 64 MiB at most, or 2 GiB in a directory. Of each block 50 numbers are recorded at
        every draw. A warning says so.
    evaluations : int, optional
        Budget of evaluations, of all fidelities together. Warm-up, with all that comes before it, ends when three
        quarters are spent, and sampling ends when all are. The last step of all chains may exceed it (with several
        processes, a few steps). A warm-up that learns variances or a contour target is made whole. Default: 32 for each
        step of a chain, many times what an easy posterior takes. It limits the warm-up of runs without a chosen
        sampler, while all draws are made. When half is spent, and the rest will not do at that rate, a warning says on
        what. The logger ``"invsamp"`` and ``run.report["budget"]`` have the budget.
    simulations : int, optional
        Budget of `invsamp.emulate`, for a posterior whose forward model has no derivatives, without a sampler; 200 by
        default. ``evaluations`` is taken for the same there.

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
        If every solve fails: at the start, or for 200 steps in a row. As `invsamp.evaluate.EvaluatorError`, if the
        executor breaks. If gradients are noisier than a rung may have them (`invsamp.ladder.GradientNoise`), at the end
        of warm-up.

    Warns
    -----
    UserWarning
        If draws are not to be trusted. If half of the budget of evaluations is spent, and the rest will not do. In
        place of all that is raised above, and of Ctrl-C, once there are draws and no directory: those that were made
        are returned.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> posterior = iv.Posterior(
    ...     iv.Prior(a=iv.Normal(0.0, 1.0)),
    ...     iv.with_jacobian(lambda a: a, lambda a: np.ones((len(a), 1, 1))),
    ...     data=[1.0],
    ...     noise=iv.GaussianNoise(0.5),
    ... )
    >>> run = iv.sample(posterior, iv.mala(), draws=500, seed=1, progress=False)
    >>> bool(abs(run.theta.mean() - 0.8) < 0.1)  # the posterior is normal, with mean 0.8
    True
    """
    problem = as_problem(problem)
    if sampler is None and isinstance(problem, Posterior) and _needs_emulator(problem):
        others = {"warmup": warmup, "start": start, "segment": segment, "comm": comm, "record": record}
        _refuse_for_emulator(others | {"thin": None if thin == 1 else thin, "keep": None if keep is True else keep})
        if None not in (simulations, evaluations):
            raise ValueError(f"evaluations must be left out where simulations is the budget, got {evaluations!r}")
        budget = evaluations if simulations is None else simulations
        return emulate(
            problem,
            200 if budget is None else budget,
            draws=draws,
            chains=chains,
            seed=seed,
            directory=directory,
            executor=executor,
            progress=progress,
        )
    if simulations is not None:
        raise ValueError(
            "simulations must be left out where the forward model has derivatives or a sampler is given, got "
            f"{simulations!r}: evaluations= limits such a run. iv.emulate(posterior, simulations=...) emulates any "
            "forward model. A folder of simulations belongs to iv.Posterior(..., simulations=folder)"
        )
    sampler = Automatic() if sampler is None else sampler
    instance("sampler", sampler, Sampler, "a Sampler, as the presets return it (how many draws, draws= says)")
    boolean("progress", progress)
    shortest = SHORTEST_SEARCH if sampler.ladder else SHORTEST
    asked = plan(draws, warmup, thin, chains, seed, check_gradient, shortest, evaluations)
    engine = Engine(problem, sampler, asked)
    engine.record, less = as_record(problem, record, keep), None
    # moments of all draws alike are not those of draws that have weights
    if keep is True and sampler.rungs[0].target.factors is not None:
        rungs = len(sampler.rungs) if sampler.ladder is None else sampler.ladder.max_rungs
        engine.record, less = within_memory(engine.record, problem, chains * draws, rungs, directory is not None)
    engine.given = _start(engine, start, 0 if seed is None else seed)
    path = None if directory is None else as_path(directory)
    optional(integer, "segment", segment, least=1)
    if path is None and segment is not None:
        raise ValueError(f"segment must be None without a directory to write segments to, got {segment!r}")
    settings = {"seed": "the system's" if seed is None else seed, "stored": path is not None}
    evaluator = evaluator_of(engine, executor, comm, settings)
    with one_thread():
        if path is None:
            load_arviz()  # which may fail, and must not do so when the draws are made
        run = evaluated(engine, evaluator, partial(_made, engine, progress, path, segment))
    if evaluator.drives:
        if less is not None:
            warn(less, stacklevel=2)
        announce(run, stacklevel=2)
    return run


def _needs_emulator(problem: Posterior) -> bool:
    """Whether the finest model has outputs, and no derivatives."""
    return problem.predicts and problem._posed[problem.fidelities[-1]].model.no_derivatives is not None  # noqa: SLF001


def _refuse_for_emulator(others: Mapping[str, object]) -> None:
    for name, value in others.items():
        if value is not None:
            raise ValueError(
                f"{name} must be left out where the forward model has no derivatives and no sampler is given, "
                f"got {value!r}: the posterior is then that of an emulator (invsamp.emulate). A sampler "
                "without gradients, such as iv.pcn(), accepts it"
            )


def _start(engine: Engine, start: Array | Mapping[str, Array] | Modes | None, seed: int) -> Array | None:
    """Where the chains begin, if the user says; the same for all processes, whatever seed the system gives each."""
    chains = engine.plan.chains
    if isinstance(start, Modes):
        check_modes("start", start.labels, engine.problem)
        start = start.draws(chains, seed)
    if start is None:
        return None
    return given_start(engine.bound, start, chains, len(engine.sampler.rungs))


def _made(engine: Engine, progress: bool, path: Path | None, segment: int | None) -> Run:
    """The run from its first solve to its last."""
    engine.seconds = 0.0  # what came before was imports and agreement, and waiting for processes to start
    if path is not None:
        begin_run(engine, path, segment=segment, progress=progress)
        return Run.load(path)
    engine.begin(engine.given)
    return completed_run(engine, in_memory(engine, progress))


def plan(
    draws: int,
    warmup: int | None,
    thin: int,
    chains: int,
    seed: int | None,
    check_gradient: bool = True,
    shortest: int = SHORTEST,
    evaluations: int | None = None,
) -> Plan:
    """The plan of a run from the arguments of `sample`; `ValueError` where they make none."""
    if seed is None:
        entropy = np.random.SeedSequence().entropy
        assert isinstance(entropy, int)  # what the system gives
        seed = entropy
    if warmup is not None:
        return Plan(draws, warmup, thin, chains, seed, check_gradient=check_gradient, evaluations=evaluations)
    checked = Plan(draws, 0, thin, chains, seed, check_gradient=check_gradient, evaluations=evaluations)
    steps = max(shortest, checked.draws * checked.thin // 2)
    return replace(checked, warmup=steps, schedule_steps=None, stops_early=True)


def as_problem(problem: Problem | Potential, name: str = "problem") -> Problem:
    """The argument as a problem; `ValueError` if it cannot be sampled."""
    if isinstance(problem, Problem):
        return problem
    if isinstance(problem, Potential):
        return Target(problem)
    raise _no_problem(name, problem)


def _no_problem(name: str, value: object) -> ValueError:
    """The error for an argument that cannot be sampled."""
    said = ""
    if is_torch_module(value):
        said = ". The posterior of its weights is invsamp.torch.module_posterior(module, data, likelihood)"
    elif callable(value):
        said = ". A function that returns log densities is iv.LogDensity(function, gradient, dimension=...)"
    return ValueError(f"{name} must be a Posterior, a Target or a Potential, got {type(value).__name__}{said}")
