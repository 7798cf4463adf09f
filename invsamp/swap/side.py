"""One rung at an attempt, as the meeting sees it: what it is asked for, and what it hands over.

`Side` is all that a meeting knows of a rung, so that the rung may be one of another process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from invsamp.contract import Array
from invsamp.engine.replica import Replica
from invsamp.evaluate.requests import Estimate, Rows, answered
from invsamp.swap.walkers import Walkers
from invsamp.variances.models import Known


class Outset(NamedTuple):
    """What two rungs tell each other at the beginning of an attempt."""

    ready: bool  # its variances are known by now
    temperature: float
    position: Array  # (chains, d)
    energy: Array | None  # (chains,) at its own position, where estimates are exact
    noise_free: bool  # a swap gets its energies without noise


class Wanted(NamedTuple):
    """An energy that a stage takes from a rung."""

    across: bool  # at the other rung's positions, not its own
    after: bool  # with the variance of the energy that takes its place after the swap


class Answer(NamedTuple):
    """An energy (k,), its variance (None: it is exact) and that after the swap (None where it was not asked for)."""

    energy: Array
    variance: Array | None
    after: Array | None


class Leaving(NamedTuple):
    """What goes with positions to the other rung. The estimate is that of the same potential there, or None."""

    walkers: Walkers
    estimate: Estimate | None


class Side(Protocol):
    """A rung at an attempt."""

    outset: Outset

    def meet(self, there: Array) -> None:
        """The other rung's positions (chains, d)."""
        ...

    def ask(self, wanted: Sequence[Wanted], rows: Rows) -> Callable[[], list[Answer]]:
        """Begin to find energies for the chains ``rows``; the function returned waits for them."""
        ...

    def move(self, rows: Rows, arriving: Leaving) -> Leaving:
        """Take over the other rung's chains ``rows``; what left in their place."""
        ...

    def dismiss(self) -> None:
        """Nothing moves."""
        ...


class LocalSide:
    """A rung of this process at one attempt. Noise-free energies are solved once and kept; noisy ones drawn afresh.

    Parameters
    ----------
    replica : Replica
    walkers : Walkers
        At this rung; `walkers` holds those of after the attempt.
    rung, rungs : int
        Its number, of how many.
    whole : bool
        Energies are those of the whole potential, whatever the estimator says.
    same : bool
        The other rung's estimates are of the same potential: they are handed over.
    """

    def __init__(
        self, replica: Replica, walkers: Walkers, rung: int, rungs: int, *, whole: bool = False, same: bool = False
    ) -> None:
        self.replica, self.walkers = replica, walkers
        self._rung, self._rungs, self._whole, self._same = rung, rungs, whole, same
        exact = replica.estimator.exact
        self.outset = Outset(
            replica.variance_ready,
            replica.temperature,
            # as it would come from another process: sums over it must not depend on how it lies in memory
            np.ascontiguousarray(replica.position),
            np.ascontiguousarray(replica.estimate.energy) if exact else None,
            whole or replica.estimator.exact_energy,
        )
        self._there: Array | None = None
        # the estimate at the other rung's positions, where it is exact
        self._crossed: tuple[Rows, Estimate] | None = None
        # energies without noise of an estimator that has some, by whether they are at the other rung's positions
        self._drawn: dict[bool, tuple[Rows, Array]] = {}

    def meet(self, there: Array) -> None:
        """The other rung's positions (chains, d)."""
        self._there = there

    def ask(self, wanted: Sequence[Wanted], rows: Rows) -> Callable[[], list[Answer]]:
        """Energies for the chains ``rows``, when they are waited for."""
        return lambda: [self._answer(want, rows) for want in wanted]

    def leaving(self, rows: Rows) -> Leaving:
        """What goes away with the chains ``rows``."""
        return Leaving(self.walkers.take(rows), self.replica.estimate.take(rows) if self._same else None)

    def move(self, rows: Rows, arriving: Leaving) -> Leaving:
        """Take over the other rung's chains ``rows``; what left in their place."""
        left = self.leaving(rows)
        self.arrive(rows, arriving)
        return left

    def arrive(self, rows: Rows, arriving: Leaving) -> None:
        """Take over the other rung's chains ``rows``."""
        replica, before = self.replica, self.replica.estimate
        replica.position = replica.position.copy()
        replica.position[rows] = self._position(True)[rows]
        self.walkers = self.walkers.arrive(rows, arriving.walkers, self._rung, self._rungs)
        # what was cached under another fidelity is of no use: take the crossed solve, or solve again
        if arriving.estimate is not None:
            replica.set_estimate(rows, arriving.estimate)
        elif self._crossed is not None:
            solved, estimate = self._crossed
            replica.set_estimate(rows, estimate.take(np.searchsorted(solved, rows)))
        else:
            answered(replica.reevaluate(rows), replica.answer)
        replica.arrived(rows, before.gradient[rows])

    def dismiss(self) -> None:
        """Nothing moves."""

    def _position(self, across: bool) -> Array:
        if not across:
            return self.outset.position
        assert self._there is not None  # the rungs have met
        return self._there

    def _answer(self, want: Wanted, rows: Rows) -> Answer:
        energy, variance = self._energy(want.across, rows)
        after = self._variance_after(want.across, rows) if want.after and variance is not None else None
        return Answer(energy, variance, after)

    def _energy(self, across: bool, rows: Rows) -> tuple[Array, Array | None]:
        replica, position = self.replica, self._position(across)
        if not replica.estimator.exact:
            return self._fresh_energy(across, rows)
        if not across:
            return replica.estimate.energy[rows], None
        if self._crossed is None:
            asking = replica.estimator.estimate(replica.streams["swap"], position[rows])
            self._crossed = rows, answered(asking, replica.answer)
        solved, estimate = self._crossed
        return estimate.energy[np.searchsorted(solved, rows)], None

    def _fresh_energy(self, across: bool, rows: Rows) -> tuple[Array, Array | None]:
        """Energy and variance where the estimates at hand are noisy; kept for the next stage if it is not."""
        replica, position = self.replica, self._position(across)[rows]
        if self.outset.noise_free and across in self._drawn:
            solved, energy = self._drawn[across]
            return energy[np.searchsorted(solved, rows)], None
        stated = None
        if self._whole:
            energy = replica.evaluator.energy(position)
        else:
            energy, stated = self._drawn_energy(position)
        self._drawn[across] = rows, energy
        return energy, None if self.outset.noise_free else replica.energy_variance(position, stated)

    def _variance_after(self, across: bool, rows: Rows) -> Array:
        """Variance of the energy that takes the place of this one after the swap: the rung's, where it would be."""
        replica, position, stated = self.replica, self._position(not across)[rows], None
        model = replica.rung.energy_variance
        if isinstance(model, Known) and model.stated:
            _, stated = self._drawn_energy(position)
        variance = replica.energy_variance(position, stated)
        assert variance is not None  # the rung's energies are noisy
        return variance

    def _drawn_energy(self, position: Array) -> tuple[Array, Array | None]:
        """An energy drawn afresh, and its stated variance."""
        replica = self.replica
        found = answered(replica.estimator.estimate(replica.streams["swap"], position, gradient=False), replica.answer)
        return found.energy, found.energy_variance
