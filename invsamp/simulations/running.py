"""Simulations of the rows of theta, each returned as soon as it is finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, as_completed
from functools import partial
from typing import Any

import numpy as np

from invsamp import arguments
from invsamp.errors import ModelError, WrongShapeError
from invsamp.protocols import Array, FinishedRun, RunsRows
from invsamp.simulations.rows import not_finite

#: Seconds between two polls of jobs that do not report their end: the first, and the longest.
PATIENCE = 0.01, 2.0


def executor_of(name: str, value: Any) -> Any:
    """Runs simulations elsewhere, by an object with ``submit`` or ``map``; None for none.

    Raises
    ------
    ValueError
        If it has neither.
    """
    if value is not None and not any(callable(getattr(value, method, None)) for method in ("submit", "map")):
        right = (
            "None, or have a method submit or map, as a concurrent.futures.Executor, a Dask client and a "
            "submitit.AutoExecutor do"
        )
        raise arguments.wrong(name, right, value)
    return value


def finished_runs(model: Any, theta: Array, executor: Any = None) -> Iterator[FinishedRun]:
    """Runs of all rows of theta (batch, p), in the order in which they are finished.

    By the executor's workers if there is one, by the model where it runs rows at the same time (`RunsRows`), else here.
    """
    if executor is not None and not callable(getattr(executor, "submit", None)):
        for index, run in enumerate(executor.map(partial(one_run, model), list(theta))):
            yield run._replace(row=index)
    elif executor is not None:
        # Dask would take two jobs of the same function and arguments for one, and may have forgotten the first
        apart = {"pure": False} if type(executor).__module__.partition(".")[0] == "distributed" else {}
        jobs = {index: executor.submit(one_run, model, row, **apart) for index, row in enumerate(theta)}
        try:
            yield from _finished(jobs)
        finally:
            for job in jobs.values():
                if callable(getattr(job, "cancel", None)):
                    job.cancel()
    elif isinstance(model, RunsRows):
        yield from model.finished(theta)
    else:
        for index, row in enumerate(theta):
            yield one_run(model, row)._replace(row=index)


def _finished(jobs: Mapping[int, Any]) -> Iterator[FinishedRun]:
    """The runs of jobs by row, as soon as each is finished."""
    if all(isinstance(job, Future) for job in jobs.values()):
        rows = {job: row for row, job in jobs.items()}
        for job in as_completed(rows):
            yield job.result()._replace(row=rows[job])
        return
    left = dict(jobs)
    pause, longest = PATIENCE
    while left:
        done = [row for row, job in left.items() if not callable(getattr(job, "done", None)) or job.done()]
        for row in done:
            yield _result(left.pop(row))._replace(row=row)
        if left and not done:
            time.sleep(pause)
            pause = min(1.5 * pause, longest)


def _result(job: Any) -> FinishedRun:
    """The run of a cluster's job; a job that was ended, by its time limit for one, is a failed simulation."""
    try:
        run: FinishedRun = job.result()
    except ModelError:
        raise
    except Exception as error:
        return FinishedRun(0, None, f"the job ended without a result: {type(error).__name__}: {error}", float("nan"))
    return run


def one_run(model: Callable[[Array], object], theta: Array) -> FinishedRun:
    """The run of one theta (p,), failed where the model raises or an output is not finite.

    Raises
    ------
    ModelError
        If the model does, or what it returns has the wrong shape.
    """
    began = time.perf_counter()
    try:
        y = _row(model(theta[None].copy()))
    except ModelError:
        raise
    except Exception as error:
        return FinishedRun(0, None, f"{type(error).__name__}: {error}", time.perf_counter() - began)
    seconds = time.perf_counter() - began
    words = not_finite(y)
    return FinishedRun(0, y if words is None else None, words, seconds)


def _row(value: object) -> Array:
    try:
        y = arguments.numbers("outputs", value)
    except ValueError as error:
        raise WrongShapeError(str(error)) from None
    if y.ndim != 2 or len(y) != 1:
        raise WrongShapeError(
            f"the outputs of one theta must have shape (1, m), got {y.shape}: a model is given theta of shape (n, p), "
            "and returns a row for each of n. A function of one parameter vector is iv.scalar_function(function)"
        )
    return np.array(y[0])
