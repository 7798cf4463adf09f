"""Distances from domains: nearest points, and squared violations with their gradients.

A domain may bring its own: ``nearest(position) -> (n, d)``, and ``violation(position) -> (n,), (n, d)``, the squared
distance (or what stands for it) and its gradient. What is here serves those that do not.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from invsamp.contract import Array
from invsamp.domains import Box, Domain, HalfSpaces, Unbounded

#: Sweeps over the half-spaces after which a projection is taken as it is.
MAX_SWEEPS = 10_000


def nearest(domain: Domain, position: Array) -> Array:
    """Nearest points (n, d) of a domain.

    Raises
    ------
    ValueError
        If the domain knows no nearest points: it has no ``nearest`` and is neither a box, nor half-spaces, nor
        a set in two dimensions with an outline.
    """
    if (own := getattr(domain, "nearest", None)) is not None:
        return np.asarray(own(position))
    if isinstance(domain, Unbounded):
        return np.array(position)
    if isinstance(domain, Box):
        return np.clip(position, domain.lower, domain.upper)
    if isinstance(domain, HalfSpaces):
        return _nearest_of_half_spaces(domain, position)
    return _nearest_of_outline(domain, position)


def squared_violation(domain: Domain, position: Array) -> tuple[Array, Array]:
    """Squared distance (n,) from the domain and its gradient (n, d); zeros inside.

    Half-spaces give the sum of their squared violations, which is larger than the squared distance near edges.

    Raises
    ------
    ValueError
        If the domain knows neither its violation nor its nearest points.
    """
    if (own := getattr(domain, "violation", None)) is not None:
        return own(position)  # type: ignore[no-any-return]
    if isinstance(domain, HalfSpaces):
        lengths = np.linalg.norm(domain.normals, axis=1)
        normals = domain.normals / lengths[:, None]
        excess = np.maximum(position @ normals.T - domain.offsets / lengths, 0.0)
        return (excess**2).sum(axis=1), 2.0 * excess @ normals
    away = position - nearest(domain, position)
    return (away**2).sum(axis=1), 2.0 * away


def _nearest_of_half_spaces(domain: HalfSpaces, position: Array) -> Array:
    """By Hildreth's method: coordinate ascent on the multipliers (Hildreth 1957, Naval Research Logistics 4)."""
    lengths = np.linalg.norm(domain.normals, axis=1)
    normals, offsets = domain.normals / lengths[:, None], domain.offsets / lengths
    points = np.array(position, dtype=float, order="C")
    _hildreth(points, normals, offsets, MAX_SWEEPS)
    inside = domain.contains(position)
    points[inside] = position[inside]
    # rounding: the end of a move has to be inside
    pull = 1e-15
    while pull < 1e-6 and len(rows := np.flatnonzero(~domain.contains(points))):
        points[rows] += pull * (domain._interior - points[rows])
        pull *= 4.0
    return points


@njit(cache=True)
def _hildreth(points: Array, normals: Array, offsets: Array, sweeps: int) -> None:
    """Project each row of `points` (n, d) on `normals @ x <= offsets` in place; `normals` have length one."""
    k = len(offsets)
    multipliers = np.empty(k)
    for row in range(len(points)):
        multipliers[:] = 0.0
        for _ in range(sweeps):
            largest = 0.0
            for i in range(k):
                excess = -offsets[i]
                for j in range(points.shape[1]):
                    excess += normals[i, j] * points[row, j]
                change = min(multipliers[i], -excess)
                multipliers[i] -= change
                largest = max(largest, abs(change))
                for j in range(points.shape[1]):
                    points[row, j] += change * normals[i, j]
            if largest < 1e-14:
                break


def _nearest_of_outline(domain: Domain, position: Array) -> Array:
    """In two dimensions: the nearest point of the curves that a plot of the domain draws."""
    points = np.array(position, dtype=float, order="C")
    outside = np.flatnonzero(~domain.contains(points))
    wide = 10.0 * (1.0 + np.abs(points).max(initial=0.0))
    curves = domain.outline(0, 1, ((-wide, -wide), (wide, wide))) if points.shape[1] == 2 else None
    if curves is None:
        raise ValueError(f"this boundary needs a domain that knows its nearest points, got {domain!r}")
    starts, ends = _edges(curves)
    for row in outside:
        points[row] = _nearest_of_edges(points[row], starts, ends)
    return points


def _edges(curves: Array | list[Array]) -> tuple[Array, Array]:
    """Starts and ends (k, 2) of the edges of closed curves."""
    loops = [curves] if isinstance(curves, np.ndarray) else list(curves)
    starts = np.concatenate([np.asarray(loop) for loop in loops])
    return starts, np.concatenate([np.roll(loop, -1, axis=0) for loop in loops])


@njit(cache=True)
def _nearest_of_edges(point: Array, starts: Array, ends: Array) -> Array:
    best, least = np.empty(2), np.inf
    for k in range(len(starts)):
        along0, along1 = ends[k, 0] - starts[k, 0], ends[k, 1] - starts[k, 1]
        length = along0 * along0 + along1 * along1
        share = 0.0
        if length > 0.0:
            share = ((point[0] - starts[k, 0]) * along0 + (point[1] - starts[k, 1]) * along1) / length
            share = min(max(share, 0.0), 1.0)
        x, y = starts[k, 0] + share * along0, starts[k, 1] + share * along1
        distance = (x - point[0]) ** 2 + (y - point[1]) ** 2
        if distance < least:
            least = distance
            best[0], best[1] = x, y
    return best
