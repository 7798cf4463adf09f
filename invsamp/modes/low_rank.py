r"""Laplace's Gaussian of very many unknowns: the prior's, narrowed in the directions that data inform.

With the prior's covariance :math:`L L^T` in positions, the energy's Hessian H is written as

.. math:: L^T H L = I + V \Lambda V^T + \ldots, \qquad
          H^{-1} \approx L (I - V \operatorname{diag}(\lambda_i / (1 + \lambda_i)) V^T) L^T

(Bui-Thanh, Ghattas, Martin and Stadler 2013, "A computational framework for infinite-dimensional Bayesian inverse
problems Part I", SIAM J. Sci. Comput. 35, section 5). Data inform few directions where the forward model smooths,
whatever the number of unknowns is. V is found by a block Krylov method with full orthogonalization, from products of
the Hessian with vectors, each a central difference of two gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.evaluate.requests import Estimate, EvaluationRequests
from invsamp.kernels.metric import LowRankMetric
from invsamp.protocols import Array, Reference

#: Vectors that are multiplied at a time.
BLOCK = 16
#: Eigenvalues of smaller size are left out: each is less than half of it in the log of the evidence.
NEGLIGIBLE = 0.05
#: Residual of an eigenpair, over 1 plus its eigenvalue, at which it is known.
KNOWN = 0.01
#: Length of a difference in sds along it, and the first one, in sds of the prior.
STEP, FIRST = 1e-2, 1e-4


@dataclass(frozen=True, eq=False)
class LowRankGaussian:
    r"""A normal distribution of covariance :math:`L (I - V \operatorname{diag}(\lambda / (1 + \lambda)) V^T) L^T`.

    Attributes
    ----------
    mean : ndarray, shape (d,)
    metric : LowRankMetric
        L, diagonal or lower triangular, its orthonormal V, and :math:`\lambda`, above -1.
    remainder : float
        What all directions that are left out may change the log evidence by, as random probes tell: minus a half of
        the sum of their eigenvalues.
    """

    mean: Array
    metric: LowRankMetric
    remainder: float

    @property
    def log_volume(self) -> float:
        """Half the log of the covariance's determinant."""
        factor, values = self.metric.factor, self.metric.values
        sizes = factor if factor.ndim == 1 else np.diag(factor)
        return float(np.log(np.abs(sizes)).sum() - 0.5 * np.log1p(values).sum())

    @property
    def variances(self) -> Array:
        """Of each coordinate, shape (d,)."""
        factor, vectors, values = self.metric.factor, self.metric.vectors, self.metric.values
        whole = factor**2 if factor.ndim == 1 else np.square(factor).sum(axis=1)
        return np.asarray(whole - np.square(_times(factor, vectors)) @ (values / (1.0 + values)))

    def draws(self, rng: np.random.Generator, n: int) -> Array:
        """Independent draws (n, d)."""
        return self.mean + self.metric.color(rng.standard_normal((n, len(self.mean))))


def evidence(energies: Array, gaussians: Sequence[LowRankGaussian | None]) -> Array:
    """Log of each minimum's share of the evidence by Laplace (k,); NaN where it has no Gaussian."""
    volumes = np.array(
        [np.nan if g is None else g.log_volume + 0.5 * len(g.mean) * math.log(2 * math.pi) for g in gaussians]
    )
    return np.asarray(volumes - energies)


def low_rank(
    evaluate: Callable[[Array], EvaluationRequests[Estimate]],
    at: Array,
    reference: Reference,
    domain: Domain,
    most: int,
    rng: np.random.Generator,
) -> EvaluationRequests[LowRankGaussian | None]:
    """The Gaussian at a minimum, of at most ``most`` directions; None across walls, and where it is no minimum.

    Parameters
    ----------
    evaluate : callable
        Positions (k, d) -> energies and gradients.
    at : ndarray, shape (d,)
    reference : Reference
        The prior's Gaussian distribution in positions, or one like it.
    domain : Domain
    most : int
    rng : Generator
        Of the first vectors, and of what is left out.
    """
    products = _Products(evaluate, at, reference.factor, domain)
    d = len(at)
    block = min(BLOCK, d)
    yield from products.find_length(rng.standard_normal((d, 1)))
    new = np.linalg.qr(rng.standard_normal((d, block)))[0]
    basis, images = np.empty((d, 0)), np.empty((d, 0))
    while True:
        found = yield from products.of(new)
        if found is None:
            return None
        basis, images = np.hstack([basis, new]), np.hstack([images, found])
        projected = basis.T @ images
        values, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
        wanted = np.abs(values) > NEGLIGIBLE
        left = np.linalg.norm(images @ vectors - basis @ vectors * values, axis=0)
        known = bool((left[wanted] <= KNOWN * (1.0 + np.abs(values[wanted]))).all())
        room = min(d, most + block) - basis.shape[1]
        if (known and (~wanted).sum() >= block // 2) or room < 1:
            break
        # twice, or rounding lets found directions in again
        found = found[:, :room]
        for _ in range(2):
            found = found - basis @ (basis.T @ found)
        new = np.linalg.qr(found)[0]
        new = np.linalg.qr(new - basis @ (basis.T @ new))[0]
    order = np.argsort(-np.abs(values))[: min(most, int(wanted.sum()))]
    vectors = basis @ vectors[:, order]
    exact = yield from products.of(vectors, np.abs(values[order]))
    if exact is None:
        return None
    projected = vectors.T @ exact
    values, turned = np.linalg.eigh(0.5 * (projected + projected.T))
    if len(values) and not values[0] > -1.0 + NEGLIGIBLE:
        return None
    vectors = vectors @ turned
    probes = rng.standard_normal((d, block))
    probes -= vectors @ (vectors.T @ probes)
    found = yield from products.of(probes / np.linalg.norm(probes, axis=0))
    if found is None:
        return None
    mean = float((probes / np.linalg.norm(probes, axis=0) * found).sum(axis=0).mean())
    return LowRankGaussian(at, LowRankMetric(reference.factor, vectors, values), -0.5 * mean * (d - len(values)))


class _Products:
    """Products of L^T H L - I with vectors, by differences of gradients at one point."""

    def __init__(
        self, evaluate: Callable[[Array], EvaluationRequests[Estimate]], at: Array, factor: Array, domain: Domain
    ) -> None:
        self._evaluate, self._at, self._factor, self._domain, self._length = evaluate, at, factor, domain, FIRST

    def find_length(self, vector: Array) -> EvaluationRequests[None]:
        """Steps that are short against the widths, as curvature along a random vector (d, 1) tells these."""
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
        """Of unit vectors (d, k), whose own curvatures (k,) tell how long a step may be; None across a wall."""
        k = vectors.shape[1]
        length = np.full(k, self._length) if curvatures is None else STEP / np.sqrt(1.0 + curvatures)
        found = []
        for i in range(0, k, BLOCK):
            moves = _times(self._factor, vectors[:, i : i + BLOCK] * length[i : i + BLOCK]).T
            ends = self._at + np.concatenate([moves, -moves])
            if not self._domain.contains(ends).all():
                return None
            there = yield from self._evaluate(ends)
            if not np.isfinite(there.energy).all():
                return None
            slopes = (there.gradient[: len(moves)] - there.gradient[len(moves) :]).T / (2.0 * length[i : i + BLOCK])
            found.append(_transposed(self._factor, slopes))
        return np.hstack(found) - vectors if found else np.empty_like(vectors)


def _times(factor: Array, values: Array) -> Array:
    """L times values (d,) or (d, k)."""
    if factor.ndim == 2:
        return np.asarray(factor @ values)
    return np.asarray((factor * values.T).T)


def _transposed(factor: Array, values: Array) -> Array:
    """L^T times values."""
    return _times(factor.T, values)
