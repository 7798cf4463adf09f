r"""Gaussian random fields by their Karhunen-Loeve modes.

.. math:: g(x) = \mu(x) + \sum_k z_k \sqrt{\lambda_k}\, e_k(x), \qquad z_k \sim N(0, 1), \qquad
          \int C(x, y)\, e_k(y)\, dy = \lambda_k e_k(x)

The eigenproblem is solved once, by a quadrature rule, and its solution is a function of x: meshes of every fidelity
take their modes from it, so that they share the same unknowns z.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import scipy.linalg as linalg
from scipy.special import gammaln, kv

from invsamp.solvers.fem.contract import Array

#: Correlations by distance in units of the length, for the smoothnesses that need no Bessel function.
_CLOSED_FORMS: dict[float, Callable[[Array], Array]] = {
    0.5: lambda r: np.exp(-r),
    1.5: lambda r: (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r),
    2.5: lambda r: (1 + math.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-math.sqrt(5) * r),
}

#: Eigenvalues closer than this, relative to the largest, count as equal.
_EQUAL = 1e-10


class Covariance(Protocol):
    """A covariance function."""

    def __call__(self, first: Array, second: Array) -> Array:
        """Covariances (n, m) between points (n, d) and (m, d)."""
        ...


@dataclass(frozen=True)
class SquaredExponential:
    r"""Covariance :math:`\sigma^2 \exp(-r^2 / 2)`, r the distance in units of ``length``.

    Parameters
    ----------
    length : float or tuple of float, > 0
        Correlation length; one per axis in a tuple.
    sd : float, > 0
        Of the field at a point.

    References
    ----------
    Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning", eq. (4.9).
    """

    length: float | tuple[float, ...]
    sd: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", _checked_length(self.length))
        _check_positive("sd", self.sd)

    def __call__(self, first: Array, second: Array) -> Array:
        """Covariances (n, m) between points (n, d) and (m, d)."""
        return self.sd**2 * np.exp(-0.5 * _distances(first, second, self.length) ** 2)


@dataclass(frozen=True)
class Matern:
    r"""Covariance of a field that is less than :math:`\nu` times differentiable.

    .. math:: \sigma^2 \frac{2^{1-\nu}}{\Gamma(\nu)} (\sqrt{2\nu}\, r)^\nu K_\nu(\sqrt{2\nu}\, r),

    r the distance in units of ``length``. At :math:`\nu = 1/2` it is :math:`\sigma^2 \exp(-r)`.

    Parameters
    ----------
    smoothness : float in (0, 50]
        :math:`\nu`. Towards infinity it becomes a `SquaredExponential`, whose cost and rounding are less.
    length : float or tuple of float, > 0
        Correlation length; one per axis in a tuple.
    sd : float, > 0
        Of the field at a point.

    References
    ----------
    Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning", eq. (4.14); (4.17) for 3/2 and 5/2.
    """

    smoothness: float
    length: float | tuple[float, ...]
    sd: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.smoothness <= 50:
            raise ValueError(f"smoothness must be positive and at most 50, got {self.smoothness}")
        object.__setattr__(self, "length", _checked_length(self.length))
        _check_positive("sd", self.sd)

    def __call__(self, first: Array, second: Array) -> Array:
        """Covariances (n, m) between points (n, d) and (m, d)."""
        distances = _distances(first, second, self.length)
        closed = _CLOSED_FORMS.get(self.smoothness)
        return self.sd**2 * (_matern(distances, self.smoothness) if closed is None else closed(distances))


@dataclass(frozen=True, eq=False, repr=False)
class KarhunenLoeve:
    """Modes of a random field, as a function of the point; see `karhunen_loeve`.

    Attributes
    ----------
    covariance : Covariance
    points : array, shape (n, d)
        Quadrature points of the eigenproblem.
    eigenvalues : array, shape (count,)
        Falling.
    share : float
        Of the field's variance, integrated over the domain, that the modes hold.
    """

    covariance: Covariance
    points: Array
    eigenvalues: Array
    share: float
    extension: Array  # (n, count): covariances with the points times this are the modes

    @property
    def count(self) -> int:
        """Number of modes."""
        return len(self.eigenvalues)

    def __call__(self, points: Array) -> Array:
        """Modes sqrt(lambda_k) e_k at points (m, d), shape (m, count)."""
        points = np.asarray(points, dtype=float)
        if points.ndim != 2 or points.shape[1] != self.points.shape[1]:
            raise ValueError(f"points must have shape (m, {self.points.shape[1]}), got {points.shape}")
        # in blocks, since the covariances of a fine mesh with all points would not fit in memory
        block = max(1, 2**22 // len(self.points))
        parts = [
            self.covariance(points[i : i + block], self.points) @ self.extension for i in range(0, len(points), block)
        ]
        return np.concatenate([np.empty((0, self.count)), *parts])

    def __repr__(self) -> str:
        return (
            f"KarhunenLoeve({self.covariance!r}, {self.count} modes, {self.share:.4f} of the variance, "
            f"{len(self.points)} points)"
        )


def karhunen_loeve(
    covariance: Covariance,
    points: npt.ArrayLike,
    weights: npt.ArrayLike,
    *,
    count: int | None = None,
    share: float | None = None,
) -> KarhunenLoeve:
    r"""Leading modes of a Gaussian random field, by Nystroem's method.

    With quadrature points :math:`x_i` and weights :math:`w_i` the eigenproblem becomes that of the symmetric matrix
    :math:`\sqrt{w_i} C(x_i, x_j) \sqrt{w_j}`; its vectors v are modes by
    :math:`\sqrt{\lambda} e(x) = \lambda^{-1/2} \sum_j C(x, x_j) \sqrt{w_j} v_j` at every x.

    Parameters
    ----------
    covariance : callable
        `Matern`, `SquaredExponential`, or points (n, d) and (m, d) -> covariances (n, m).
    points : array, shape (n, d)
        Of a quadrature rule on the domain: `square_rule`, or the midpoints and areas of a mesh. A rule that shares
        the symmetries of the domain gives modes that do.
    weights : array, shape (n,), > 0
    count : int, optional
        How many modes,
    share : float in (0, 1), optional
        or as few as hold this share of the variance.

    Returns
    -------
    KarhunenLoeve
        For `invsamp.solvers.fem.fields.Modes`. Signs, and bases of equal eigenvalues, are fixed by a rule, so that they
        are the same on every machine.

    Raises
    ------
    ValueError
        If not exactly one of ``count`` and ``share`` is given, one is out of range, shapes do not fit, the covariance
        is not symmetric, or has fewer positive eigenvalues than asked for.

    References
    ----------
    Rasmussen and Williams (2006), section 4.3.2, eq. (4.43) and (4.44), there with equal weights.
    """
    points, weights = _checked_rule(points, weights)
    wanted = _checked_truncation(count, share, len(points))
    matrix = np.asarray(covariance(points, points), dtype=float)
    if matrix.shape != (len(points),) * 2 or not np.allclose(matrix, matrix.T, rtol=1e-12, atol=1e-14):
        raise ValueError(f"covariance must give a symmetric matrix {(len(points),) * 2}, got {matrix.shape}")
    root = np.sqrt(weights)
    values, vectors = linalg.eigh(root[:, None] * matrix * root)
    values, vectors = values[::-1], _canonical(values[::-1], vectors[:, ::-1], points)
    total = float(weights @ np.diag(matrix))
    if share is not None:
        held = np.cumsum(values) / total
        wanted = int(np.searchsorted(held, share)) + 1
    if wanted > len(values) or values[wanted - 1] <= len(values) * np.finfo(float).eps * values[0]:
        raise ValueError(
            f"covariance must have {wanted} positive eigenvalues on {len(points)} points, take fewer modes"
        )
    kept = values[:wanted]
    extension = root[:, None] * vectors[:, :wanted] / np.sqrt(kept)
    return KarhunenLoeve(covariance, points, kept.copy(), float(kept.sum()) / total, extension)


def square_rule(
    order: int, lower: tuple[float, float] = (0.0, 0.0), upper: tuple[float, float] = (1.0, 1.0)
) -> tuple[Array, Array]:
    """Gauss-Legendre rule of order x order points on a rectangle: points (order^2, 2) and weights (order^2,).

    Raises
    ------
    ValueError
        If ``order`` is not a positive integer or a corner is not below the other.
    """
    if not isinstance(order, (int, np.integer)) or order < 1:
        raise ValueError(f"order must be a positive integer, got {order!r}")
    size = np.subtract(upper, lower)
    if size.shape != (2,) or not (size > 0).all():
        raise ValueError(f"lower must be below upper, got {lower} and {upper}")
    along, weights = np.polynomial.legendre.leggauss(order)
    grid = np.stack(np.meshgrid(along, along, indexing="ij"), axis=-1).reshape(-1, 2)
    return lower + 0.5 * (grid + 1) * size, 0.25 * size.prod() * np.outer(weights, weights).ravel()


def _canonical(values: Array, vectors: Array, points: Array) -> Array:
    """Vectors with a fixed sign, and a fixed basis where eigenvalues are equal.

    A square has equal ones by symmetry, and there the library's choice would depend on rounding. The basis is that in
    which a function without symmetry is diagonal.
    """
    scaled = (points - points.min(axis=0)) / np.ptp(points, axis=0).max()
    odd = np.exp(scaled @ (1.0 + np.arange(points.shape[1]))) + (scaled**2).sum(axis=1)
    vectors = vectors.copy()
    ends = np.flatnonzero(np.append(-np.diff(values) > _EQUAL * values[0], True)) + 1
    for first, last in zip(np.append(0, ends[:-1]), ends, strict=True):
        if values[first] < 1e3 * _EQUAL * values[0]:
            break
        group = vectors[:, first:last]
        if last - first > 1:
            vectors[:, first:last] = group @ linalg.eigh(group.T @ (odd[:, None] * group))[1]
    signs = np.sign((odd[:, None] * vectors).sum(axis=0))
    return vectors * np.where(signs == 0, 1.0, signs)


def _distances(first: Array, second: Array, length: float | tuple[float, ...]) -> Array:
    """Distances (n, m) in units of the length."""
    square = np.zeros((len(first), len(second)))
    units = length if isinstance(length, tuple) else (length,) * first.shape[1]
    if len(units) != first.shape[1]:
        raise ValueError(f"length must have {first.shape[1]} parts, as points have, got {length}")
    for axis, unit in enumerate(units):
        square += ((first[:, axis, None] - second[None, :, axis]) / unit) ** 2
    return np.sqrt(square)


def _matern(distances: Array, smoothness: float) -> Array:
    """Correlations for any smoothness; 1 at distances so small that they cannot be told from it."""
    scaled = math.sqrt(2 * smoothness) * distances
    correlations = np.ones_like(scaled)
    apart = scaled > 1e-10
    at = scaled[apart]
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        values = np.exp((1 - smoothness) * math.log(2) - gammaln(smoothness) + smoothness * np.log(at)) * kv(
            smoothness, at
        )
    correlations[apart] = np.where(np.isfinite(values), values, 1.0)
    return correlations


def _checked_rule(points: npt.ArrayLike, weights: npt.ArrayLike) -> tuple[Array, Array]:
    points, weights = np.array(points, dtype=float), np.array(weights, dtype=float)
    if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
        raise ValueError(f"points must be finite, of shape (n, d), got shape {points.shape}")
    if weights.shape != (len(points),) or not (weights > 0).all() or not np.isfinite(weights).all():
        raise ValueError(f"weights must be {len(points)} positive numbers, got shape {weights.shape}")
    return points, weights


def _checked_truncation(count: int | None, share: float | None, n: int) -> int:
    if (count is None) == (share is None):
        raise ValueError(f"either count or share must be given, got count={count!r} and share={share!r}")
    if share is not None and not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share}")
    if count is not None and (not isinstance(count, (int, np.integer)) or not 1 <= count <= n):
        raise ValueError(f"count must be an integer from 1 to {n}, the number of points, got {count!r}")
    return n if count is None else count


def _checked_length(length: float | tuple[float, ...]) -> float | tuple[float, ...]:
    parts = np.atleast_1d(np.asarray(length, dtype=float))
    for part in parts:
        _check_positive("length", part)
    return float(length) if np.ndim(length) == 0 else tuple(parts.tolist())  # type: ignore[arg-type]


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
