"""The far side of a pool: a process that holds a forward model and answers for one row of theta at a time."""

from __future__ import annotations

import contextlib
import hashlib
import math
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, cast

import numpy as np

from invsamp.errors import ModelError, WrongShapeError
from invsamp.parallel.messages import packed, sent, unpacked
from invsamp.posing.forward_models.guarded_model import real_array
from invsamp.protocols import (
    AnyArray,
    Array,
    Cotangent,
    ForwardModel,
    JacobianForwardModel,
    Plain,
    RowsForwardModel,
    VectorJacobianProduct,
    derivative_error,
    function_calls,
    no_derivatives,
)

#: Seconds over its time limit after which a worker ends itself, in case its owner has ended.
GRACE = 5.0
#: Part of a vector-Jacobian product by which it may change once the model was linearized elsewhere.
STALE = 1e-3
#: What is wrong with a model that cannot be unpickled.
IMPORTABLE = (
    "; its parts have to be defined at the top of a module, or of the script's file, that a worker can "
    "import. This excludes interactive sessions"
)

Result = Array | tuple[Array, Array]


@sent
class Call(NamedTuple):
    """Request to a worker: an operation on one row, and linearizations that it may forget before."""

    operation: str  # "observations", "linearize", "product", "jacobian" or "rows"
    arguments: tuple[object, ...]
    forgotten: Sequence[int] = ()  # tokens of linearizations that are no longer needed
    cotangent: bytes | None = None  # pickled, where it has to know a new function for what it does ahead


@sent
class Answer(NamedTuple):
    """Answer to a call: ``value`` where ``status`` is "done", otherwise the message of the error.

    Beside a linearization there may be the vector-Jacobian ``product`` that is asked for next, if its cotangent is the
    one of this `digest`.
    """

    status: str  # "done", "raised", "timed_out", "died", "mistake"
    value: Any  # what the model returned, or the words of an error
    expected: bytes | None = None
    product: Array | None = None
    worker: int = -1  # number of the worker that answered
    seconds: float = math.nan  # that it took


def describe(model: object) -> Plain:
    """The facts that a forward model states about itself besides its numbers.

    Raises
    ------
    ModelError
        If it is no forward model.
    """
    if not callable(model):
        raise ModelError(f"model must be a function or a forward model, got {model!r}")
    plain = None if callable(getattr(model, "linearize", None)) else "it is a function without derivatives"
    parameters = getattr(model, "parameters", None)
    names = "n_observations", "data_indices", "output_shape"
    return {name: getattr(model, name, None) for name in names} | {
        "parameters": None if parameters is None else tuple(parameters),
        "derivative_error": derivative_error(model),
        "function_calls": function_calls(model),
        "no_derivatives": no_derivatives(model) or plain,
        "name": repr(model),
        "offers": [name for name in ("jacobian", "rows") if callable(getattr(model, name, None))],
    }


def serve(connection: Connection, time_limit: float | None, environment: dict[str, str]) -> None:
    """Take a model from the connection and answer requests about it until the other end is closed."""
    os.environ.clear()
    os.environ.update(environment)
    _stand_alone()
    try:
        connection.send_bytes(pickle.dumps("here"))
        made, payload = connection.recv()
        advice = IMPORTABLE
        try:
            model = pickle.loads(payload)
            advice = ""
            model = model() if made else model
            described = describe(model)
        except Exception as error:
            connection.send_bytes(pickle.dumps(packed(Answer("mistake", _message(error) + advice))))
            return
        connection.send_bytes(pickle.dumps(described))
        _answer_all(connection, _Rows(model), time_limit)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the owner has closed the connection


def _answer_all(connection: Connection, rows: _Rows, time_limit: float | None) -> None:
    while True:
        call: Call = unpacked(pickle.loads(connection.recv_bytes()))
        if time_limit is not None:
            # the kernel ends this process then, whatever it does and whoever still watches it
            signal.setitimer(signal.ITIMER_REAL, 2.0 * time_limit + GRACE)
        began = time.perf_counter()
        try:
            answer = rows.answer(call)
        except ModelError as error:
            answer = Answer("mistake", str(error))
        except Exception as error:
            answer = Answer("raised", _message(error))
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        answer = answer._replace(seconds=time.perf_counter() - began)
        connection.send_bytes(pickle.dumps(packed(answer)))


class _Rows:
    """A model asked row by row, with the linearizations that it still has to keep."""

    def __init__(self, model: ForwardModel) -> None:
        self._model = model
        self._kept: dict[int, VectorJacobianProduct] = {}
        self._latest, self._tried = -1, False
        self._cotangent: Cotangent | None = None

    def answer(self, call: Call) -> Answer:
        for token in call.forgotten:
            self._kept.pop(token, None)
        if call.cotangent is not None:
            self._cotangent = None
            with contextlib.suppress(Exception):  # a user's function that cannot be imported here
                self._cotangent = pickle.loads(call.cotangent)
        operations: dict[str, Callable[..., Result]] = {
            "observations": self._observations,
            "linearize": self._linearize,
            "product": self._product,
            "jacobian": self._jacobian,
            "rows": self._chosen,
        }
        value = operations[call.operation](*call.arguments)
        answer = Answer("done", value)
        return self._ahead(answer, *call.arguments) if call.operation == "linearize" else answer

    def _observations(self, theta: Array) -> Array:
        return _only_row(self._model(theta[None]), 1, "observations")

    def _linearize(self, token: int, theta: Array, parameters: Array | None = None) -> Array:
        y, self._kept[token] = self._model.linearize(theta[None])
        self._latest = token
        return _only_row(y, 1, "observations")

    def _ahead(self, answer: Answer, token: Any, theta: Any, parameters: Any = None) -> Answer:
        """With the product for the expected cotangent. Not if it fails: it is asked for, and fails, once more then."""
        if parameters is None or self._cotangent is None or not np.isfinite(answer.value).all():
            return answer
        try:
            cotangent = self._cotangent(parameters[None], answer.value[None])[0]
            product = self._product(token, theta, cotangent)
        except Exception:
            return answer
        return answer._replace(expected=digest(cotangent), product=product) if np.isfinite(product).all() else answer

    def _product(self, token: int, theta: Array, cotangent: Array) -> Array:
        if token not in self._kept:  # it was lost with another worker
            self._linearize(token, theta)
        product = np.array(_only_row(self._kept[token](cotangent[None]), 1, "the vector-Jacobian product"))
        if token != self._latest and not self._tried:
            self._tried = True
            self._linearize(token, theta)
            fresh = _only_row(self._kept[token](cotangent[None]), 1, "the vector-Jacobian product")
            if np.linalg.norm(product - fresh) > STALE * np.linalg.norm(fresh):
                raise ModelError(
                    "the vector-Jacobian product of linearize must stay right when the model is linearized "
                    f"at another theta: at {theta.tolist()} it was {product.tolist()} then, and "
                    f"{fresh.tolist()} at first. It must not depend on attributes of the model that the next "
                    "call changes"
                )
        return product

    def _jacobian(self, theta: Array) -> Result:
        y, matrix = cast(JacobianForwardModel, self._model).jacobian(theta[None])
        return _only_row(y, 1, "observations"), _only_row(matrix, 2, "the jacobian")

    def _chosen(self, theta: Array, indices: AnyArray) -> Result:
        y, matrix = cast(RowsForwardModel, self._model).rows(theta[None], indices[None])
        return _only_row(y, 1, "the chosen observations"), _only_row(matrix, 2, "the jacobian")


def digest(cotangent: Array) -> bytes:
    """By which a cotangent (m,) is known again, to the bit."""
    return hashlib.blake2b(np.asarray(cotangent, dtype=float).tobytes(), digest_size=16).digest()


def _only_row(value: object, dimension: int, what: str) -> Array:
    array = real_array(value, what)
    if array.ndim != dimension + 1 or len(array) != 1:
        expected = ", ".join(["1"] + ["*"] * dimension)
        raise WrongShapeError(f"{what} of a batch of one row must have shape ({expected}), got {array.shape}")
    return array[0]


def _stand_alone() -> None:
    """Leave the signals of a terminal or a scheduler to the main process, and end when that ends."""
    os.setsid()  # so that processes which the model starts can be ended together with this one
    for number in (signal.SIGINT, signal.SIGTERM):
        # not SIG_IGN: programs that the model starts would inherit it
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
