"""Evaluating a potential, counted and timed."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple

import numpy as np

from invsamp.evaluate.requests import Estimate, Request
from invsamp.evaluate.solving import solver
from invsamp.protocols import (
    Array,
    CurvedPotential,
    Linearized,
    Potential,
    SensitivePotential,
    SplitPotential,
    TangentPotential,
    TermwisePotential,
    function_calls,
    single_precision,
    sums_batches,
)


class Counts(NamedTuple):
    """Counts of the evaluations of a potential."""

    evaluations: int = 0
    seconds: float = 0.0
    failed: int = 0
    calls: int = 0  # of the function that the model or potential is made of
    products: int = 0  # with tangents, by factors that evaluations have kept


class CountedPotential:
    """A potential that answers requests (`invsamp.evaluate.solve`), and counts. One for each fidelity.

    ``fidelities`` holds those of all fidelities of a run by name, from the coarsest to the finest, for estimators
    that combine several; by default this one alone. It may be filled after.
    """

    def __init__(
        self, potential: Potential, fidelity: str, fidelities: Mapping[str, CountedPotential] | None = None
    ) -> None:
        self.fidelity = fidelity
        self.fidelities: Mapping[str, CountedPotential] = {fidelity: self} if fidelities is None else fidelities
        self.counts = Counts()
        #: Whether some target distribution needs its prior energy separately.
        self.apart = False
        #: By a solve elsewhere that failed.
        self.message: str | None = None
        self.renew(potential)

    def renew(self, potential: Potential) -> None:
        """Answer by another potential from now on; the counts go on."""
        self.potential, self.dimension = potential, potential.dimension
        #: Whether it separates prior energy and misfit.
        self.split = isinstance(potential, SplitPotential)
        self._solve = solver(potential)
        self._calls = function_calls(potential).at(potential.dimension)
        #: Whether it gives the sensitivities of its terms, for Gauss-Newton matrices.
        self.sensitive = isinstance(potential, SensitivePotential)
        #: Number of its data terms, where it has some.
        self.size = potential.size if isinstance(potential, TermwisePotential) else None
        #: Whether it gives a Gauss-Newton matrix with a gradient.
        self.curved = isinstance(potential, CurvedPotential) and potential.curved
        #: Whether it gives Gauss-Newton products by tangents, and of how many rows their matrix's factor is.
        self.tangents = isinstance(potential, TangentPotential) and potential.tangents
        self.rows = potential.rows if isinstance(potential, TangentPotential) and self.tangents else None
        #: Whether unknowns end where their positions are infinite.
        self.bounded = isinstance(potential, CurvedPotential) and potential.bounded
        #: Whether its energies are in single precision: so is the noise of moves then.
        self.single = single_precision(potential)
        #: Whether it sums the gradients of a batch itself.
        self.sums = sums_batches(potential)

    @property
    def counts(self) -> Counts:
        """Counts of all evaluations so far."""
        return Counts(self.evaluations, self.seconds, self.failed, self.calls, self.products)

    @counts.setter
    def counts(self, counts: Counts) -> None:
        self.evaluations, self.seconds, self.failed, self.calls, self.products = counts

    def count(self, request: Request, rows: int, failed: int, seconds: float, message: str | None = None) -> None:
        """Count so many rows of a request that were solved elsewhere; ``message`` by a solve that failed."""
        self._count(request, rows)
        self.failed += failed
        self.seconds += seconds
        self.message = message or self.message

    def answer_all(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """Estimates of any fidelity, one after the other."""
        potentials = self.fidelities
        return tuple([potentials[request.fidelity].answer(request) for request in requests])

    def answer(self, request: Request) -> Estimate:
        """An estimate of this fidelity: energies +inf, and gradients 0, where anything is not finite."""
        rows = len(request.position)
        if not rows:
            return _nothing(request, self.split)
        begin = perf_counter()
        found = self._solve(request)
        self.seconds += perf_counter() - begin
        self._count(request, rows)
        if found.failed:
            self.failed += found.failures
        return found

    def tangent(self, position: Array) -> Linearized:
        """Energy, gradient and Gauss-Newton products at one position (d,): an evaluation, in this process.

        Products are counted where they are asked for.
        """
        assert isinstance(self.potential, TangentPotential)
        begin = perf_counter()
        found = self.potential.tangent(position.copy())
        self.seconds += perf_counter() - begin
        self._count(Request(self.fidelity, position[None]), 1)
        self.failed += not np.isfinite(found.energy)
        return found

    def _count(self, request: Request, rows: int) -> None:
        # a batch has the gradients of its terms in any case
        derived = (request.gradient or request.batch is not None) and not request.observations
        evaluations = rows if request.batch is None else rows * request.of_each_row
        self.evaluations += evaluations
        self.calls += evaluations * (self._calls.linearized if derived else self._calls.value)

    def energy(self, position: Array) -> Array:
        """Energy (chains,), +inf where it is not finite."""
        return self.answer(Request(self.fidelity, position, False)).energy

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy and gradient; +inf and 0 where either is not finite."""
        found = self.answer(Request(self.fidelity, position))
        return found.energy, found.gradient


def _nothing(request: Request, split: bool) -> Estimate:
    """Estimate at no position: empty arrays, present where those of other estimates are, so that they can be joined."""
    no_energy, no_gradient = np.empty(0), np.empty(request.position.shape)
    return Estimate(
        no_energy,
        no_gradient if request.gradient else None,  # type: ignore[arg-type]
        prior=no_energy if split else None,
        prior_gradient=no_gradient if request.gradient == "apart" else None,
    )
