"""Draws of an emulated posterior that are reported: a run as `invsamp.sample` makes it, begun at known modes."""

from __future__ import annotations

from functools import partial

import numpy as np

from invsamp.emulation.rounds import Fitted
from invsamp.engine.driver.blas_threads import one_thread
from invsamp.engine.driver.engine import Engine
from invsamp.engine.driver.loop import in_memory
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.kernels.contract import Kernel
from invsamp.kernels.hamiltonian import Hamiltonian
from invsamp.kernels.microcanonical import Microcanonical
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.ladder.automatic import LENGTHS
from invsamp.ladder.rung import Rung
from invsamp.ladder.sampler import Sampler
from invsamp.parallel.evaluator_lifecycle import evaluated, evaluator_of
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.results.partial_results import completed_run
from invsamp.results.run import Run
from invsamp.storage.arviz_data import load_arviz

#: Steps of warm-up at most, effective draws for each chain below which paths become longer, and R-hat above which.
WARMUP, ENOUGH, AGREE = 1000, 100, 1.01
#: Every so many-th step is a draw. Steps cost arithmetic alone, and draws with fewer effective ones would have
#: means as far from the emulated posterior as that is from the true one. At the worst 4 chains of 1,000 steps had
#: 614 effective draws of conductivity with 12 unknowns, and a mean .12 sds off. Every fourth step has 2,350.
THIN = 4


def drawn(fitted: Fitted, draws: int, chains: int, seed: int) -> Run:
    """A run of the emulated posterior; only arithmetic, so that it takes seconds."""
    run = None
    for length in LENGTHS:
        run = _run(fitted, length, draws, chains, seed)
        summary = run.summary()
        wanted = min(ENOUGH * chains, draws * chains // 4)
        if summary["ess_bulk"].min() >= wanted and not summary["r_hat"].max() > AGREE:
            break
    assert run is not None  # there are lengths
    return run


def _run(fitted: Fitted, length: float, draws: int, chains: int, seed: int) -> Run:
    problem, population = fitted.posterior, fitted.population
    # a direction cannot turn in one dimension
    kernel: Kernel = Microcanonical(length) if problem.dimension > 1 else Hamiltonian(0.8 * length)
    if len(population.modes) > 1:
        centers = np.array([mode.center for mode in population.modes])
        kernel = ModeJumps(
            kernel, centers, np.array([np.linalg.cholesky(mode.covariance) for mode in population.modes])
        )
    plan = Plan(draws, WARMUP, THIN, chains, seed, stops_early=True)
    sampler = Sampler((Rung(kernel=kernel),), preconditioner="auto")
    rng = np.random.default_rng(seed)
    return run_of(problem, sampler, plan, population.draws[rng.integers(len(population.draws), size=chains)])


def run_of(problem: Posterior, sampler: Sampler, plan: Plan, start: Array) -> Run:
    """A run in memory, by this process, that begins at positions (chains, dimension)."""
    engine = Engine(problem, sampler, plan)
    engine.given = start
    evaluator = evaluator_of(engine, None, None, {"seed": plan.seed})
    with one_thread():
        load_arviz()
        return evaluated(engine, evaluator, partial(_made, engine))


def _made(engine: Engine) -> Run:
    engine.begin(engine.given)
    return completed_run(engine, in_memory(engine, False))
