"""Covariances of data whose errors depend on each other: a matrix, a precision, correlation in time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.sparse import linalg as sparse_linalg

from invsamp.arguments import array, increasing, instance, store, wrong
from invsamp.axis_labels import Axis, stated_axes
from invsamp.expression import Value
from invsamp.posing.noise.base import Noise, half_square_cumulant, quantity
from invsamp.protocols import Array

Indices = npt.NDArray[np.intp]

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Covariance(ABC):
    """Covariance of the standardized errors of all data: what makes a noise of those that were observed."""

    #: Whether it is that of the data themselves, in their units; otherwise of errors of variance 1, to be scaled.
    has_units: ClassVar[bool] = False
    #: Of a table or labeled array.
    axes: Sequence[Axis] = ()

    @property
    def quantities(self) -> Mapping[str, object]:
        """As in `invsamp.extending.Noise`."""
        return {}

    @property
    def labeled(self) -> Mapping[str, Sequence[Axis]]:
        """As in `invsamp.extending.Noise`, of the matrix that it was given as."""
        return {f"{part} of covariance": [axis] for part, axis in zip(("rows", "columns"), self.axes, strict=False)}

    @property
    def limits(self) -> Mapping[str, tuple[float, float]]:
        """As in `invsamp.extending.Noise`."""
        return {}

    @abstractmethod
    def bind(self, shape: tuple[int, ...], chosen: Indices) -> Noise:
        """Gaussian noise of the data ``chosen`` of this shape; its quantities are the scale and those here."""


class Dependent(Noise):
    """Gaussian noise, ``data = y + scale * e``, of errors e that depend on each other; e and all else is (batch, m)."""

    independent: ClassVar[bool] = False

    @abstractmethod
    def solve(self, e: Array, *values: Array) -> tuple[Array, ...]:
        """Log densities that add up to that of e, the precision times e, and derivatives by the values."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, batch: int, *values: Array) -> Array:
        """Errors, (batch, m)."""

    @abstractmethod
    def precisions(self, *values: Array) -> Array:
        """Diagonal of the precision, (m,) or (batch, m)."""

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihoods that add up, and their derivatives with respect to y, scale and the covariance's values."""
        scale, *others = values
        e = (data - y) / scale
        terms, weighted, *slopes = self.solve(e, *others)
        return terms - np.log(scale), weighted / scale, (e * weighted - 1.0) / scale, *slopes

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        scale, *others = values
        return y + scale * self.draw(rng, len(y), *others)

    def cumulant(self, rate: Array) -> Array:
        """A share of that of half a chi-squared of m degrees of freedom."""
        return half_square_cumulant(rate)

    def log_likelihood(self, y: Array, data: Array, *values: Array) -> Array:
        """Log-likelihood of each datum given all others (Bürkner et al. 2021, Comput. Stat. 36, eq. 12), (batch, m)."""
        scale, *others = values
        weighted = self.solve((data - y) / scale, *others)[1]
        precision = self.precisions(*others)
        return np.asarray(0.5 * np.log(precision) - 0.5 * weighted**2 / precision - np.log(scale) - _HALF_LOG_TWO_PI)


class Matrix(Covariance):
    """A covariance matrix, (m, m)."""

    has_units: ClassVar[bool] = True

    def __init__(self, matrix: Value) -> None:
        self.matrix = np.array(array("covariance", matrix, ("m", "m")))
        self.matrix.flags.writeable = False
        self.axes = stated_axes(matrix, 0)
        _check_symmetric("covariance", self.matrix)
        self._factor = _cholesky(self.matrix)

    def __repr__(self) -> str:
        return _described(self, self.matrix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Matrix) and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash(self.matrix.tobytes())

    def bind(self, shape: tuple[int, ...], chosen: Indices) -> Noise:
        _check_size("covariance", len(self.matrix), shape)
        whole = len(chosen) == len(self.matrix) and np.array_equal(chosen, np.arange(len(chosen)))
        return _Factorized(self._factor if whole else _cholesky(self.matrix[np.ix_(chosen, chosen)]))


class _Factorized(Dependent):
    """Errors of covariance L L^T, whose precision is W^T W."""

    def __init__(self, factor: Array) -> None:
        self._factor, self._log_diagonal = factor, np.log(np.diag(factor))
        self._whitening = linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)

    def solve(self, e: Array, *values: Array) -> tuple[Array, ...]:
        # row by row: in products of matrices a row's last digits depend on the others
        white = np.stack([self._whitening @ row for row in e])
        weighted = np.stack([row @ self._whitening for row in white])
        return -0.5 * white**2 - self._log_diagonal - _HALF_LOG_TWO_PI, weighted

    def draw(self, rng: np.random.Generator, batch: int, *values: Array) -> Array:
        return np.asarray(rng.standard_normal((batch, len(self._factor))) @ self._factor.T)

    def precisions(self, *values: Array) -> Array:
        return np.asarray((self._whitening**2).sum(axis=0))


class Precision(Covariance):
    """The inverse of a covariance matrix, such as that of a Gaussian Markov random field.

    Parameters
    ----------
    matrix : array_like or SciPy sparse matrix, shape (m, m)
        For all m data in C order. It is factorized once; likelihoods multiply by it alone.

    Raises
    ------
    ValueError
        If it is not square, symmetric and positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> precision = iv.noise.Precision(np.array([[2.0, -1.0], [-1.0, 2.0]]))
    >>> noise = iv.GaussianNoise(covariance=precision)
    """

    has_units: ClassVar[bool] = True

    def __init__(self, matrix: Value) -> None:
        given = matrix if sparse.issparse(matrix) else sparse.csc_array(array("matrix", matrix, ("m", "m")))
        if given.shape[0] != given.shape[1] or not given.shape[0]:
            raise ValueError(f"matrix must have shape (m, m), got {given.shape}")
        if given.dtype.kind not in "iuf" or not np.isfinite(given.data).all():
            raise ValueError(f"matrix must be finite numbers, got {given.dtype}")
        self.matrix = sparse.csc_array(given, dtype=float)
        self.matrix.sum_duplicates()
        difference = abs(self.matrix - self.matrix.T)
        if difference.nnz and difference.max() > 1e-10 * abs(self.matrix).max():
            raise ValueError("matrix must be symmetric, got a matrix that differs from its transpose")
        self._factor, self.axes = _Factor(self.matrix), stated_axes(matrix, 0)

    def __repr__(self) -> str:
        return f"Precision({self.matrix.shape[0]} x {self.matrix.shape[0]}, {self.matrix.nnz} entries)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Precision) or other.matrix.shape != self.matrix.shape:
            return False
        return bool(abs(self.matrix - other.matrix).nnz == 0)

    def __hash__(self) -> int:
        return hash((self.matrix.shape, float(self.matrix.sum())))

    def bind(self, shape: tuple[int, ...], chosen: Indices) -> Noise:
        size = self.matrix.shape[0]
        _check_size("precision", size, shape)
        if len(chosen) == size and np.array_equal(chosen, np.arange(size)):
            return _Precise(self._factor)
        left = np.setdiff1d(np.arange(size), chosen)
        rows = self.matrix[chosen]
        kept = rows[:, chosen]
        if len(left):  # what is not seen is integrated over
            across = rows[:, left]
            kept = kept - across @ sparse.csc_array(_Factor(self.matrix[left][:, left]).solve(across.T.toarray()))
        return _Precise(_Factor(sparse.csc_array(kept)))


class _Factor:
    """L D L^T of a sparse symmetric matrix Q, with rows and columns reordered."""

    def __init__(self, matrix: Value) -> None:
        self.matrix = matrix.tocsr()
        try:
            found = sparse_linalg.splu(
                matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
            )
            # rows are exchanged only where a pivot is zero
            self.diagonal = found.U.diagonal() if np.array_equal(found.perm_r, found.perm_c) else np.zeros(1)
        except RuntimeError:  # exactly singular
            self.diagonal = np.zeros(1)
        if not (self.diagonal > 0.0).all():
            raise ValueError("matrix must be positive definite, got one that is not")
        self.order, self.lower, self.solve = found.perm_c, found.L.tocsr(), found.solve

    def __getstate__(self) -> dict[str, Value]:
        return {"matrix": self.matrix}  # the factors of SuperLU cannot be pickled

    def __setstate__(self, state: dict[str, Value]) -> None:
        self.__init__(state["matrix"])  # type: ignore[misc]


class _Precise(Dependent):
    """Errors of a precision matrix."""

    def __init__(self, factor: _Factor) -> None:
        self._factor = factor
        self._constant = 0.5 * float(np.log(factor.diagonal).mean()) - _HALF_LOG_TWO_PI

    def solve(self, e: Array, *values: Array) -> tuple[Array, ...]:
        weighted = np.ascontiguousarray((self._factor.matrix @ e.T).T)
        return self._constant - 0.5 * e * weighted, weighted

    def draw(self, rng: np.random.Generator, batch: int, *values: Array) -> Array:
        white = rng.standard_normal((batch, len(self._factor.diagonal))) / np.sqrt(self._factor.diagonal)
        upper = self._factor.lower.T.tocsr()
        return np.asarray(sparse_linalg.spsolve_triangular(upper, white.T, lower=False)[self._factor.order].T)

    def precisions(self, *values: Array) -> Array:
        return np.asarray(self._factor.matrix.diagonal())


@dataclass(frozen=True)
class AutoRegressive(Covariance):
    """Errors of variance 1 in a series, with a correlation between neighbors along the data's first axis: AR(1).

    Other axes are series of their own.

    Parameters
    ----------
    correlation : float, array_like or str
        In (-1, 1): as the scale of `invsamp.GaussianNoise`, numbers, the name of a parameter, or a formula.

    Raises
    ------
    ValueError
        If a number is not inside (-1, 1).

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> noise = iv.GaussianNoise(0.1, covariance=iv.noise.AutoRegressive("rho"))  # an unknown correlation
    >>> prior = iv.Prior(level=iv.Normal(0.0, 1.0), rho=iv.Uniform(-1.0, 1.0))
    >>> posterior = iv.Posterior(prior, lambda level: np.repeat(level, 3, axis=1), [0.1, 0.2, 0.1], noise)
    >>> posterior.dimension
    2
    """

    correlation: npt.ArrayLike | str

    def __post_init__(self) -> None:
        store(self, correlation=quantity("correlation", self.correlation, above=-1.0, below=1.0))

    @property
    def quantities(self) -> Mapping[str, object]:
        return {"correlation": self.correlation}

    @property
    def limits(self) -> Mapping[str, tuple[float, float]]:
        return {"correlation": (-1.0, 1.0)}

    def bind(self, shape: tuple[int, ...], chosen: Indices) -> Noise:
        steps = np.arange(shape[0] if shape else 1, dtype=float)
        return _Markov(_power, *_series(steps, shape, chosen))


@dataclass(frozen=True)
class ExponentialCorrelation(Covariance):
    """Errors of variance 1 whose correlation falls as ``exp(-|t - t'| / time)`` along the data's first axis.

    Other axes are series of their own. (The process of Ornstein and Uhlenbeck.)

    Parameters
    ----------
    time : float, array_like or str
        Correlation time, > 0, in the unit of ``times``: as the scale of `invsamp.GaussianNoise`, numbers, the name of a
        parameter, or a formula.
    times : array_like, shape (first axis of the data,)
        When the data were taken, increasing.

    Raises
    ------
    ValueError
        If a number is not positive, or the times do not increase.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> times = np.linspace(0.0, 1.0, 5)
    >>> iv.GaussianNoise(0.1, covariance=iv.noise.ExponentialCorrelation(0.5, times)).scale
    0.1
    """

    time: npt.ArrayLike | str
    times: Value = field(repr=False)

    def __post_init__(self) -> None:
        store(self, time=quantity("time", self.time), times=tuple(increasing("times", self.times).tolist()))

    @property
    def quantities(self) -> Mapping[str, object]:
        return {"time": self.time}

    def bind(self, shape: tuple[int, ...], chosen: Indices) -> Noise:
        if not shape or shape[0] != len(self.times):
            raise ValueError(
                f"times must have one entry for each of the data's first axis, got {len(self.times)} for "
                f"data of shape {shape}"
            )
        return _Markov(_decay, *_series(np.array(self.times), shape, chosen))


class _Markov(Dependent):
    """Errors each of which depends on all before by the one before alone."""

    def __init__(self, correlation: Value, previous: Indices, gap: Array, rank: Indices) -> None:
        self._correlation, self._previous, self._gap, self._rank = correlation, previous, gap, rank
        self._first = previous < 0
        self._later = np.flatnonzero(~self._first)

    def _conditional(self, value: Array) -> tuple[Array, Array, Array]:
        """Correlation with the one before, variance given it, and the derivative of the first, (batch, m)."""
        found = self._correlation(value, self._gap)
        return tuple(np.where(self._first, rest, part) for part, rest in zip(found, (0.0, 1.0, 0.0), strict=True))  # type: ignore[return-value]

    def solve(self, e: Array, *values: Array) -> tuple[Array, ...]:
        correlation, variance, by_value = self._conditional(values[0])
        before = np.where(self._first, 0.0, e[:, self._previous])
        away = (e - correlation * before) / variance
        terms = -0.5 * away * (e - correlation * before) - 0.5 * np.log(variance) - _HALF_LOG_TWO_PI
        weighted = away.copy()
        weighted[:, self._previous[self._later]] -= (correlation * away)[:, self._later]
        by_correlation = away * before + correlation * (1.0 / variance - away**2)
        return terms, weighted, by_correlation * by_value

    def draw(self, rng: np.random.Generator, batch: int, *values: Array) -> Array:
        correlation, variance, _ = self._conditional(values[0])
        e = rng.standard_normal((batch, len(self._gap))) * np.sqrt(variance)
        correlation = np.broadcast_to(correlation, e.shape)
        for rank in range(1, self._rank.max() + 1):
            at = np.flatnonzero(self._rank == rank)
            e[:, at] += correlation[:, at] * e[:, self._previous[at]]
        return e

    def precisions(self, *values: Array) -> Array:
        correlation, variance, _ = self._conditional(values[0])
        found = 1.0 / variance
        found[:, self._previous[self._later]] += (correlation**2 / variance)[:, self._later]
        return found


def _series(times: Array, shape: tuple[int, ...], chosen: Indices) -> tuple[Indices, Array, Indices]:
    """Of each chosen datum the one before in its series (-1: none), the time between them, and its rank there."""
    width = max(1, math.prod(shape[1:]))
    row, series = np.divmod(chosen, width)
    previous, gap, rank = np.full(len(chosen), -1), np.ones(len(chosen)), np.zeros(len(chosen), dtype=np.intp)
    for number in np.unique(series):
        members = np.flatnonzero(series == number)
        members = members[np.argsort(row[members], kind="stable")]
        previous[members[1:]], gap[members[1:]] = members[:-1], np.diff(times[row[members]])
        rank[members] = np.arange(len(members))
    return previous, gap, rank


def _power(correlation: Array, gap: Array) -> tuple[Array, Array, Array]:
    inside = np.abs(correlation) < 1.0
    value = np.where(inside, correlation, np.nan)
    return value**gap, 1.0 - value ** (2.0 * gap), gap * value ** (gap - 1.0)


def _decay(time: Array, gap: Array) -> tuple[Array, Array, Array]:
    value = np.exp(-gap / np.where(time > 0.0, time, np.nan))
    return value, -np.expm1(-2.0 * gap / time), value * gap / time**2


def as_covariance(value: Value) -> Covariance:
    """A covariance, or the matrix of one."""
    if sparse.issparse(value):
        raise wrong("covariance", "an array, or iv.noise.Precision(matrix) of a sparse precision", value)
    if isinstance(value, Covariance | type):
        found: Covariance = instance("covariance", value, Covariance, "a matrix or AutoRegressive(...)")
        return found
    return Matrix(value)


def _check_size(what: str, size: int, shape: tuple[int, ...]) -> None:
    if size != math.prod(shape):
        raise ValueError(
            f"{what} must have a row for each of the {math.prod(shape)} data (shape {shape}), got shape {(size, size)}"
        )


def _check_symmetric(name: str, matrix: Array) -> None:
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=1e-14 * np.abs(matrix).max()):
        raise ValueError(f"{name} must be symmetric, got a matrix that differs from its transpose")


def _cholesky(matrix: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise ValueError(f"covariance must be positive definite, got smallest eigenvalue {smallest:g}") from None


def _described(covariance: Covariance, matrix: Array) -> str:
    return f"{type(covariance).__name__}({np.array2string(matrix, threshold=16, edgeitems=2)})".replace("\n", "")
