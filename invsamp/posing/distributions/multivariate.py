"""Distributions of vectors whose entries constrain each other, with the coordinates in which they are sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from invsamp.arguments import array, generator, instance, integer, real, store
from invsamp.axis_labels import freeze
from invsamp.domains.contract import Domain
from invsamp.domains.half_spaces import HalfSpaces
from invsamp.posing.distributions.base import Distribution, ScalarFamily, ends
from invsamp.posing.distributions.truncated import Truncated
from invsamp.posing.transforms.multivariate import Correlations, Increasing, Shares, VectorTransform
from invsamp.protocols import Array

#: What else there is for entries of different distributions.
_APART = (
    "Ordered(Normal(0, 1, shape=2)) has two of one distribution; two of different ones in order are "
    'iv.Posterior(iv.Prior(a=..., b=...), ..., domain="a < b")'
)


@dataclass(frozen=True)
class Ordered(Distribution):
    """Independent numbers of one distribution, in increasing order: what distinguishes the components of a mixture.

    Sampled as the first number and the logarithms of the gaps, without bounds.

    Parameters
    ----------
    distribution : scalar distribution of shape (k,), k >= 2
        The same for all entries.

    Raises
    ------
    ValueError
        If it has another shape, or entries of different distributions.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> prior = iv.Prior(levels=iv.distributions.Ordered(iv.Normal(0.0, 1.0, shape=3)))
    >>> theta = prior.sample(np.random.default_rng(0), 100)
    >>> bool((np.diff(theta, axis=1) > 0).all())
    True
    """

    distribution: ScalarFamily | Truncated

    def __post_init__(self) -> None:
        distribution: ScalarFamily | Truncated = self.distribution
        if isinstance(distribution, list | tuple):
            raise ValueError(
                f"distribution must be one for all entries, got {len(distribution)} distributions. {_APART}"
            )
        instance(
            "distribution",
            distribution,
            (ScalarFamily, Truncated),
            "one of independent numbers, such as Normal(0, 1, shape=2)",
        )
        if len(distribution.shape) != 1 or distribution.shape[0] < 2:
            raise ValueError(f"distribution must have shape (k,), k >= 2, got {distribution.shape}")
        if any(np.ptp(part) > 0.0 for part in (*distribution.compiled, *map(np.nan_to_num, distribution.support))):
            raise ValueError(f"distribution must be the same for all entries, got {distribution!r}. {_APART}")
        if distribution.support[0][0] == -np.inf and distribution.support[1][0] < np.inf:
            raise ValueError(f"distribution must be bounded on both sides, below, or not at all, got {distribution!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.distribution.shape

    @property
    def support(self) -> tuple[Array, Array]:
        return self.distribution.support

    @cached_property
    def log_constant(self) -> float:
        return self.distribution.log_constant + math.lgamma(self.shape[0] + 1)

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        value, gradient = self.distribution.evaluate(columns)
        return np.where((np.diff(columns, axis=1) >= 0.0).all(axis=1), value, -np.inf), gradient

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        return np.sort(self.distribution.sample(rng, n), axis=1)

    @property
    def vector_transform(self) -> VectorTransform:
        lower, upper = (float(end[0]) for end in self.support)
        return Increasing(lower, upper)

    @property
    def vector_domain(self) -> Domain:
        """In increasing order."""
        size = self.shape[0]
        return HalfSpaces(np.eye(size)[:-1] - np.eye(size)[1:], np.zeros(size - 1))


@dataclass(frozen=True)
class Dirichlet(Distribution):
    """Shares of a whole: K positive numbers that add up to 1, of which the parameter holds all but the last.

    `whole` adds it. Sampled as logarithms of their ratios to the last, without bounds.

    Parameters
    ----------
    concentration : array_like, shape (K,), > 0
        Exponents of the shares, plus 1; the mean is ``concentration / concentration.sum()``.

    Raises
    ------
    ValueError
        If there are fewer than two, or one is not positive.

    Examples
    --------
    >>> import invsamp as iv
    >>> shares = iv.distributions.Dirichlet([1.0, 2.0, 3.0])
    >>> iv.Prior(shares=shares).dimension  # the last share is one minus the others
    2
    """

    concentration: Any

    def __post_init__(self) -> None:
        values = array("concentration", self.concentration, ("K",), above=0)
        if len(values) < 2:
            raise ValueError(f"concentration must have at least two entries, got {len(values)}")
        store(self, concentration=freeze(values))

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.concentration) - 1,)

    @property
    def support(self) -> tuple[Array, Array]:
        return ends(0.0, 1.0, self.shape)

    @cached_property
    def log_constant(self) -> float:
        values = np.asarray(self.concentration)
        return float(special.gammaln(values.sum()) - special.gammaln(values).sum())

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        power = np.asarray(self.concentration) - 1.0
        last = 1.0 - columns.sum(axis=1)
        value = special.xlogy(power[:-1], columns).sum(axis=1) + special.xlogy(power[-1], np.maximum(last, 0.0))
        return np.where(last < 0.0, -np.inf, value), power[:-1] / columns - (power[-1] / last)[:, None]

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        generator("rng", rng), integer("n", n, least=0)
        return rng.dirichlet(self.concentration, n)[:, :-1]

    @property
    def vector_transform(self) -> VectorTransform:
        return Shares()

    @property
    def vector_domain(self) -> Domain:
        """Up to a sum of 1."""
        return HalfSpaces(np.ones((1, *self.shape)), [1.0])

    def whole(self, x: npt.ArrayLike) -> Array:
        """All K shares, shape (..., K), of the parameter's values (..., K - 1)."""
        shares = _vectors(x, self.shape)
        return np.concatenate([shares, 1.0 - shares.sum(axis=-1, keepdims=True)], axis=-1)


@dataclass(frozen=True)
class LKJ(Distribution):
    """Correlation matrices R of density proportional to det(R) ** (concentration - 1).

    The parameter holds the entries below the diagonal, row by row; `matrix` makes the whole. Sampled as inverse
    hyperbolic tangents of partial correlations, without bounds.

    Parameters
    ----------
    size : int, >= 2
        Of the matrix.
    concentration : float, > 0
        1 is uniform; larger values prefer weak correlations.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    References
    ----------
    Lewandowski, Kurowicka and Joe (2009), J. Multivariate Anal. 100, eq. (16) for the constant.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> correlation = iv.distributions.LKJ(3, concentration=2.0)
    >>> x = correlation.sample(np.random.default_rng(0), 1)
    >>> correlation.matrix(x)[0].diagonal()
    array([1., 1., 1.])
    """

    size: int
    concentration: float = 1.0

    def __post_init__(self) -> None:
        store(self, size=integer("size", self.size, least=2))
        store(self, concentration=real("concentration", self.concentration, above=0))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size * (self.size - 1) // 2,)

    @property
    def support(self) -> tuple[Array, Array]:
        return ends(-1.0, 1.0, self.shape)

    @cached_property
    def log_constant(self) -> float:
        rest = self.size - np.arange(1, self.size)
        a = self.concentration + 0.5 * (rest - 1.0)
        return -float((rest * ((2.0 * a - 1.0) * math.log(2.0) + special.betaln(a, a))).sum())

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(self._matrices(columns))
        rows, others = np.tril_indices(self.size, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.einsum("nik,nk,njk->nij", vectors, 1.0 / values, vectors)
            log_determinant = np.log(values).sum(axis=1)
        value = (self.concentration - 1.0) * log_determinant
        gradient = 2.0 * (self.concentration - 1.0) * inverse[:, rows, others]
        return np.where((values > 0.0).all(axis=1), value, -np.inf), gradient

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        generator("rng", rng), integer("n", n, least=0)
        columns = np.tril_indices(self.size, -1)[1]
        a = self.concentration + 0.5 * (self.size - 2.0 - columns)
        partial = 2.0 * rng.beta(a, a, (n, *self.shape)) - 1.0
        return np.asarray(Correlations(self.size).theta(np.arctanh(partial)))

    @property
    def vector_transform(self) -> VectorTransform:
        return Correlations(self.size)

    def matrix(self, x: npt.ArrayLike) -> Array:
        """Correlation matrices, shape (..., size, size), of the parameter's values (..., size (size - 1) / 2)."""
        return self._matrices(_vectors(x, self.shape))

    def _matrices(self, values: Array) -> Array:
        rows, columns = np.tril_indices(self.size, -1)
        whole = np.zeros((*values.shape[:-1], self.size, self.size))
        whole[..., rows, columns] = whole[..., columns, rows] = values
        whole[..., range(self.size), range(self.size)] = 1.0
        return whole


@dataclass(frozen=True)
class Flat(Distribution):
    """Uniform on a bounded domain: bounds of a posterior, at which moves are reflected.

    The density is 1 inside, whatever the volume: it is not normalized.

    Parameters
    ----------
    domain : Domain
        Of k coordinates, bounded: a box, a ball, a polygon.

    Raises
    ------
    ValueError
        If it is no domain, has no coordinates of its own, or is not bounded.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> prior = iv.Prior(center=iv.Flat(iv.domains.Ball([0.0, 0.0], 1.0)))
    >>> prior.sample(np.random.default_rng(0), 3).shape
    (3, 2)
    """

    domain: Domain
    _box: tuple[Array, Array] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        instance("domain", self.domain, Domain, "a bounded domain such as Ball([0, 0], 1)")
        if self.domain.dimension is None:
            raise ValueError(f"domain must have a number of coordinates, got {self.domain!r}")
        store(self, _box=self.domain.bounding_box(self.domain.dimension))
        if not all(np.isfinite(end).all() for end in self._box):
            raise ValueError(f"domain must be bounded, got {self.domain!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.domain.dimension or 0),)

    @property
    def support(self) -> tuple[Array, Array]:
        return self._box

    @property
    def log_constant(self) -> float:
        return 0.0

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        return np.where(self.domain.contains(columns), 0.0, -np.inf), np.zeros(columns.shape)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        generator("rng", rng), integer("n", n, least=0)
        return self.domain.sample_uniform(rng, n)


def _vectors(x: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    """Values of a parameter of this shape, (..., *shape)."""
    values = array("x", x)
    if values.shape[-1:] != shape:
        raise ValueError(f"x must have shape (..., {shape[0]}), got {values.shape}")
    return values
