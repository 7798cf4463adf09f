"""Handing out: what a run asks for goes to all of its processes in parts, by what it cost before."""

from __future__ import annotations

import heapq
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from invsamp.contract import Array, Plain
from invsamp.corrections.learning import Correction
from invsamp.engine.engine import Engine
from invsamp.engine.starts import failure_message
from invsamp.evaluate.requests import Estimate, Request, check_shapes, joined, kind_of, rows_of
from invsamp.evaluate.solving import separable
from invsamp.parallel.groups import starts
from invsamp.parallel.messages import Communicator, Patience, portable

#: Seconds that a message there and back takes, about: what handing out has to save.
MESSAGES = 5e-4
#: Seconds between two looks for signals that others got.
BETWEEN_LOOKS = 0.05
#: Tags of messages: work and its answers, and signals.
WORK, ANSWER, SIGNAL = 30_000, 30_001, 30_002


class Task(NamedTuple):
    """Some rows of a request, for one process or, of a joint solve, for a group of them."""

    request: int  # its number
    rows: range
    what: Request


class Done(NamedTuple):
    """What came of a task."""

    request: int
    rows: range
    estimate: Estimate
    failed: int
    seconds: float
    message: str | None  # by a solve that failed


class Reply(NamedTuple):
    """What a process sends back: what it did, in which time, the error that ends the run, a signal that it got."""

    done: list[Done]
    seconds: float
    error: BaseException | None = None
    signal: int | None = None


#: Tasks of processes by rank.
Plan = Mapping[int, list[Task]]


class Leader:
    """What hands out requests to all processes, itself included, and puts together what comes back.

    Joint solves go to groups of processes, each of which has to take part. Other requests are split by rows where rows
    have bits of their own; the dearest are handed out first, each to who has least to do, by the seconds that rows of
    that kind took before. What is too cheap to be sent is solved here.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    engine : Engine
        Its potentials solve here, and count what was solved anywhere.
    group : int
        Processes of a group that solves jointly; they are next to each other by rank.
    joint : set of str
        Fidelities that are solved so.
    """

    def __init__(self, comm: Communicator, engine: Engine, group: int, joint: frozenset[str]) -> None:
        self._comm, self._engine, self._group, self._joint = comm, engine, group, joint
        self._seconds: dict[tuple[object, ...], float] = {}  # by kind of request: of a row
        self._splits: dict[tuple[object, ...], bool] = {}  # by kind: whether rows have bits of their own
        self._tried: dict[tuple[object, ...], int] = {}  # by kind: of how many rows that is known
        self._patience = Patience()
        self._began = self._looked = time.perf_counter()
        self._busy = [0.0] * comm.size
        self._signal: int | None = None
        #: Whether it is in the middle of an answer.
        self.answering = False

    def answer(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """What is asked for, in the order of the requests."""
        if not self._worth(requests):
            return tuple([self._here(request) for request in requests])
        for request in requests:
            if self._untried(request):
                self._try_out(request)
        return self._carried_out(requests, self._handed_out(requests))

    def signalled(self) -> int | None:
        """A signal that another process got, if one did; after the last step each of them is asked."""
        now = time.perf_counter()
        if self._signal is None and now - self._looked > BETWEEN_LOOKS:
            self._looked = now
            if (found := self._comm.improbe(tag=SIGNAL)) is not None:
                self._signal = found.recv()
        if self._signal is None and self._engine.done == self._engine.steps:
            replies = self._exchanged({rank: [] for rank in range(1, self._comm.size)})
            self._signal = next((reply.signal for reply in replies.values() if reply.signal), None)
        return self._signal

    def report(self) -> Plain:
        """How many processes there are, which fidelities are split or solved jointly, and who has waited how long."""
        whole = max(time.perf_counter() - self._began, 1e-9)
        waiting = [self._patience.seconds, *(whole - busy for busy in self._busy[1:])]
        return {
            "count": self._comm.size,
            "solved": {name: self._way(name) for name in self._engine.potentials},
            "groups": self._comm.size // self._group if self._joint else None,
            "waiting": [max(seconds / whole, 0.0) for seconds in waiting],
        }

    def tell(self, correction: Correction) -> None:
        """Let the others correct a fidelity, too."""
        self._send(dict.fromkeys(range(1, self._comm.size), correction))

    def dismiss(self) -> None:
        """Nothing more is asked of the others."""
        self._send(dict.fromkeys(range(1, self._comm.size)))

    def _way(self, fidelity: str) -> str:
        if fidelity in self._joint:
            return "jointly"
        return "by rows" if any(self._splits[kind] for kind in self._splits if kind[0] == fidelity) else "whole"

    def _worth(self, requests: Sequence[Request]) -> bool:
        """Whether messages cost less than they save. A kind that was not met before is measured here."""
        if self._joint and any(request.fidelity in self._joint for request in requests):
            return True
        known = sum(self._seconds.get(kind_of(request), 0.0) * len(request.position) for request in requests)
        return known > 2.0 * MESSAGES

    def _here(self, request: Request) -> Estimate:
        """What this process gives by itself, without a detour: it may be cheap."""
        potential = self._engine.potentials[request.fidelity]
        before = potential.seconds
        found = potential.answer(request)
        self._learn(request, potential.seconds - before)
        return found

    def _handed_out(self, requests: Sequence[Request]) -> Plan:
        """Tasks by process; joint ones come first, in one order, so that no group waits for another."""
        plan: dict[int, list[Task]] = defaultdict(list)
        load = [0.0] * self._comm.size
        seconds = [self._seconds.get(kind_of(request), math.inf) for request in requests]
        costs = [s * len(request.position) if s < math.inf else s for s, request in zip(seconds, requests, strict=True)]
        for k in sorted(range(len(requests)), key=lambda k: (requests[k].fidelity not in self._joint, -costs[k])):
            request, rows = requests[k], range(len(requests[k].position))
            if request.fidelity in self._joint:
                first = min(range(0, len(load), self._group), key=load.__getitem__)
                for rank in range(first, first + self._group):
                    plan[rank].append(Task(k, rows, request))
                    load[rank] += costs[k] if costs[k] < math.inf else 1.0
            elif costs[k] == math.inf or not rows:
                plan[0].append(Task(k, rows, request))
            elif self._splits.get(kind_of(request)):
                for rank, part in _spread(load, rows, seconds[k]).items():
                    plan[rank].append(Task(k, part, rows_of(request, slice(part.start, part.stop))))
            else:
                rank = min(range(len(load)), key=load.__getitem__)
                plan[rank].append(Task(k, rows, request))
                load[rank] += costs[k]
        return plan

    def _carried_out(self, requests: Sequence[Request], plan: Plan) -> tuple[Estimate, ...]:
        replies = self._exchanged(plan)
        for rank, reply in replies.items():
            if reply.error is not None:
                if rank:
                    reply.error.add_note(f"raised on rank {rank} of {self._comm.size}")
                raise reply.error
        parts: dict[int, list[Done]] = defaultdict(list)
        for rank, reply in replies.items():
            for done in reply.done:
                parts[done.request].append(done)
                if rank:  # what was solved here is counted
                    potential = self._engine.potentials[requests[done.request].fidelity]
                    evaluations = len(done.rows) * requests[done.request].of_each_row
                    potential.count(evaluations, done.failed, done.seconds, done.message)
        return tuple([self._joined(request, parts[k]) for k, request in enumerate(requests)])

    def _exchanged(self, plan: Plan) -> dict[int, Reply]:
        """The replies of those who have something to do, by rank."""
        self.answering = True
        self._send({rank: tasks for rank, tasks in plan.items() if rank})
        replies = {0: solved(self._engine, plan[0], self._joint, True)} if plan.get(0) else {}
        for rank in plan:
            if rank:
                replies[rank] = self._patience.until(partial(self._comm.improbe, rank, ANSWER)).recv()
                self._busy[rank] += replies[rank].seconds
        self.answering = False
        return replies

    def _joined(self, request: Request, parts: list[Done]) -> Estimate:
        parts.sort(key=lambda done: done.rows.start)
        self._learn(request, sum(done.seconds for done in parts))
        return joined([done.estimate for done in parts])

    def _learn(self, request: Request, seconds: float) -> None:
        """What rows of that kind take: down at once, and up slowly, as the first solve may compile, any be held up."""
        if rows := len(request.position):
            kind, new = kind_of(request), seconds / rows
            old = self._seconds.get(kind, new)
            self._seconds[kind] = min(new, old + 0.2 * (new - old))

    def _send(self, items: Mapping[int, object]) -> None:
        """To ranks. Large messages need both sides: they have left before this process goes off to solve."""
        for request in [self._comm.isend(item, rank, WORK) for rank, item in items.items()]:
            self._patience.until(request.Test)

    def _untried(self, request: Request) -> bool:
        kind = kind_of(request)
        more = len(request.position) > self._tried.get(kind, 1) and self._splits.get(kind, True)
        return more and kind in self._seconds and request.fidelity not in self._joint

    def _try_out(self, request: Request) -> None:
        """Whether rows of such requests have bits of their own, at starts: the positions may be all the same."""
        kind, rows = kind_of(request), max(len(request.position), self._engine.plan.chains)
        potential = self._engine.potentials[request.fidelity]
        before = potential.evaluations, potential.failed, potential.seconds
        self._splits[kind] = False  # until it is known
        self._splits[kind] = separable(
            _moved(request, starts(self._engine, rows)),
            lambda pieces: self._carried_out(pieces, self._handed_out(pieces)),
        )
        self._tried[kind] = rows
        potential.evaluations, potential.failed, potential.seconds = before


def solved(engine: Engine, tasks: Sequence[Task], joint: frozenset[str], first: bool) -> Reply:
    """What comes of some tasks in their order; a mistake of a model's is handed on, failed solves are no mistake.

    Of joint solves only the first process of a group tells. What one of them raises ends all: others may wait for it
    within the solve.
    """
    begin, done, error = time.perf_counter(), [], None
    for number, rows, request in tasks:
        potential = engine.potentials[request.fidelity]
        failed, seconds = potential.failed, potential.seconds
        try:
            estimate = potential.answer(request)
            check_shapes(request, estimate)
        except Exception as mistake:
            if request.fidelity in joint:
                raise
            error = portable(mistake)
            break
        if first or request.fidelity not in joint:
            failed, seconds = potential.failed - failed, potential.seconds - seconds
            message = failure_message(engine.problem, potential) if failed else None
            done.append(Done(number, rows, estimate, failed, seconds, message))
    return Reply(done, time.perf_counter() - begin, error)


def _moved(request: Request, position: Array) -> Request:
    """A request of that kind at other positions, as many as there are."""
    batch = request.batch and request.batch.take(np.resize(np.arange(len(request.position)), len(position)))
    return request._replace(position=position, batch=batch)


def _spread(load: list[float], rows: range, seconds: float) -> dict[int, range]:
    """Rows one by one to who has least to do, each process's in one piece; ``load`` grows by what they take."""
    queue = [(busy, rank) for rank, busy in enumerate(load)]
    heapq.heapify(queue)
    share = [0] * len(load)
    for _ in rows:
        busy, rank = queue[0]
        share[rank] += 1
        heapq.heapreplace(queue, (busy + seconds, rank))
    begin, parts = 0, {}
    for rank, count in enumerate(share):
        if count:
            parts[rank] = range(begin, begin + count)
            load[rank] += seconds * count
            begin += count
    return parts
