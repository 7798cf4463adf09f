r"""Nested dissection: an order of elimination for large meshes, and the dense blocks that it leaves.

Nodes are halved by their coordinates again and again. The nodes of one half that touch the other one separate the two,
and are eliminated after both. Each separator, and each part that is not divided any more, is one front: its nodes have
their rows in common, so that all arithmetic is that of dense blocks.

References
----------
A. George (1973), "Nested dissection of a regular finite element mesh", SIAM J. Numer. Anal. 10(2). I. S. Duff and
J. K. Reid (1983), "The multifrontal solution of indefinite sparse symmetric linear equations", ACM Transactions on
Mathematical Software 9(3), for fronts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.foreign import Sparse

#: Parts of at most so many nodes are not divided: smaller blocks cost more in calls than they save.
LEAF = 48


@dataclass(frozen=True, eq=False)
class Fronts:
    """Dense blocks in the order in which they are eliminated: children before their parent.

    Attributes
    ----------
    order : array of int, shape (n,)
        Nodes in the order of elimination.
    starts : array of int, shape (fronts + 1,)
        Where the nodes of each front begin in this order.
    rows, row_starts : array of int, array of int (fronts + 1,)
        Places in the order of the later nodes that each front reaches, increasing, one front after the other.
    parents : array of int, shape (fronts,)
        -1: none.
    """

    order: Numbers
    starts: Numbers
    rows: Numbers
    row_starts: Numbers
    parents: Numbers


def fronts(graph: Sparse, points: Array) -> Fronts:
    """Fronts of a symmetric pattern (n, n), a CSR matrix, whose nodes lie at points (n, d)."""
    home = _homes(graph, points)
    names, of_node = np.unique(home, return_inverse=True)
    names, of_node = _with_ancestors(names, of_node)
    rank = _postorder(names)
    front = rank[of_node]
    order = np.argsort(front, kind="stable")
    starts = np.searchsorted(front[order], np.arange(len(names) + 1))
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    by_rank = names[np.argsort(rank)]
    lookup = {int(name): k for k, name in enumerate(by_rank)}
    parents = np.array([lookup.get(int(name) // 2, -1) for name in by_rank])
    rows, row_starts = _reached(graph, order, place, starts, parents)
    return Fronts(order, starts, rows, row_starts, parents)


def _homes(graph: Sparse, points: Array) -> Numbers:
    """The part of each node: separators and undivided parts, numbered as nodes of a binary tree are; 1 is the root."""
    first = np.repeat(np.arange(len(points)), np.diff(graph.indptr))
    second = graph.indices
    home = np.ones(len(points), dtype=np.intp)
    active = np.ones(len(points), dtype=bool)
    while True:
        nodes = np.flatnonzero(active)
        order = nodes[np.argsort(home[nodes], kind="stable")]
        if not len(order):
            return home
        cuts = np.flatnonzero(np.diff(home[order], prepend=-1))
        counts = np.diff(cuts, append=len(order))
        group = np.repeat(np.arange(len(cuts)), counts)
        located = points[order]
        extent = np.maximum.reduceat(located, cuts) - np.minimum.reduceat(located, cuts)
        along = located[np.arange(len(order)), extent.argmax(axis=1)[group]]
        sorted_along = along[np.lexsort((along, group))]
        above = along >= sorted_along[cuts + counts // 2][group]
        # where all lie at one place they are not divided
        whole = (counts <= LEAF) | (np.add.reduceat(~above, cuts) == 0)
        active[order[whole[group]]] = False
        side = np.full(len(points), -1, dtype=np.int8)
        divided = order[~whole[group]]
        side[divided] = above[~whole[group]]
        touching = (side[first] == 1) & (side[second] == 0) & (home[first] == home[second])
        separator = np.zeros(len(points), dtype=bool)
        separator[first[touching]] = True
        active &= ~separator
        going_on = divided[~separator[divided]]
        home[going_on] = 2 * home[going_on] + side[going_on]


def _with_ancestors(names: Numbers, of_node: Numbers) -> tuple[Numbers, Numbers]:
    """The same with all ancestors of a part, also of those that have no nodes."""
    every = set(names.tolist())
    for name in names.tolist():
        while name > 1 and name // 2 not in every:
            name //= 2
            every.add(name)
    full = np.array(sorted(every))
    return full, np.searchsorted(full, names)[of_node]


def _postorder(names: Numbers) -> Numbers:
    """The rank of each part: children before parents."""
    depth = int(names.max()).bit_length()
    # a part comes after everything below it: as if it were the last of its descendants on the deepest level
    levels = np.array([int(name).bit_length() for name in names])
    last = (names + 1 << (depth - levels)) - 1
    found = np.empty(len(names), dtype=np.intp)
    found[np.lexsort((-levels, last))] = np.arange(len(names))
    return found


def _reached(
    graph: Sparse, order: Numbers, place: Numbers, starts: Numbers, parents: Numbers
) -> tuple[Numbers, Numbers]:
    """The later nodes that each front reaches by the matrix or by its children."""
    moved = graph[order]
    columns, indptr = place[moved.indices], moved.indptr
    inherited: list[list[Numbers]] = [[] for _ in parents]
    found = []
    for k, parent in enumerate(parents):
        own = columns[indptr[starts[k]] : indptr[starts[k + 1]]]
        rows = np.unique(np.concatenate([own, *inherited[k]]))
        rows = rows[rows >= starts[k + 1]]
        inherited[k] = []
        found.append(rows)
        if parent >= 0 and len(rows):
            inherited[parent].append(rows)
    counts = np.array([len(rows) for rows in found])
    return np.concatenate(found).astype(np.intp), np.concatenate([[0], np.cumsum(counts)])
