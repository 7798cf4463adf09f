"""Where the chains of a rung begin: optimized from their starting points, and spread around where they arrive."""

from __future__ import annotations

import numpy as np

from invsamp.engine.adaptation.metric_estimation import far
from invsamp.engine.adaptation.metric_from_curvature import WIDEST, metric_of
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.estimators.exact_energies import Exact
from invsamp.evaluate.requests import Estimate, EvaluationRequests
from invsamp.kernels.contract import Point
from invsamp.kernels.gaussian_reference import about_reference
from invsamp.kernels.metric import DenseMetric, DiagonalMetric, Metric
from invsamp.modes.curvature import hessian
from invsamp.modes.descent import DescentResult, descend
from invsamp.modes.objective import Objective
from invsamp.modes.tolerances import TOLERANCE
from invsamp.protocols import Array

#: Evaluations of an optimization, at most.
MOST = 2000
#: How often a draw around a minimum that lies too high is brought half as near.
HALVINGS = 6


def starts_by_descent(rung: RungChains) -> bool:
    """Whether its chains are optimized: where warm-up finds the step size, by exact energies with gradients.

    An estimator with a memory for each chain may give each a different energy. Their minima are not comparable. A
    kernel that leaves a Gaussian distribution invariant begins at draws of that.
    """
    settings = rung.settings
    if about_reference(settings.kernel):
        return False
    exact = isinstance(settings.estimator, Exact) and rung.remembering is None
    return settings.step_size is None and settings.kernel.gradient and exact


def descend_chains(rung: RungChains, scale: Array) -> EvaluationRequests[DescentResult]:
    """Move the chains to minima of v. Chains whose minimum is far above the lowest begin at another chain's."""
    rng, d = rung.streams["start"], rung.position.shape[1]
    end = yield from descend(objective_of(rung, scale), rung.position, tolerance=TOLERANCE, most=MOST)
    lowest = int(np.argmin(end.energy))
    near = end.energy <= end.energy[lowest] + far(d)  # others have no mass to speak of
    chosen = np.flatnonzero(near)
    places = np.where(near, np.arange(len(near)), chosen[rng.integers(len(chosen), size=len(near))])
    yield from _put(rung, end.position[places])
    unfinished = int(np.count_nonzero(~end.converged))
    return DescentResult(
        end.energy, int(np.count_nonzero(~near)), unfinished, end.position[lowest], end.gradient[lowest]
    )


def log_mass(energy: float, metric: Metric, step_scale: float) -> float:
    """Log of the mass around a point of that energy, by the Gaussian of a metric, less d log(2 pi) / 2."""
    factor = metric.factor if isinstance(metric, DenseMetric) else np.diag(np.sqrt(np.asarray(metric.matrix)))
    return -energy + float(np.linalg.slogdet(factor)[1]) + 0.5 * len(factor) * float(np.log(step_scale))


def heavier_start(rung: RungChains, starts: Point, scale: Array, least: float) -> EvaluationRequests[Metric | None]:
    """The metric at the lowest start, if there is more mass around it than ``least``; None: there is not.

    A minimum may have next to no mass, as in a funnel. Then chains would have to climb out of it.
    """
    if rung.bounded:  # of what bounds cut off a Gaussian knows nothing
        return None
    energies, slopes = rung.reduced_energy(starts.estimate), rung.reduced_gradient(starts.estimate)
    lowest = int(np.argmin(energies))
    energy = float(energies[lowest])
    if not log_mass(energy, DiagonalMetric(WIDEST * scale), 1.0) > least:
        return None
    found, _ = yield from hessian(objective_of(rung, scale), starts.position[lowest], energy, slopes[lowest])
    metric = metric_of(found * rung.step_scale, scale)
    return metric if metric is not None and log_mass(energy, metric, rung.step_scale) > least else None


def spread(rung: RungChains) -> EvaluationRequests[None]:
    """Let the chains begin at draws of the Gaussians around their minima, as the rung's metric gives them.

    A draw is brought nearer if its energy is further above the minimum than a Gaussian's would be.
    """
    rng, (chains, d) = rung.streams["start"], rung.position.shape
    least = rung.reduced_energy(rung.estimate)
    place = rung.position.copy()
    moves = rung.metric.color(rng.standard_normal((chains, d))) * np.sqrt(rung.step_scale)
    waiting = np.arange(chains)
    for _ in range(HALVINGS):
        there = rung.position[waiting] + moves[waiting]
        energy = yield from objective_of(rung, np.ones(d)).energies(there)
        good = energy - least[waiting] <= far(d)
        place[waiting[good]] = there[good]
        waiting = waiting[~good]
        if not len(waiting):
            break
        moves *= 0.5
    yield from _put(rung, place)


def objective_of(rung: RungChains, scale: Array) -> Objective:
    """The energy v of the rung's target, with its gradient."""

    def evaluate(at: Array) -> EvaluationRequests[Estimate]:
        found = yield from rung.evaluate(at)
        return Estimate(rung.reduced_energy(found), rung.reduced_gradient(found), failed=found.failed)

    return Objective(evaluate, scale, rung.domain)


def _put(rung: RungChains, position: Array) -> EvaluationRequests[None]:
    rung.position = position
    yield from rung.reevaluate(np.arange(len(position)))
