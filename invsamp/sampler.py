"""`sample`: pose, warm up, run, and hand back a `Run`."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from invsamp import _report
from invsamp.boundary import as_boundary
from invsamp.contract import Array, Potential, Problem
from invsamp.coupled_sums import CoupledSum
from invsamp.domains import Domain
from invsamp.evaluation import Evaluator
from invsamp.ladder import Sampler
from invsamp.noise_models import share_pilots
from invsamp.potential import Target
from invsamp.presets import mala
from invsamp.replica import Replica, SolvesFailed
from invsamp.run import Run
from invsamp.swap.exchange import Exchange
from invsamp.warmup import check_length, warm_up

#: How often chains whose starting point cannot be solved are started elsewhere.
START_TRIES = 50


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
) -> Run:
    """Draw from a posterior.

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

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        If an argument is wrong: its name, its value and what would be right are in the message. Nothing has
        been solved by then.
    RuntimeError
        If every solve fails: at the start, or for 200 steps in a row. If gradients are noisier than a rung may have
        them (`invsamp.ladder.GradientNoise`), at the end of warm-up.
    """
    problem = _as_problem(problem)
    sampler = mala() if sampler is None else sampler
    if not isinstance(sampler, Sampler):
        raise ValueError(f"sampler must be a Sampler, as the presets return it, got {sampler!r}")
    _check_counts(1, draws=draws, thin=thin, chains=chains)
    warmup = max(500, draws * thin // 2) if warmup is None else warmup
    _check_counts(0, warmup=warmup, seed=0 if seed is None else seed)
    fidelities = [_fidelity(problem, rung.fidelity) for rung in sampler.rungs]
    _check_swaps(sampler, fidelities)
    check_length(sampler.rungs, sampler.preconditioner, warmup, chains)
    boundary = as_boundary(sampler.boundary)
    walked = boundary.apply(problem)
    positions = None if start is None else _given_start(problem, walked.sampling_domain, start, chains)

    entropy = np.random.SeedSequence(seed)
    swap_seed, *rung_seeds = entropy.spawn(len(sampler.rungs) + 1)
    evaluators = _evaluators(walked, sampler, fidelities)
    steps = warmup + draws * thin
    replicas = [
        Replica(rung, evaluators[name], walked.sampling_domain, rung_seed, steps)
        for rung, name, rung_seed in zip(sampler.rungs, fidelities, rung_seeds, strict=True)
    ]
    share_pilots(replicas)
    began = time.perf_counter()
    for replica in replicas:
        _start(problem, walked, replica, positions, chains)
    exchange = Exchange(sampler.swap, replicas, swap_seed) if len(replicas) > 1 else None
    bar = _Bar(steps, progress, replicas, exchange)
    try:
        warm_up(problem, replicas, exchange, warmup, sampler.preconditioner, bar.tick)
        evaluated = {name: (e.evaluations, e.seconds, e.failed) for name, e in evaluators.items()}
        kept = _draw(replicas, exchange, draws, thin, bar)
    except SolvesFailed as failure:
        theta = problem.to_theta(failure.position).tolist()
        reason = _failure_message(walked, failure.fidelity)
        raise RuntimeError(f"{failure}; the chains stand at the parameters {theta}{reason}") from failure
    finally:
        bar.close()
    report = _report.report(walked, sampler, replicas, exchange) | {
        "boundary": str(boundary),
        "outside": _report.outside(problem, boundary, kept.positions),
        "seed": int(entropy.entropy) if isinstance(entropy.entropy, int) else str(entropy.entropy),
        "draws": kept.count,
        "warmup": warmup,
        "thin": thin,
        "chains": chains,
        "warmup_evaluations": {name: counts[0] for name, counts in evaluated.items()},
        "seconds": time.perf_counter() - began,
        "interrupted": kept.count < draws,
    }
    stats: dict[str, Any] = {"energy": kept.energies}
    if exchange is not None:
        stats["replica"] = kept.replicas
    if any(replica.schedule is not None for replica in replicas):
        stats["step_size"] = kept.step_sizes
    run = Run.from_arrays(
        problem, dict(problem.shapes), problem.to_theta(kept.positions), stats, report, problem.support
    )
    for message in run.warnings():
        warnings.warn(message, stacklevel=2)
    return run


@dataclass
class _Kept:
    positions: Array  # (rungs, chains, draws, d)
    energies: Array  # (rungs, chains, draws)
    step_sizes: Array  # (rungs, chains, draws): of the step that led to the draw
    replicas: npt.NDArray[np.intp]  # (rungs, chains, draws): which replica is at each rung
    count: int


def _draw(replicas: list[Replica], exchange: Exchange | None, draws: int, thin: int, bar: _Bar) -> _Kept:
    chains, d = replicas[0].position.shape
    rungs = len(replicas)
    positions = np.empty((rungs, chains, draws, d))
    energies, who = np.empty((rungs, chains, draws)), np.zeros((rungs, chains, draws), dtype=np.intp)
    step_sizes = np.empty((rungs, draws))
    done = 0
    try:
        for i in range(draws):
            for _ in range(thin):
                for replica in replicas:
                    replica.step()
                if exchange is not None:
                    exchange.step()
                bar.tick()
            for rung, replica in enumerate(replicas):
                positions[rung, :, i] = replica.position
                energies[rung, :, i] = replica.estimate.energy
                step_sizes[rung, i] = replica.step_size
            if exchange is not None:
                who[:, :, i] = exchange.trips.replica
            done = i + 1
    except KeyboardInterrupt:
        if not done:
            raise
        warnings.warn(f"interrupted: the run holds the {done} draws that were made, of {draws}", stacklevel=3)
    by_chain = np.broadcast_to(step_sizes[:, None, :done], (rungs, chains, done))
    return _Kept(positions[:, :, :done], energies[:, :, :done], by_chain, who[:, :, :done], done)


class _Bar:
    """Progress bar; touches tqdm every so many steps only, because a step may take microseconds."""

    def __init__(self, total: int, shown: bool, replicas: list[Replica], exchange: Exchange | None) -> None:
        self._bar = tqdm(total=total, disable=not shown, unit="step", mininterval=0.5)
        self._every = 20 if shown else 10**12
        self._replicas, self._exchange, self._pending = replicas, exchange, 0

    def tick(self) -> None:
        """Count one step."""
        self._pending += 1
        if self._pending >= self._every:
            if self._bar.update(self._pending):
                self._bar.set_postfix(self._facts(), refresh=False)
            self._pending = 0

    def close(self) -> None:
        """Take the bar down."""
        if not self._bar.disable:
            self._bar.update(self._pending)
        self._bar.close()

    def _facts(self) -> dict[str, str]:
        facts = {r.evaluator.fidelity: f"{r.evaluator.evaluations} solves" for r in self._replicas}
        if self._exchange is not None and self._exchange.attempts.sum():
            facts["swaps"] = f"{self._exchange.accepts.sum() / self._exchange.attempts.sum():.0%}"
        return facts


def _as_problem(problem: Problem | Potential) -> Problem:
    if isinstance(problem, Problem):
        return problem
    if isinstance(problem, Potential):
        return Target(problem)
    raise ValueError(f"problem must be a Posterior, a Target or a Potential, got {type(problem).__name__}")


def _check_counts(least: int, **counts: object) -> None:
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")


def _fidelity(problem: Problem, wanted: str | int) -> str:
    names = problem.fidelities
    if isinstance(wanted, str):
        if wanted not in names:
            raise ValueError(f"fidelity must be one of {names}, got {wanted!r}")
        return wanted
    return names[max(0, len(names) - 1 - wanted)]


def _evaluators(problem: Problem, sampler: Sampler, fidelities: Sequence[str]) -> dict[str, Evaluator]:
    """One for each fidelity that a rung or its estimator solves, from the coarsest to the finest."""
    used = set(fidelities)
    for rung, own in zip(sampler.rungs, fidelities, strict=True):
        if isinstance(rung.estimator, CoupledSum):
            used.update(rung.estimator.levels_below(own, problem.fidelities))
    evaluators: dict[str, Evaluator] = {}
    for name in problem.fidelities:
        if name in used:
            evaluators[name] = Evaluator(problem.potential(name), name, evaluators)
    return evaluators


def _check_swaps(sampler: Sampler, fidelities: Sequence[str]) -> None:
    rule = sampler.swap.rule
    for colder, hotter in itertools.pairwise(fidelities):
        if rule is not None and colder != hotter and rule.needs_common_energy:
            raise ValueError(
                f"the swap rule {rule} needs rungs whose energies have the same mean, got the fidelities {colder!r} "
                f"and {hotter!r}: a fixed difference between them would bias the posterior. Use "
                "delayed_acceptance() or product_target(), or say assume_unbiased=True if they differ by noise alone"
            )


def _given_start(problem: Problem, domain: Domain, start: Array | Mapping[str, Array], chains: int) -> Array:
    if isinstance(start, Mapping):
        pack = getattr(getattr(problem, "prior", None), "pack", None)
        theta = pack(start) if pack else _pack(problem.shapes, start)
    else:
        theta = np.asarray(start, dtype=float)
    theta = np.atleast_2d(theta)
    if theta.shape not in ((1, problem.dimension), (chains, problem.dimension)):
        raise ValueError(
            f"start must have shape ({problem.dimension},) or ({chains}, {problem.dimension}), got {theta.shape}"
        )
    density = getattr(getattr(problem, "prior", None), "log_density", None)
    possible = np.isfinite(theta).all(axis=1)
    if density is not None:
        possible &= np.isfinite(density(theta))
    if not possible.all():
        raise ValueError(f"start must have positive prior density, got {theta[np.argmin(possible)].tolist()}")
    position = np.broadcast_to(problem.to_position(theta), (chains, problem.dimension)).copy()
    inside = domain.contains(position)
    if not inside.all():
        chain = int(np.argmin(inside))
        which = f" for chain {chain}" if len(theta) > 1 else ""
        raise ValueError(
            f"start must lie inside the domain {domain}, got {problem.to_theta(position)[chain].tolist()}{which}"
        )
    return position


def _pack(shapes: Mapping[str, tuple[int, ...]], start: Mapping[str, Array]) -> Array:
    """Theta (..., dimension) from values (..., *shape) by name."""
    if set(start) != set(shapes):
        raise ValueError(f"start must have a value for each of {list(shapes)}, got {list(start)}")
    columns = []
    for name, shape in shapes.items():
        value = np.asarray(start[name], dtype=float)
        axes = value.ndim - len(shape)
        if axes < 0 or value.shape[axes:] != tuple(shape):
            raise ValueError(f"start[{name!r}] must have shape (..., {str(shape)[1:-1]}), got {value.shape}")
        columns.append(value.reshape(*value.shape[:axes], math.prod(shape)))
    lead = np.broadcast_shapes(*(column.shape[:-1] for column in columns))
    return np.concatenate([np.broadcast_to(column, (*lead, column.shape[-1])) for column in columns], axis=-1)


def _start(problem: Problem, walked: Problem, replica: Replica, positions: Array | None, chains: int) -> None:
    """Place the chains where the energy is finite; a given start is taken as it is.

    Other starts lie inside the domain even where the sampler may leave it.
    """
    rng = replica.streams["start"]
    replica.start(problem.sample_start(rng, chains) if positions is None else positions.copy())
    for _ in range(START_TRIES):
        failed = np.flatnonzero(~np.isfinite(replica.estimate.energy))
        if not len(failed):
            return
        if positions is not None:
            break
        replica.position[failed] = problem.sample_start(rng, len(failed))
        replica.reevaluate(failed)
    failed = np.flatnonzero(~np.isfinite(replica.estimate.energy))
    if not len(failed):
        return
    raise RuntimeError(
        f"the energy of fidelity {replica.evaluator.fidelity!r} is not finite at the starting points "
        f"{problem.to_theta(replica.position[failed]).tolist()}" + _failure_message(walked, replica.evaluator.fidelity)
    )


def _failure_message(problem: Problem, fidelity: str) -> str:
    """What the last failed solve said, as the end of a sentence."""
    message = getattr(problem, "failure_message", lambda fidelity: None)(fidelity)
    return f": {message}" if message else ""
