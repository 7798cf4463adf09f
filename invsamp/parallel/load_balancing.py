"""The assignment of requests to processes, by their earlier costs."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from invsamp.evaluate.requests import Request, kind_of, rows_of
from invsamp.parallel.tasks import Task

#: Approximate seconds of a message there and back, which distribution has to save.
MESSAGES = 5e-4

#: Tasks of processes by rank.
Plan = Mapping[int, list[Task]]


class Planner:
    """Costs of requests, as far as they are known, and their assignment to processes.

    Joint solves go to groups of processes, each of which has to take part. Other requests are split by rows where rows
    have bits of their own. The most expensive are assigned first, each to the process with the least load, by the
    seconds that rows of that kind took before. What is too cheap to be sent is the first process's.

    Parameters
    ----------
    group : int
        Processes of a group that solves jointly; they are next to each other by rank.
    joint : set of str
        Fidelities that are solved so.

    Attributes
    ----------
    splits : dict
        By kind of request (`kind_of`): whether rows have bits of their own.
    """

    def __init__(self, group: int, joint: frozenset[str]) -> None:
        self.group, self.joint = group, joint
        self._seconds: dict[tuple[object, ...], float] = {}  # by kind: of a row
        self._tried: dict[tuple[object, ...], int] = {}  # by kind: of how many rows it is known whether they split
        self.splits: dict[tuple[object, ...], bool] = {}

    def learn(self, request: Request, seconds: float) -> None:
        """Update the seconds of such rows: down at once; up slowly, as compilation or delays may inflate a time."""
        if rows := len(request.position):
            kind, new = kind_of(request), seconds / rows
            old = self._seconds.get(kind, new)
            self._seconds[kind] = min(new, old + 0.2 * (new - old))

    def seconds(self, requests: Iterable[Request]) -> float:
        """Expected seconds of requests; 0 for kinds without a measured time."""
        return sum(self._seconds.get(kind_of(request), 0.0) * len(request.position) for request in requests)

    def pays(self, requests: Sequence[Request]) -> bool:
        """Whether messages cost less than they save. The first process measures a kind that was not met before."""
        if self.joint and any(request.fidelity in self.joint for request in requests):
            return True
        return self.seconds(requests) > 2.0 * MESSAGES

    def untried(self, request: Request) -> bool:
        """Whether it has to be tried out if rows of so many have bits of their own."""
        kind = kind_of(request)
        more = len(request.position) > self._tried.get(kind, 1) and self.splits.get(kind, True)
        return more and kind in self._seconds and request.fidelity not in self.joint

    def tried(self, request: Request, rows: int, splits: bool) -> None:
        """Record the result of a trial with so many rows."""
        self._tried[kind_of(request)], self.splits[kind_of(request)] = rows, splits

    def way(self, fidelity: str) -> str:
        """How it is solved, in words."""
        if fidelity in self.joint:
            return "jointly"
        return "by rows" if any(self.splits[kind] for kind in self.splits if kind[0] == fidelity) else "whole"

    def plan(self, tasks: Sequence[Task], load: Sequence[float]) -> Plan:
        """The assignment; joint requests come first, in one order, so that no group waits for another.

        ``load``: seconds for which each process has something to do already.
        """
        plan: dict[int, list[Task]] = defaultdict(list)
        load = list(load)
        seconds = [self._seconds.get(kind_of(task.what), math.inf) for task in tasks]
        costs = [s * task.rows if s < math.inf else s for s, task in zip(seconds, tasks, strict=True)]
        for k in sorted(range(len(tasks)), key=lambda k: (tasks[k].what.fidelity not in self.joint, -costs[k])):
            task = tasks[k]
            if task.what.fidelity in self.joint:
                first = min(range(0, len(load), self.group), key=load.__getitem__)
                for rank in range(first, first + self.group):
                    plan[rank].append(task)
                    load[rank] += costs[k] if costs[k] < math.inf else 1.0
            elif costs[k] == math.inf or not task.rows:
                plan[0].append(task)
            elif self.splits.get(kind_of(task.what)):
                for rank, part in _spread(load, task.rows, seconds[k]).items():
                    plan[rank].append(Task(task.request, task.begin + part.start, rows_of(task.what, part)))
            else:
                rank = min(range(len(load)), key=load.__getitem__)
                plan[rank].append(task)
                load[rank] += costs[k]
        return plan


def _spread(load: list[float], rows: int, seconds: float) -> dict[int, slice]:
    """Rows one by one to the process with the least work, each process's in one piece; ``load`` grows by their cost."""
    queue = [(busy, rank) for rank, busy in enumerate(load)]
    heapq.heapify(queue)
    share = [0] * len(load)
    for _ in range(rows):
        busy, rank = queue[0]
        share[rank] += 1
        heapq.heapreplace(queue, (busy + seconds, rank))
    begin, parts = 0, {}
    for rank, count in enumerate(share):
        if count:
            parts[rank] = slice(begin, begin + count)
            load[rank] += seconds * count
            begin += count
    return parts
