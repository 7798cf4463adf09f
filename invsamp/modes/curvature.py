"""Second derivatives of an energy at a point, by differences of its gradients, and the Gaussian approximation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.evaluate.requests import Estimate, EvaluationRequests
from invsamp.modes.objective import Objective
from invsamp.modes.tolerances import UNIT
from invsamp.protocols import Array

#: Of a Hessian, each with the steps that the last one gives.
ROUNDS = 4
#: Curvatures below this share of the largest are rounding: there is a flat direction.
FLAT = 1e-10
#: Spacings of double precision numbers in a step, at least: of fewer, rounding is what a difference shows.
RESOLVED = 64.0
#: The widest axes of a Gaussian that energies are to confirm, and how often each is halved.
AXES, HALVINGS = 20, 16


def hessian(objective: Objective, at: Array, energy: float, gradient: Array) -> EvaluationRequests[tuple[Array, bool]]:
    """The Hessian (d, d) at a point by central differences of gradients, and whether bounds or cliffs are in their way.

    The differences' steps are a hundredth of the conditional sds, which the Hessian gives itself. At most `ROUNDS`
    rounds, mostly two, take 2 d gradients each.

    Parameters
    ----------
    objective : Objective
        No step is longer than its scale, unless that is only a few spacings of numbers there. Differences are one-sided
        across the domain's bounds, across cliffs, at which the energy jumps, and where there is no energy. They are 0
        where no side is left.
    at : ndarray, shape (d,)
    energy : float
        There.
    gradient : ndarray, shape (d,)
        There.
    """
    evaluate, scale, domain = objective
    d, shortest = len(at), RESOLVED * np.spacing(np.abs(at))
    steps = np.maximum(1e-4 * scale, shortest)
    for _ in range(ROUNDS):
        moves = np.concatenate([np.diag(steps), -np.diag(steps)])
        bounded = ~domain.contains(at + moves)
        found = yield from evaluate(np.where(bounded[:, None], at, at + moves))
        bounded |= _beyond_cliffs(steps, energy, gradient, found)
        known = ~bounded & np.isfinite(found.energy)
        slopes = np.where(known[:, None], found.gradient, gradient)
        apart = (known[:d] * steps + known[d:] * steps)[:, None]
        matrix = (slopes[:d] - slopes[d:]) / np.where(apart > 0.0, apart, np.inf)
        matrix = 0.5 * (matrix + matrix.T)
        with np.errstate(divide="ignore", invalid="ignore"):
            before, steps = steps, 0.01 / np.sqrt(np.diag(matrix))
        steps = np.where(np.isfinite(steps), np.maximum(np.minimum(steps, scale), shortest), before)
        if np.allclose(steps, before, rtol=0.5):
            break
    down = at - 1e-3 * steps * np.sign(gradient)
    return matrix, bool(bounded.any() or not domain.contains(down[None])[0])


def _beyond_cliffs(steps: Array, energy: float, gradient: Array, found: Estimate) -> npt.NDArray[np.bool_]:
    """Which of the points (2 d,), forwards and backwards along each coordinate, lie beyond a cliff.

    A cliff lies on one side alone. If both points are too high for their slopes, the steps are too long.
    """
    d = len(steps)
    own = np.concatenate([np.diag(found.gradient[:d]), np.diag(found.gradient[d:])])
    steepest = np.maximum(np.abs(own), np.abs(np.tile(gradient, 2)))
    with np.errstate(invalid="ignore"):
        # the energy jumps where it rises by a unit more than twice its slopes explain
        smooth = np.abs(found.energy - energy) <= UNIT + 2.0 * np.tile(steps, 2) * steepest
    return np.asarray(~smooth & np.roll(smooth, d))


def covariance_of(precision: Array) -> Array:
    """Its inverse (d, d); NaN where it is not positive definite, to rounding."""
    sizes = np.sqrt(np.abs(np.diag(precision)))
    sizes[sizes == 0.0] = 1.0
    values, vectors = np.linalg.eigh(precision / np.outer(sizes, sizes))
    if len(values) and not values[0] > FLAT * values[-1]:
        return np.full_like(precision, np.nan)
    return np.asarray((vectors / values) @ vectors.T / np.outer(sizes, sizes))


def extent_of(precision: Array, scale: Array) -> Array:
    """A covariance (d, d) of about the size of the mass at a minimum that is flat in some directions.

    In units of the scale, curvatures below 1 count as 1: no direction is wider than the prior. Where conditional sds
    are far below the scale, the units are multiples of these: a matrix does not hold so many orders.
    """
    with np.errstate(divide="ignore"):
        units = np.fmin(1.0 / np.sqrt(FLAT * np.abs(np.diag(precision))), scale)
    values, vectors = np.linalg.eigh(precision * np.outer(units, units))
    values = np.clip(values, 1.0, 1.0 / FLAT)  # so that what comes of it has a Cholesky factor
    return np.asarray((vectors / values) @ vectors.T * np.outer(units, units))


def confirmed_factor(
    objective: Objective, at: Array, energy: float, factor: Array, rise: float
) -> EvaluationRequests[tuple[Array, bool]]:
    """A factor (d, d) of a covariance whose widest axes are halved until the energy confirms them; whether none was.

    One sd away the energy of a Gaussian rises by a half. A rise of more than ``rise`` shows that curvature is no
    measure of the width of the mass, as on a ring.
    """
    sds = np.sqrt(np.square(factor).sum(axis=1))
    left, widths, _ = np.linalg.svd(factor / sds[:, None])
    axes = (sds[:, None] * left * widths).T
    shares, waiting = np.ones(len(axes)), np.arange(len(axes))[:AXES]
    for _ in range(HALVINGS):
        moves = shares[waiting, None] * axes[waiting]
        ends = np.concatenate([at + moves, at - moves])
        energies = yield from objective.energies(ends, outside=energy)
        high = ~(energies - energy <= rise).reshape(2, -1).all(axis=0)
        waiting = waiting[high]
        if not len(waiting):
            break
        shares[waiting] *= 0.5
    return (shares[:, None] * axes).T, bool((shares == 1.0).all())
