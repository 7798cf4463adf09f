r"""Gaussian random fields by their Karhunen-Loeve modes.

.. math:: g(x) = \mu(x) + \sum_k z_k \sqrt{\lambda_k}\, e_k(x), \qquad z_k \sim N(0, 1), \qquad
          \int C(x, y)\, e_k(y)\, dy = \lambda_k e_k(x)

The eigenproblem is solved once, by a quadrature rule, and its solution is a function of x: meshes of every fidelity
take their modes from it, so that they share the same unknowns z.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg as linalg

from invsamp.arguments import array, function, integer, optional, real
from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.covariances import Covariance, Matern, SquaredExponential

__all__ = ["Covariance", "KarhunenLoeve", "Matern", "SquaredExponential", "karhunen_loeve", "square_rule"]

#: Eigenvalues closer than this, relative to the largest, count as equal.
_EQUAL = 1e-10


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
    function("covariance", covariance, "of points, such as Matern(...)")
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
    order = integer("order", order, least=1)
    low = array("lower", lower, (2,))
    size = array("upper", upper, (2,)) - low
    if not (size > 0).all():
        raise ValueError(f"lower must be below upper, got {lower} and {upper}")
    along, weights = np.polynomial.legendre.leggauss(order)
    grid = np.stack(np.meshgrid(along, along, indexing="ij"), axis=-1).reshape(-1, 2)
    return low + 0.5 * (grid + 1) * size, 0.25 * size.prod() * np.outer(weights, weights).ravel()


def _canonical(values: Array, vectors: Array, points: Array) -> Array:
    """Vectors with a fixed sign, and a fixed basis where eigenvalues are equal.

    A square has equal ones by symmetry, and there the library's choice would depend on rounding. The basis is that in
    which a function without symmetry is diagonal.
    """
    scaled = (points - points.min(axis=0)) / (np.ptp(points, axis=0).max() or 1.0)
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


def _checked_rule(points: npt.ArrayLike, weights: npt.ArrayLike) -> tuple[Array, Array]:
    at = array("points", points, ("n", "d"))
    return at, array("weights", weights, (len(at),), above=0)


def _checked_truncation(count: int | None, share: float | None, n: int) -> int:
    if (count is None) == (share is None):
        raise ValueError(f"either count or share must be given, got count={count!r} and share={share!r}")
    optional(real, "share", share, above=0, below=1)
    return n if count is None else integer("count", count, least=1, most=n)
