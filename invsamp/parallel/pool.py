"""Worker processes that hold a forward model: rows go out, answers come back, whatever becomes of a worker.

A worker that dies or takes too long is ended with all that it started, and replaced. Which worker answers for which
row depends on timing; the answer does not.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.util import Finalize
from typing import NamedTuple, NoReturn

from invsamp.errors import ModelError
from invsamp.parallel.process import GUARD, START_LIMIT, Worker, heard
from invsamp.parallel.worker import Answer, Call
from invsamp.protocols import Plain

#: Workers in succession that may end before they are ready, once one was.
ACCIDENTS = 3


class Task(NamedTuple):
    """A call, and the worker that should have it if that still lives."""

    call: Call
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
        Seconds for one call.

    Attributes
    ----------
    workers : dict
        By their numbers, which are never used again.
    cotangent : bytes or None
        Pickle of a function that gives cotangents, for what workers do ahead.
    """

    def __init__(self, payload: bytes, made: bool, workers: int, time_limit: float | None) -> None:
        self._payload, self._limit, self._time_limit = (made, payload), workers, time_limit
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._broken: str | None = None
        self._lost: int | None = None  # in succession, before they were ready; None until one was
        self.cotangent: bytes | None = None
        self._own()

    def run(self, tasks: Sequence[Task]) -> list[Answer]:
        """Answers to all tasks, in their order; errors as of `completed`."""
        answers = dict(self.completed(tasks))
        return [answers[index] for index in range(len(tasks))]

    def completed(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Answer]]:
        """Answers to all tasks as they come, with the indices of the tasks.

        Raises
        ------
        ModelError
            If a worker cannot begin, or finds a mistake in the model.
        """
        waiting, left = list(range(len(tasks))), len(tasks)
        with self._at_work():
            while left:
                self._start(left)
                self._assign(tasks, waiting)
                for index, answer in self._listen():
                    if answer.status == "mistake":
                        raise ModelError(answer.value)
                    if index is not None:
                        left -= 1
                        yield index, answer

    def describe(self) -> Plain:
        """The facts that the model in the workers states about itself."""
        with self._at_work():
            while True:
                self._start(1)
                for worker in self.workers.values():
                    if worker.facts is not None:
                        return worker.facts
                self._listen()

    def forget(self, holders: Sequence[tuple[int, int]]) -> None:
        """Let workers drop linearizations: pairs of a worker's number and a token."""
        for number, token in holders:
            if (worker := self.workers.get(number)) is not None:
                worker.forgotten.append(token)

    def close(self) -> None:
        """End all workers; they are started again when there is work."""
        with self._lock:
            self._check_process()
            _end_all(self.workers)

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        with self._lock:
            self._check_process()
            try:
                yield
            except BaseException:
                # also Ctrl-C: an answer that comes later, or half of a message, must not be taken for another one
                for number in [n for n, worker in self.workers.items() if not worker.idle]:
                    self.workers.pop(number).end()
                raise

    def _start(self, wanted: int) -> None:
        """Start workers until there are as many as wanted, or as many as allowed."""
        if self._broken is not None:
            raise ModelError(self._broken)
        while len(self.workers) < min(wanted, self._limit):
            self.workers[next(self._numbers)] = Worker(self._payload, self._time_limit)

    def _assign(self, tasks: Sequence[Task], waiting: list[int]) -> None:
        """Give each idle worker a task that prefers it, or one that no living worker is preferred for."""
        for number, worker in list(self.workers.items()):
            if not worker.idle:
                continue
            own = next((k for k in waiting if tasks[k].preferred == number), None)
            free = (k for k in waiting if tasks[k].preferred not in self.workers)
            index = next(free, None) if own is None else own
            if index is None:
                continue
            # a linearization that was lost with the preferred worker is made again within the same call
            lost = own is None and tasks[index].preferred is not None
            if worker.give(index, tasks[index].call, 2.0 if lost else 1.0, self.cotangent):
                waiting.remove(index)
            else:  # it had died in idleness, which is not the fault of this row
                self.workers.pop(number).end()

    def _listen(self) -> list[tuple[int | None, Answer]]:
        """Wait for the next answers, of which tasks; those of workers that died or took too long say so."""
        if not self.workers:
            return []
        due = min((worker.due for worker in self.workers.values() if worker.due is not None), default=None)
        owners = {one: number for number, worker in self.workers.items() for one in worker.heard_by}
        speaking = {owners[one] for one in heard(owners, None if due is None else max(0.0, due - time.monotonic()))}
        found: list[tuple[int | None, Answer]] = []
        for number, worker in list(self.workers.items()):
            task, ready = worker.task, worker.facts is not None
            if number in speaking:
                message = worker.receive()
                if not ready:
                    self._begin(number, worker, message)
                    continue
                dead = f"the worker process ended ({worker.exit_message()})" if message is None else ""
                answer = message if isinstance(message, Answer) else Answer("died", dead)
            elif worker.due is None or time.monotonic() < worker.due or heard(worker.heard_by[:1], 0.0):
                continue
            elif ready:
                answer = Answer("timed_out", f"TimeoutError: no answer within {self._time_limit:g} s")
            else:
                self._fail(f"it was not ready after {START_LIMIT:g} s")
            found.append((task, answer._replace(worker=number)))
            if answer.status in ("died", "timed_out"):
                self.workers.pop(number).end()
                # now, so that another is ready when the next batch comes, even if nothing waits in this one
                self._start(len(self.workers) + 1)
        return found

    def _begin(self, number: int, worker: Worker, message: object) -> None:
        """Take what a worker says before it is ready."""
        if isinstance(message, Answer):
            self._fail(message.value)
        if worker.facts is not None:
            self._lost = 0
        elif message is None:
            # where others were ready, some may end by accident, such as Ctrl-C
            self._lost = None if self._lost is None else self._lost + 1
            if self._lost is None or self._lost > ACCIDENTS:
                ending = worker.exit_message()
                self._fail(f"it ended ({ending}) before it was ready" + f"; {GUARD}" * (ending == "exit code 1"))
            self.workers.pop(number).end()

    def _fail(self, why: str) -> NoReturn:
        self._broken = f"the model cannot be made in a worker process: {why}"
        _end_all(self.workers)
        raise ModelError(self._broken)

    def _own(self) -> None:
        """Begin without workers, to be ended with this process."""
        self.workers: dict[int, Worker] = {}
        self._process = os.getpid()
        self._finalizer = Finalize(self, _end_all, (self.workers,), exitpriority=20)

    def _check_process(self) -> None:
        if os.getpid() != self._process:  # a fork of the owner: the workers are not ours
            self._own()


def _end_all(workers: dict[int, Worker]) -> None:
    for worker in workers.values():
        if worker.idle:
            worker.connection.close()  # all at once: they end while others are waited for
    while workers:
        workers.popitem()[1].end(patience=1.0)
