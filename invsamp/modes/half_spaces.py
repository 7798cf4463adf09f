r"""Gaussians that bounds cut: the mass around a minimum at a bound, or so near one that its Gaussian reaches beyond.

About such a minimum the density is :math:`e^{-U - g u - u^T H u / 2}` within the bounds, g the gradient and H the
Hessian there. With the coordinates F that no bound cuts integrated out,

.. math:: \int e^{-g u - \frac12 u^T H u}\, du = \frac{(2 \pi)^{|F|/2}}{\sqrt{\det H_{FF}}}
          \prod_{i \in A} \int_{-a_i}^{b_i} e^{-g'_i u - \frac12 S_{ii} u^2}\, du, \qquad
          S = H_{AA} - H_{AF} H_{FF}^{-1} H_{FA},

exactly for one bound or where S is diagonal. For a bound at the minimum and :math:`g \gg \sqrt{S}` the integral is
1 / g, as of the exponential distribution; without bounds it is Laplace's.
"""

from __future__ import annotations

import math

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.modes.curvature import covariance_of
from invsamp.modes.tolerances import REACH, UNIT
from invsamp.protocols import Array

#: Bisections of the way to a bound; nodes of the quadrature, and decay lengths from its highest point that it covers.
BISECTIONS, NODES, LENGTHS = 40, 100, 30.0


def cut_gaussian(
    precision: Array, gradient: Array, at: Array, scale: Array, domain: Domain, *, walled: bool
) -> Array | None:
    """The covariance (d, d) of a Gaussian with the mass around a minimum within bounds; None where that is not known.

    That is so where the mass has no end, and beside cliffs.

    Parameters
    ----------
    precision : ndarray, shape (d, d)
        Hessian of the energy.
    gradient : ndarray, shape (d,)
    at : ndarray, shape (d,)
        The minimum.
    scale : ndarray, shape (d,)
        No direction in which the energy does not bend is looked along farther than `REACH` of these.
    domain : Domain
    walled : bool
        Whether a bound, or a cliff, is in the way of differences at the minimum.
    """
    covariance = covariance_of(precision)
    sds = np.sqrt(np.diag(covariance)) if np.isfinite(covariance).all() else scale
    ways = _ways(at, REACH * sds, domain)
    cut = np.isfinite(ways).any(axis=0)
    if walled and not cut.any():
        return None
    free = ~cut
    inverse = covariance_of(precision[np.ix_(free, free)])
    if not np.isfinite(inverse).all():
        return None
    through = precision[np.ix_(cut, free)] @ inverse
    inner = np.diag(precision)[cut] - (through * precision[np.ix_(cut, free)]).sum(axis=1)
    slope = gradient[cut] - through @ gradient[free]
    masses = np.array([_log_mass(*each) for each in zip(slope, inner, *ways[:, cut], strict=True)])
    if not np.isfinite(masses).all():
        return None
    found = np.empty_like(precision)
    # of the coordinates that are cut those of independent Gaussians, given the others
    own = np.diag(np.exp(2.0 * masses) / (2.0 * math.pi))
    found[np.ix_(cut, cut)] = own
    found[np.ix_(free, cut)] = -through.T @ own
    found[np.ix_(cut, free)] = -own @ through
    found[np.ix_(free, free)] = inverse + through.T @ own @ through
    return found


def _ways(at: Array, reach: Array, domain: Domain) -> Array:
    """How far the bounds are, backwards and forwards along each coordinate, (2, d); infinite beyond ``reach`` (d,)."""
    d = len(at)
    signs = np.concatenate([-np.eye(d), np.eye(d)])
    inside, outside = np.zeros(2 * d), np.tile(reach, 2)
    far = domain.contains(at + outside[:, None] * signs)
    for _ in range(BISECTIONS):
        middle = 0.5 * (inside + outside)
        contained = domain.contains(at + middle[:, None] * signs)
        inside, outside = np.where(contained, middle, inside), np.where(contained, outside, middle)
    return np.where(far, np.inf, inside).reshape(2, d)


def _log_mass(slope: float, curvature: float, back: float, ahead: float) -> float:
    """Log of the integral of exp(-g u - h u^2 / 2) from -back to ahead, one of which may be infinite.

    NaN if it is, or no minimum is at 0.
    """
    if curvature < 0.0:
        # what bends down is left where it turns, if it has risen by then: there is another minimum beyond, if anything
        turn = -slope / curvature
        if 0.5 * slope * turn > UNIT:
            back, ahead = (back, min(ahead, turn)) if turn > 0.0 else (min(back, -turn), ahead)
    highest = -slope / curvature if curvature > 0.0 else -math.copysign(math.inf, slope)
    highest = min(max(highest, -back), ahead)
    if not math.isfinite(highest):
        return math.nan
    decay = abs(slope + curvature * highest) + math.sqrt(max(curvature, 0.0))
    length = LENGTHS / decay if decay > 0.0 else math.inf
    low, high = max(-back, highest - length), min(ahead, highest + length)
    if not math.isfinite(high - low):
        return math.nan
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    u = low + 0.5 * (high - low) * (nodes + 1.0)
    logs = -slope * u - 0.5 * curvature * u * u
    top = float(logs.max())
    if top > UNIT:  # a point within bounds lies far below the minimum: curvature says nothing of it
        return math.nan
    return top + math.log(0.5 * (high - low) * float(weights @ np.exp(logs - top)))
