"""Which process holds which rungs, and who helps whom: rungs in a row, and as even a load as that allows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple


class Group(NamedTuple):
    """Some processes, the first of which holds some rungs in a row; the others help it to evaluate."""

    rungs: range
    ranks: range


def arrange(seconds: Sequence[Sequence[float]], ranks: int) -> tuple[Group, ...]:
    """Groups for a ladder, in the order of their rungs; the first one begins with rank 0.

    The slowest group is as fast as it can be. Among equally fast layouts, the one with the most groups is taken, and of
    those the one with the fewest processes.

    Parameters
    ----------
    seconds : sequence of sequences of float > 0
        Of each rung, from cold to hot: what a step takes one process, two, and so on, up to as many as can share in it.
    ranks : int, >= 1
        Number of processes.

    Returns
    -------
    tuple of Group
        They hold all rungs, and at the most ``ranks`` processes.

    Raises
    ------
    ValueError
        If there is no rung or no process, or a time is not positive.
    """
    if not seconds or not all(seconds) or ranks < 1:
        raise ValueError(f"a layout needs rungs, each with its seconds, and at least one rank, got {seconds}, {ranks}")
    if not all(time > 0.0 for times in seconds for time in times):
        raise ValueError(f"seconds must be positive, got {seconds}")
    # best[k][n]: for the first k rungs on n ranks; none yet is worse than any
    best: list[list[_Choice]] = [[_Choice(0.0, 0, 0, ())] * (ranks + 1)]
    for end in range(1, len(seconds) + 1):
        best.append([_Choice(math.inf, 0, 0, ())] * (ranks + 1))
        for n, begin in itertools.product(range(1, ranks + 1), range(end)):
            for share in range(1, min(n, *map(len, seconds[begin:end])) + 1):
                before = best[begin][n - share]
                time = max(before.time, sum(times[share - 1] for times in seconds[begin:end]))
                first = before.groups[-1].ranks.stop if before.groups else 0
                groups = (*before.groups, Group(range(begin, end), range(first, first + share)))
                choice = _Choice(time, -len(groups), before.used + share, groups)
                best[end][n] = min(best[end][n], choice, key=lambda some: some[:3])
    return best[-1][ranks].groups


class _Choice(NamedTuple):
    """Compared by the first three, in this order; the smallest is the best."""

    time: float  # of the slowest group
    fewer: int  # minus the number of groups
    used: int  # processes
    groups: tuple[Group, ...]
