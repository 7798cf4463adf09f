"""Messages between the processes of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Batch, Estimate, Request, check_shapes
from invsamp.parallel.messages import portable, sent

for part in (Request, Batch, Estimate):
    sent(part)


@sent
class Task(NamedTuple):
    """Some rows of a request, for one process or, of a joint solve, for a group of them."""

    request: int  # its number
    begin: int  # first of the rows
    what: Request

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.what.position)


@sent
class Done(NamedTuple):
    """Result of a task."""

    request: int
    begin: int
    estimate: Estimate
    failed: int
    seconds: float
    message: str | None  # by a solve that failed

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.estimate.energy)


@sent
class Reply(NamedTuple):
    """Reply of a process: its results, the time, the error that ends the run, and a signal that it received."""

    done: list[Done]
    seconds: float
    error: BaseException | None = None
    signal: int | None = None


def solved(
    potentials: Mapping[str, CountedPotential],
    joint: frozenset[str],
    explained: Callable[[CountedPotential], str | None],
    tasks: Sequence[Task],
    first: bool = True,
) -> Reply:
    """The results of some tasks in their order; an error in a model is raised; a failed solve is none.

    Of a joint solve only the first process of a group replies. An exception in one ends all processes: others may wait
    for this one within the solve. ``explained`` gives the message of the last failed solve.
    """
    begin, done, error = time.perf_counter(), [], None
    for number, first_row, request in tasks:
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
            done.append(Done(number, first_row, estimate, failed, seconds, explained(potential) if failed else None))
    return Reply(done, time.perf_counter() - begin, error)
