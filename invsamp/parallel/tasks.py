"""What processes of a run are sent, and send back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Batch, Estimate, Request, check_shapes
from invsamp.parallel.messages import portable


class Task(NamedTuple):
    """Some rows of a request, for one process or, of a joint solve, for a group of them."""

    request: int  # its number
    rows: range
    what: Request

    def packed(self) -> tuple[object, ...]:
        """As it is sent."""
        batch = self.what.batch and _packed(self.what.batch)
        return self.request, self.rows.start, self.rows.stop, _packed(self.what._replace(batch=None)), batch

    @classmethod
    def unpacked(cls, sent: tuple[Any, ...]) -> Task:
        """The other way."""
        number, start, stop, parts, batch = sent
        request = Request(*_unpacked(parts))
        return cls(number, range(start, stop), request._replace(batch=Batch(*_unpacked(batch))) if batch else request)


class Done(NamedTuple):
    """What came of a task."""

    request: int
    rows: range
    estimate: Estimate
    failed: int
    seconds: float
    message: str | None  # by a solve that failed

    def packed(self) -> tuple[object, ...]:
        """As it is sent."""
        return self.request, self.rows.start, self.rows.stop, _packed(self.estimate), *self[3:]

    @classmethod
    def unpacked(cls, sent: tuple[Any, ...]) -> Done:
        """The other way."""
        number, start, stop, parts, *rest = sent
        return cls(number, range(start, stop), Estimate(*_unpacked(parts)), *rest)


class Reply(NamedTuple):
    """What a process sends back: what it did, in which time, the error that ends the run, a signal that it got."""

    done: list[Done]
    seconds: float
    error: BaseException | None = None
    signal: int | None = None

    def packed(self) -> tuple[object, ...]:
        """As it is sent."""
        return [done.packed() for done in self.done], *self[1:]

    @classmethod
    def unpacked(cls, sent: tuple[Any, ...]) -> Reply:
        """The other way."""
        done, *rest = sent
        return cls([Done.unpacked(one) for one in done], *rest)


def solved(
    potentials: Mapping[str, CountedPotential],
    joint: frozenset[str],
    explained: Callable[[CountedPotential], str | None],
    tasks: Sequence[Task],
    first: bool = True,
) -> Reply:
    """The results of some tasks in their order; a mistake of a model's is handed on, failed solves are no mistake.

    Of a joint solve only the first process of a group replies. An exception in one ends all processes: others may wait
    for this one within the solve. ``explained`` gives the message of the last failed solve.
    """
    begin, done, error = time.perf_counter(), [], None
    for number, rows, request in tasks:
        potential = potentials[request.fidelity]
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
            done.append(Done(number, rows, estimate, failed, seconds, explained(potential) if failed else None))
    return Reply(done, time.perf_counter() - begin, error)


def _packed(parts: Iterable[object]) -> tuple[object, ...]:
    """Arrays as their bytes, which are pickled in a fifth of the time; a message of few numbers took .1 ms."""
    return tuple([(p.dtype.str, p.shape, p.tobytes()) if isinstance(p, np.ndarray) else p for p in parts])


def _unpacked(parts: Iterable[Any]) -> list[Any]:
    return [np.ndarray(p[1], p[0], p[2]).copy() if isinstance(p, tuple) else p for p in parts]
