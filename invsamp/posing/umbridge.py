"""Forward models behind an UM-Bridge server: evaluations and gradients over HTTP.

UM-Bridge (Seelinger et al. 2023, JOSS 8, 4748) links a model in any language to its users by JSON over HTTP, protocol
1.0. The requests are made here with the standard library, so that each has a time limit.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

import numpy as np

from invsamp.contract import Array, VectorJacobianProduct
from invsamp.failures import CountsFailures, Failures
from invsamp.posing.forward import ModelError, WrongShapeError

PROTOCOL = 1.0
#: Seconds between attempts to reach a server that refuses the connection.
RETRY = 0.2
# what a server says when no theta would do
_MISTAKES = ("ModelNotFound", "UnsupportedFeature")


def from_umbridge(
    url: str,
    name: str,
    *,
    config: Mapping[str, Any] | None = None,
    parameters: Iterable[str] | None = None,
    time_limit: float = 60.0,
    connections: int = 1,
) -> UmbridgeFunction:
    """Forward model of an UM-Bridge server.

    Theta's columns are the model's input vectors one after the other; the observations are its output vectors one after
    the other. The rows of a batch are evaluated one by one. A row is NaN if the server answers with an error or not in
    time, or if the connection is lost on the way; it is counted.

    Parameters
    ----------
    url : str
        Such as ``"http://localhost:4242"``.
    name : str
        One of the server's models.
    config : mapping, optional
        The model's configuration, such as its level of fidelity; whatever JSON can hold.
    parameters : names, optional
        Parameters of the prior that make up theta's columns, in that order.
    time_limit : float, > 0
        Seconds to wait for an answer.
    connections : int, >= 1
        Rows of a batch that are asked for at the same time, for servers that evaluate in parallel.

    Returns
    -------
    UmbridgeFunction or UmbridgeModel
        The latter has ``linearize``, by the server's gradients. A function without is for `finite_differences`.

    Raises
    ------
    ValueError
        If the settings are out of range; if no server of protocol 1.0 answers at the address; if it has no model of
        that name, or none that can be evaluated; if it refuses the configuration.

    Notes
    -----
    A server that cannot be reached any more, within the time limit, ends the run by a `ModelError`: that is no failure
    of one theta. The package ``umbridge`` serves models (``umbridge.serve_models``), but is not needed to ask for them:
    its client waits for ever for a server that hangs, and raises where one row should fail.
    """
    if not 0 < time_limit < np.inf:
        raise ValueError(f"time_limit must be positive and finite, got {time_limit!r}")
    if isinstance(connections, bool) or not isinstance(connections, int | np.integer) or connections < 1:
        raise ValueError(f"connections must be an integer >= 1, got {connections!r}")
    server, chosen = Server(_address(url), float(time_limit)), json.dumps(dict(config or {}), sort_keys=True)
    try:
        kind, inputs, outputs = _pose(server, url, name, chosen)
    except (RuntimeError, TimeoutError, ConnectionError) as error:
        raise ModelError(f"{url} does not tell about its model {name!r}: {error}") from None
    names = (parameters,) if isinstance(parameters, str) else None if parameters is None else tuple(parameters)
    return kind(server, name, chosen, inputs, outputs, names, int(connections))


@dataclass(frozen=True)
class Server:
    """An HTTP server that is asked for JSON."""

    address: SplitResult
    time_limit: float  # seconds

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object that it answers with.

        Raises
        ------
        ModelError
            If it cannot be reached within the time limit, or says that no theta would do.
        TimeoutError
            If it does not answer within the time limit.
        ConnectionError
            If the connection is lost on the way.
        RuntimeError
            If it answers with an error, or not with JSON.
        """
        deadline = time.monotonic() + self.time_limit
        connection = self._connect(deadline)
        try:
            text = None if body is None else json.dumps(body)
            method, headers = ("GET", {}) if text is None else ("POST", {"Content-Type": "application/json"})
            assert connection.sock is not None
            connection.sock.settimeout(max(1e-3, deadline - time.monotonic()))
            connection.request(method, f"{self.address.path.rstrip('/')}/{path}", text, headers)
            response = connection.getresponse()
            status, reply = response.status, response.read()
        except TimeoutError:
            raise TimeoutError(f"no answer within {self.time_limit:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(f"the connection was lost ({type(error).__name__}: {error})") from None
        finally:
            connection.close()
        return self._understood(path, status, reply)

    def _connect(self, deadline: float) -> http.client.HTTPConnection:
        """A new connection: one that was kept might have been closed by the server meanwhile."""
        kind = http.client.HTTPSConnection if self.address.scheme == "https" else http.client.HTTPConnection
        assert self.address.hostname is not None
        while True:
            left = deadline - time.monotonic()
            connection = kind(self.address.hostname, self.address.port, timeout=max(1e-3, left))
            try:
                connection.connect()
                return connection
            except OSError as error:
                connection.close()
                # a server that is started anew after a crash is back in a moment
                if not isinstance(error, ConnectionRefusedError) or left < RETRY:
                    raise ModelError(f"no server answers at {self.address.geturl()} ({error})") from None
            time.sleep(RETRY)

    def _understood(self, path: str, status: int, reply: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(reply)
        except ValueError:
            answer = None
        error = answer.get("error") if isinstance(answer, dict) else None
        if error is not None:
            told = error if isinstance(error, dict) else {"message": error}
            words = f"{told.get('type', 'error')}: {told.get('message', '')}"
            raise (ModelError if told.get("type") in _MISTAKES else RuntimeError)(words)
        if status >= 400 or not isinstance(answer, dict):
            shown = reply[:200].decode(errors="replace")
            raise RuntimeError(f"HTTP status {status} and {shown!r} in answer to {path}")
        return answer


@dataclass(frozen=True, repr=False)
class UmbridgeFunction(CountsFailures):
    """Function of a batch of theta, evaluated by an UM-Bridge server; made by `from_umbridge`.

    Attributes
    ----------
    server : Server
    name : str
    config : str
        As JSON.
    input_sizes, output_sizes : tuple of int
        Lengths of the model's input and output vectors.
    parameters : tuple of str or None
    connections : int
    """

    server: Server
    name: str
    config: str
    input_sizes: tuple[int, ...]
    output_sizes: tuple[int, ...]
    parameters: tuple[str, ...] | None = None
    connections: int = field(default=1, compare=False)
    _failures: Failures = field(default_factory=Failures, init=False, compare=False)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.server.address.geturl()!r}, {self.name!r}, config={self.config}, "
            f"inputs={self.input_sizes}, outputs={self.output_sizes}, time_limit={self.server.time_limit:g})"
        )

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations); NaN in the rows that failed."""
        theta = self._checked(theta)
        began = time.perf_counter()
        y = self._each_row(self._evaluate, theta, width=self.n_observations)
        self._failures.timed(time.perf_counter() - began, len(theta))
        return y

    @property
    def n_observations(self) -> int:
        """Length of a row of observations."""
        return sum(self.output_sizes)

    def _evaluate(self, theta: Array) -> Array:
        answer = self._ask("Evaluate", theta)
        return np.concatenate(_blocks(answer, self.output_sizes, "the output of Evaluate"))

    def _ask(self, path: str, theta: Array, **more: Any) -> Any:
        vectors = [part.tolist() for part in np.split(theta, np.cumsum(self.input_sizes)[:-1])]
        body = {"name": self.name, "input": vectors, "config": json.loads(self.config), **more}
        return self.server.ask(path, body).get("output")

    def _each_row(self, function: Callable[..., Array], *columns: Array, width: int) -> Array:
        """Results of a function of one row, stacked; NaN where it failed."""

        def guarded(*row: Array) -> Array:
            where = f"at theta {np.array2string(row[0], precision=6, threshold=8, separator=', ')}"
            try:
                value = function(*row)
            except TimeoutError as error:
                self._failures.note("timed_out", f"TimeoutError: {error} {where}")
            except ConnectionError as error:
                self._failures.note("died", f"{error} {where}")
            except RuntimeError as error:
                self._failures.note("raised", f"{error} {where}")
            else:
                if not np.isfinite(value).all():
                    self._failures.note("not_finite", f"not finite {where}")
                return value
            return np.full(width, np.nan)

        rows = list(zip(*columns, strict=True))
        if min(self.connections, len(rows)) <= 1:
            results = [guarded(*row) for row in rows]
        else:
            with ThreadPoolExecutor(min(self.connections, len(rows))) as threads:
                results = list(threads.map(lambda row: guarded(*row), rows))
        return np.array(results).reshape(len(rows), width)

    def _checked(self, theta: Array) -> Array:
        theta = np.asarray(theta, dtype=float)
        if theta.ndim != 2 or theta.shape[1] != sum(self.input_sizes):
            raise ModelError(
                f"theta must have shape (batch, {sum(self.input_sizes)}) for the inputs {self.input_sizes} of the "
                f"model {self.name!r}, got {theta.shape}"
            )
        return theta


@dataclass(frozen=True, repr=False)
class UmbridgeModel(UmbridgeFunction):
    """Forward model of an UM-Bridge server that gives gradients; made by `from_umbridge`."""

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product, one request for each pair of an input and an output vector."""
        theta = self._checked(theta)
        y = self(theta)
        alive = np.flatnonzero(np.isfinite(y).all(axis=1))

        def vjp(cotangent: Array) -> Array:
            gradient = np.full(theta.shape, np.nan)
            weights = np.asarray(cotangent, dtype=float)[alive]
            gradient[alive] = self._each_row(self._gradient, theta[alive], weights, width=theta.shape[1])
            return gradient

        return y, vjp

    def _gradient(self, theta: Array, cotangent: Array) -> Array:
        sensitivities = np.split(cotangent, np.cumsum(self.output_sizes)[:-1])
        gradient = []
        for into, size in enumerate(self.input_sizes):
            parts = [
                _vector(
                    self._ask("Gradient", theta, outWrt=out, inWrt=into, sens=sensitivity.tolist()),
                    size,
                    "the output of Gradient",
                )
                for out, sensitivity in enumerate(sensitivities)
            ]
            gradient.append(np.sum(parts, axis=0))
        return np.concatenate(gradient)


def _pose(
    server: Server, url: str, name: str, config: str
) -> tuple[type[UmbridgeFunction], tuple[int, ...], tuple[int, ...]]:
    """What the server's model is, and its input and output sizes."""
    info = server.ask("Info")
    if info.get("protocolVersion") != PROTOCOL:
        raise ModelError(f"{url} must speak protocol {PROTOCOL}, got {info.get('protocolVersion')!r}")
    if name not in info.get("models", []):
        raise ModelError(f"name must be one of the models {info.get('models', [])} of {url}, got {name!r}")
    support = server.ask("ModelInfo", {"name": name}).get("support", {})
    if not support.get("Evaluate"):
        raise ModelError(f"name must be a model that {url} can evaluate, got {name!r} with {support}")
    body = {"name": name, "config": json.loads(config)}
    inputs = _sizes(server.ask("InputSizes", body), "inputSizes", url)
    outputs = _sizes(server.ask("OutputSizes", body), "outputSizes", url)
    return UmbridgeModel if support.get("Gradient") else UmbridgeFunction, inputs, outputs


def _address(url: str) -> SplitResult:
    address = urlsplit(url)
    try:
        fits = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # a port that is no number
        fits = False
    if not fits:
        raise ValueError(f"url must be http://host:port or https://host:port, got {url!r}")
    return address


def _sizes(answer: Mapping[str, Any], key: str, url: str) -> tuple[int, ...]:
    sizes = answer.get(key)
    if not isinstance(sizes, list) or not sizes or not all(isinstance(n, int) and n > 0 for n in sizes):
        raise ModelError(f"{url} must give {key} as a list of positive integers, got {sizes!r}")
    return tuple(sizes)


def _blocks(value: Any, sizes: tuple[int, ...], what: str) -> list[Array]:
    if not isinstance(value, list) or len(value) != len(sizes):
        raise WrongShapeError(f"{what} must be a list of {len(sizes)} vectors, got {value!r}")
    return [_vector(block, size, what) for block, size in zip(value, sizes, strict=True)]


def _vector(value: Any, size: int, what: str) -> Array:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.shape != (size,):
        raise WrongShapeError(f"{what} must hold a vector of {size} numbers, got {value!r}")
    return array
