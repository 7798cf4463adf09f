r"""Laplace's Gaussian of very many unknowns: the prior's, narrowed in the directions that data inform.

With the prior's covariance :math:`L L^T` in positions, the energy's Hessian H is written as

.. math:: L^T H L = I + V \Lambda V^T + \ldots, \qquad
          H^{-1} \approx L (I - V \operatorname{diag}(\lambda_i / (1 + \lambda_i)) V^T) L^T

(Bui-Thanh, Ghattas, Martin and Stadler 2013, "A computational framework for infinite-dimensional Bayesian inverse
problems Part I", SIAM J. Sci. Comput. 35, section 5). Data inform few directions where the forward model smooths,
whatever the number of unknowns is. Where data are few, V comes of the rows of the Jacobian, one adjoint solve for each.
Otherwise it is found by a block Krylov method with full orthogonalization, from products of the Hessian with vectors
(`invsamp.modes.products`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from invsamp.evaluate.requests import EvaluationRequests
from invsamp.kernels.metric import LowRankMetric
from invsamp.modes.products import BLOCK, Products
from invsamp.modes.tolerances import NEGLIGIBLE, TOLERANCE
from invsamp.protocols import Array, Reference

#: Eigenvalues of smaller size are left out: each is less than half of it in the log of the evidence. Where all are
#: known, only those below `invsamp.modes.tolerances.NEGLIGIBLE` are: keeping the others costs little beside a solve.
LEFT_OUT = 0.5 * TOLERANCE
#: Residual of an eigenpair, over 1 plus its eigenvalue, at which it is known.
KNOWN = 0.01
#: Rows of the Jacobian up to which these are solved for, one by one: fewer than the products of a Krylov method.
MOST_ROWS = 150


@dataclass(frozen=True, eq=False)
class LowRankGaussian:
    r"""A normal distribution of covariance :math:`L (I - V \operatorname{diag}(\lambda / (1 + \lambda)) V^T) L^T`.

    Attributes
    ----------
    mean : ndarray, shape (d,)
    metric : LowRankMetric
        L, diagonal or lower triangular, its orthonormal V, and :math:`\lambda`, above -1.
    remainder : float
        What all directions that are left out may change the log evidence by, as random probes estimate it: minus a half
        of the sum of their eigenvalues.
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
    def informed(self) -> int:
        """Directions that the data inform more than the prior does: their eigenvalues are above 1."""
        return int(np.count_nonzero(self.metric.values > 1.0))

    @property
    def variances(self) -> Array:
        """Of each coordinate, shape (d,)."""
        return self.metric.variances

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
    products: Products, at: Array, reference: Reference, most: int, rng: np.random.Generator
) -> EvaluationRequests[LowRankGaussian | None]:
    """The Gaussian at a minimum, of at most ``most`` directions; None across bounds, and where it is no minimum.

    Parameters
    ----------
    products : Products
        Of the Hessian at the minimum.
    at : ndarray, shape (d,)
    reference : Reference
        The prior's Gaussian distribution in positions, or one like it.
    most : int
    rng : Generator
        Of the first vectors, and of what is left out.
    """
    if products.rows is not None and products.rows <= MOST_ROWS:
        rows = products.factor_rows()
        return by_rows(rows, at, reference, most) if np.isfinite(rows).all() else None
    d = len(at)
    block = min(BLOCK, d)
    yield from products.prepare(rng)
    new = np.linalg.qr(rng.standard_normal((d, block)))[0]
    basis, images = np.empty((d, 0)), np.empty((d, 0))
    while True:
        found = yield from products.of(new)
        if found is None:
            return None
        basis, images = np.hstack([basis, new]), np.hstack([images, found])
        projected = basis.T @ images
        values, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
        wanted = np.abs(values) > LEFT_OUT
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
    if len(values) and not values[0] > -1.0 + LEFT_OUT:
        return None
    vectors = vectors @ turned
    probes = rng.standard_normal((d, block))
    probes -= vectors @ (vectors.T @ probes)
    found = yield from products.of(probes / np.linalg.norm(probes, axis=0))
    if found is None:
        return None
    mean = float((probes / np.linalg.norm(probes, axis=0) * found).sum(axis=0).mean())
    return LowRankGaussian(at, LowRankMetric(reference.factor, vectors, values), -0.5 * mean * (d - len(values)))


def by_rows(rows: Array, at: Array, reference: Reference, most: int, least: float = NEGLIGIBLE) -> LowRankGaussian:
    """From R (m, d) in whitened coordinates, the Hessian being I + R^T R: all eigenvalues are known.

    Those above ``least`` are kept.
    """
    values, left = np.linalg.eigh(rows @ rows.T)
    order = np.argsort(-values)
    values, left = np.maximum(values[order], 0.0), left[:, order]
    kept = min(most, int(np.count_nonzero(values > least)))
    vectors = np.linalg.qr(rows.T @ (left[:, :kept] / np.sqrt(values[:kept])))[0]
    # as orthonormal as rounding lets them be; eigenvalues are those of the space that they span
    inner = rows @ vectors
    own, turned = np.linalg.eigh(inner.T @ inner)
    remainder = -0.5 * float(np.log1p(values[kept:]).sum())
    return LowRankGaussian(at, LowRankMetric(reference.factor, vectors @ turned[:, ::-1], own[::-1]), remainder)
