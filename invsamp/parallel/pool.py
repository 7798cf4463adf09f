"""Worker processes that hold a forward model: rows go out, answers come back, whatever becomes of a worker.

A worker that dies or takes too long is ended with all that it started, and replaced. Which worker answers for which
row depends on timing; the answer does not.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import time
from collections import deque
from collections.abc import Container, Iterator, Sequence
from multiprocessing.util import Finalize
from typing import NamedTuple

import numpy as np

from invsamp.errors import ModelError
from invsamp.parallel.process import GUARD, Worker, heard
from invsamp.parallel.worker import Answer, Description, Request

#: Seconds that a worker may take to import the package and to make its model.
START_LIMIT = 600.0
#: Workers in succession that may end before they are ready, once one was.
ACCIDENTS = 3
#: Seconds of a request up to which a worker is given the next one before it has answered: it would wait for it as long
#: as two processes need to wake each other, and no other worker could have had it much sooner.
SHORT = 0.05
#: Bytes of such a request at the most: it has to fit into the connection, as nobody reads while both sides write.
SMALL = 2**13


class Task(NamedTuple):
    """A request, and the worker that should have it if that still lives."""

    request: Request
    preferred: int | None = None


class WorkerPool:
    """Processes that hold the same forward model.

    Parameters
    ----------
    payload : bytes
        Pickle of the model, or of a function without arguments that makes it.
    made : bool
        Whether it is such a function.
    workers : int
        Processes at most; they are started when there is work for them.
    time_limit : float or None
        Seconds for one request.
    """

    def __init__(self, payload: bytes, made: bool, workers: int, time_limit: float | None) -> None:
        self._payload, self._limit, self._time_limit = (made, payload), workers, time_limit
        self._numbers = itertools.count()
        self._workers: dict[int, Worker] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._broken: str | None = None
        self._lost: int | None = None  # in succession, before they were ready; None until one was
        #: Seconds of the last request, by operation.
        self.took: dict[str, float] = {}
        #: Pickle of a function that gives cotangents, for what workers do ahead.
        self.cotangent: bytes | None = None
        self._finalizer = Finalize(self, _end_all, (self._workers,), exitpriority=20)

    def run(self, tasks: Sequence[Task]) -> list[Answer]:
        """Answers to all tasks, in their order.

        Raises
        ------
        ModelError
            If a worker cannot begin, or finds a mistake in the model.
        """
        with self._at_work():
            return _Round(self, tasks).answers()

    def description(self) -> Description:
        """What the model in the workers tells about itself."""
        with self._at_work():
            while True:
                self.start(1)
                for worker in self._workers.values():
                    if worker.description is not None:
                        return worker.description
                self.listen(None)

    def forget(self, holders: Sequence[tuple[int, int]]) -> None:
        """Let workers drop linearizations: pairs of a worker's number and a token."""
        for number, token in holders:
            if (worker := self._workers.get(number)) is not None:
                worker.forgotten.append(token)

    def close(self) -> None:
        """End all workers; they are started again when there is work."""
        with self._lock:
            self._check_process()
            _end_all(self._workers)

    @property
    def workers(self) -> dict[int, Worker]:
        """Workers by their numbers, which are never used again."""
        return self._workers

    def start(self, wanted: int) -> None:
        """Start workers until there are as many as wanted, or as many as allowed."""
        if self._broken is not None:
            raise ModelError(self._broken)
        while len(self._workers) < min(wanted, self._limit):
            self._workers[next(self._numbers)] = Worker(self._payload, self._time_limit)

    def stop(self, number: int) -> None:
        """End a worker."""
        self._workers.pop(number).end()

    def listen(self, timeout: float | None) -> list[tuple[int, Answer | None]]:
        """Answers that have come within the timeout (None: wait), with the workers' numbers; None of one that died."""
        starting = [worker.began + START_LIMIT for worker in self._workers.values() if worker.description is None]
        if starting:
            left = max(0.0, min(starting) - time.monotonic())
            timeout = left if timeout is None else min(left, timeout)
        if not self._workers:
            return []
        owners = {one: number for number, worker in self._workers.items() for one in worker.heard_by}
        found: list[tuple[int, Answer | None]] = []
        for number in {owners[one] for one in heard(owners, timeout)}:
            worker = self._workers[number]
            began = worker.description is not None
            message = worker.receive()
            if began:
                found.append((number, message if isinstance(message, Answer) else None))
            elif message is None and self._may_try_again():
                self.stop(number)
            elif message is None or isinstance(message, Answer):
                self._fail(message, worker)
            elif worker.description is not None:
                self._lost = 0
        self._check_start()
        return found

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._lock:
            self._check_process()
            try:
                yield
            except BaseException:
                # also Ctrl-C: an answer that comes later, or half of a message, must not be taken for another one
                for number in [n for n, worker in self._workers.items() if not worker.idle]:
                    self.stop(number)
                raise

    def _check_start(self) -> None:
        for worker in self._workers.values():
            if worker.description is None and time.monotonic() > worker.began + START_LIMIT:
                self._fail(Answer("timed_out", f"it was not ready after {START_LIMIT:g} s"), worker)

    def _may_try_again(self) -> bool:
        """Whether a worker that ended before it was ready met with an accident, such as Ctrl-C: others were ready."""
        self._lost = None if self._lost is None else self._lost + 1
        return self._lost is not None and self._lost <= ACCIDENTS

    def _fail(self, answer: Answer | None, worker: Worker) -> None:
        ending = worker.exit_message() if answer is None else ""
        hint = f"; {GUARD}" if ending == "exit code 1" else ""
        why = answer.value if answer is not None else f"it ended ({ending}) before it was ready{hint}"
        self._broken = f"the model cannot be made in a worker process: {why}"
        _end_all(self._workers)
        raise ModelError(self._broken)

    def _check_process(self) -> None:
        if os.getpid() != self._process:  # a fork of the owner: the workers are not ours
            self._workers = {}
            self._process = os.getpid()
            self._finalizer = Finalize(self, _end_all, (self._workers,), exitpriority=20)


class _Round:
    """One set of tasks on its way through the workers."""

    def __init__(self, pool: WorkerPool, tasks: Sequence[Task]) -> None:
        self._pool, self._tasks = pool, tasks
        self._answers: dict[int, Answer] = {}
        self._waiting = deque(range(len(tasks)))

    def answers(self) -> list[Answer]:
        while len(self._answers) < len(self._tasks):
            self._pool.start(len(self._tasks) - len(self._answers))
            self._assign()
            deadlines = [w.deadline for w in self._pool.workers.values() if w.deadline is not None]
            left = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
            for number, message in self._pool.listen(left):
                self._take(number, message)
            self._end_late()
        return [self._answers[index] for index in range(len(self._tasks))]

    def _assign(self) -> None:
        """Give each idle worker what it prefers, or what no living worker does; of what is short, one more to each."""
        self._give({n for n, worker in self._pool.workers.items() if worker.idle}, range(len(self._tasks)))
        if self._waiting and all(worker.description is not None for worker in self._pool.workers.values()):
            short = {k for k in self._waiting if self._is_short(self._tasks[k].request)}
            self._give({n for n, worker in self._pool.workers.items() if len(worker.tasks) == 1}, short)

    def _give(self, free: set[int], which: Container[int]) -> None:
        """Give one each of some tasks to workers."""
        kept: deque[int] = deque()
        while self._waiting:
            index = self._waiting.popleft()
            task, number = self._tasks[index], self._tasks[index].preferred
            if number not in self._pool.workers:
                number = min(free, default=None)
            if number is None or number not in free or index not in which:
                kept.append(index)
                continue
            free.discard(number)
            # a linearization that was lost with the preferred worker is made again within the same request
            lost = task.preferred is not None and task.preferred != number
            worker = self._pool.workers[number]
            if not worker.give(index, task.request, 2.0 if lost else 1.0, self._pool.cotangent):
                kept.append(index)
                if not worker.tasks:  # it had died in idleness, which is not the fault of this row
                    self._pool.stop(number)
        self._waiting = kept

    def _is_short(self, request: Request) -> bool:
        size = sum(argument.nbytes for argument in request.arguments if isinstance(argument, np.ndarray))
        return size <= SMALL and self._pool.took.get(request.operation, math.inf) <= SHORT

    def _take(self, number: int, message: Answer | None) -> None:
        worker = self._pool.workers[number]
        if message is None:
            ending = worker.exit_message()
            self._end(number, Answer("died", f"the worker process ended ({ending})", number))
        elif message.status == "mistake":
            raise ModelError(message.value)
        else:
            index, seconds = worker.answered()
            self._pool.took[self._tasks[index].request.operation] = seconds
            self._answers[index] = message._replace(worker=number)

    def _end(self, number: int, answer: Answer) -> None:
        """End a worker, which is the answer to what it is at, and let others do what it has not begun."""
        tasks = self._pool.workers[number].tasks
        self._pool.stop(number)
        if tasks:
            self._answers[tasks[0]] = answer
            self._waiting.extendleft(reversed(tasks[1:]))
        # now, so that another is ready when the next batch comes, even if nothing waits in this one
        self._pool.start(len(self._pool.workers) + 1)

    def _end_late(self) -> None:
        now = time.monotonic()
        for number, worker in list(self._pool.workers.items()):
            if worker.deadline is None or now < worker.deadline or heard(worker.heard_by[:1], 0.0):
                continue
            limit = worker.time_limit
            self._end(number, Answer("timed_out", f"TimeoutError: no answer within {limit:g} s", number))


def _end_all(workers: dict[int, Worker]) -> None:
    for worker in workers.values():
        if worker.idle:
            worker.connection.close()  # all at once: they end while others are waited for
    while workers:
        workers.popitem()[1].end(patience=1.0)
