"""Checks of a rung's kernel during its steps: its requests, and what it returns.

Of the package's own kernels the first steps alone, as later ones are to be cheap; of a user's own each.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Generator, Mapping
from typing import Any, TypeGuard

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.evaluate.requests import Batch, Estimate, EvaluationRequests, Memory, Request, Rows
from invsamp.kernels.contract import RESTED, Info, Kernel, Mask, Moved, Point
from invsamp.protocols import Array

#: Steps of a rung's own kernel that are checked, in each process that continues a run.
FIRST_STEPS = 8


class PartError(RuntimeError):
    """A part of a sampler asks for, or returns, what its contract does not allow."""


def steps_to_check(kernel: Kernel) -> float:
    """How many of its steps are checked."""
    return FIRST_STEPS if type(kernel).__module__.startswith("invsamp.") else math.inf


def checked_step(
    kernel: Kernel, rung: Any, here: Point, memory: Memory, domain: Domain, fidelities: Collection[str]
) -> EvaluationRequests[Moved]:
    """A step of a kernel.

    Raises
    ------
    PartError
        If it yields something else than requests, or returns positions that it cannot have found: outside the domain,
        not finite, with an energy that it was not given there, or of another chain.
    """
    name, known = f"the kernel {kernel!r}", _KnownEnergies(here)
    evaluate = rung.evaluate

    def evaluated_at(position: Array, rows: Rows | None = None) -> EvaluationRequests[Estimate]:
        _check_positions(name, "rung.evaluate of", position, here.position.shape[1])
        chains = known.every if rows is None and len(position) == len(known.every) else rows
        if chains is not None and np.shape(chains) != (len(position),):
            raise _wrong(name, f"give rows, the chain of each of the {len(position)} positions", rows)
        known.evaluating += 1
        estimate = yield from evaluate(position, rows)
        known.evaluating -= 1
        known.hear(position, estimate, chains)
        return estimate

    rung.evaluate = evaluated_at
    try:
        moved = yield from _asked(kernel.step(rung, here, memory), name, fidelities, known)
    finally:
        rung.evaluate = evaluate
    if not (isinstance(moved, tuple) and len(moved) == 3):
        raise _wrong(name, "return a Point, its memory and an Info", moved)
    point, memory, info = moved
    _check_point(name, point, here)
    check_memory("kernel", kernel, memory)
    _check_info(name, info, len(here.position), kernel.adjusted)
    check_statistics(kernel, info, len(here.position))
    left = domain.contains(here.position) & ~domain.contains(point.position)
    if left.any():
        row = int(np.argmax(left))
        where = f"{point.position[row].tolist()} from {here.position[row].tolist()}"
        raise _wrong(name, f"stay within the domain {domain}, as rung.follow does, or refuse such moves", where)
    for row in map(int, np.flatnonzero(~known.belongs(point))):
        what = f"{point.estimate.energy[row]} at {point.position[row].tolist()} for chain {row}"
        if known.anywhere(point, row):
            raise _wrong(name, "leave each chain at a position that it asked for as that chain's own", what)
        raise _wrong(name, "return positions with the energy that it was given there", what)
    return point, memory, info


class _KnownEnergies:
    """The energies that a kernel was given in a step, and of which chains the positions were."""

    def __init__(self, here: Point) -> None:
        chains, self.dimension = here.position.shape
        self.every: Rows = np.arange(chains)
        #: How many requests of `ActiveRung.evaluate` wait for their answers.
        self.evaluating = 0
        self._heard: list[tuple[Point, Rows | None]] = [(here, self.every)]

    def hear(self, position: Array, estimate: Estimate, rows: Rows | None) -> None:
        """Energies at positions of the chains ``rows``; None: of whichever."""
        self._heard.append((Point(position, estimate), None if rows is None else np.asarray(rows)))

    def belongs(self, point: Point) -> Mask:
        """Which chains have an energy that they were given at their position, each for itself."""
        known = np.zeros(len(self.every), dtype=bool)
        for (position, estimate), rows in self._heard:
            if rows is not None:
                equal = (position == point.position[rows]).all(axis=1) & (
                    estimate.energy == point.estimate.energy[rows]
                )
                known[rows[equal]] = True
        if not known.all():
            loose = {row for heard, rows in self._heard if rows is None for row in _rows(*heard)}
            known |= [row in loose for row in _rows(*point)]
        return known

    def anywhere(self, point: Point, row: int) -> bool:
        """Whether some chain was given the energy of this one."""
        return any(_rows(*point)[row] in _rows(*heard) for heard, _ in self._heard)


def check_memory(kind: str, part: object, memory: Any, chains: int | None = None) -> None:
    """`PartError` unless it is plain arrays by name, of each chain if their number is given."""
    plain = isinstance(memory, dict) and all(
        isinstance(key, str) and isinstance(value, np.ndarray | np.generic) for key, value in memory.items()
    )
    if not plain:
        raise _wrong(f"the {kind} {part!r}", "keep a dict of arrays by name as its memory", memory)
    if chains is not None:
        for name, values in memory.items():
            if np.shape(values)[:1] != (chains,):
                right = f"remember arrays whose first axis is the {chains} chains"
                raise _wrong(f"the {kind} {part!r}", right, f"{name!r} of shape {np.shape(values)}")


def check_statistics(kernel: Kernel, info: Info, chains: int) -> None:
    """`PartError` unless it reports the statistics that it declares, and no others, for each chain."""
    name, declared, reported = f"the kernel {kernel!r}", kernel.statistics, info.statistics
    if not isinstance(reported, Mapping):
        raise _wrong(name, "report its statistics by name", reported)
    for what in (*declared, *reported):
        if what not in reported:
            raise _wrong(name, f"report {what!r} at every step, as it declares in statistics", list(reported))
        if what not in declared:
            raise _wrong(name, f"declare {what!r} in statistics, as it reports it", list(declared))
        values, kind = reported[what], declared[what]
        if not isinstance(values, np.ndarray) or values.shape != (chains,):
            raise _wrong(name, f"report {what!r} in an array of shape ({chains},), one for each chain", values)
        if not np.can_cast(values.dtype, kind, "same_kind"):
            raise _wrong(name, f"report {what!r} as {kind.__name__}", values)


def _asked(asking: object, name: str, fidelities: Collection[str], known: _KnownEnergies) -> EvaluationRequests[object]:
    if not isinstance(asking, Generator):
        raise _wrong(name, "have a step that is a generator, which yields what it asks for", asking)
    estimates = None
    while True:
        try:
            requests = asking.send(estimates)
        except StopIteration as end:
            return end.value
        _check_requests(name, requests, fidelities, known.dimension)
        estimates = yield requests
        if not known.evaluating:  # else the kernel hears what the estimator makes of them
            for request, found in zip(requests, estimates, strict=True):
                known.hear(request.position, found, None)


def _check_requests(name: str, requests: object, fidelities: Collection[str], d: int) -> None:
    if not (isinstance(requests, tuple) and all(isinstance(request, Request) for request in requests)):
        raise _wrong(name, "yield a tuple of Requests, as `yield from rung.evaluate(position)` does", requests)
    for request in requests:
        if request.fidelity not in fidelities:
            raise _wrong(name, f"ask for one of the fidelities {list(fidelities)}", request.fidelity)
        if not isinstance(request.batch, Batch | None):
            raise _wrong(name, "ask for a Batch of the data, or None", request.batch)
        _check_positions(name, "ask for", request.position, d)


def _check_positions(name: str, what: str, position: object, d: int) -> None:
    if not (_is_real(position) and position.ndim == 2 and position.shape[1] == d):
        raise _wrong(name, f"{what} positions in an array of floats of shape (rows, {d})", position)


def _check_point(name: str, point: object, here: Point) -> None:
    if not (isinstance(point, Point) and isinstance(point.estimate, Estimate)):
        raise _wrong(name, "return a Point of positions and an Estimate", point)
    position, (energy, gradient) = point.position, point.estimate[:2]
    if not (_is_real(position) and position.shape == here.position.shape):
        raise _wrong(name, f"return positions in an array of floats of shape {here.position.shape}", position)
    if not np.isfinite(position).all():
        raise _wrong(name, "return finite positions", position)
    if not (_is_real(energy) and energy.shape == position.shape[:1]):
        raise _wrong(name, f"return energies of shape {position.shape[:1]}", energy)
    if not (energy > -np.inf).all():
        raise _wrong(name, "return energies that are no NaN", energy)
    before = here.estimate.gradient
    if (gradient is None) != (before is None) or (
        gradient is not None and not (_is_real(gradient) and gradient.shape == before.shape)
    ):
        raise _wrong(name, f"return gradients of shape {np.shape(before)}", gradient)


def _check_info(name: str, info: object, chains: int, adjusted: bool) -> None:
    if not isinstance(info, Info):
        raise _wrong(name, "return an Info", info)
    ratio, acceptance = info.log_ratio, info.acceptance
    if adjusted and ratio is None and acceptance is None and info is not RESTED:
        raise _wrong(name, "give log_ratio in Info, or acceptance if it never rejects, as it is adjusted", info)
    if ratio is not None and not (_is_real(ratio) and ratio.shape == (chains,) and not np.isnan(ratio).any()):
        raise _wrong(name, f"return log ratios of shape ({chains},), none of them NaN", ratio)
    if acceptance is not None and not (
        _is_real(acceptance) and acceptance.shape == (chains,) and ((acceptance >= 0.0) & (acceptance <= 1.0)).all()
    ):
        raise _wrong(name, f"give acceptance of shape ({chains},), each in [0, 1]", acceptance)
    for what, most in (("accepted", chains), ("clipped", np.inf), ("cliffs", chains)):
        count = getattr(info, what)
        try:
            fits = 0 <= operator.index(count) <= most
        except TypeError:
            fits = False
        if not fits:
            raise _wrong(name, f"return {what} as a count", count)


def _rows(position: Array, estimate: Estimate) -> list[bytes]:
    """Positions and their energies, equal where the numbers are: zeros lose their sign."""
    return [row.tobytes() for row in np.column_stack([position, estimate.energy]) + 0.0]


def _is_real(value: object) -> TypeGuard[Array]:
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def _wrong(name: str, right: str, value: object) -> PartError:
    shown = f"an array of {value.dtype} of shape {value.shape}: {value}" if isinstance(value, np.ndarray) else value
    return PartError(f"{name} must {right}, got {str(shown)[:300]}")
