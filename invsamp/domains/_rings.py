"""Geometry of closed polygons in the plane: are they simple, do they nest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.domains.contract import Array

IntArray = npt.NDArray[np.intp]


def signed_area(ring: Array) -> float:
    """Area of a ring (k, 2), positive where it runs counter-clockwise."""
    x, y = (ring - ring[0]).T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


def without_repeats(ring: Array) -> IntArray:
    """Indices of the vertices that differ from their successor."""
    return np.flatnonzero((ring != np.roll(ring, -1, axis=0)).any(axis=1))


def check_simple(ring: Array, kept: IntArray, name: str) -> None:
    """ValueError if the edges of ``ring[kept]`` enclose no area, cross or touch; names them by indices of `ring`."""
    points = ring[kept]
    following = np.roll(points, -1, axis=0)
    k = len(points)
    extent = np.ptp(points, axis=0)
    turn = _side(np.roll(points, 1, axis=0), points, following)
    if (extent == 0.0).any() or not turn.any():
        raise ValueError(f"{name} must enclose an area, but all points lie on one line: {_listed(ring)}")
    # an edge that runs back along its predecessor
    back = np.sum((points - np.roll(points, 1, axis=0)) * (following - points), axis=1) < 0.0
    spikes = np.flatnonzero((turn == 0.0) & back)
    if len(spikes):
        at = int(kept[spikes[0]])
        raise ValueError(f"{name} must not run back on itself, but does at index {at}, {ring[at].tolist()}")
    first, second, where = crossing(points, points, skip_neighbors=True)
    if first >= 0:
        edges = [f"{kept[e]}-{kept[(e + 1) % k]}" for e in (first, second)]
        raise ValueError(
            f"{name} must not cross or touch itself, but the edges {edges[0]} and {edges[1]} (between the points of "
            f"these indices) meet at ({where[0]:.6g}, {where[1]:.6g})"
        )


def check_holes(outline: Array, holes: list[Array]) -> None:
    """ValueError unless the holes lie inside the outline, apart from each other and from it."""
    for k, hole in enumerate(holes):
        for name, other in [("the outline", outline), *((f"holes[{m}]", holes[m]) for m in range(k))]:
            first, _, where = crossing(hole, other)
            if first >= 0:
                raise ValueError(f"holes[{k}] must not meet {name}, but does at ({where[0]:.6g}, {where[1]:.6g})")
        if not _encloses(outline, hole[0]):
            raise ValueError(f"holes[{k}] must lie inside the outline, but its point {hole[0].tolist()} does not")
        for m in range(k):
            if _encloses(holes[m], hole[0]) or _encloses(hole, holes[m][0]):
                raise ValueError(f"holes must not lie within each other, but holes[{m}] and holes[{k}] do")


def crossing(a: Array, b: Array, skip_neighbors: bool = False) -> tuple[int, int, Array]:
    """First edges of two rings that share a point, and that point; (-1, -1, nan) where none do."""
    p, q, r, s = a, np.roll(a, -1, axis=0), b, np.roll(b, -1, axis=0)
    low, high = np.minimum(r, s), np.maximum(r, s)
    for first in range(len(a)):
        one, two = p[first], q[first]
        far = (np.maximum(one, two) < low).any(axis=1) | (np.minimum(one, two) > high).any(axis=1)
        ends = _side(one, two, r), _side(one, two, s)
        sides = _side(r, s, one), _side(r, s, two)
        meet = ~far & (np.sign(ends[0]) * np.sign(ends[1]) <= 0) & (np.sign(sides[0]) * np.sign(sides[1]) <= 0)
        if skip_neighbors:
            meet[[first - 1, first, (first + 1) % len(a)]] = False
        if meet.any():
            second = int(np.argmax(meet))
            return first, second, _meeting_point(one, two, r[second], s[second])
    return -1, -1, np.full(2, np.nan)


def _meeting_point(a: Array, b: Array, c: Array, d: Array) -> Array:
    rate = float(_side(np.zeros(2), b - a, d - c))
    if rate == 0.0:  # on one line
        inner = [x for x in (a, b) if np.all((x >= np.minimum(c, d)) & (x <= np.maximum(c, d)))]
        return inner[0] if inner else c
    return np.asarray(a + float(_side(np.zeros(2), c - a, d - c)) / rate * (b - a))


def _side(a: Array, b: Array, c: Array) -> Array:
    """Twice the area of the triangles a, b, c, positive where c is to the left of the line from a to b."""
    u, v = b - a, c - a
    return np.asarray(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0])


def _encloses(ring: Array, point: Array) -> bool:
    """Even-odd rule."""
    start, end = ring, np.roll(ring, -1, axis=0)
    spans = (start[:, 1] > point[1]) != (end[:, 1] > point[1])
    upward = end[:, 1] > start[:, 1]
    return bool(np.sum(spans & ((_side(start, end, point) > 0.0) == upward)) % 2)


def _listed(ring: Array) -> str:
    return str(ring.tolist()) if len(ring) <= 8 else f"{ring[:3].tolist()} and {len(ring) - 3} more"
