"""Forward models that run outside the process: one that crashes or hangs costs a row, not the run."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.arguments import function, integer, optional, real
from invsamp.errors import ModelError, WrongShapeError
from invsamp.parallel.pool import Task, WorkerPool
from invsamp.parallel.worker import Answer, Call, describe, digest
from invsamp.posing.forward_models.failure_log import CountsFailures, Failures
from invsamp.protocols import Array, Cotangent, FinishedRun, Plain, VectorJacobianProduct

#: Bytes of a function for cotangents at most: data so large that their messages take longer than one more of them.
LARGE = 2**22


def isolated(
    model: object = None,
    *,
    build: Callable[[], object] | None = None,
    workers: int = 1,
    time_limit: float | None = None,
) -> IsolatedModel:
    """Forward model that is evaluated in worker processes, for one that may crash or hang, or that is not thread-safe.

    The rows of a batch are evaluated one by one, by whichever worker is free. A row whose evaluation raises, takes too
    long, or takes its process down is NaN; the worker is ended and replaced where it has to be.

    Parameters
    ----------
    model : ForwardModel or function, optional
        It is pickled, so it has to consist of what can be imported: no lambdas, no functions of an interactive session.
    build : callable, optional
        In place of ``model``: called without arguments in each worker, returns the model. It may make what cannot be
        pickled, and is pickled itself.
    workers : int, >= 1
        Processes. Each holds a copy of the model.
    time_limit : float, > 0, optional
        Seconds for one call of the model, or of its vector-Jacobian product, on one row. None: a call that hangs is
        waited for. The start of a worker is not counted: what a first call compiles or reads is better done by
        ``build``, for which there are ten minutes.

    Raises
    ------
    ValueError
        If a setting is out of range, or the model is none or cannot be pickled.
    ModelError
        If ``build`` does not make a forward model.

    Notes
    -----
    A worker imports the script that started it, so what the script does has to stand under
    ``if __name__ == "__main__":``; of an interactive session it knows nothing. Workers begin at the first evaluation
    and end with `IsolatedModel.close`, a ``with`` block, or the process that started them. With a model whose rows
    depend on theta alone, the numbers do not depend on the number of workers, to the bit.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> model = iv.parallel.isolated(np.square, workers=2, time_limit=60.0)  # a crash fails one solve
    """
    if (model is None) == (build is None):
        raise ValueError(f"either model or build must be given, got {'neither' if model is None else 'both'}")
    workers = integer("workers", workers, least=1)
    limit = optional(real, "time_limit", time_limit, above=0)
    part, name = (model, "model") if build is None else (build, "build")
    function(name, part)
    described = None if build is not None else describe(model)
    try:
        payload = pickle.dumps(part)
    except Exception as error:
        raise ValueError(
            f"{name} must be picklable, to be sent to worker processes, got {part!r} ({type(error).__name__}: {error});"
            " build= takes a function at the top of a module that makes the model"
        ) from None
    return IsolatedModel(payload, build is not None, workers, limit, described)


class IsolatedModel(CountsFailures):
    """A forward model in worker processes; made by `isolated`.

    Attributes
    ----------
    parameters, n_observations, output_shape, data_indices, derivative_error, function_calls, no_derivatives
        Those of the model, None where it has none.
    jacobian, rows
        As the model's, where it has them.
    workers : int
    time_limit : float or None
    """

    def __init__(self, payload: bytes, made: bool, workers: int, time_limit: float | None, facts: Plain | None) -> None:
        self._settings = payload, made, workers, time_limit
        self._expects: Cotangent | None
        self.workers, self.time_limit = workers, time_limit
        self._start()
        self._facts: Plain = self._pool.describe() if facts is None else facts
        self._width: int | None = self._facts["n_observations"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._facts["offers"]:
            return getattr(self, f"_{name}")
        if name not in self._facts:
            raise AttributeError(f"{self._facts['name']} has no {name}")
        return self._facts[name]

    def __repr__(self) -> str:
        # not the number of workers: a run may be resumed with another
        return f"isolated({self._facts['name']}, time_limit={self.time_limit})"

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations); NaN in the rows that failed."""
        began = time.perf_counter()
        answers = self._ask("observations", [(row,) for row in _batch(theta)])
        y = self._observations([answer.value for answer in answers])
        self._failures.timed(time.perf_counter() - began, len(y))
        return y

    def finished(self, theta: Array) -> Iterator[FinishedRun]:
        """Runs of all rows of theta (batch, p), in the order in which workers finish them."""
        points = _batch(theta)
        tasks = [Task(Call("observations", (row,))) for row in points]
        for row, answer in self._pool.completed(tasks):
            words = self._noted(answer, points[row])
            yield FinishedRun(row, None if words else answer.value, words, answer.seconds)

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product; NaN in the rows that failed.

        A worker keeps the linearizations that it made for as long as the product is held. Those lost with it are made
        again by another.
        """
        return self._linearized(np.array(_batch(theta)))

    def linearize_towards(
        self, theta: Array, cotangent: Cotangent, parameters: Array
    ) -> tuple[Array, VectorJacobianProduct]:
        """The same where the cotangent is known beforehand; see `invsamp.protocols.AnticipatingModel`.

        A worker goes on to the product at once. Not under a time limit, which is that of one call.
        """
        if self.time_limit is not None:
            return self.linearize(theta)
        if cotangent != self._expects:
            self._expects, self._pool.cotangent = cotangent, None
            with contextlib.suppress(Exception):  # what cannot be sent is asked for as it comes
                pickled = pickle.dumps(cotangent)
                self._pool.cotangent = pickled if len(pickled) <= LARGE else None
        return self._linearized(np.array(_batch(theta)), parameters)

    def _linearized(self, theta: Array, *parameters: Array) -> tuple[Array, VectorJacobianProduct]:
        tokens = list(itertools.islice(self._tokens, len(theta)))
        answers = self._ask("linearize", list(zip(tokens, theta, *parameters, strict=True)))
        holders = [answer.worker if answer.status == "done" else None for answer in answers]
        y = self._observations([answer.value for answer in answers])
        alive = np.flatnonzero(np.isfinite(y).all(axis=1))

        def vjp(cotangent: Array) -> Array:
            found: list[Array | None] = [None] * len(theta)
            for row in alive:
                if answers[row].expected is not None and answers[row].expected == digest(cotangent[row]):
                    found[row] = answers[row].product
            left = [row for row in alive if found[row] is None]
            asked = [(tokens[row], theta[row], np.asarray(cotangent[row], dtype=float)) for row in left]
            replies = self._ask("product", asked, [holders[row] for row in left])
            for row, reply in zip(left, replies, strict=True):
                found[row] = reply.value
                if reply.status == "done":
                    # a linearization that was lost has been made again by the worker that answered
                    holders[row] = reply.worker
            return _filled(found, theta.shape[1:], "the vector-Jacobian product")

        weakref.finalize(vjp, _forget, self._pool, tokens, holders)
        return y, vjp

    def close(self) -> None:
        """End the worker processes. A later evaluation starts them again."""
        self._pool.close()

    def __enter__(self) -> IsolatedModel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        """Settings without the processes."""
        return {name: vars(self)[name] for name in ("_settings", "_facts", "_width")}

    def __setstate__(self, state: Plain) -> None:
        vars(self).update(state)
        self.workers, self.time_limit = self._settings[2:]
        self._start()

    def _start(self) -> None:
        self._pool = WorkerPool(*self._settings)
        self._tokens = itertools.count()
        self._failures = Failures()
        self._expects = None

    def _jacobian(self, theta: Array) -> tuple[Array, Array]:
        theta = _batch(theta)
        pairs = [answer.value or (None, None) for answer in self._ask("jacobian", [(row,) for row in theta])]
        y = self._observations([y for y, _ in pairs])
        return y, _filled([matrix for _, matrix in pairs], (*y.shape[1:], theta.shape[1]), "the jacobian")

    def _rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        theta, chosen = _batch(theta), indices.shape[1:]
        asked = list(zip(theta, indices, strict=True))
        pairs = [answer.value or (None, None) for answer in self._ask("rows", asked)]
        y = _filled([y for y, _ in pairs], chosen, "the chosen observations")
        return y, _filled([matrix for _, matrix in pairs], (*chosen, theta.shape[1]), "the jacobian")

    def _ask(
        self, operation: str, arguments: Sequence[tuple[object, ...]], holders: Sequence[int | None] | None = None
    ) -> list[Answer]:
        """Answers whose value is None where the row failed, which is counted."""
        preferred = [None] * len(arguments) if holders is None else holders
        tasks = [Task(Call(operation, a), holder) for a, holder in zip(arguments, preferred, strict=True)]
        answers = self._pool.run(tasks) if tasks else []
        for index, answer in enumerate(answers):
            self._noted(answer, next(a for a in arguments[index] if isinstance(a, np.ndarray)))
            if answer.status != "done":
                answers[index] = answer._replace(value=None)
        return answers

    def _noted(self, answer: Answer, theta: Array) -> str | None:
        """Message of an answer about theta (p,) that failed, which is counted; None if it did not fail."""
        kind = _failure(answer)
        if kind is None:
            return None
        reason = "not finite" if kind == "not_finite" else answer.value
        words = f"{reason} at theta {np.array2string(theta, precision=6, threshold=8, separator=', ')}"
        self._failures.note(kind, words)
        return words

    def _observations(self, values: Sequence[Array | None]) -> Array:
        lengths = {len(value) for value in values if value is not None}
        if self._width is not None:
            lengths.add(self._width)
        if len(lengths) > 1:
            raise WrongShapeError(f"observations must be as many for every theta, got {sorted(lengths)}")
        if not lengths and len(values):
            raise RuntimeError(self.message)  # the number of observations is not known
        self._width = next(iter(lengths), 0)
        return _filled(values, (self._width,), "observations")


def _failure(answer: Answer) -> str | None:
    if answer.status != "done":
        return answer.status
    values = answer.value if isinstance(answer.value, tuple) else (answer.value,)
    return None if all(np.isfinite(value).all() for value in values) else "not_finite"


def _batch(theta: Array) -> Array:
    theta = np.asarray(theta, dtype=float)
    if theta.ndim != 2:
        raise ModelError(f"theta must have shape (batch, n_parameters), got {theta.shape}")
    return theta


def _filled(values: Sequence[Array | None], shape: tuple[int, ...], what: str) -> Array:
    """Values of all rows, NaN where there is none."""
    found = np.full((len(values), *shape), np.nan)
    for row, value in enumerate(values):
        if value is not None:
            if value.shape != shape:
                raise WrongShapeError(f"{what} must have shape {shape} in each row, got {value.shape}")
            found[row] = value
    return found


def _forget(pool: WorkerPool, tokens: list[int], holders: list[int | None]) -> None:
    pool.forget([(h, token) for h, token in zip(holders, tokens, strict=True) if h is not None])
