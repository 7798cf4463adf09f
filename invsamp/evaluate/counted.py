"""Evaluating a potential: guarded against non-finite results, counted and timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dasum

from invsamp.contract import (
    Array,
    Gradients,
    GroupwisePotential,
    Parts,
    Potential,
    SplitPotential,
    Terms,
    TermwisePotential,
)
from invsamp.evaluate.requests import Estimate, Request, guarded, reduced
from invsamp.evaluate.solving import batch_terms, estimated
from invsamp.posing.forward import FLOAT, own_array, real_array


class CountedPotential:
    """A potential with a guard against non-finite results, and with counts. One for each fidelity.

    ``fidelities`` holds those of all fidelities of a run by name, from the coarsest to the finest, for estimators
    that combine several; by default this one alone. It may be filled after.
    """

    def __init__(
        self, potential: Potential, fidelity: str, fidelities: Mapping[str, CountedPotential] | None = None
    ) -> None:
        self.potential, self.fidelity = potential, fidelity
        self.fidelities: Mapping[str, CountedPotential] = {fidelity: self} if fidelities is None else fidelities
        self.dimension = potential.dimension
        names = "energy", "gradient", "terms"
        self._energies, self._gradients, self._parts = (f"the {name} of fidelity {fidelity!r}" for name in names)
        self.evaluations, self.failed, self.seconds = 0, 0, 0.0
        #: Whether some law takes its prior energy apart.
        self.apart = False
        #: By a solve elsewhere that failed.
        self.message: str | None = None
        self._tell_parts: Callable[[Array, Gradients], Parts] | None = None
        if isinstance(potential, SplitPotential):
            self._tell_parts = potential.parts
        if isinstance(potential, TermwisePotential):
            self.size, self.terms = potential.size, partial(self._guarded_terms, potential.terms)
        if isinstance(potential, GroupwisePotential):
            self.group_terms = partial(self._guarded_terms, potential.group_terms)

    @property
    def split(self) -> bool:
        """Whether it tells prior energy and misfit apart."""
        return self._tell_parts is not None

    def count(self, evaluations: int, failed: int, seconds: float, message: str | None = None) -> None:
        """Count what somebody else has solved; ``message`` by a solve that failed."""
        self.evaluations += evaluations
        self.failed += failed
        self.seconds += seconds
        self.message = message or self.message

    def answer_all(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """What is asked for, of any fidelity, one after the other."""
        if len(requests) == 1:
            return (self.fidelities[requests[0].fidelity].answer(requests[0]),)
        return tuple([self.fidelities[request.fidelity].answer(request) for request in requests])

    def answer(self, request: Request) -> Estimate:
        """What is asked for of this fidelity."""
        failed = self.failed
        position, batch = request.position, request.batch
        if not len(position):
            return _nothing(request, self.split)
        if batch is not None:
            found = reduced(batch_terms(self, position, batch), batch, request.gradient)  # type: ignore[arg-type]
        elif self._tell_parts is not None:
            return self._answer_parts(self._tell_parts, request)
        elif request.gradient:
            found = Estimate(*self.energy_and_gradient(position))
        else:
            found = Estimate(self.energy(position), None)  # type: ignore[arg-type]
        return found if self.failed == failed else found._replace(failed=True)

    def energy(self, position: Array) -> Array:
        """Energy (chains,), +inf where it is not finite."""
        begin = perf_counter()
        energy = own_array(self.potential.energy(position.copy()), self._energies)
        self.seconds += perf_counter() - begin
        self.evaluations += len(position)
        if not math.isfinite(dasum(energy.ravel())):
            bad = ~np.isfinite(energy)
            self.failed += int(bad.sum())
            energy = np.where(bad, np.inf, energy)
        return energy

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy and gradient; +inf and 0 where either is not finite."""
        begin = perf_counter()
        # A potential may write into what it is given, and use the memory of what it returns again. The copy lies in
        # memory as a part of the chains would: sums of the potential's must not depend on it.
        energy, gradient = self.potential.energy_and_gradient(position.copy())
        if type(energy) is np.ndarray is type(gradient) and energy.dtype == gradient.dtype == FLOAT:
            energy, gradient = energy.copy(), gradient.copy()  # what `own_array` does, at each step
        else:
            energy, gradient = own_array(energy, self._energies), own_array(gradient, self._gradients)
        self.seconds += perf_counter() - begin
        self.evaluations += len(position)
        # two sums of moduli are enough to see that all is well, and BLAS takes them without a warning on overflow;
        # if they are not finite, the careful path decides
        if not math.isfinite(dasum(energy.ravel()) + dasum(gradient.ravel())):
            bad = ~(np.isfinite(energy) & np.isfinite(gradient).all(axis=1))
            self.failed += int(bad.sum())
            energy = np.where(bad, np.inf, energy)
            gradient = np.where(bad[:, None], 0.0, gradient)
        return energy, gradient

    def _answer_parts(self, tell: Callable[[Array, Gradients], Parts], request: Request) -> Estimate:
        begin = perf_counter()
        gradient = request.gradient
        parts = tell(request.position.copy(), gradient)
        energy, slope, prior, _ = parts
        plain = type(energy) is np.ndarray is type(slope) is type(prior)
        if gradient is True and plain and energy.dtype == slope.dtype == prior.dtype == FLOAT:  # type: ignore[union-attr]
            # what `estimated` does, at each step
            found = Estimate(energy.copy(), slope.copy(), None, None, prior.copy())  # type: ignore[union-attr]
            moduli = dasum(energy.ravel()) + dasum(slope.ravel()) + dasum(prior.ravel())  # type: ignore[union-attr]
        else:
            found = estimated(parts, gradient)
            moduli = sum([dasum(part.ravel()) for part in found.arrays if part is not None])
        self.seconds += perf_counter() - begin
        self.evaluations += len(request.position)
        if not math.isfinite(moduli):
            found, failed = guarded(found)
            self.failed += failed
        return found

    def _guarded_terms(self, function: Callable[..., Terms], position: Array, *chosen: npt.NDArray[Any]) -> Terms:
        begin = perf_counter()
        terms = Terms(*(real_array(part, self._parts) for part in function(position.copy(), *chosen)))
        self.seconds += perf_counter() - begin
        self.evaluations += len(position)
        if not math.isfinite(sum(float(part.sum()) for part in terms)):
            bad = ~np.isfinite(sum(part.reshape(len(part), -1).sum(axis=1) for part in terms))
            self.failed += int(bad.sum())
            terms = Terms(*(np.where(bad.reshape(-1, *[1] * (part.ndim - 1)), 0.0, part) for part in terms))
            terms.prior_energy[bad] = np.inf
        return terms


def _nothing(request: Request, split: bool) -> Estimate:
    """What is known at no position: arrays as others have them, so that they go together."""
    no_energy, no_gradient = np.empty(0), np.empty(request.position.shape)
    return Estimate(
        no_energy,
        no_gradient if request.gradient else None,  # type: ignore[arg-type]
        prior=no_energy if split else None,
        prior_gradient=no_gradient if request.gradient == "apart" else None,
    )
