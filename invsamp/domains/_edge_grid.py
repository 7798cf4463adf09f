"""Closed curves of straight edges in the plane, in a uniform grid: which side a point is on, which edge a move hits.

A cell knows the edges that run through it, or else whether it lies inside; a row of cells knows the edges
between whose heights it lies. The domain lies to the left of every edge. All functions are scalar, and work on two flat
arrays that hold everything (see `edge_grid`).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.domains.contract import Array
from invsamp.protocols import Plain

IntArray = npt.NDArray[np.int64]
#: `indices` and where the grid starts in them, `numbers` and where it starts there.
Grid = tuple[IntArray, int, Array, int]

# A bounce takes tens of nanoseconds: counting references to arrays at every call would take several times that, so
# that is off in functions that allocate nothing; the innermost ones are inlined. (The compiler's cache knows a function
# by its own file: after a change in one of these files, touch those that call it.)
KERNEL: Plain = {"cache": True, "error_model": "numpy", "_nrt": False}
#: What is called by compiled functions alone: what would let Python call it takes the compiler time, too.
CALLED = KERNEL | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
INNER = CALLED | {"forceinline": True}

OUTSIDE, INSIDE, MIXED = 0, 1, 2
#: Fraction of a cell by which edges are thickened, so that rounding cannot miss the cell of an edge.
PADDING = 1e-6
#: Distance to an edge, relative to the size of the coordinates, that may be rounding.
ROUNDING = 1e-12
#: What precedes the edges in `numbers`, and the lists in `indices`.
NUMBERS_HEAD, INDICES_HEAD = 7, 7


def edge_grid(rings: list[Array]) -> tuple[IntArray, Array]:
    """Grid of closed rings (k, 2), as the two arrays that the functions of this module take.

    ``numbers``: origin (2), cells per unit of length (2), size of a cell (2), size of the coordinates, and the
    edges (n, 4) from start to end. ``indices``: cells in x and y, where the lists start (5 numbers), state of every
    cell, first edge of every cell and of every row in their lists, and the two lists.
    """
    edges = np.concatenate([np.column_stack([ring, np.roll(ring, -1, axis=0)]) for ring in rings])
    lower = edges[:, :2].min(axis=0)
    extent = edges[:, :2].max(axis=0) - lower
    cells = np.clip(16 * len(edges), 64, 2**16)
    size = math.sqrt(float(extent.prod()) / cells)
    shape = np.clip(np.ceil(extent / size), 1, 1024).astype(np.int64)
    cell = extent * (1.0 + 4.0 * PADDING) / shape
    lower = lower - 2.0 * PADDING * extent
    size_of_all = float(np.abs(edges).max())
    numbers = np.concatenate([lower, 1.0 / cell, cell, [size_of_all], edges.ravel()])
    in_cell, in_row = _places(np.ascontiguousarray(edges), lower, cell, int(shape[0]), int(shape[1]))
    starts, members = _lists(in_cell, int(shape.prod()))
    row_starts, row_members = _lists(in_row, int(shape[1]))
    state = np.where(np.diff(starts) > 0, MIXED, OUTSIDE)
    lists = [state, starts, row_starts, members, row_members]
    ends = INDICES_HEAD + np.cumsum([0] + [len(part) for part in lists])
    indices = np.concatenate([shape, ends[:-1], *lists]).astype(np.int64)
    _fill_state(indices, 0, numbers, 0)
    return indices, numbers


def _lists(pairs: list[tuple[int, int]], count: int) -> tuple[IntArray, IntArray]:
    """Where the list of each of `count` places starts, and the edges, from pairs of place and edge."""
    places = np.array(pairs)
    order = np.argsort(places[:, 0], kind="stable")
    starts = np.searchsorted(places[order, 0], np.arange(count + 1))
    return starts.astype(np.int64), places[order, 1]


@njit(cache=True)
def _places(
    edges: Array, lower: Array, cell: Array, columns: int, rows: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pairs of cell and edge, and of row and edge, for all that touch."""
    pad_x, pad_y = PADDING * cell[0], PADDING * cell[1]
    by_cell, by_row = [(0, 0) for _ in range(0)], [(0, 0) for _ in range(0)]
    for edge in range(edges.shape[0]):
        x1, y1, x2, y2 = edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3]
        left = max(int((min(x1, x2) - pad_x - lower[0]) / cell[0]), 0)
        right = min(int((max(x1, x2) + pad_x - lower[0]) / cell[0]), columns - 1)
        bottom = max(int((min(y1, y2) - pad_y - lower[1]) / cell[1]), 0)
        top = min(int((max(y1, y2) + pad_y - lower[1]) / cell[1]), rows - 1)
        # half the extent of a padded cell along the edge's normal
        reach = (0.5 * cell[0] + pad_x) * abs(y2 - y1) + (0.5 * cell[1] + pad_y) * abs(x2 - x1)
        for j in range(bottom, top + 1):
            by_row.append((j, edge))
            for i in range(left, right + 1):
                x, y = lower[0] + (i + 0.5) * cell[0], lower[1] + (j + 0.5) * cell[1]
                if abs((x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)) <= reach:
                    by_cell.append((j * columns + i, edge))
    return by_cell, by_row


@njit(cache=True)
def _fill_state(indices: IntArray, at: int, numbers: Array, start: int) -> None:
    """Mark the cells without edges that lie inside; the grid starts at `indices[at]` and `numbers[start]`."""
    for j in range(indices[at + 1]):
        for i in range(indices[at]):
            cell = at + indices[at + 2] + j * indices[at] + i
            if indices[cell] != MIXED:
                x = numbers[start] + (i + 0.5) * numbers[start + 4]
                y = numbers[start + 1] + (j + 0.5) * numbers[start + 5]
                indices[cell] = INSIDE if _odd(x, y, j, indices, at, numbers, start) else OUTSIDE


@njit(**INNER)
def inside_edges(x: float, y: float, indices: IntArray, at: int, numbers: Array, start: int) -> bool:
    """Whether a point lies inside or exactly on an edge; the grid starts at `indices[at]` and `numbers[start]`."""
    across = (x - numbers[start]) * numbers[start + 2]
    up = (y - numbers[start + 1]) * numbers[start + 3]
    # so that NaN is outside
    if not (across >= 0.0 and up >= 0.0 and across < indices[at] and up < indices[at + 1]):
        return False
    row = int(up)
    state = indices[at + indices[at + 2] + row * indices[at] + int(across)]
    return state == INSIDE if state != MIXED else _odd(x, y, row, indices, at, numbers, start)


@njit(**INNER)
def _odd(x: float, y: float, row: int, indices: IntArray, at: int, numbers: Array, start: int) -> bool:
    """Whether an odd number of edges lies to the right of a point in a row of cells; True on an edge."""
    odd = False
    first = at + indices[at + 4] + row
    edges = at + indices[at + 6]
    for k in range(edges + indices[first], edges + indices[first + 1]):
        edge = start + NUMBERS_HEAD + 4 * indices[k]
        x1, y1, x2, y2 = numbers[edge], numbers[edge + 1], numbers[edge + 2], numbers[edge + 3]
        if (y1 > y) != (y2 > y):
            # from the lower to the upper end: two edges that share a vertex round alike there
            if y1 > y2:
                x1, y1, x2, y2 = x2, y2, x1, y1
            side = (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)
            if side == 0.0:
                return True
            if side > 0.0:
                odd = not odd
        elif (y == y1 and x == x1) or (y == y1 and y == y2 and (x1 <= x) == (x <= x2)):
            return True
    return odd


@njit(**INNER)
def first_edge(
    x: float, y: float, vx: float, vy: float, horizon: float, last_edge: int, grid: Grid
) -> tuple[float, int]:
    """First edge that a move crosses outwards before time `horizon`, and when; (`horizon`, -1) where there is none.

    The edge `last_edge` is passed over.
    """
    indices, at, numbers, start = grid
    columns, rows = indices[at], indices[at + 1]
    i = min(max(int((x - numbers[start]) * numbers[start + 2]), 0), columns - 1)
    j = min(max(int((y - numbers[start + 1]) * numbers[start + 3]), 0), rows - 1)
    dx, dy = numbers[start + 4], numbers[start + 5]
    # times at which the move leaves the cell sideways and upwards, and what a cell takes
    leave_x, leave_y, each_x, each_y = math.inf, math.inf, math.inf, math.inf
    if vx != 0.0:
        leave_x = (numbers[start] + (i + (1 if vx > 0.0 else 0)) * dx - x) / vx
        each_x = dx / abs(vx)
    if vy != 0.0:
        leave_y = (numbers[start + 1] + (j + (1 if vy > 0.0 else 0)) * dy - y) / vy
        each_y = dy / abs(vy)
    cells, edges = at + indices[at + 3], at + indices[at + 5]
    slack = ROUNDING * numbers[start + 6]
    sideways = slack * (abs(vx) + abs(vy))
    best, best_edge = horizon, -1
    while True:
        cell = cells + j * columns + i
        for k in range(edges + indices[cell], edges + indices[cell + 1]):
            edge = indices[k]
            if edge == last_edge or edge == best_edge:  # noqa: SIM109
                continue
            first = start + NUMBERS_HEAD + 4 * edge
            x1, y1, x2, y2 = numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3]
            # the line passes the start of an edge on its left and the end on its right. Edges are a little longer than
            # they are, so that nothing slips out between two of them in a corner
            if vx * (y1 - y) - vy * (x1 - x) < sideways and vx * (y2 - y) - vy * (x2 - x) >= -sideways:
                gap = (x1 - x) * (y2 - y1) - (y1 - y) * (x2 - x1)
                rate = vx * (y2 - y1) - vy * (x2 - x1)
                # slightly behind is rounding of the last bounce in a corner; far behind is another part of the curve
                if rate > 0.0 and gap > -slack * (abs(x2 - x1) + abs(y2 - y1)):
                    time = max(gap, 0.0) / rate
                    if time < best:
                        best, best_edge = time, edge
        if best <= min(leave_x, leave_y):
            return best, best_edge
        if leave_x < leave_y:
            i += 1 if vx > 0.0 else -1
            leave_x += each_x
        else:
            j += 1 if vy > 0.0 else -1
            leave_y += each_y
        if i < 0 or j < 0 or i >= columns or j >= rows:
            return best, best_edge


@njit(**CALLED)
def nearest_edge(x: float, y: float, indices: IntArray, at: int, numbers: Array, start: int) -> int:
    """The edge in the cell of a point that is nearest to it; -1 where the cell has none."""
    i = min(max(int((x - numbers[start]) * numbers[start + 2]), 0), indices[at] - 1)
    j = min(max(int((y - numbers[start + 1]) * numbers[start + 3]), 0), indices[at + 1] - 1)
    cell, edges = at + indices[at + 3] + j * indices[at] + i, at + indices[at + 5]
    nearest, least = -1, math.inf
    for k in range(edges + indices[cell], edges + indices[cell + 1]):
        first = start + NUMBERS_HEAD + 4 * indices[k]
        ex, ey = numbers[first + 2] - numbers[first], numbers[first + 3] - numbers[first + 1]
        along = ((x - numbers[first]) * ex + (y - numbers[first + 1]) * ey) / (ex * ex + ey * ey)
        along = min(max(along, 0.0), 1.0)
        distance = math.hypot(numbers[first] + along * ex - x, numbers[first + 1] + along * ey - y)
        if distance < least:
            nearest, least = indices[k], distance
    return nearest
