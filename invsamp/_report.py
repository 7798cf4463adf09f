"""What a run tells about itself: settings, counts and figures, in plain types."""

from __future__ import annotations

import numpy as np

from invsamp.boundary import Boundary
from invsamp.contract import Array, Problem
from invsamp.kernels import Momentum
from invsamp.ladder import Sampler
from invsamp.metric import DenseMetric, DiagonalMetric
from invsamp.replica import Replica
from invsamp.run import versions
from invsamp.swap.exchange import Exchange
from invsamp.warmup import STABILITY_FRACTION


def report(problem: Problem, sampler: Sampler, replicas: list[Replica], exchange: Exchange | None) -> dict[str, object]:
    """What a person needs to know to trust the draws, in plain types."""
    moves = [max(1, r.counts.steps * len(r.position)) for r in replicas]
    evaluators = {r.evaluator.fidelity: r.evaluator for r in replicas}
    evaluators |= {e.fidelity: e for r in replicas for e in r.evaluators}
    attempts = np.zeros(0, dtype=int) if exchange is None else exchange.attempts
    accepts = np.zeros(0, dtype=int) if exchange is None else exchange.accepts
    return {
        "sampler": str(sampler),
        "sampler_settings": repr(sampler),
        "temperatures": [r.temperature for r in replicas],
        "fidelities": [r.evaluator.fidelity for r in replicas],
        "kernels": [_kernel(r) for r in replicas],
        "step_sizes": [_step_size(r) for r in replicas],
        "step_size_source": [_step_size_source(r) for r in replicas],
        "preconditioner": sampler.preconditioner,
        "preconditioner_matrices": [_matrix(r) for r in replicas],
        "acceptance": [
            r.counts.accepted / max(1, r.counts.full_steps * len(r.position)) if r.adjusted else None for r in replicas
        ],
        "swap_rules": [] if exchange is None else [str(rule) for rule in exchange.rules],
        "swap_attempts": attempts.tolist(),
        "swap_accepts": accepts.tolist(),
        "warnings": [] if exchange is None else exchange.doubts,
        "swap_first_stage_accepts": [] if exchange is None else exchange.first_stage_accepts.tolist(),
        "discrepancy_residual_sd": [] if exchange is None else exchange.residual_sds,
        "swap_noise_sd": [] if exchange is None else (exchange.log_ratio_sd / np.maximum(attempts, 1)).tolist(),
        "swap_solves": {} if exchange is None else exchange.solves,
        "swap_solves_per_attempt": {}
        if exchange is None
        else {name: n / max(1, int(attempts.sum())) for name, n in exchange.solves.items()},
        "round_trips": 0 if exchange is None else exchange.trips.count,
        "evaluations": {name: e.evaluations for name, e in evaluators.items()},
        "evaluation_seconds": {name: e.seconds for name, e in evaluators.items()},
        "failed_solves": {name: e.failed for name, e in evaluators.items()},
        "failure_message": next(
            (m for name in evaluators if (m := getattr(problem, "failure_message", lambda _: None)(name))), None
        ),
        "clipped_noise": [r.counts.clipped / n for r, n in zip(replicas, moves, strict=True)],
        "uncovered_variance": [r.uncovered for r in replicas],
        "reflections": [r.counts.reflected for r in replicas],
        "reflection_fallbacks": [r.counts.fallbacks for r in replicas],
        "versions": versions(),
    }


def outside(problem: Problem, boundary: Boundary, positions: Array) -> list[float]:
    """Fraction of each rung's draws that lie outside the domain."""
    if not boundary.leaves:
        return [0.0] * len(positions)
    return [float(1.0 - problem.sampling_domain.contains(p.reshape(-1, p.shape[-1])).mean()) for p in positions]


def _kernel(replica: Replica) -> str:
    if isinstance(replica.rung.kernel, Momentum):
        return "sghmc"
    return "mala" if replica.adjusted else "sgld"


def _step_size(replica: Replica) -> float:
    """The step size of the recorded steps; of a schedule its mean."""
    if replica.schedule is None:
        return float(np.mean(replica.step_size))
    # a few thousand of the steps show the mean of any schedule
    steps = np.linspace(replica.iteration - replica.counts.steps, replica.iteration, 2000, endpoint=False)
    return float(np.mean([replica.schedule(int(k)) for k in steps]))


def _step_size_source(replica: Replica) -> str:
    if replica.schedule is not None:
        return f"the mean of {replica.schedule}"
    if replica.rung.step_size is not None:
        given = replica.rung.step_size
        return "given" if replica.step_size == given else f"given as {given:g}, shrunk to the noise budget"
    if replica.adjusted:
        return "found in warm-up by acceptance"
    return f"found in warm-up as {STABILITY_FRACTION} of the stability limit"


def _matrix(replica: Replica) -> list[object] | None:
    metric = replica.metric
    return metric.matrix.tolist() if isinstance(metric, DiagonalMetric | DenseMetric) else None
