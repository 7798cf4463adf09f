"""What processes of a run are sent, and send back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from invsamp.engine.engine import Engine
from invsamp.engine.starts import failure_message
from invsamp.evaluate.requests import Estimate, Request, check_shapes
from invsamp.parallel.messages import portable


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
