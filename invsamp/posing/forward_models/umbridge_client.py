"""Forward models behind an UM-Bridge server: evaluations and gradients over HTTP.

UM-Bridge (Seelinger et al. 2023, JOSS 8, 4748) links a model in any language to its users by JSON over HTTP, protocol
1.0.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from invsamp.arguments import boolean, integer, mapping, optional, real, text
from invsamp.errors import ModelError, WrongShapeError
from invsamp.posing.forward_models.adapters import parameter_names
from invsamp.posing.forward_models.failure_log import CountsFailures, Failures
from invsamp.posing.forward_models.http_json import Server, address
from invsamp.posing.forward_models.log_density import LogDensity
from invsamp.protocols import Array, VectorJacobianProduct

PROTOCOL = 1.0


def from_umbridge(
    url: str,
    name: str,
    *,
    config: Mapping[str, object] | None = None,
    parameters: Iterable[str] | None = None,
    time_limit: float = 60.0,
    connections: int = 1,
    density: bool = False,
) -> UmbridgeFunction | LogDensity:
    """Forward model, or log density, of an UM-Bridge server.

    Theta's columns are the model's input vectors one after the other. The observations are its output vectors one after
    the other. The rows of a batch are evaluated one by one. A row is NaN if the server answers with an error, not in
    time, with anything but numbers, or at far greater length than these take, or if the connection is lost on the way.
    It is counted.

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
        Seconds for a request and its whole answer, however the server spreads it.
    connections : int, >= 1
        Rows of a batch that are asked for at the same time, for servers that evaluate in parallel.
    density : bool
        Whether the model's one output is a log density: a `LogDensity` for `Posterior` or `Target`. It has gradients
        where the server has.

    Returns
    -------
    UmbridgeFunction, UmbridgeModel or LogDensity
        A model has ``linearize``, by the server's gradients. A function without is for `finite_differences`.

    Raises
    ------
    ValueError
        If the settings are out of range. If no server of protocol 1.0 answers at the address within ten seconds. If it
        has no model of that name, or none that can be evaluated. If it refuses the configuration. If a density has
        more than one output.

    Notes
    -----
    A server that cannot be reached any more, and is not back within ten seconds, ends the run by a `ModelError`: that
    is no failure of one theta. The package ``umbridge`` serves models (``umbridge.serve_models``), but is not needed to
    ask for them: its client waits for ever for a server that hangs, and raises where one row should fail.

    Examples
    --------
    >>> import invsamp as iv
    >>> try:
    ...     model = iv.from_umbridge("http://localhost:1", "forward", time_limit=0.1)
    ... except iv.ModelError:
    ...     print("no server answers")
    ...
    no server answers
    """
    time_limit, connections = real("time_limit", time_limit, above=0), integer("connections", connections, least=1)
    names = parameter_names(parameters)
    text("name", name), boolean("density", density)
    try:
        chosen = json.dumps(optional(mapping, "config", config) or {}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"config must be a mapping that JSON can hold, got {config!r} ({error})") from None
    server = Server(address(text("url", url)), time_limit)
    try:
        kind, inputs, outputs = _pose(server, url, name, chosen)
    except (RuntimeError, TimeoutError, ConnectionError) as error:
        raise ModelError(f"{url} gives no information about its model {name!r}: {error}") from None
    model = kind(server, name, chosen, inputs, outputs, names, connections)
    if not density:
        return model
    if outputs != (1,):
        raise ValueError(f"density must be False for a model of other outputs than one number, got {list(outputs)}")
    return LogDensity(model)


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

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        """Output vectors and their length; None where lengths differ, so that observations are flat."""
        return (len(self.output_sizes), self.output_sizes[0]) if len(set(self.output_sizes)) == 1 else None

    def _evaluate(self, theta: Array) -> Array:
        answer = self._ask("Evaluate", theta, self.n_observations)
        return np.concatenate(_blocks(answer, self.output_sizes, "the output of Evaluate"))

    def _ask(self, path: str, theta: Array, numbers: int, **more: object) -> object:
        vectors = [part.tolist() for part in np.split(theta, np.cumsum(self.input_sizes)[:-1])]
        body = {"name": self.name, "input": vectors, "config": json.loads(self.config), **more}
        return self.server.ask(path, body, numbers=numbers).get("output")

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
                    self._ask("Gradient", theta, size, outWrt=out, inWrt=into, sens=sensitivity.tolist()),
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
    """Class of the server's model, and its input and output sizes."""
    info = server.ask("Info")
    if info.get("protocolVersion") != PROTOCOL:
        raise ModelError(f"{url} must speak protocol {PROTOCOL}, got {info.get('protocolVersion')!r}")
    models = info.get("models")
    if not isinstance(models, list) or name not in models:
        raise ModelError(f"name must be one of the models {models} of {url}, got {name!r}")
    support = server.ask("ModelInfo", {"name": name}).get("support")
    if not isinstance(support, dict) or not support.get("Evaluate"):
        raise ModelError(f"name must be a model that {url} can evaluate, got {name!r} with {support}")
    body = {"name": name, "config": json.loads(config)}
    inputs = _sizes(server.ask("InputSizes", body), "inputSizes", url)
    outputs = _sizes(server.ask("OutputSizes", body), "outputSizes", url)
    return UmbridgeModel if support.get("Gradient") else UmbridgeFunction, inputs, outputs


def _sizes(answer: Mapping[str, object], key: str, url: str) -> tuple[int, ...]:
    sizes = answer.get(key)
    if not isinstance(sizes, list) or not sizes or not all(type(n) is int and n > 0 for n in sizes):
        raise ModelError(f"{url} must give {key} as a list of positive integers, got {sizes!r}")
    return tuple(sizes)


def _blocks(value: object, sizes: tuple[int, ...], what: str) -> list[Array]:
    if not isinstance(value, list) or len(value) != len(sizes):
        raise WrongShapeError(f"{what} must be a list of {len(sizes)} vectors, got {value!r:.200}")
    return [_vector(block, size, what) for block, size in zip(value, sizes, strict=True)]


def _vector(value: object, size: int, what: str) -> Array:
    if not isinstance(value, list) or len(value) != size:
        raise WrongShapeError(f"{what} must hold a vector of {size} numbers, got {value!r:.200}")
    for number in value:
        if type(number) not in (float, int):  # neither a truth value nor text that looks like a number
            raise RuntimeError(f"{what} must hold numbers, got {number!r:.80}")
    try:
        return np.array(value, dtype=float)
    except OverflowError:
        raise RuntimeError(f"{what} must hold numbers within the range of doubles, got an integer beyond it") from None
