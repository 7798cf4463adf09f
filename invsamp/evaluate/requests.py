"""Requests of kernels, estimators and swaps, and their estimates: the one way from a sampler to its models.

Whoever wants an energy is a generator. It yields a tuple of requests, which may be answered at the same time, and is
sent a tuple of estimates in their order:

    def step(...) -> EvaluationRequests[Array]:
        coarse, fine = yield Request("coarse", position), Request("fine", position)
        return fine.energy - coarse.energy

So no method depends on where, and together with what, it is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from math import isfinite
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.errors import ModelError
from invsamp.protocols import Array, BatchTerms, Gradients, Terms
from invsamp.stored import stored

Structure = Literal["isotropic", "diagonal", "full"]
STRUCTURES: tuple[Structure, ...] = ("isotropic", "diagonal", "full")
#: Indices of some of the chains.
Rows = npt.NDArray[np.intp]
#: What a part keeps from step to step: plain arrays by name. Saved and resumed with the run.
Memory = dict[str, Array]
Result = TypeVar("Result")


class Batch(NamedTuple):
    """Some of the data, or of groups of them, drawn without replacement; each row has its own.

    With ``reference``, the sum is over each term less its expansion about that position, to first order. With ``order``
    0 only its energy there is subtracted (times minus ``coefficient``, if that is given), and the gradient is as it is.
    With ``curvature``, the answer has the prior's energy and gradient. In place of the gradient's variance it has the
    sum over the batch of the terms' Gauss-Newton matrices (rows, d, d).

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> iv.evaluate.Batch(members=np.array([[0, 3]]), counted=None, total=10, structure=None).total
    10
    """

    members: npt.NDArray[np.intp]  # (rows, n) data, or (rows, n, most) data of groups
    counted: Array | None  # (rows, n, most): 1 where a member counts; None for data by themselves
    total: int  # number of data, or of groups, of which these are n
    structure: Structure | None  # form in which the gradient's variance is wanted; None: it is not wanted
    reference: Array | None = None  # (rows, d)
    order: int = 1
    coefficient: Array | None = None  # (rows,)
    known: Array | None = None  # (rows, n, 1 + d): energies and gradients to be taken from the terms, too
    curvature: bool = False

    def take(self, rows: Rows | slice) -> Batch:
        """Those of some rows."""
        return Batch(*(part[rows] if isinstance(part, np.ndarray) else part for part in self))  # type: ignore[arg-type]


class Request(NamedTuple):
    """Energies at positions (rows, d), with or without gradients; of the whole potential, or estimated by a batch.

    With ``observations`` the answer has, in the place of gradients, what the forward model predicts (rows, m); its
    energies are 0, or +inf where the solve failed (`invsamp.protocols.ObservingPotential`). With the gradient "curved"
    it has a Gauss-Newton matrix (rows, d, d) for the gradient's variance (`invsamp.protocols.CurvedPotential`).

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> iv.evaluate.Request("fine", np.zeros((4, 2)), gradient=False).position.shape
    (4, 2)
    """

    fidelity: str
    position: Array
    gradient: Gradients = True
    batch: Batch | None = None
    observations: bool = False

    @property
    def of_each_row(self) -> int:
        """Evaluations that a row takes: a batch with references is evaluated there, too."""
        return 2 if self.batch is not None and self.batch.reference is not None else 1


@stored
class Estimate(NamedTuple):
    """Energy and gradient at a position; the variances are None where there is no noise.

    ``gradient_variance`` has shape (chains,) for isotropic noise, (chains, d) for independent entries and
    (chains, d, d) for a full covariance. The gradient is None where it was not asked for. ``prior`` is the part of the
    energy that is the prior's, None where a potential does not separate it (`invsamp.protocols.SplitPotential`);
    ``prior_gradient`` comes only where it is asked for. ``failed`` says whether any energy is infinite because a solve
    failed; its gradient is 0. ``mapped`` are coordinates (chains, d) of a transport map, within a step of a rung
    that has one.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> iv.evaluate.Estimate(energy=np.zeros(2), gradient=np.zeros((2, 3))).energy
    array([0., 0.])
    """

    energy: Array
    gradient: Array
    energy_variance: Array | None = None
    gradient_variance: Array | None = None
    prior: Array | None = None
    prior_gradient: Array | None = None
    failed: bool = False
    mapped: Array | None = None

    @property
    def arrays(self) -> tuple[Array | None, ...]:
        """The parts of an estimate that a model gives: all but the last two."""
        return self[:6]

    @property
    def failures(self) -> int:
        """In how many rows a solve failed."""
        return int(np.count_nonzero(np.isinf(self.energy))) if self.failed else 0

    def take(self, rows: Rows) -> Estimate:
        """The estimate of the chains ``rows`` alone."""
        return Estimate(*[None if part is None else part[rows] for part in self.arrays])  # type: ignore[arg-type]

    def replaced(self, rows: Rows, new: Estimate) -> Estimate:
        """A copy in which the chains ``rows`` have the estimate ``new``."""
        parts = [
            None if old is None or part is None else _replaced(old, rows, part)
            for old, part in zip(self.arrays, new.arrays, strict=True)
        ]
        return Estimate(*parts)  # type: ignore[arg-type]


EvaluationRequests = Generator[tuple[Request, ...], tuple[Estimate, ...], Result]
#: Answers requests, in their order.
Answer = Callable[[tuple[Request, ...]], tuple[Estimate, ...]]


class Queue(Protocol):
    """Answers several that ask, to each as soon as its own answers are there."""

    def put(self, asking: int, requests: tuple[Request, ...]) -> None:
        """Queue the requests of one caller."""

    def get(self) -> tuple[int, tuple[Estimate, ...]]:
        """One of them whose answers are there, and these, in the order of its requests; waits for it."""

    def clear(self) -> None:
        """Wait for what is under way, and forget all that was asked."""


def answered(asking: EvaluationRequests[Result], answer: Answer) -> Result:
    """The result of a generator of requests if each is answered at once."""
    send = asking.send
    try:
        requests = send(None)  # type: ignore[arg-type]
        while True:
            requests = send(answer(requests))
    except StopIteration as end:
        result: Result = end.value
        return result


def done(asking: EvaluationRequests[None], answer: Answer) -> None:
    """The same of what returns nothing: where it asks for nothing either, no exception has to end it."""
    for requests in asking:
        try:
            while True:
                requests = asking.send(answer(requests))
        except StopIteration:
            return


def watched(asking: EvaluationRequests[Result], see: Callable[[Sequence[Request]], None]) -> EvaluationRequests[Result]:
    """The same, with every group of requests shown to ``see`` before it is evaluated."""
    try:
        requests = next(asking)
        while True:
            see(requests)
            requests = asking.send((yield requests))
    except StopIteration as end:
        result: Result = end.value
        return result


def gathered(askings: Sequence[EvaluationRequests[Result]]) -> EvaluationRequests[list[Result]]:
    """The results of several generators whose requests are made together. Those with more requests continue."""
    if len(askings) == 1:
        return [(yield from askings[0])]
    results: dict[int, Result] = {}
    pending: dict[int, tuple[Request, ...]] = {}

    def go_on(k: int, found: tuple[Estimate, ...] | None) -> None:
        try:
            pending[k] = next(askings[k]) if found is None else askings[k].send(found)
        except StopIteration as end:
            pending.pop(k, None)
            results[k] = end.value

    for k in range(len(askings)):
        go_on(k, None)
    while pending:
        found = yield tuple(request for requests in pending.values() for request in requests)
        begin = 0
        for k, requests in list(pending.items()):
            go_on(k, found[begin : begin + len(requests)])
            begin += len(requests)
    return [results[k] for k in range(len(askings))]


def as_they_come(askings: Sequence[EvaluationRequests[Result]], queue: Queue) -> list[Result]:
    """The same where each goes on as soon as what it asked for is there, whatever the others wait for."""
    results: dict[int, Result] = {}

    def go_on(k: int, found: tuple[Estimate, ...] | None) -> None:
        try:
            queue.put(k, next(askings[k]) if found is None else askings[k].send(found))
        except StopIteration as end:
            results[k] = end.value

    try:
        for k in range(len(askings)):
            go_on(k, None)
        while len(results) < len(askings):
            go_on(*queue.get())
    except Exception:
        queue.clear()
        raise
    return [results[k] for k in range(len(askings))]


def rows_of(request: Request, rows: slice) -> Request:
    """The request of some rows alone, as they would lie in memory if they were all."""
    batch = request.batch and request.batch.take(rows)
    return request._replace(position=np.ascontiguousarray(request.position[rows]), batch=batch)


def kind_of(request: Request) -> tuple[object, ...]:
    """Requests of one kind take about as long for a row, and treat rows alike."""
    batch = request.batch
    of_batch = batch and (batch.members.shape[1:], *map(_kind, batch[2:]))
    return request.fidelity, request.gradient, of_batch, request.observations


def _kind(part: object) -> object:
    return "array" if isinstance(part, np.ndarray) else part


def joined(parts: Sequence[Estimate]) -> Estimate:
    """Estimates of rows one after the other as one."""
    if len(parts) == 1:
        return parts[0]
    columns = [None if c[0] is None else np.concatenate(c) for c in zip(*(part.arrays for part in parts), strict=True)]
    return Estimate(*columns, any(part.failed for part in parts))  # type: ignore[arg-type, call-arg]


def check_shapes(request: Request, found: Estimate) -> None:
    """`ValueError` unless energy and gradient have the shapes that the request wants."""
    position = request.position
    wanted = request.gradient and not request.observations
    energy, gradient = found.energy.shape, found.gradient.shape if wanted else position.shape
    if (energy, gradient) != (position.shape[:1], position.shape):
        raise ValueError(
            f"the potential of fidelity {request.fidelity!r} must return an energy of shape {position.shape[:1]} and a "
            f"gradient of shape {position.shape}, got {energy} and {gradient}"
        )
    if found.prior is not None and found.prior.shape != energy:
        raise ValueError(
            f"the potential of fidelity {request.fidelity!r} must return a prior energy of shape {energy}, got "
            f"{found.prior.shape}"
        )


def reduced(terms: Terms, batch: Batch, gradient: Gradients = True) -> Estimate:
    r"""Estimate of a whole sum from the terms of a batch, with its own sample variances.

    With G the total and n the size of the batch, sums are multiplied by :math:`G/n`. The variance of that is
    :math:`\frac{G^2}{n} (1 - \frac{n}{G})` times the variance within the batch. For a batch of one it is 0.
    """
    scale, variance_scale = batch.total / batch.members.shape[1], _variance_scale(batch)
    # beside itself, a term alone has a variance of 0
    energies, gradients = (np.repeat(p, 2, axis=1) if p.shape[1] == 1 else p for p in (terms.energies, terms.gradients))
    return Estimate(
        terms.prior_energy + scale * terms.energies.sum(axis=1),
        terms.prior_gradient + scale * terms.gradients.sum(axis=1),
        variance_scale * energies.var(axis=1, ddof=1),
        None if batch.structure is None else variance_scale * sample_variance(gradients, batch.structure),
        terms.prior_energy,
        terms.prior_gradient if gradient == "apart" else None,
    )


def reduced_sums(terms: BatchTerms, batch: Batch) -> Estimate:
    """The same for terms whose gradients are summed, without the gradient's variance."""
    energies, size = terms.energies, batch.members.shape[1]
    total, variance = energies.sum(axis=1), np.zeros(len(energies))
    if size > 1:
        off = energies - (total / size)[:, None]
        variance = _variance_scale(batch) / (size - 1) * np.einsum("ij,ij->i", off, off)
    whole = terms.prior_energy + batch.total / size * total
    parts = terms.gradient, variance, None, terms.prior_energy, terms.prior_gradient
    return Estimate(whole, *parts)  # type: ignore[arg-type]


def _variance_scale(batch: Batch) -> float:
    """Ratio of the variance of an estimated sum to that within a batch."""
    size = batch.members.shape[1]
    return batch.total**2 / size * (1.0 - size / batch.total)


@njit(cache=True, fastmath={"reassoc"})
def moduli(values: Array) -> float:
    """Sum of the moduli of values (n,): infinite or NaN where one of them is.

    Without a warning, and without BLAS, whose threads wait for each other at every step on a machine with other work.
    """
    total = 0.0
    for i in range(len(values)):  # over indices: by vectors of the processor
        total += abs(values[i])
    return total


def guarded(found: Estimate) -> Estimate:
    """Energies +inf, gradients and variances 0 where any of them is not finite.

    The prior's own energy and gradient stay where they are finite: a failed solve does not affect them.

    Raises
    ------
    ModelError
        If an energy is -inf, which is no failure: density without bound.
    """
    # sums of moduli are enough to see that all is well
    if isfinite(sum([moduli(part.ravel()) for part in found.arrays if part is not None])):
        return found
    energy, gradient, *variances, prior, slope = found.arrays
    assert energy is not None
    if (energy == -np.inf).any():
        raise ModelError("energies must be finite, or +inf where there is no density, got -inf: a log density of +inf")
    without = _not_finite(prior, slope)
    bad = _not_finite(energy, gradient, *variances) | without
    if not bad.any():
        return found
    rest = [_filled(bad, part, 0.0) for part in (gradient, *variances)]
    apart = _filled(without, prior, np.inf), _filled(without, slope, 0.0)
    return Estimate(_filled(bad, energy, np.inf), *rest, *apart, True)  # type: ignore[arg-type, call-arg]


def sample_variance(values: Array, structure: Structure) -> Array:
    """Variance over axis 1 of values (chains, n, d): (chains,), (chains, d) or (chains, d, d) by ``structure``."""
    if structure == "full":
        centered = values - values.mean(axis=1, keepdims=True)
        return np.swapaxes(centered, 1, 2) @ centered / (values.shape[1] - 1)
    by_entry = values.var(axis=1, ddof=1)
    return by_entry if structure == "diagonal" else by_entry.mean(axis=1)


def _not_finite(*parts: Array | None) -> npt.NDArray[np.bool_]:
    """In which rows any of some parts is not finite."""
    rows = [~np.isfinite(part.reshape(len(part), -1)).all(axis=1) for part in parts if part is not None]
    return np.asarray(np.any(rows, axis=0)) if rows else np.zeros(1, dtype=bool)


def _filled(rows: npt.NDArray[np.bool_], part: Array | None, value: float) -> Array | None:
    return None if part is None else np.where(rows.reshape(-1, *[1] * (part.ndim - 1)), value, part)


def _replaced(old: Array, rows: Rows, new: Array) -> Array:
    copy = old.copy()  # the model may have kept its own reference to what it returned
    copy[rows] = new
    return copy
