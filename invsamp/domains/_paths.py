"""Compiled kernels of the specular path between the faces of `invsamp.domains._members`, row by row."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.domains._edge_grid import CALLED, KERNEL
from invsamp.domains._members import Region, first_hit, inside, pulled_inside, set_normal
from invsamp.domains.contract import Array

IntArray = npt.NDArray[np.int64]


@njit(**KERNEL)
def contained(position: Array, region: Region, result: npt.NDArray[np.bool_]) -> None:
    """Fill `result` (n,) with whether each position (n, d) is inside; False for NaN."""
    for row in range(position.shape[0]):
        result[row] = inside(position[row], region)


@njit(**KERNEL)
def follow(
    position: Array,
    move: Array,
    region: Region,
    metric: Array,
    scratch: Array,
    convex: bool,
    max_bounces: int,
    bounces: IntArray,
    failed: npt.NDArray[np.bool_],
) -> None:
    """Follow each move through the region; `position` and `move` (n, d) are overwritten by where it ends.

    `metric` is the preconditioner (d, d), its diagonal (1, d), or empty (0, 0) for the identity; `scratch` (4, d) is
    work space. Rows that fail keep their position and move.
    """
    n, dimension = position.shape
    point, velocity, normal, turn = scratch[0], scratch[1], scratch[2], scratch[3]
    for row in range(n):
        size = 0.0
        for j in range(dimension):
            velocity[j] = move[row, j]
            point[j] = position[row, j] + velocity[j]
            size += abs(velocity[j])
        count = 0
        # in a convex region a move that ends inside has not left it
        ok = convex and inside(point, region)
        if not ok:
            for j in range(dimension):
                point[j] = position[row, j]
            # a start outside has no path to speak of
            ok = math.isfinite(size) and inside(point, region)
            if ok:
                count = _travel(point, velocity, region, metric, max_bounces, normal, turn)
                ok = count <= max_bounces and pulled_inside(point, region)
        failed[row] = not ok
        bounces[row] = count if ok else 0
        if ok:
            for j in range(dimension):
                position[row, j] = point[j]
                move[row, j] = velocity[j]


@njit(**CALLED)
def _travel(
    point: Array,
    velocity: Array,
    region: Region,
    metric: Array,
    max_bounces: int,
    normal: Array,
    turn: Array,
) -> int:
    """Move `point` for one unit of time, turning `velocity` at each face; the number of bounces.

    Returns `max_bounces + 1` where there are more.
    """
    remaining = 1.0
    member, face = -1, -1
    for count in range(max_bounces + 1):
        # int(...): to the compiler the first -1 is a type of its own
        last_member, last_face = int(member), int(face)
        time, member, face = first_hit(point, velocity, remaining, last_member, last_face, region)
        for j in range(point.size):
            point[j] += time * velocity[j]
        if member < 0:
            return count
        set_normal(point, member, face, region, normal)
        if not turned(velocity, normal, metric, turn):
            return max_bounces + 1
        remaining -= time
    return max_bounces + 1


@njit(**CALLED)
def turned(velocity: Array, normal: Array, metric: Array, turn: Array) -> bool:
    """Turn `velocity` at a face with outward `normal`, in place; whether that is possible. `turn` is work space."""
    dimension = velocity.size
    rate, stiffness = 0.0, 0.0
    for i in range(dimension):
        if metric.shape[0] == 0:
            turn[i] = normal[i]
        elif metric.shape[0] == 1:
            turn[i] = metric[0, i] * normal[i]
        else:
            turn[i] = 0.0
            for j in range(dimension):
                turn[i] += metric[i, j] * normal[j]
        rate += normal[i] * velocity[i]
        stiffness += normal[i] * turn[i]
    if not (stiffness > 0.0 and math.isfinite(rate)):
        return False
    for i in range(dimension):
        velocity[i] -= 2.0 * rate / stiffness * turn[i]
    return True


@njit(**KERNEL)
def first_hits(
    position: Array,
    move: Array,
    region: Region,
    times: Array,
    members: IntArray,
    faces: IntArray,
) -> None:
    """`first_hit` of each row. `times` (n,) holds the horizons, `members` and `faces` the last hits; overwritten."""
    for row in range(position.shape[0]):
        times[row], members[row], faces[row] = first_hit(
            position[row], move[row], times[row], members[row], faces[row], region
        )


@njit(**KERNEL)
def set_normals(
    position: Array,
    members: IntArray,
    faces: IntArray,
    region: Region,
    normals: Array,
) -> None:
    """`set_normal` of each row that hit a member."""
    for row in range(position.shape[0]):
        if members[row] >= 0:
            set_normal(position[row], members[row], faces[row], region, normals[row])


@njit(**KERNEL)
def turn_all(move: Array, normals: Array, metric: Array, scratch: Array, ok: npt.NDArray[np.bool_]) -> None:
    """`turned` for each row; `ok` (n,) says where that was possible."""
    for row in range(move.shape[0]):
        ok[row] = turned(move[row], normals[row], metric, scratch)


@njit(**KERNEL)
def pull_all(position: Array, region: Region) -> None:
    """`pulled_inside` for each row."""
    for row in range(position.shape[0]):
        pulled_inside(position[row], region)
