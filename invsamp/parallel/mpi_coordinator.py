"""Handing out: what a run asks for goes to all of its processes in parts, by what it cost before."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Estimate, Request, joined
from invsamp.evaluate.solving import separable
from invsamp.parallel.groups import Groups
from invsamp.parallel.load_balancing import MESSAGES, Plan, Planner
from invsamp.parallel.messages import SPIN, Communicator, Patience, arrived, packed, unpacked
from invsamp.parallel.tasks import Done, Reply, Task
from invsamp.protocols import Array, Plain

#: Seconds that break ties between processes with equal loads.
BIT = 1e-9
#: Seconds between two looks for signals that others got.
BETWEEN_LOOKS = 0.05
#: Tags of messages: work and its answers, and signals.
WORK, ANSWER, SIGNAL = 30_000, 30_001, 30_002


class Coordinator:
    """Distributes requests to all processes, itself included, and assembles the answers that come back.

    A process is sent no more before it has answered: while it sends a large answer, it takes nothing in.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    potentials : mapping of fidelities to CountedPotential
        They solve here, and count what was solved anywhere.
    groups : Groups
    solved : callable
        What comes of some tasks here.
    starts : callable
        So many positions at which models can be tried.
    chains : int
    """

    def __init__(
        self,
        comm: Communicator,
        potentials: Mapping[str, CountedPotential],
        groups: Groups,
        solved: Callable[[Sequence[Task]], Reply],
        starts: Callable[[int], Array],
        chains: int,
    ) -> None:
        self._comm, self._potentials, self._joint = comm, potentials, groups.joint
        self._solved, self._starts, self._chains = solved, starts, chains
        self._planner = Planner(groups.size, groups.joint)
        self._patience = Patience()
        self._began = self._looked = time.perf_counter()
        self._busy = [0.0] * comm.size
        self._answered = [self._began] * comm.size  # when
        self._signal: int | None = None
        self._numbers = itertools.count()
        self._askings: dict[int, list[int]] = {}  # by who asks: numbers of the requests
        self._requests: dict[int, Request] = {}
        self._parts: dict[int, list[Done]] = {}  # by request
        self._waiting: list[Task] = []  # not assigned yet
        self._own: deque[Task] = deque()  # to be done here
        self._mine: set[int] = set()  # requests of which this process has a part
        self._due: dict[int, float] = {}  # by process that is at work: when it will be done, about
        self._solving = False
        self._error: BaseException | None = None

    @property
    def answering(self) -> bool:
        """Whether some process is at work."""
        return self._solving or bool(self._due)

    def answer(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """Estimates in the order of the requests."""
        if not self._planner.pays(requests):
            return tuple([self._here(request) for request in requests])
        try:
            return self._together(requests)
        except Exception:
            self.clear()
            raise

    def put(self, asking: int, requests: tuple[Request, ...]) -> None:
        """Queue the requests of one caller."""
        self._askings[asking] = numbers = [next(self._numbers) for _ in requests]
        for number, request in zip(numbers, requests, strict=True):
            self._requests[number], self._parts[number] = request, []
            self._waiting.append(Task(number, 0, request))

    def get(self) -> tuple[int, tuple[Estimate, ...]]:
        """One requester whose estimates are there, and these: of several the most expensive, as others wait for it."""
        while True:
            self._come()
            if there := [asking for asking in self._askings if self._is_there(asking)]:
                asking = max(there, key=self._cost)
                return asking, self._taken(asking)
            self._go_on()

    def clear(self) -> None:
        """Wait for what is under way, and forget all that was asked."""
        self._waiting.clear()
        while self._own:
            if (task := self._own.popleft()).what.fidelity in self._joint:  # others wait for this process in the solve
                self._solve(task)
        while self._due:
            self._wait()
        self._askings, self._requests, self._parts, self._mine, self._error = {}, {}, {}, set(), None

    def signaled(self, last: bool) -> int | None:
        """A signal that another process got, if one did; after the last step each of them is asked."""
        now = time.perf_counter()
        if self._signal is None and now - self._looked > BETWEEN_LOOKS:
            self._looked = now
            if (found := self._comm.improbe(tag=SIGNAL)) is not None:
                self._signal = found.recv()
        if self._signal is None and last:
            self._give({rank: [] for rank in range(1, self._comm.size)})
            self.clear()
        return self._signal

    def report(self) -> Plain:
        """Number of processes, fidelities that are split or solved jointly, and waiting times."""
        whole = max(time.perf_counter() - self._began, 1e-9)
        waiting = [self._patience.seconds, *(whole - busy for busy in self._busy[1:])]
        return {
            "count": self._comm.size,
            "solved": {name: self._planner.way(name) for name in self._potentials},
            "groups": self._comm.size // self._planner.group if self._joint else None,
            "waiting": [max(seconds / whole, 0.0) for seconds in waiting],
        }

    def announce(self, item: object) -> None:
        """Send all others something else than work; None: nothing more is asked of them."""
        self._send(dict.fromkeys(range(1, self._comm.size), item))

    def _here(self, request: Request) -> Estimate:
        """Answer a request in this process, without messages, and measure its time."""
        potential = self._potentials[request.fidelity]
        before = potential.seconds
        found = potential.answer(request)
        self._planner.learn(request, potential.seconds - before)
        return found

    def _together(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """Answers to requests that are not asked for by one of several, or before what these ask for."""
        asking = -1 - next(self._numbers)
        self.put(asking, requests)
        while not self._is_there(asking):
            self._go_on()
        found = self._taken(asking)
        while self._due:  # one process of a group replies, and all of it are needed for the next solve
            self._go_on()
        return found

    def _is_there(self, asking: int) -> bool:
        """Whether all is there that one has asked for."""
        for number in self._askings[asking]:
            parts = self._parts[number]  # one at least, of no rows too
            if not parts or sum([done.rows for done in parts]) < len(self._requests[number].position):
                return False
        return True

    def _taken(self, asking: int) -> tuple[Estimate, ...]:
        """Estimates for all requests of one caller."""
        numbers = self._askings.pop(asking)
        self._mine.difference_update(numbers)
        return tuple([self._joined(self._requests.pop(number), self._parts.pop(number)) for number in numbers])

    def _cost(self, asking: int) -> float:
        """Seconds of what one has asked for."""
        return self._planner.seconds([self._requests[number] for number in self._askings[asking]])

    def _go_on(self) -> None:
        """Take what has come, or hand out and solve one of one's own, or wait."""
        if not self._come():
            if self._waiting:
                self._hand_out()
            if self._own:
                longest = self._planner.seconds([self._own[0].what])
                if self._most_expensive_is_due(longest):
                    self._wait(longest)
                else:
                    self._solve(self._own.popleft())
            elif self._due:
                self._wait()
        if self._error is not None:
            raise self._error

    def _hand_out(self) -> None:
        """Tasks to the process that can finish them first; those for a busy process wait for it."""
        plan: Plan = {0: self._waiting}
        if self._planner.pays([task.what for task in self._waiting]):
            if not self._due:
                # tries ask for estimates themselves, and nothing else is to be assigned meanwhile
                waiting, self._waiting = self._waiting, []
                for task in waiting:
                    self._try_out(task.what)
                self._waiting = waiting
            plan = self._planner.plan(self._waiting, self._loads())
        self._own.extend(plan.get(0, ()))
        self._mine.update([task.request for task in plan.get(0, ())])
        self._waiting = [task for rank in plan if rank in self._due for task in plan[rank]]
        self._give({rank: tasks for rank, tasks in plan.items() if rank and rank not in self._due})

    def _loads(self) -> list[float]:
        """Seconds for which each process has something to do, and a bit for who is to be the last among equals.

        An idle process that has waited for long sleeps between looks, and begins late.
        """
        now = time.perf_counter()
        sleeping = [BIT * 2.0 * (now - answered > 2.0 * SPIN) for answered in self._answered]
        load = [
            max(self._due[rank] - now, 2.0 * BIT) if rank in self._due else sleeping[rank]
            for rank in range(len(sleeping))
        ]
        # where several ask, there are steps to be made here while others solve
        own = self._planner.seconds([task.what for task in self._own])
        return [own + (BIT if len(self._askings) > 1 else -BIT), *load[1:]]

    def _give(self, plan: Plan) -> None:
        self._send({rank: packed(list(tasks)) for rank, tasks in plan.items()})
        now = time.perf_counter()
        for rank, tasks in plan.items():
            self._due[rank] = now + self._planner.seconds([task.what for task in tasks])

    def _solve(self, task: Task) -> None:
        self._solving = True
        reply = self._solved([task])
        self._solving = False
        self._take(0, reply)

    def _most_expensive_is_due(self, seconds: float) -> bool:
        """Whether one that asks for more than all others do, of other processes alone, is answered in so many seconds.

        It has the longest way to go: a solve that is begun here now would let it wait, and the process that answers.
        Of what this process shares in, all have as much to do.
        """
        if len(self._askings) < 2 or not self._due:
            return False
        if not -seconds - MESSAGES < min(self._due.values()) - time.perf_counter() < seconds:
            return False
        costs = {asking: self._cost(asking) for asking in self._askings}
        most_expensive = max(costs, key=costs.__getitem__)
        return 2.0 * costs[most_expensive] > sum(costs.values()) and self._mine.isdisjoint(
            self._askings[most_expensive]
        )

    def _wait(self, most: float = math.inf) -> None:
        """Until something comes, or for so many seconds after it should have."""
        due = min(self._due.values())
        end = due + MESSAGES + most
        self._patience.until(lambda: self._come() or time.perf_counter() > end, due - time.perf_counter())

    def _come(self) -> bool:
        """Take the replies that are there, if there are any."""
        messages = {rank: arrived(self._comm, rank, ANSWER) for rank in self._due}
        for rank, message in messages.items():
            if message is not None:
                del self._due[rank]
                self._take(rank, unpacked(message.recv()))
        return any(message is not None for message in messages.values())

    def _take(self, rank: int, reply: Reply) -> None:
        self._busy[rank] += reply.seconds
        self._answered[rank] = time.perf_counter()
        self._signal = self._signal or reply.signal
        if reply.error is not None and self._error is None:
            self._error = reply.error
            if rank:
                reply.error.add_note(f"raised on rank {rank} of {self._comm.size}")
        for done in reply.done:
            if (parts := self._parts.get(done.request)) is None:  # no longer wanted
                continue
            parts.append(done)
            if rank:  # what was solved here is counted
                request = self._requests[done.request]
                potential = self._potentials[request.fidelity]
                potential.count(request, done.rows, done.failed, done.seconds, done.message)

    def _joined(self, request: Request, parts: list[Done]) -> Estimate:
        parts.sort(key=lambda done: done.begin)
        self._planner.learn(request, sum(done.seconds for done in parts))
        return joined([done.estimate for done in parts])

    def _send(self, items: Mapping[int, object]) -> None:
        """To ranks. Large messages need both sides: they have left before this process goes off to solve."""
        for request in [self._comm.isend(item, rank, WORK) for rank, item in items.items()]:
            self._patience.until(request.Test)

    def _try_out(self, request: Request) -> None:
        """Find out whether rows of such requests have bits of their own, where that is not known.

        At starts, as the positions may be all the same.
        """
        if not self._planner.untried(request):
            return
        rows = max(len(request.position), self._chains)
        potential = self._potentials[request.fidelity]
        before = potential.counts
        self._planner.tried(request, rows, False)  # until it is known
        splits = separable(_moved(request, self._starts(rows)), self._together)
        self._planner.tried(request, rows, splits)
        potential.counts = before


def _moved(request: Request, position: Array) -> Request:
    """A request of that kind at other positions, as many as there are."""
    batch = request.batch and request.batch.take(np.resize(np.arange(len(request.position)), len(position)))
    return request._replace(position=position, batch=batch)
