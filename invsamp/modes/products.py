r"""Products of an energy's Hessian with vectors, in coordinates in which the prior is a standard normal distribution.

With the prior's Gaussian N(m, L L^T) in positions these coordinates are :math:`z = L^{-1} (x - m)`, and the Hessian is
:math:`I + K`. Where the forward model has tangents, K is the misfit's Gauss-Newton matrix: a product is one tangent and
one adjoint solve with factors that are kept. Otherwise it is that of the second derivatives, by a central difference of
two gradients for each product.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from invsamp.domains.contract import Domain
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import EvaluationRequests
from invsamp.modes.objective import Evaluate, of_fidelity
from invsamp.protocols import Array, Linearized, Reference

#: Vectors that are multiplied at a time.
BLOCK = 16
#: Length of a difference in sds along it, and the first one, in sds of the prior.
STEP, FIRST = 1e-2, 1e-4


class Products(Protocol):
    """Products of K at one position."""

    factor: Array  # of the prior's covariance, sds (d,) or lower triangular (d, d)

    @property
    def rows(self) -> int | None:
        """Rows of R where K is R^T R and R can be had; None where it cannot."""

    def factor_rows(self) -> Array:
        """R, shape (rows, d), in the prior's coordinates."""

    def prepare(self, rng: np.random.Generator) -> EvaluationRequests[None]:
        """Before the first product."""

    def of(self, vectors: Array, curvatures: Array | None = None) -> EvaluationRequests[Array | None]:
        """Of vectors (d, k); None across a bound, or where a solve failed.

        ``curvatures`` (k,): of these, where they are known.
        """


class Place(NamedTuple):
    """A position with what is known of the energy there."""

    position: Array  # (d,)
    energy: float
    gradient: Array  # (d,), in the prior's coordinates
    products: Products


class Source(Protocol):
    """Where energies and products of one problem come from."""

    reference: Reference
    #: Whether products are those of a Gauss-Newton matrix, by tangents.
    tangents: bool

    def at(self, position: Array) -> EvaluationRequests[Place]:
        """Energy, gradient and products at a position (d,)."""


def source_of(potential: CountedPotential, reference: Reference, domain: Domain) -> Source:
    """By tangents where the potential has some, and by differences of gradients otherwise."""
    if potential.tangents:
        return _Tangents(potential, reference, domain)
    return _Differences(of_fidelity(potential.fidelity), reference, domain)


class _Tangents:
    tangents = True

    def __init__(self, potential: CountedPotential, reference: Reference, domain: Domain) -> None:
        self._potential, self.reference, self._domain = potential, reference, domain

    def at(self, position: Array) -> EvaluationRequests[Place]:
        yield from ()  # this process solves: a factor that is kept cannot be sent
        if not self._domain.contains(position[None])[0]:
            return Place(position, math.inf, np.zeros(len(position)), TangentProducts(None, self.reference, None))
        found = self._potential.tangent(position)
        products = TangentProducts(found, self.reference, self._potential)
        return Place(position, found.energy, transposed(self.reference.factor, found.gradient), products)


class TangentProducts:
    """By tangents and adjoints of the model, whose factors are kept."""

    def __init__(self, found: Linearized | None, reference: Reference, potential: CountedPotential | None) -> None:
        self._found, self.factor, self._potential = found, reference.factor, potential

    @property
    def rows(self) -> int | None:
        """As `Products.rows`."""
        return None if self._potential is None else self._potential.rows

    def factor_rows(self) -> Array:
        """As `Products.factor_rows`."""
        assert self._found is not None and self._potential is not None and self._potential.rows is not None
        self._potential.products += self._potential.rows
        return transposed(self.factor, self._found.rows().T).T

    def prepare(self, rng: np.random.Generator) -> EvaluationRequests[None]:
        """Nothing has to be."""
        yield from ()

    def of(self, vectors: Array, curvatures: Array | None = None) -> EvaluationRequests[Array | None]:
        """As `Products.of`."""
        yield from ()
        if self._found is None or self._potential is None or not np.isfinite(self._found.energy):
            return None
        found = []
        for i in range(0, vectors.shape[1], BLOCK):
            moves = times(self.factor, vectors[:, i : i + BLOCK]).T
            self._potential.products += len(moves)
            found.append(transposed(self.factor, self._found.product(moves).T))
        whole = np.hstack(found) if found else np.empty_like(vectors)
        return whole if np.isfinite(whole).all() else None


class _Differences:
    tangents = False

    def __init__(self, evaluate: Evaluate, reference: Reference, domain: Domain) -> None:
        self._evaluate, self.reference, self._domain, self._length = evaluate, reference, domain, FIRST

    def at(self, position: Array) -> EvaluationRequests[Place]:
        products = DifferenceProducts(self._evaluate, position, self.reference.factor, self._domain)
        if not self._domain.contains(position[None])[0]:
            return Place(position, math.inf, np.zeros(len(position)), products)
        found = yield from self._evaluate(position[None])
        gradient = transposed(self.reference.factor, found.gradient[0])
        return Place(position, float(found.energy[0]), gradient, products)


class DifferenceProducts:
    """By differences of gradients at one point."""

    rows = None

    def __init__(self, evaluate: Evaluate, at: Array, factor: Array, domain: Domain) -> None:
        self._evaluate, self._at, self.factor, self._domain, self._length = evaluate, at, factor, domain, FIRST

    def factor_rows(self) -> Array:
        """There are none."""
        raise NotImplementedError

    def prepare(self, rng: np.random.Generator) -> EvaluationRequests[None]:
        """Steps that are short against the widths, as curvature along a random vector gives these."""
        vector = rng.standard_normal((len(self._at), 1))
        unit = vector / np.linalg.norm(vector)
        for _ in range(4):
            found = yield from self.of(unit)
            if found is None:
                return
            # a random direction has the root mean square of all curvatures: the largest may be that times sqrt(d)
            largest = float(np.linalg.norm(found)) * math.sqrt(len(vector))
            length = min(STEP / math.sqrt(1.0 + largest), STEP)
            near, self._length = 0.3 * self._length < length < 3.0 * self._length, length
            if near:
                return

    def of(self, vectors: Array, curvatures: Array | None = None) -> EvaluationRequests[Array | None]:
        """As `Products.of`; curvatures show how long a step may be."""
        sizes = np.linalg.norm(vectors, axis=0)
        vectors = vectors / np.where(sizes > 0.0, sizes, 1.0)
        k = vectors.shape[1]
        length = np.full(k, self._length) if curvatures is None else STEP / np.sqrt(1.0 + curvatures)
        found = []
        for i in range(0, k, BLOCK):
            moves = times(self.factor, vectors[:, i : i + BLOCK] * length[i : i + BLOCK]).T
            ends = self._at + np.concatenate([moves, -moves])
            if not self._domain.contains(ends).all():
                return None
            there = yield from self._evaluate(ends)
            if not np.isfinite(there.energy).all():
                return None
            slopes = (there.gradient[: len(moves)] - there.gradient[len(moves) :]).T / (2.0 * length[i : i + BLOCK])
            found.append(transposed(self.factor, slopes))
        return (np.hstack(found) - vectors) * sizes if found else np.empty_like(vectors)


def times(factor: Array, values: Array) -> Array:
    """L times values (d,) or (d, k)."""
    if factor.ndim == 2:
        return np.asarray(factor @ values)
    return np.asarray((factor * values.T).T)


def transposed(factor: Array, values: Array) -> Array:
    """L^T times values."""
    return times(factor.T, values)


def solved(factor: Array, values: Array) -> Array:
    """L^-1 times values."""
    if factor.ndim == 2:
        return np.asarray(solve_triangular(factor, values, lower=True))
    return np.asarray((values.T / factor).T)
