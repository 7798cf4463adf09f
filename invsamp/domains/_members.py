"""Kinds of boundary in compiled kernels, with one function per question: is a point inside, where is the first hit.

A region is the intersection of its members. Three arrays, `table`, `indices` and `numbers`, describe them, so that one
compiled kernel serves every domain. `table` (k, 6) has a row for each member. Its entries are the kind, where its
columns start in `indices`, their number m, its number of faces, and where its data start in `indices` and `numbers`. A
face reflects moves: it is a bound, a facet, an edge, or a whole sphere.

`inside` is the one definition of a region. The kernel that moves points and the test that accepts them sum in the same
order, so that rounding cannot make them disagree.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.domains._edge_grid import CALLED, INNER, NUMBERS_HEAD, first_edge, inside_edges, nearest_edge
from invsamp.domains.contract import Array

IntArray = npt.NDArray[np.int64]
#: `table`, `indices` and `numbers`.
Region = tuple[IntArray, IntArray, Array]

# Kinds, and what `numbers` holds of them.
BOUNDS = 0  #: lower (m,), upper (m,)
HALF_SPACES = 1  #: a point well inside (m,), offsets (faces,), normals (faces, m)
BALL = 2  #: center (m,), radius^2
ELLIPSOID = 3  #: center (m,), Q (m, m) of (x - center)^T Q (x - center) <= 1
EDGES = 4  #: see `invsamp.domains._edge_grid`


@njit(**INNER)
def _header(region: Region, member: int) -> tuple[int, int, int, int, int, int]:
    table = region[0]
    return (table[member, 0], table[member, 1], table[member, 2], table[member, 3], table[member, 4], table[member, 5])


@njit(**INNER)
def inside(point: Array, region: Region) -> bool:
    """Whether a point lies in the closed region."""
    for member in range(region[0].shape[0]):  # noqa: SIM110
        if not _inside_member(point, member, region):
            return False
    return True


@njit(**INNER)
def _inside_member(point: Array, member: int, region: Region) -> bool:
    _, indices, numbers = region
    kind, columns, m, faces, at, start = _header(region, member)
    if kind == EDGES:
        return inside_edges(point[indices[columns]], point[indices[columns + 1]], indices, at, numbers, start)
    if kind == BOUNDS:
        for j in range(m):
            x = point[indices[columns + j]]
            if not (numbers[start + j] <= x <= numbers[start + m + j]):
                return False
        return True
    if kind == HALF_SPACES:
        for face in range(faces):
            level = 0.0
            normal = start + m + faces + face * m
            for j in range(m):
                level += numbers[normal + j] * point[indices[columns + j]]
            if not level <= numbers[start + m + face]:
                return False
        return True
    return _product(point, point, 1.0, 1.0, member, region) <= 1.0


@njit(**CALLED)
def _product(a: Array, b: Array, a_center: float, b_center: float, member: int, region: Region) -> float:
    """(a - a_center c)^T Q (b - b_center c) of a ball or ellipsoid about c: the factors are 1 of points, 0 of moves.

    Numbers, as True and False are types of their own, for each of which the compiler would make another function.
    """
    _, indices, numbers = region
    kind, columns, m, _, _, start = _header(region, member)
    total = 0.0
    for i in range(m):
        u = a[indices[columns + i]] - a_center * numbers[start + i]
        if kind == BALL:
            total += u * (b[indices[columns + i]] - b_center * numbers[start + i])
        else:
            row = start + m + i * m
            for j in range(m):
                total += u * numbers[row + j] * (b[indices[columns + j]] - b_center * numbers[start + j])
    return total / numbers[start + m] if kind == BALL else total


@njit(**INNER)
def first_hit(
    point: Array, velocity: Array, horizon: float, last_member: int, last_face: int, region: Region
) -> tuple[float, int, int]:
    """First face that a move from inside hits before time `horizon`: the time, member and face.

    (`horizon`, -1, -1) where there is none. The face that was hit last is at distance zero up to rounding: where it
    is flat it is not hit again, and a ball is hit at the other end of the chord.
    """
    _, indices, numbers = region
    best, best_member, best_face = horizon, -1, -1
    for member in range(region[0].shape[0]):
        kind, columns, _, _, at, start = _header(region, member)
        last = last_face if member == last_member else -1
        if kind == EDGES:
            a, b = indices[columns], indices[columns + 1]
            time, face = first_edge(
                point[a], point[b], velocity[a], velocity[b], best, last, (indices, at, numbers, start)
            )
        elif kind == BOUNDS:
            time, face = _first_bound(point, velocity, best, last, member, region)
        elif kind == HALF_SPACES:
            time, face = _first_facet(point, velocity, best, last, member, region)
        else:
            time, face = _end_of_chord(point, velocity, best, last, member, region)
        if face >= 0:
            best, best_member, best_face = time, member, face
    return best, best_member, best_face


@njit(**CALLED)
def _first_bound(
    point: Array, velocity: Array, horizon: float, last_face: int, member: int, region: Region
) -> tuple[float, int]:
    """As `first_hit` for bounds; face 2j is the lower end of column j and 2j + 1 the upper one."""
    _, indices, numbers = region
    _, columns, m, _, _, start = _header(region, member)
    best, best_face = horizon, -1
    for j in range(m):
        v = velocity[indices[columns + j]]
        if v == 0.0:
            continue
        face = 2 * j + (1 if v > 0.0 else 0)
        if face != last_face:
            bound = numbers[start + (m if v > 0.0 else 0) + j]
            time = max((bound - point[indices[columns + j]]) / v, 0.0)
            if time < best:
                best, best_face = time, face
    return best, best_face


@njit(**CALLED)
def _first_facet(
    point: Array, velocity: Array, horizon: float, last_face: int, member: int, region: Region
) -> tuple[float, int]:
    """As `first_hit` for half-spaces."""
    _, indices, numbers = region
    _, columns, m, faces, _, start = _header(region, member)
    best, best_face = horizon, -1
    for face in range(faces):
        if face == last_face:
            continue
        gap, rate = numbers[start + m + face], 0.0
        normal = start + m + faces + face * m
        for j in range(m):
            gap -= numbers[normal + j] * point[indices[columns + j]]
            rate += numbers[normal + j] * velocity[indices[columns + j]]
        if rate > 0.0:
            time = max(gap, 0.0) / rate
            if time < best:
                best, best_face = time, face
    return best, best_face


@njit(**CALLED)
def _end_of_chord(
    point: Array, velocity: Array, horizon: float, last_face: int, member: int, region: Region
) -> tuple[float, int]:
    """As `first_hit` for a ball or ellipsoid: the larger root of a t^2 + 2 b t + c = 0."""
    a = _product(velocity, velocity, 0.0, 0.0, member, region)
    b = _product(point, velocity, 1.0, 0.0, member, region)
    if not a > 0.0:
        return horizon, -1
    if last_face >= 0:
        time = -2.0 * b / a  # c = 0
    else:
        c = _product(point, point, 1.0, 1.0, member, region) - 1.0
        discriminant = b * b - a * c
        if discriminant < 0.0:
            return horizon, -1
        root = math.sqrt(discriminant)
        time = -c / (b + root) if b > 0.0 else (root - b) / a
    time = max(time, 0.0)
    return (time, 0) if time < horizon else (horizon, -1)


@njit(**CALLED)
def set_normal(point: Array, member: int, face: int, region: Region, normal: Array) -> None:
    """Fill `normal` (d,) with the outward normal, of any length, of a face where it was hit."""
    _, indices, numbers = region
    kind, columns, m, faces, _, start = _header(region, member)
    normal[:] = 0.0
    if kind == EDGES:
        first = start + NUMBERS_HEAD + 4 * face
        normal[indices[columns]] = numbers[first + 3] - numbers[first + 1]
        normal[indices[columns + 1]] = numbers[first] - numbers[first + 2]
    elif kind == BOUNDS:
        normal[indices[columns + face // 2]] = 1.0 if face % 2 else -1.0
    elif kind == HALF_SPACES:
        for j in range(m):
            normal[indices[columns + j]] = numbers[start + m + faces + face * m + j]
    elif kind == BALL:
        for j in range(m):
            normal[indices[columns + j]] = point[indices[columns + j]] - numbers[start + j]
    else:
        for i in range(m):
            for j in range(m):
                normal[indices[columns + i]] += numbers[start + m + i * m + j] * (
                    point[indices[columns + j]] - numbers[start + j]
                )


@njit(**CALLED)
def pulled_inside(point: Array, region: Region) -> bool:
    """Undo rounding: pull `point` inwards by at most about 1e-10 of the region's size; whether it is inside."""
    pull = 1e-16
    while not inside(point, region):
        if not pull <= 1e-10:
            return False
        for member in range(region[0].shape[0]):
            if not _inside_member(point, member, region):
                _pull(point, pull, member, region)
        pull *= 4.0
    return True


@njit(**CALLED)
def _pull(point: Array, pull: float, member: int, region: Region) -> None:
    _, indices, numbers = region
    kind, columns, m, _, at, start = _header(region, member)
    if kind == EDGES:
        a, b = indices[columns], indices[columns + 1]
        edge = nearest_edge(point[a], point[b], indices, at, numbers, start)
        if edge >= 0:
            first = start + NUMBERS_HEAD + 4 * edge
            ex, ey = numbers[first + 2] - numbers[first], numbers[first + 3] - numbers[first + 1]
            step = pull * numbers[start + 6] / math.hypot(ex, ey)
            point[a] -= step * ey
            point[b] += step * ex
        return
    for j in range(m):
        column = indices[columns + j]
        if kind == BOUNDS:
            # no path leaves bounds but by rounding
            if point[column] < numbers[start + j]:
                point[column] = numbers[start + j]
            elif point[column] > numbers[start + m + j]:
                point[column] = numbers[start + m + j]
        else:
            # towards a point well inside: this scales the gaps of all facets alike, whatever the units
            point[column] += pull * (numbers[start + j] - point[column])
