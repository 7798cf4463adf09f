"""Simulations of the rows of theta, each handed over as soon as it is finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, as_completed
from typing import Any

import numpy as np

from invsamp import arguments
from invsamp.errors import ModelError, WrongShapeError
from invsamp.protocols import Array, FinishedRun, RunsRows
from invsamp.simulations.rows import not_finite


def finished_runs(model: Any, theta: Array, executor: Executor | None = None) -> Iterator[FinishedRun]:
    """Runs of all rows of theta (batch, p), in the order in which they are finished.

    By the executor's workers if there is one, by the model where it runs rows at the same time (`RunsRows`), else here.
    """
    if executor is not None:
        futures = {executor.submit(one_run, model, row): index for index, row in enumerate(theta)}
        try:
            for future in as_completed(futures):
                yield future.result()._replace(row=futures[future])
        finally:
            for future in futures:
                future.cancel()
    elif isinstance(model, RunsRows):
        yield from model.finished(theta)
    else:
        for index, row in enumerate(theta):
            yield one_run(model, row)._replace(row=index)


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
