"""The interface of a user's evaluator, and the checks of its estimates."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Estimate, Queue, Request, guarded, rows_of
from invsamp.evaluate.speculation import FutureRequests
from invsamp.posing.forward_models.guarded_model import own_array
from invsamp.protocols import Plain, Potential

Result = TypeVar("Result")

#: Rows that are asked for by themselves at most, to see that none have changed places.
MAX_COMPARED = 64


class EvaluatorError(RuntimeError):
    """An evaluator failed, or returned something invalid; draws made before are kept.

    Examples
    --------
    >>> import invsamp as iv
    >>> issubclass(iv.evaluate.EvaluatorError, Exception)  # ends a run, which keeps its draws
    True
    """


@runtime_checkable
class Evaluator(Protocol):
    """Evaluates what a run asks for: on a cluster, a GPU, a queue of the user's.

    The draws do not depend on it, as long as a row has the same bits wherever it is evaluated.

    Examples
    --------
    >>> import invsamp as iv
    >>> class Serial:
    ...     def evaluate(self, potentials, requests):
    ...         return [iv.evaluate.solve(potentials[one.fidelity], one) for one in requests]
    ...
    """

    def open(self, potentials: Mapping[str, Potential]) -> None:
        """Before the first request: the potentials by fidelity, as the sampler walks in them.

        Again, with other potentials, where warm-up has corrected a coarse model
        (`invsamp.samplers.surrogate_exchange`).
        """

    def evaluate(self, requests: Sequence[Request]) -> Sequence[Estimate]:
        """Energies, with gradients where they are asked for, in the order of the requests.

        Those of all rungs that can go on come together. `invsamp.evaluate.solve` does one with its potential. A solve
        that failed is an energy that is not finite.
        """

    def close(self) -> None:
        """After the last request, however the run ends."""


@runtime_checkable
class LooksAhead(Protocol):
    """An evaluator that can use what a run will ask for later."""

    def follow(self, capture: Callable[[], FutureRequests]) -> None:
        """A step of draws begins; ``capture`` gives the requests of this step and of those after it."""

    def report(self) -> Plain:
        """Counts of speculative evaluation."""


class RunEvaluator:
    """Evaluates for a run, from its first request to its last, and counts by the potentials of `open`.

    Attributes
    ----------
    local : bool
        Whether the run evaluates by its own potentials and asks nothing of this evaluator.
    drives : bool
        Whether this process makes the run. Others of the same evaluator only solve.
    processes : int
        How many make the run together.
    queue : Queue or None
        Where each rung gets its estimates as soon as they are there.
    """

    local, drives, processes = False, True, 1
    queue: Queue | None = None

    def open(self, potentials: Mapping[str, CountedPotential]) -> None:
        """Before the first request."""

    def evaluate(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """Estimates in the order of the requests."""
        raise NotImplementedError

    def correct(self, correction: object) -> None:
        """After a coarse fidelity's potential was renewed with a correction (`invsamp.surrogates.learning`)."""

    def drive(self, work: Callable[[], Result]) -> Result:
        """Of several processes: the result of ``work``, which makes the run where this process drives."""
        raise NotImplementedError

    def follow(self, capture: Callable[[], FutureRequests]) -> None:
        """A step of draws begins; ``capture`` gives the requests of this step and of those after it."""

    def signaled(self) -> int | None:
        """A signal that another process got, if one did."""
        return None

    def report(self) -> Plain:
        """Of the processes, for the report of the run."""
        return {"count": self.processes}

    def close(self) -> None:
        """After the last request, however the run ends."""


class Checked(RunEvaluator):
    """An evaluator of a user's, whose answers are checked and counted."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._compared, self._repeats = 0, False
        self._before: tuple[tuple[Request, ...], tuple[Estimate, ...]] = (), ()

    def __repr__(self) -> str:
        return repr(self._evaluator)

    def open(self, potentials: Mapping[str, CountedPotential]) -> None:
        """Before the first request, and again after a correction.

        Raises
        ------
        ValueError
            If the evaluator does not suit the potentials.
        EvaluatorError
            If it raises anything else.
        """
        self._potentials = potentials
        try:
            self._evaluator.open({name: counted.potential for name, counted in potentials.items()})
        except ValueError:
            raise
        except Exception as error:
            raise EvaluatorError(f"{self!r} failed when it was opened: {type(error).__name__}: {error}") from error

    def correct(self, correction: object) -> None:
        """Set the potentials again: one of them was renewed."""
        self.open(self._potentials)

    def follow(self, capture: Callable[[], FutureRequests]) -> None:
        """Pass the beginning of a step on to an evaluator that looks ahead."""
        if isinstance(self._evaluator, LooksAhead):
            self._evaluator.follow(capture)

    def report(self) -> Plain:
        """Of the processes, and of what was evaluated ahead."""
        ahead = self._evaluator.report() if isinstance(self._evaluator, LooksAhead) else {}
        return {**super().report(), **ahead}

    def close(self) -> None:
        """After the last request."""
        self._evaluator.close()

    def evaluate(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """Estimates in the order of the requests.

        Raises
        ------
        EvaluatorError
            If the evaluator raises, or gives something else than it was asked for.
        """
        begin = time.perf_counter()
        found = self._asked(requests)
        seconds = (time.perf_counter() - begin) / max(1, sum(len(request.position) for request in requests))
        if min(len(requests), 2) > self._compared:  # the first time that anything is asked, and that several are
            self._compared = min(len(requests), 2)
            self._compare(requests, found)
        self._check_late(requests, found)
        for request, estimate in zip(requests, found, strict=True):
            rows = len(request.position)
            self._potentials[request.fidelity].count(request, rows, estimate.failures, seconds * rows)
        return found

    def _asked(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        # copies: positions are the chains' own
        sent = [request._replace(position=request.position.copy()) for request in requests]
        try:
            found = list(self._evaluator.evaluate(sent))
        except Exception as error:
            raise EvaluatorError(f"{self._evaluator!r} failed: {type(error).__name__}: {error}") from error
        if len(found) != len(requests):
            raise self._wrong(f"{len(requests)} estimates", len(found))
        if _shared([estimate.energy for estimate in found if isinstance(estimate, Estimate)]):
            raise self._wrong("each request energies of its own", "one array for several")
        return tuple(self._checked(*pair) for pair in zip(requests, found, strict=True))

    def _checked(self, request: Request, found: object) -> Estimate:
        if not isinstance(found, Estimate):
            raise self._wrong("an Estimate for each request", repr(found))
        # gradients that were not requested are ignored
        varies = request.gradient and not (request.batch is not None and request.batch.structure is None)
        asked = [True, request.gradient, True, varies, True, request.gradient == "apart"]
        given = [part if wanted else None for part, wanted in zip(found.arrays, asked, strict=True)]
        right = _shapes(request, found.prior is not None or self._potentials[request.fidelity].apart)
        if request.gradient == "curved" and found.gradient_variance is None:  # an evaluator need not provide matrices
            right[3] = None
        if request.observations:
            predicted = np.shape(found.gradient)[1:2]
            given = [found.energy, found.gradient, *4 * [None]]
            right = [right[0], (len(request.position), *(predicted or (0,))), *4 * [None]]
        shapes = [None if part is None else np.shape(part) for part in given]
        for first, last in ((0, 4), (4, 6)):
            if shapes[first:last] != right[first:last]:
                raise self._wrong(_in_words(right[first:last], first), _in_words(shapes[first:last], first))
        try:
            parts = [None if part is None else own_array(part, name) for name, part in zip(_NAMES, given, strict=True)]
        except ValueError as error:
            raise EvaluatorError(f"{self._evaluator!r} must give numbers: {error}") from error
        estimate = guarded(Estimate(*parts))  # type: ignore[arg-type]
        if estimate.energy_variance is not None and (estimate.energy_variance < 0.0).any():
            raise self._wrong("variances that are not negative", estimate.energy_variance.min())
        return estimate

    def _compare(self, requests: tuple[Request, ...], found: tuple[Estimate, ...]) -> None:
        """Ask for the first row of each request, and for all rows of the longest, by themselves.

        They must have the same estimates, and not those of other requests or rows. With noise they are like none.
        """
        longest = max(range(len(requests)), key=lambda k: len(requests[k].position))
        firsts = [(k, 0) for k, request in enumerate(requests) if len(request.position)]
        rows = [(longest, row) for row in range(1, min(len(requests[longest].position), MAX_COMPARED))]
        alone = {at: self._asked((rows_of(requests[at[0]], slice(at[1], at[1] + 1)),))[0] for at in firsts + rows}
        for k, row in alone:
            if _alike(alone[k, row], found[k], row):
                continue
            of = next((j for j, _ in firsts if row == 0 and j != k and _alike(alone[j, 0], found[k], 0)), None)
            if of is not None:
                raise self._wrong("estimates in the order of the requests", f"that of request {of} for request {k}")
            at = next((i for i in range(len(found[k].energy)) if _alike(alone[k, row], found[k], i)), None)
            if at is None or k != longest:
                continue
            again = [self._asked((rows_of(requests[k], slice(row, row + 1)),))[0] for _ in range(2)]
            if _alike(again[1], found[k], row):
                raise self._wrong(*_LATE)
            raise self._wrong("estimates in the order of a request's rows", f"that of row {row} for row {at}")

    def _check_late(self, requests: tuple[Request, ...], found: tuple[Estimate, ...]) -> None:
        """An answer that is that of the time before must be so again, or it came late."""
        for request, estimate, last, then in zip(requests, found, *self._before, strict=False):
            alike = np.array_equal(estimate.energy, then.energy) and np.isfinite(estimate.energy).all()
            if self._repeats or not alike or np.array_equal(request.position, last.position):
                continue
            self._repeats = True  # where energies are constant this is asked once
            if not np.array_equal(self._asked((request,))[0].energy, estimate.energy):
                raise self._wrong(*_LATE)
        self._before = requests, found

    def _wrong(self, right: str, value: object) -> EvaluatorError:
        return EvaluatorError(f"{self._evaluator!r} must give {right}, got {value}")


_LATE = "the answer to this request", "the answer to the last request"
_NAMES = (
    *("energies", "gradients", "variances of energies", "variances of gradients"),
    *("prior energies", "gradients of prior energies"),
)


def _shapes(request: Request, prior: bool) -> list[tuple[int, ...] | None]:
    """Of an estimate's energy, gradient, variances and prior parts; None for what is not asked for."""
    rows, d = request.position.shape
    gradient = (rows, d) if request.gradient else None
    parts = [(rows,) if prior else None, (rows, d) if request.gradient == "apart" else None]
    if request.batch is None:
        return [(rows,), gradient, None, (rows, d, d) if request.gradient == "curved" else None, *parts]
    by_structure = {"isotropic": (rows,), "diagonal": (rows, d), "full": (rows, d, d)}
    structure = request.batch.structure
    variance = by_structure[structure] if request.gradient and structure is not None else None
    return [(rows,), gradient, (rows,), variance, *parts]


def _in_words(shapes: Sequence[tuple[int, ...] | None], first: int) -> str:
    parts = [
        f"{name} of shape {shape}" for name, shape in zip(_NAMES[first:], shapes, strict=False) if shape is not None
    ]
    return ", ".join(parts) or "none"


def _alike(one: Estimate, other: Estimate, row: int) -> bool:
    """Whether an estimate of one row is another's of some row but for rounding, of single precision too."""
    pairs = [(one.energy, other.energy), (one.gradient, other.gradient)]
    return all(
        a is b or (a is not None and b is not None and np.allclose(a[0], b[row], rtol=1e-5, atol=1e-8))
        for a, b in pairs
    )


def _shared(arrays: Sequence[object]) -> bool:
    """Whether some of them lie in one place."""
    own = [array for array in arrays if isinstance(array, np.ndarray)]
    return any(np.may_share_memory(one, other) for one, other in itertools.combinations(own, 2))
