"""The walls that compiled kernels know, one function per question: is a point inside, where is the first hit.

A region is what satisfies all of its members. They are described by three arrays, so that one compiled kernel
serves every domain: a row of `table` (k, 6) for each member, with its kind, where its columns start in `indices`, their
number m, its number of walls, and where its data start in `indices` and `numbers`.

`inside` is the one definition of what lies in a region: the kernel that moves points and the test that accepts them
sum in the same order, so that rounding cannot make them disagree.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.domains._edge_grid import CALLED, INNER, NUMBERS_HEAD, first_edge, inside_edges, nearest_edge
from invsamp.domains.contract import Array

IntArray = npt.NDArray[np.int64]

# Kinds, and what `numbers` holds of them.
BOUNDS = 0  #: lower (m,), upper (m,)
HALF_SPACES = 1  #: a point well inside (m,), offsets (walls,), normals (walls, m)
BALL = 2  #: center (m,), radius^2
ELLIPSOID = 3  #: center (m,), Q (m, m) of (x - center)^T Q (x - center) <= 1
EDGES = 4  #: see `invsamp.domains._edge_grid`


@njit(**INNER)
def _header(table: IntArray, member: int) -> tuple[int, int, int, int, int, int]:
    return (table[member, 0], table[member, 1], table[member, 2], table[member, 3], table[member, 4], table[member, 5])


@njit(**INNER)
def inside(point: Array, table: IntArray, indices: IntArray, numbers: Array) -> bool:
    """Whether a point lies in the closed region."""
    for member in range(table.shape[0]):  # noqa: SIM110
        if not _inside_member(point, member, table, indices, numbers):
            return False
    return True


@njit(**INNER)
def _inside_member(point: Array, member: int, table: IntArray, indices: IntArray, numbers: Array) -> bool:
    kind, columns, m, walls, at, start = _header(table, member)
    if kind == EDGES:
        return inside_edges(point[indices[columns]], point[indices[columns + 1]], indices, at, numbers, start)
    if kind == BOUNDS:
        for j in range(m):
            x = point[indices[columns + j]]
            if not (numbers[start + j] <= x <= numbers[start + m + j]):
                return False
        return True
    if kind == HALF_SPACES:
        for wall in range(walls):
            level = 0.0
            normal = start + m + walls + wall * m
            for j in range(m):
                level += numbers[normal + j] * point[indices[columns + j]]
            if not level <= numbers[start + m + wall]:
                return False
        return True
    return _product(point, point, 1.0, 1.0, kind, columns, m, start, indices, numbers) <= 1.0


@njit(**CALLED)
def _product(
    a: Array,
    b: Array,
    a_center: float,
    b_center: float,
    kind: int,
    columns: int,
    m: int,
    start: int,
    indices: IntArray,
    numbers: Array,
) -> float:
    """(a - a_center c)^T Q (b - b_center c) of a ball or ellipsoid about c: the factors are 1 of points, 0 of moves.

    Numbers, as True and False are types of their own, for each of which the compiler would make another function.
    """
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
    point: Array,
    velocity: Array,
    horizon: float,
    last_member: int,
    last_wall: int,
    table: IntArray,
    indices: IntArray,
    numbers: Array,
) -> tuple[float, int, int]:
    """First wall that a move from inside hits before time `horizon`: the time, member and wall.

    (`horizon`, -1, -1) where there is none. The wall that was hit last is at distance zero up to rounding: where it
    is flat it is not hit again, and a ball is hit at the other end of the chord.
    """
    best, best_member, best_wall = horizon, -1, -1
    for member in range(table.shape[0]):
        kind, columns, m, walls, at, start = _header(table, member)
        left_behind = last_wall if member == last_member else -1
        if kind == EDGES:
            a, b = indices[columns], indices[columns + 1]
            time, wall = first_edge(
                point[a], point[b], velocity[a], velocity[b], best, left_behind, indices, at, numbers, start
            )
        elif kind == BOUNDS:
            time, wall = _first_bound(point, velocity, best, left_behind, columns, m, start, indices, numbers)
        elif kind == HALF_SPACES:
            time, wall = _first_facet(point, velocity, best, left_behind, columns, m, walls, start, indices, numbers)
        else:
            time, wall = _end_of_chord(point, velocity, best, left_behind, kind, columns, m, start, indices, numbers)
        if wall >= 0:
            best, best_member, best_wall = time, member, wall
    return best, best_member, best_wall


@njit(**CALLED)
def _first_bound(
    point: Array,
    velocity: Array,
    horizon: float,
    left_behind: int,
    columns: int,
    m: int,
    start: int,
    indices: IntArray,
    numbers: Array,
) -> tuple[float, int]:
    """As `first_hit` for bounds; wall 2j is the lower end of column j and 2j + 1 the upper one."""
    best, best_wall = horizon, -1
    for j in range(m):
        v = velocity[indices[columns + j]]
        if v == 0.0:
            continue
        wall = 2 * j + (1 if v > 0.0 else 0)
        if wall != left_behind:
            bound = numbers[start + (m if v > 0.0 else 0) + j]
            time = max((bound - point[indices[columns + j]]) / v, 0.0)
            if time < best:
                best, best_wall = time, wall
    return best, best_wall


@njit(**CALLED)
def _first_facet(
    point: Array,
    velocity: Array,
    horizon: float,
    left_behind: int,
    columns: int,
    m: int,
    walls: int,
    start: int,
    indices: IntArray,
    numbers: Array,
) -> tuple[float, int]:
    """As `first_hit` for half-spaces."""
    best, best_wall = horizon, -1
    for wall in range(walls):
        if wall == left_behind:
            continue
        gap, rate = numbers[start + m + wall], 0.0
        normal = start + m + walls + wall * m
        for j in range(m):
            gap -= numbers[normal + j] * point[indices[columns + j]]
            rate += numbers[normal + j] * velocity[indices[columns + j]]
        if rate > 0.0:
            time = max(gap, 0.0) / rate
            if time < best:
                best, best_wall = time, wall
    return best, best_wall


@njit(**CALLED)
def _end_of_chord(
    point: Array,
    velocity: Array,
    horizon: float,
    left_behind: int,
    kind: int,
    columns: int,
    m: int,
    start: int,
    indices: IntArray,
    numbers: Array,
) -> tuple[float, int]:
    """As `first_hit` for a ball or ellipsoid: the larger root of a t^2 + 2 b t + c = 0."""
    a = _product(velocity, velocity, 0.0, 0.0, kind, columns, m, start, indices, numbers)
    b = _product(point, velocity, 1.0, 0.0, kind, columns, m, start, indices, numbers)
    if not a > 0.0:
        return horizon, -1
    if left_behind >= 0:
        time = -2.0 * b / a  # c = 0
    else:
        c = _product(point, point, 1.0, 1.0, kind, columns, m, start, indices, numbers) - 1.0
        discriminant = b * b - a * c
        if discriminant < 0.0:
            return horizon, -1
        root = math.sqrt(discriminant)
        time = -c / (b + root) if b > 0.0 else (root - b) / a
    time = max(time, 0.0)
    return (time, 0) if time < horizon else (horizon, -1)


@njit(**CALLED)
def set_normal(
    point: Array, member: int, wall: int, table: IntArray, indices: IntArray, numbers: Array, normal: Array
) -> None:
    """Fill `normal` (d,) with the outward normal, of any length, of a wall where it was hit."""
    kind, columns, m, walls, _, start = _header(table, member)
    normal[:] = 0.0
    if kind == EDGES:
        first = start + NUMBERS_HEAD + 4 * wall
        normal[indices[columns]] = numbers[first + 3] - numbers[first + 1]
        normal[indices[columns + 1]] = numbers[first] - numbers[first + 2]
    elif kind == BOUNDS:
        normal[indices[columns + wall // 2]] = 1.0 if wall % 2 else -1.0
    elif kind == HALF_SPACES:
        for j in range(m):
            normal[indices[columns + j]] = numbers[start + m + walls + wall * m + j]
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
def pulled_inside(point: Array, table: IntArray, indices: IntArray, numbers: Array) -> bool:
    """Undo rounding: pull `point` inwards by at most about 1e-10 of the region's size; whether it is inside."""
    pull = 1e-16
    while not inside(point, table, indices, numbers):
        if not pull <= 1e-10:
            return False
        for member in range(table.shape[0]):
            if not _inside_member(point, member, table, indices, numbers):
                _pull(point, pull, member, table, indices, numbers)
        pull *= 4.0
    return True


@njit(**CALLED)
def _pull(point: Array, pull: float, member: int, table: IntArray, indices: IntArray, numbers: Array) -> None:
    kind, columns, m, _, at, start = _header(table, member)
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
            # towards a point well inside: this scales the gaps of all walls alike, whatever the units
            point[column] += pull * (numbers[start + j] - point[column])
