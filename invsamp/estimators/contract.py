"""Estimators: what a rung knows of the energy and its gradient at a position, and with what noise.

A part (`Exact`, `Minibatch`, `Noisy`) holds settings only. `bind` joins it to a fidelity and gives what asks for
energies there (`invsamp.evaluate.requests`). Every call draws fresh randomness from the generator that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from invsamp.evaluate.requests import Estimate, EvaluationRequests, Memory, Rows, Structure, sample_variance
from invsamp.protocols import Array


class Source(Protocol):
    """The fidelity that an estimator is bound to, as far as it has to be known before any evaluation.

    ``size`` is the number of its data terms, None where it has none. ``sums`` is true if it sums the gradients of any
    batch itself, ``sensitive`` if it gives the factors of its terms' Gauss-Newton matrices.
    """

    fidelity: str
    size: int | None
    sums: bool
    sensitive: bool

    @property
    def fidelities(self) -> Mapping[str, Source]:
        """Those of all fidelities of a run by name, from the coarsest to the finest."""


class BoundEstimator(Protocol):
    """An estimator joined to its potential.

    ``exact``: nothing is random. ``exact_energy``: what `energy` gives is without noise, even where estimates are not.
    ``degrees_of_freedom`` is that of the variances that come with each estimate where they are sample
    variances (a minibatch shows its own), None where there are none or where they are the true ones.
    """

    exact: bool
    exact_energy: bool
    degrees_of_freedom: int | None

    @property
    def estimate(self) -> Callable[..., EvaluationRequests[Estimate]]:
        """Energy and gradient with their stated variances; without ``gradient``, the energy that a swap may use.

        Of a random generator, positions (chains, d) and ``gradient: Gradients = True``; if it is `Remembering`, of its
        memory, too.
        """


@runtime_checkable
class MultilevelEstimator(Protocol):
    """A bound estimator that asks for several fidelities."""

    levels: Sequence[str]


@runtime_checkable
class Remembering(Protocol):
    """A bound estimator that keeps something for each chain: plain arrays by name, whose first axis is the chains.

    Its `estimate` gets one argument more, the memory of the chains whose positions it is given, row for row. It changes
    after steps only, never by a request, so results do not depend on the order of requests. It is saved and resumed
    with the run. ``moves``: it belongs to the position, and moves with it at swaps between rungs of one fidelity and
    equal estimators; where it cannot, it is made anew.
    """

    moves: bool

    def init(self, rng: np.random.Generator, position: Array) -> EvaluationRequests[Memory]:
        """Memory of chains that begin at positions (n, d), or are put there."""

    def updated(
        self, rng: np.random.Generator, memory: Memory, position: Array, iteration: int
    ) -> EvaluationRequests[Memory]:
        """Memory after the rung's ``iteration``-th step, to positions (chains, d)."""


@runtime_checkable
class Pairing(Protocol):
    """A bound estimator that estimates the difference of the misfits at two positions by one batch for both.

    Its noise is that of the differences of the terms, and is the same function of the two positions whichever comes
    first: what swaps between rungs of one potential need (`invsamp.ladder.Swap`).
    """

    def pair(
        self, rng: np.random.Generator, here: Array, there: Array, *memory: Memory
    ) -> EvaluationRequests[Estimate]:
        """Energy at ``here`` less the misfit at ``there``, with its variance, for rows of both, (k, d)."""


@runtime_checkable
class SelfProbing(Protocol):
    """A bound estimator that knows the distribution of its noise, and so needs no repeated estimates."""

    def probe(self, position: Array) -> EvaluationRequests[tuple[Array, Array, int]]:
        """Variances of energy and gradient at a position, and their degrees of freedom."""


@runtime_checkable
class Estimator(Protocol):
    """A part that says how the energy of a potential is estimated."""

    def bind(self, source: Source, structure: Structure | None) -> BoundEstimator:
        """Join to a fidelity; ``structure``: the form in which gradient variances are wanted, None where they are
        not."""


def probe(
    estimator: BoundEstimator,
    rng: np.random.Generator,
    position: Array,
    repeats: int,
    structure: Structure | None,
    memory: Memory | None = None,
) -> EvaluationRequests[tuple[Array, Array | None, int]]:
    """Variances of energy (chains,) and gradient (by ``structure``) at a position, and their degrees of freedom.

    From repeated estimates, or from the estimator itself where it knows more for less. One that remembers gets the
    memory of the chains there.
    """
    if isinstance(estimator, SelfProbing):
        found = yield from estimator.probe(position)
        return found
    chains, d = position.shape
    rows = np.repeat(np.arange(chains), repeats)
    gradient = structure is not None
    estimate = yield from estimator.estimate(rng, position[rows], gradient, *remembered(memory, rows))
    energies = estimate.energy.reshape(chains, repeats)
    if structure is None:
        return energies.var(axis=1, ddof=1), None, repeats - 1
    gradients = estimate.gradient.reshape(chains, repeats, d)
    return energies.var(axis=1, ddof=1), sample_variance(gradients, structure), repeats - 1


def remembered(memory: Memory | None, rows: Rows) -> tuple[Memory, ...]:
    """Arguments of an estimator after the positions: the memory of these rows, or none if there is none."""
    return ({name: values[rows] for name, values in memory.items()},) if memory else ()


def expand_isotropic(variance: Array, dimension: int, structure: Structure | None) -> Array:
    """An isotropic variance (chains,) in the form that ``structure`` asks for."""
    if structure in ("isotropic", None):
        return variance
    by_entry = np.repeat(variance[:, None], dimension, axis=1)
    return by_entry if structure == "diagonal" else by_entry[:, :, None] * np.eye(dimension)
