"""Geometry of ``normals @ position <= offsets``: a point inside, and the polygon to draw."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

Array = npt.NDArray[np.float64]


def interior_point(normals: Array, offsets: Array) -> Array:
    """A point well inside, by a linear program in equilibrated units; ValueError where there is none.

    The center of a largest ball (of radius 1 at most, in those units): max r such that
    ``normals @ x + |normals| r <= offsets``.
    """
    rows, columns, unit = _equilibration(normals, offsets)
    a, b = rows[:, None] * normals * columns, rows * offsets * unit
    ball = np.linalg.norm(a, axis=1, keepdims=True)
    goal = np.append(np.zeros(a.shape[1]), -1.0)
    bounds = [(None, None)] * a.shape[1] + [(None, 1.0)]
    result = scipy.optimize.linprog(goal, A_ub=np.hstack([a, ball]), b_ub=b, bounds=bounds, method="highs")
    if result.x is not None:
        point = np.asarray(columns * result.x[:-1] / unit)
        if (normals @ point < offsets).all():
            return point
    raise ValueError(
        "normals and offsets must leave an interior, but no point satisfies normals @ position < offsets: "
        f"normals {normals.tolist()}, offsets {offsets.tolist()}"
    )


def bounding_box(normals: Array, offsets: Array) -> tuple[Array, Array]:
    """Lower and upper ends (d,) of all that satisfies the inequalities, by linear programs; infinite where open."""
    rows, columns, unit = _equilibration(normals, offsets)
    a, b = rows[:, None] * normals * columns, rows * offsets * unit
    ends = np.tile([[-np.inf], [np.inf]], normals.shape[1])
    for j in np.flatnonzero(normals.any(axis=0)):
        for k, sign in enumerate((1.0, -1.0)):
            goal = np.zeros(normals.shape[1])
            goal[j] = sign
            result = scipy.optimize.linprog(goal, A_ub=a, b_ub=b, bounds=(None, None), method="highs")
            ends[k, j] = columns[j] / unit * result.x[j] if result.x is not None else -sign * np.inf
    # a little wider than the tolerance of the programs
    margin = 1e-6 * np.where(np.isfinite(ends).all(axis=0), ends[1] - ends[0], 0.0)
    return ends[0] - margin, ends[1] + margin


def clipped_polygon(normals: Array, offsets: Array, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
    """The view's rectangle cut by half-planes one after the other (Sutherland and Hodgman): no or one ring (k, 2)."""
    (left, bottom), (right, top) = (np.asarray(corner, dtype=float) for corner in view)
    polygon = np.array([[left, bottom], [right, bottom], [right, top], [left, top]])
    for normal, offset in zip(normals, offsets, strict=True):
        gap = offset - polygon @ normal
        vertices = []
        for k in range(len(polygon)):
            following = (k + 1) % len(polygon)
            if gap[k] >= 0.0:
                vertices.append(polygon[k])
            if gap[k] * gap[following] < 0.0:
                fraction = gap[k] / (gap[k] - gap[following])
                vertices.append(polygon[k] + fraction * (polygon[following] - polygon[k]))
        if len(vertices) < 3:
            return []
        polygon = np.array(vertices)
    return [polygon]


def _equilibration(normals: Array, offsets: Array, sweeps: int = 30) -> tuple[Array, Array, float]:
    """Scales of rows (k,), columns (d,) and the offsets that bring the entries that are not zero near 1.

    A linear program has absolute tolerances; parameters of size 1e-9 or 1e9 would drown in them. Geometric
    means over rows and columns in turn.
    """
    matrix = np.column_stack([normals, offsets])
    used = matrix != 0.0
    logs = np.log(np.abs(matrix), where=used, out=np.zeros_like(matrix))
    row_counts, column_counts = used.sum(axis=1), np.maximum(used.sum(axis=0), 1)
    rows, columns = np.zeros(len(matrix)), np.zeros(matrix.shape[1])
    for _ in range(sweeps):
        rows = -np.sum(logs + used * columns, axis=1) / row_counts
        columns = -np.sum(logs + used * rows[:, None], axis=0) / column_counts
    return np.exp(rows), np.exp(columns[:-1]), float(np.exp(columns[-1]))
