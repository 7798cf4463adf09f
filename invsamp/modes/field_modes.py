"""Modes of posteriors whose prior is a Gaussian distribution of many unknowns, as that of a field on a mesh is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from invsamp.domains import Unbounded
from invsamp.domains.contract import Domain
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import EvaluationRequests
from invsamp.kernels.metric import LowRankMetric
from invsamp.modes.conjugate_pairs import ConjugatePairs
from invsamp.modes.low_rank import LowRankGaussian, low_rank
from invsamp.modes.minima import Minima
from invsamp.modes.newton import KnownMode, line_search, newton, same
from invsamp.modes.products import Place, Source, solved, source_of
from invsamp.modes.tolerances import TOLERANCE
from invsamp.protocols import Array, GaussianReference, Problem, Reference

#: Unknowns from which on a problem is treated as one of a field; and the share of them whose prior has to be Gaussian.
FEWEST, SHARE = 80, 0.9
#: Optimizations that have to reach one minimum where there may be more.
AGREED = 2
#: Quasi-Newton steps from a mode's Gaussian, at most. In a linear field one step leaves less than a percent of what
#: there is to gain. A log-conductivity from data of 1% noise takes up to 5.
POLISHES = 8


class FieldModes(NamedTuple):
    """Result of optimizations: the distinct minima, and counts of failures and steps."""

    modes: Sequence[FieldMode]  # distinct minima, the lowest first
    unfinished: int
    unsolved: int
    steps: int


@dataclass
class FieldMode:
    """A minimum, its Gaussian, and how many descents came there."""

    place: Place
    gaussian: LowRankGaussian | None
    count: int = 1


def field_reference(problem: Problem, domain: Domain) -> Reference | None:
    """The prior's Gaussian where it is one of many unknowns, without bounds; None of any other problem."""
    if problem.dimension < FEWEST or not isinstance(domain, Unbounded) or not isinstance(problem, GaussianReference):
        return None
    reference = problem.reference()
    if reference.exact is None or reference.exact.mean() < SHARE:
        return None
    return reference


def search_field(
    potentials: Sequence[CountedPotential],
    reference: Reference,
    domain: Domain,
    starts: Iterator[Array],
    directions: int,
    rng: np.random.Generator,
    tolerance: float,
    agreed: int = AGREED,
) -> EvaluationRequests[FieldModes]:
    """Newton descents through the fidelities, from the coarsest to the finest, and the Gaussians where they end.

    Parameters
    ----------
    potentials : sequence of CountedPotential
    reference : Reference
    domain : Domain
    starts : iterator of ndarray (d,)
    directions : int
        Of each Gaussian, at most.
    rng : Generator
    tolerance : float
        Energy that is left to gain in the finest, at most.
    agreed : int
        No more optimizations are started where so many, and no others, have reached one minimum.
    """
    sources = [source_of(potential, reference, domain) for potential in potentials]
    modes: list[FieldMode] = []
    unfinished = unsolved = steps = 0
    for number, at in enumerate(starts):
        if number >= agreed and [mode.count for mode in modes] == [number]:
            break
        # the first one's Gaussian is a preconditioner of the next descents
        like = modes[0].gaussian.metric if modes and modes[0].gaussian is not None else None
        bulks = [KnownMode(mode.place, mode.gaussian.metric) for mode in modes if mode.gaussian is not None]
        for source in sources:
            end = yield from newton(source, at, TOLERANCE, like, bulks if source is sources[-1] else ())
            at, steps = end.place.position, steps + end.steps
        if not np.isfinite(end.place.energy):
            unsolved += 1
        elif not end.converged:
            unfinished += 1
        elif end.known is not None:
            [mode for mode in modes if mode.gaussian is not None][end.known].count += 1
        elif (known := (yield from _known(modes, end.place))) is not None:
            known.count += 1
        else:
            found = yield from low_rank(end.place.products, at, reference, directions, rng)
            if found is None:  # conjugate gradients alone have to find the rest
                end = yield from newton(sources[-1], at, tolerance)
                steps += end.steps
                if (known := (yield from _known(modes, end.place))) is not None:
                    known.count += 1
                else:
                    modes.append(FieldMode(end.place, found))
            else:
                place = yield from _polished(sources[-1], end.place, found.metric, tolerance)
                modes.append(FieldMode(place, replace(found, mean=place.position)))
    return FieldModes(sorted(modes, key=lambda mode: mode.place.energy), unfinished, unsolved, steps)


def _polished(source: Source, place: Place, metric: LowRankMetric, tolerance: float) -> EvaluationRequests[Place]:
    """Quasi-Newton steps from the Gaussian of a mode, until no more than the tolerance is left to gain.

    Changes of the gradient show second derivatives of the model, which Gauss-Newton matrices leave out. One change is a
    run of one direction in `ConjugatePairs`, which is then the BFGS formula (Nocedal and Wright 2006, eq. (6.17)).
    """
    learned = ConjugatePairs(metric)
    for _ in range(POLISHES):
        step = -learned.times(place.gradient)
        if -0.5 * float(place.gradient @ step) <= tolerance:
            break
        there = yield from line_search(source, place, step)
        if there is None:
            break
        move = solved(source.reference.factor, there.position - place.position)
        change = there.gradient - place.gradient
        if (curvature := float(move @ change)) > 0.0:
            learned = learned.then([move], [change], [curvature])
        place = there
    return place


def _known(modes: Sequence[FieldMode], place: Place) -> EvaluationRequests[FieldMode | None]:
    """The minimum at which an end lies, if it is known."""
    for mode in modes:
        if (yield from same(mode.place, place)):
            return mode
    return None


def starts_of_field(problem: Problem, reference: Reference, most: int, rng: np.random.Generator) -> Iterator[Array]:
    """Where at most so many descents begin (d,): the prior's mean, then draws."""
    yield reference.mean.copy()
    for _ in range(most - 1):
        yield problem.sample_start(rng, 1)[0]


def minima_of(found: FieldModes) -> Minima:
    """The same without Gaussians, which are dense there."""
    k, none = len(found.modes), np.empty((0, 0, 0))
    return Minima(
        np.array([mode.place.position for mode in found.modes]),
        np.array([mode.place.energy for mode in found.modes]),
        none,
        none,
        np.zeros(k, dtype=bool),
        np.zeros(k, dtype=bool),
        np.array([mode.count for mode in found.modes], dtype=np.int64),
    )
