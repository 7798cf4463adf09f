"""Second derivatives of an energy at a point, by differences of its gradients, and the Gaussian that they make."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invsamp.contract import Array
from invsamp.domains import Domain
from invsamp.evaluate.requests import Asks, Estimate

#: Of a Hessian, each with the steps that the last one tells.
ROUNDS = 4
#: Curvatures below this share of the largest are rounding: there is a flat direction.
FLAT = 1e-10


def hessian(
    evaluate: Callable[[Array], Asks[Estimate]], at: Array, gradient: Array, scale: Array, domain: Domain
) -> Asks[tuple[Array, bool]]:
    """The Hessian (d, d) at a point by central differences of gradients, and whether walls are in their way.

    Their steps are a hundredth of the conditional sds, which it tells itself: 2 d gradients for each of at most
    `ROUNDS` rounds, mostly two.

    Parameters
    ----------
    evaluate : callable
        Positions (k, d) -> energies and gradients.
    at, gradient : ndarray, shape (d,)
        The point, and the gradient there.
    scale : ndarray, shape (d,)
        Of each coordinate: no step is longer.
    domain : Domain
        Differences across its walls, and to where there is no energy, are one-sided, or 0 where no side is left.
    """
    d, steps = len(at), 1e-4 * scale
    for _ in range(ROUNDS):
        moves = np.concatenate([np.diag(steps), -np.diag(steps)])
        walled = ~domain.contains(at + moves)
        found = yield from evaluate(np.where(walled[:, None], at, at + moves))
        known = ~walled & np.isfinite(found.energy)
        slopes = np.where(known[:, None], found.gradient, gradient)
        apart = (known[:d] * steps + known[d:] * steps)[:, None]
        matrix = (slopes[:d] - slopes[d:]) / np.where(apart > 0.0, apart, np.inf)
        matrix = 0.5 * (matrix + matrix.T)
        with np.errstate(divide="ignore", invalid="ignore"):
            before, steps = steps, 0.01 / np.sqrt(np.diag(matrix))
        steps = np.where(np.isfinite(steps), np.minimum(steps, scale), before)
        if np.allclose(steps, before, rtol=0.5):
            break
    down = at - 1e-3 * steps * np.sign(gradient)
    return matrix, bool(walled.any() or not domain.contains(down[None])[0])


def covariance_of(precision: Array) -> Array:
    """Its inverse (d, d); NaN where it is not positive definite, to rounding."""
    sizes = np.sqrt(np.abs(np.diag(precision)))
    sizes[sizes == 0.0] = 1.0
    values, vectors = np.linalg.eigh(precision / np.outer(sizes, sizes))
    if not values[0] > FLAT * values[-1]:
        return np.full_like(precision, np.nan)
    return np.asarray((vectors / values) @ vectors.T / np.outer(sizes, sizes))
