r"""Gaussians that bounds cut: the mass around a minimum at a bound, or so near one that its Gaussian reaches beyond.

About such a minimum the density is :math:`e^{-U - g u - u^T H u / 2}` within the bounds, g the gradient and H the
Hessian there. With the coordinates F that no bound cuts integrated out,

.. math:: \int e^{-g u - \frac12 u^T H u}\, du = \frac{(2 \pi)^{|F|/2}}{\sqrt{\det H_{FF}}}
          \prod_{i \in A} \int_{-a_i}^{b_i} e^{-g'_i u - \frac12 S_{ii} u^2}\, du, \qquad
          S = H_{AA} - H_{AF} H_{FF}^{-1} H_{FA},

exactly for one bound or where S is diagonal. For a bound at the minimum and :math:`g \gg \sqrt{S}` the integral is
1 / g, as of the exponential distribution; without bounds it is Laplace's.

Bounds that are oblique, such as x > y, are coordinates first: A then are the distances from these.
"""

from __future__ import annotations

import math

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.modes.curvature import covariance_of
from invsamp.modes.tolerances import REACH, UNIT
from invsamp.protocols import Array

#: Share of a ray by which a move crosses a bound to show its normal; turned by less than such a share, it shows none.
CROSSING, GRAZING = 1e-6, 1e-8
#: Bisections of the way to a bound; nodes of the quadrature, and decay lengths from its highest point that it covers.
BISECTIONS, NODES, LENGTHS = 40, 100, 30.0


def cut_gaussian(
    precision: Array, gradient: Array, at: Array, scale: Array, domain: Domain, *, bounded: bool
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
    bounded : bool
        Whether a bound, or a cliff, is in the way of differences at the minimum.
    """
    covariance = covariance_of(precision)
    sds = np.sqrt(np.diag(covariance)) if np.isfinite(covariance).all() else scale
    basis, bounds = _along_bounds(at, REACH * sds, domain)
    back = np.linalg.inv(basis)
    if np.isfinite(covariance).all():
        sds = np.sqrt(np.diag(basis @ covariance @ basis.T))
    else:
        sds = np.sqrt(np.square(basis) @ np.square(scale))
    reach, slope, bends = REACH * sds, back.T @ gradient, back.T @ precision @ back
    rays = np.concatenate([-back.T, back.T]) * np.tile(reach, 2)[:, None]
    of_bounds = np.arange(len(at)) < bounds
    # a curved bound cuts what goes along it: seen from where the mass is, not from the bound
    off = np.where(of_bounds, -CROSSING * reach, 0.0)
    ways = _shares(at + back @ off, rays, domain).reshape(2, -1) * reach + np.stack([-off, off])
    ways = np.maximum(ways, 0.0)
    if bounds:
        each = zip(slope[of_bounds], np.diag(bends)[of_bounds], *ways[:, of_bounds], strict=True)
        off[of_bounds] = np.nan_to_num([_mass(*one)[1] for one in each])
        along = _shares(at + back @ off, rays, domain).reshape(2, -1) * reach
        ways = np.where(of_bounds, ways, along)
    found = _cut(bends, slope, ways, bounded=bounded)
    return None if found is None else np.asarray(back @ found @ back.T)


def _cut(precision: Array, gradient: Array, ways: Array, *, bounded: bool) -> Array | None:
    """The covariance in coordinates along each of which bounds are so far backwards and forwards, ``ways`` (2, d)."""
    cut = np.isfinite(ways).any(axis=0)
    if bounded and not cut.any():
        return None
    free = ~cut
    inverse = covariance_of(precision[np.ix_(free, free)])
    if not np.isfinite(inverse).all():
        return None
    through = precision[np.ix_(cut, free)] @ inverse
    inner = np.diag(precision)[cut] - (through * precision[np.ix_(cut, free)]).sum(axis=1)
    slope = gradient[cut] - through @ gradient[free]
    masses = np.array([_mass(*each)[0] for each in zip(slope, inner, *ways[:, cut], strict=True)])
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


def _along_bounds(at: Array, reach: Array, domain: Domain) -> tuple[Array, int]:
    """A basis (d, d): outward normals of the bounds within ``reach`` (d,) of a point, and directions along these.

    The unit one, and no bounds, if all are along axes; else also how many normals there are, which come first.

    A bound at less than 45 degrees to nearer ones, in units of the reach, is left out: they cut what it would.
    """
    unit = np.eye(len(at))
    rays = np.concatenate([-unit, unit]) * np.tile(reach, 2)[:, None]
    shares = _shares(at, rays, domain)
    cut = np.isfinite(shares)
    starts, moves = at + shares[cut, None] * rays[cut], CROSSING * rays[cut]
    reflected = domain.reflect(starts, moves)
    normals = (moves - reflected.move) * reach  # a reflected move is turned by a multiple of the normal
    sizes = np.linalg.norm(normals, axis=1)
    shown = (reflected.bounces == 1) & (sizes > GRAZING * CROSSING * reach.min())
    starts, normals = starts[shown], normals[shown] / sizes[shown, None]
    if np.isin(np.abs(normals), (0.0, 1.0)).all():
        return unit, 0
    distances = ((starts - at) / reach * normals).sum(axis=1)
    kept = np.empty((0, len(at)))
    for normal in normals[np.argsort(distances, kind="stable")]:
        left = normal - kept.T @ np.linalg.lstsq(kept.T, normal, rcond=None)[0]
        if left @ left >= 0.5:
            kept = np.concatenate([kept, normal[None]])
    along = np.linalg.svd(kept)[2][len(kept) :]
    return np.concatenate([kept, along]) / reach, len(kept)


def _shares(at: Array, rays: Array, domain: Domain) -> Array:
    """Share of each of some rays (n, d) from a point at which it leaves the domain, (n,); infinite if it does not."""
    inside, outside = np.zeros(len(rays)), np.ones(len(rays))
    far = domain.contains(at + rays)
    for _ in range(BISECTIONS):
        middle = 0.5 * (inside + outside)
        contained = domain.contains(at + middle[:, None] * rays)
        inside, outside = np.where(contained, middle, inside), np.where(contained, outside, middle)
    return np.where(far, np.inf, inside)


def _mass(slope: float, curvature: float, back: float, ahead: float) -> tuple[float, float]:
    """Log of the integral of exp(-g u - h u^2 / 2) from -back to ahead, one of which may be infinite; and its mean.

    NaN if it is, or no minimum is at 0.
    """
    unknown = math.nan, math.nan
    if curvature < 0.0:
        # what bends down is left where it turns, if it has risen by then: there is another minimum beyond, if anything
        turn = -slope / curvature
        if 0.5 * slope * turn > UNIT:
            back, ahead = (back, min(ahead, turn)) if turn > 0.0 else (min(back, -turn), ahead)
    highest = -slope / curvature if curvature > 0.0 else -math.copysign(math.inf, slope)
    highest = min(max(highest, -back), ahead)
    if not math.isfinite(highest):
        return unknown
    decay = abs(slope + curvature * highest) + math.sqrt(max(curvature, 0.0))
    length = LENGTHS / decay if decay > 0.0 else math.inf
    low, high = max(-back, highest - length), min(ahead, highest + length)
    if not math.isfinite(high - low):
        return unknown
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    u = low + 0.5 * (high - low) * (nodes + 1.0)
    logs = -slope * u - 0.5 * curvature * u * u
    top = float(logs.max())
    if top > UNIT:  # a point within bounds lies far below the minimum: curvature says nothing of it
        return unknown
    parts = weights * np.exp(logs - top)
    return top + math.log(0.5 * (high - low) * float(parts.sum())), float(parts @ u / parts.sum())
