"""Distances from domains: nearest points, and squared violations with their gradients.

A domain may bring its own, as methods ``nearest(position) -> (n, d)`` and ``violation(position) -> (n,), (n, d)``: the
squared distance, or what stands for it, and its gradient. What is here serves those that do not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy

from invsamp.domains.ball import Ball, Ellipsoid
from invsamp.domains.box import Box
from invsamp.domains.contract import Domain
from invsamp.domains.half_spaces import HalfSpaces
from invsamp.domains.intersection import Intersection
from invsamp.domains.level_set import LevelSet
from invsamp.domains.polygon import Polygon
from invsamp.domains.product import Product
from invsamp.domains.unbounded import Unbounded
from invsamp.protocols import Array

#: Positions (n, d) -> nearest points (n, d) of a domain.
Nearest = Callable[[Array], Array]
#: Positions (n, d) -> squared distances (n,) from a domain, and their gradients (n, d); zeros inside.
Violation = Callable[[Array], tuple[Array, Array]]

#: Newton steps after which a point is taken as it is.
MAX_NEWTON = 100


def nearest_points(domain: Domain, dimension: int) -> Nearest:
    """How to find a domain's nearest points.

    Of a level set it is where its gradient leads to: a point of the boundary whose normal points at the position, for
    positions that are not too far outside.

    Raises
    ------
    ValueError
        If the domain knows none: an intersection of curved domains, or a domain without ``nearest`` that is not of
        `invsamp.domains`.
    """
    if (own := getattr(domain, "nearest", None)) is not None:
        return own  # type: ignore[no-any-return]
    if isinstance(domain, Unbounded):
        return np.array
    if isinstance(domain, Box):
        return lambda position: np.clip(position, domain.lower, domain.upper)
    if isinstance(domain, HalfSpaces):
        return partial(_nearest_of_half_spaces, domain)
    if isinstance(domain, Ball | Ellipsoid):
        form = np.eye(dimension) / domain.radius**2 if isinstance(domain, Ball) else domain.matrix
        return partial(_nearest_of_ellipsoid, domain.center, *np.linalg.eigh(form))
    if isinstance(domain, LevelSet):
        return partial(_towards_level_set, domain)
    if isinstance(domain, Product):
        return partial(_nearest_by_block, [(c, nearest_points(part, len(c))) for c, part in _blocks(domain)])
    if isinstance(domain, Polygon):
        return partial(_nearest_of_edges, domain)
    raise ValueError(f"this boundary needs a domain that knows its nearest points, got {domain!r}")


def squared_violation(domain: Domain, dimension: int) -> Violation:
    """How to find the squared distance from a domain.

    For half-spaces it is the sum of their squared violations, which is larger than the squared distance near edges. For
    an intersection it is the sum over its parts, and for a level set the square of its level, in the level's units.

    Raises
    ------
    ValueError
        If the domain knows neither its violation nor its nearest points.
    """
    if (own := getattr(domain, "violation", None)) is not None:
        return own  # type: ignore[no-any-return]
    if isinstance(domain, HalfSpaces):
        lengths = np.linalg.norm(domain.normals, axis=1)
        return partial(_violation_of_half_spaces, domain.normals / lengths[:, None], domain.offsets / lengths)
    if isinstance(domain, LevelSet):
        return partial(_squared_level, domain)
    if isinstance(domain, Intersection):
        return partial(_sum, [squared_violation(part, dimension) for part in domain.parts])
    if isinstance(domain, Product):
        return partial(_sum_by_block, [(c, squared_violation(part, len(c))) for c, part in _blocks(domain)])
    return partial(_squared_distance, nearest_points(domain, dimension))


def _blocks(domain: Product) -> list[tuple[list[int], Domain]]:
    """Columns and domain of each block; by now the columns are indices, not names."""
    return [([int(column) for column in columns], part) for columns, part in domain.blocks]


def _squared_distance(nearest: Nearest, position: Array) -> tuple[Array, Array]:
    away = position - nearest(position)
    return (away**2).sum(axis=1), 2.0 * away


def _violation_of_half_spaces(normals: Array, offsets: Array, position: Array) -> tuple[Array, Array]:
    excess = np.maximum(position @ normals.T - offsets, 0.0)
    return (excess**2).sum(axis=1), 2.0 * excess @ normals


def _sum(parts: list[Violation], position: Array) -> tuple[Array, Array]:
    found = [part(position) for part in parts]
    return np.sum([value for value, _ in found], axis=0), np.sum([gradient for _, gradient in found], axis=0)


def _sum_by_block(blocks: list[tuple[list[int], Violation]], position: Array) -> tuple[Array, Array]:
    value, gradient = np.zeros(len(position)), np.zeros(position.shape)
    for columns, violation in blocks:
        part, gradient[:, columns] = violation(position[:, columns])
        value += part
    return value, gradient


def _squared_level(domain: LevelSet, position: Array) -> tuple[Array, Array]:
    value, gradient = np.zeros(len(position)), np.zeros(position.shape)
    outside = np.flatnonzero(~domain.contains(position))
    if len(outside):
        level = domain.level(position[outside])
        value[outside] = level**2
        gradient[outside] = 2.0 * level[:, None] * domain.gradient(position[outside])
    return value, gradient


def _nearest_by_block(blocks: list[tuple[list[int], Nearest]], position: Array) -> Array:
    points = np.array(position, dtype=float)
    for columns, nearest in blocks:
        points[:, columns] = nearest(points[:, columns])
    return points


def _towards_level_set(domain: LevelSet, position: Array) -> Array:
    """Newton steps to the surface, and steps along it towards the point below the position, in turns."""
    points = np.array(position, dtype=float)
    rows = np.flatnonzero(~domain.contains(points))
    if not len(rows):
        return points
    start, moved = points[rows], points[rows]
    for _ in range(MAX_NEWTON):
        for _ in range(3):
            gradient = domain.gradient(moved)
            moved = moved - (domain.level(moved) / (gradient**2).sum(axis=1))[:, None] * gradient
        normal = domain.gradient(moved)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        away = start - moved
        along = away - (away * normal).sum(axis=1, keepdims=True) * normal
        if np.abs(along).max() <= 1e-10 * np.abs(away).max():
            break
        # half of the way: the whole of it would swing about a strongly curved surface
        moved = moved + 0.5 * along
    points[rows] = moved
    return points


def _nearest_of_half_spaces(domain: HalfSpaces, position: Array) -> Array:
    """By the least-distance programming of Lawson and Hanson (1974, "Solving least squares problems", section 23.4)."""
    lengths = np.linalg.norm(domain.normals, axis=1)
    normals, offsets = domain.normals / lengths[:, None], domain.offsets / lengths
    points = np.array(position, dtype=float, order="C")
    outside = np.flatnonzero(~domain.contains(points))
    moved = points[outside]
    for row, point in enumerate(points[outside]):
        moved[row] = _least_distance(point, normals, offsets)
    # rounding: the end of a move has to be inside
    pull = 1e-15
    while pull < 1e-6 and len(rows := np.flatnonzero(~domain.contains(moved))):
        moved[rows] += pull * (domain.interior - moved[rows])
        pull *= 4.0
    points[outside] = moved
    return points


def _least_distance(point: Array, normals: Array, offsets: Array) -> Array:
    excess = normals @ point - offsets
    scale = excess.max()
    multipliers, _ = scipy.optimize.nnls(np.vstack([-normals.T, excess / scale]), np.append(np.zeros(len(point)), 1.0))
    residual = np.append(-normals.T @ multipliers, excess @ multipliers / scale - 1.0)
    return point - scale * residual[:-1] / residual[-1]


def _nearest_of_ellipsoid(center: Array, values: Array, vectors: Array, position: Array) -> Array:
    """Of x^T M x <= 1, M = V diag(values) V^T: the point (1 + mu M)^-1 x at which that is 1, mu by Newton's method."""
    away = (position - center) @ vectors
    rows = np.flatnonzero((away**2 @ values) > 1.0)
    outside, mu = away[rows], np.zeros((len(rows), 1))
    for _ in range(MAX_NEWTON):
        scale = 1.0 + mu * values
        weights = values * (outside / scale) ** 2
        excess = weights.sum(axis=1, keepdims=True) - 1.0
        # convex and falling in mu: Newton's method comes from below, and never passes the root
        mu += excess / (2.0 * (weights * values / scale).sum(axis=1, keepdims=True))
        if (np.abs(excess) < 1e-14).all():
            break
    points = np.array(position, dtype=float)
    points[rows] = center + outside / (1.0 + mu * values) @ vectors.T * (1.0 - 1e-15)
    return points


def _nearest_of_edges(domain: Polygon, position: Array) -> Array:
    rings = [domain.vertices, *domain.holes]
    starts = np.concatenate(rings)
    along = np.concatenate([np.roll(ring, -1, axis=0) for ring in rings]) - starts
    points = np.array(position, dtype=float, order="C")
    for row in np.flatnonzero(~domain.contains(points)):
        share = ((points[row] - starts) * along).sum(axis=1) / (along**2).sum(axis=1)
        feet = starts + np.clip(share, 0.0, 1.0)[:, None] * along
        points[row] = feet[np.argmin(((feet - points[row]) ** 2).sum(axis=1))]
    return points
