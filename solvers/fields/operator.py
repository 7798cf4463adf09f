r"""The operator :math:`1 - \nabla\cdot(\ell^2 H \nabla)` in linear finite elements, and powers of it.

With lumped masses C, stiffness G of the tensor H and the boundary's masses B the matrix is
:math:`A = C + \ell^2 G + \beta \ell B`, and what has powers is the symmetric :math:`S = C^{-1/2} A C^{-1/2}`, whose
eigenvalues are at least 1. Every function of S here is made of resolvents :math:`(S + p)^{-1}`: sparse factors.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sparse

from invsamp.solvers.fem import elements
from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.element_matrices import element_matrices
from invsamp.solvers.fem.factors.ldl import Elimination
from invsamp.solvers.fem.factors.selected_inverse import inverse_diagonal
from invsamp.solvers.fem.factors.triangular import SymmetricFactors
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fields.rational import ResolventSum, fractional_power, inverse_power_sum
from invsamp.solvers.foreign import Sparse

#: Coefficient beta of the Robin condition: that of hIPPYlib (Villa, Petra and Ghattas 2021, section 2.3), an empirical
#: value near the mean of those of Roininen, Huttunen and Lasanen (2014), Inverse Problems and Imaging 8, 561-586.
ROBIN = 1.0 / 1.42

#: Closer to a whole number than this counts as whole.
_WHOLE = 1e-9


class Assembled:
    """Quantities that do not depend on the length: C, G and B of a mesh, and the order of elimination.

    Parameters
    ----------
    mesh : Mesh
    tensor : array, shape (c, d, d), optional
        H in each cell; the identity by default.
    robin : float
        The coefficient beta.
    """

    def __init__(self, mesh: Mesh, tensor: Array | None, robin: float) -> None:
        mass, stiffness = element_matrices(mesh, tensor)
        size = len(mesh.points)
        self.dimension = mesh.points.shape[1]
        self.pattern, slots = elements.pattern(mesh.cells, size)
        self.mass = elements.added(mesh.cells.ravel(), mass.sum(axis=2).ravel(), size)
        self.stiffness = elements.added(slots, stiffness.ravel(), self.pattern.nnz)
        self.boundary = robin * elements.edge_loads(mesh)
        self.root = np.sqrt(self.mass)
        self.diagonal = np.flatnonzero(np.repeat(np.arange(size), np.diff(self.pattern.indptr)) == self.pattern.indices)
        self._elimination: Elimination | None = None

    @property
    def elimination(self) -> Elimination:
        """The order in which all these matrices are factored, found once."""
        if self._elimination is None:
            every: Numbers = np.arange(len(self.mass))
            self._elimination = Elimination.make(self.pattern, every)
        return self._elimination

    def largest(self, length: float) -> float:
        """An upper bound of the eigenvalues of S: the row sums of Gershgorin."""
        entries = np.abs(self.matrix(self.entries(length, 0.0)))
        return float(((entries @ (1.0 / self.root)) / self.root).max())

    def entries(self, length: float, shift: float) -> Array:
        """Entries of A + shift * C in the pattern; not finite for a length whose square is not."""
        with np.errstate(over="ignore", invalid="ignore"):
            entries = np.square(length) * self.stiffness
            entries[self.diagonal] += (1.0 + shift) * self.mass + length * self.boundary
        return np.asarray(entries, dtype=float)

    def slope(self, length: float) -> Sparse:
        """The derivative of A in the length."""
        entries = 2.0 * length * self.stiffness
        entries[self.diagonal] += self.boundary
        return self.matrix(entries)

    def matrix(self, entries: Array) -> Sparse:
        """A matrix of the pattern."""
        return sparse.csr_matrix((entries, self.pattern.indices, self.pattern.indptr), self.pattern.shape)


def fraction_of(alpha: float, largest: float) -> ResolventSum | None:
    """The power of the part of alpha / 2 that is not whole, for eigenvalues up to ``largest``; None for whole ones."""
    part = alpha / 2 - math.floor(alpha / 2 + _WHOLE)
    return fractional_power(part, largest) if part > _WHOLE else None


class Power:
    r"""The matrix :math:`T = S^{-\alpha/2}` at one length; columns (n, k) in, columns out.

    Parameters
    ----------
    assembled : Assembled
    length : float
    alpha : float
    fraction : ResolventSum, optional
        The power of the part of alpha / 2 that is not whole, from `fraction_of`.
    """

    def __init__(self, assembled: Assembled, length: float, alpha: float, fraction: ResolventSum | None) -> None:
        self.assembled, self.length, self.alpha, self.fraction = assembled, length, alpha, fraction
        self.whole = math.floor(alpha / 2 + _WHOLE)
        self._factors: dict[float, SymmetricFactors] = {}
        self._matrix = assembled.matrix(assembled.entries(length, 0.0))

    def factors(self, shift: float = 0.0) -> SymmetricFactors:
        """Those of A + shift * C."""
        if shift not in self._factors:
            assembled = self.assembled
            self._factors[shift] = assembled.elimination.factor(assembled.entries(self.length, shift))
        return self._factors[shift]

    @property
    def good(self) -> bool:
        """Whether A could be factored."""
        return self.factors().good

    def resolvent(self, shift: float, columns: Array) -> Array:
        """The product (S + shift)^-1 with columns."""
        root = self.assembled.root[:, None]
        return root * self.factors(shift).solve(root * columns)

    def apply(self, columns: Array) -> Array:
        """The product T with columns (n, k); T is symmetric."""
        return self.stages(columns)[-1]

    def stages(self, columns: Array) -> list[Array]:
        """The columns, and what they are after each factor of T: the fractional one first."""
        found = [columns]
        if self.fraction is not None:
            found.append(self._fractional(columns))
        for _ in range(self.whole):
            found.append(self.resolvent(0.0, found[-1]))
        return found

    def inverse(self, columns: Array) -> Array:
        """The product T^-1 with columns (n, k)."""
        root = self.assembled.root[:, None]
        for _ in range(self.whole):
            columns = (self._matrix @ (columns / root)) / root
        if self.fraction is not None:
            columns = columns / self.fraction.constant
            for pole, zero in zip(self.fraction.poles, self.fraction.zeros, strict=True):
                # (S + p) / (S + q) = 1 - (q - p) / (S + q)
                columns = columns - (zero - pole) * self.resolvent(float(zero), columns)
        return columns

    def log_determinant(self) -> float:
        """That of T."""
        total = -self.whole * self._log_determinant(0.0)
        if self.fraction is not None:
            total += len(self.assembled.mass) * math.log(self.fraction.constant)
            total += sum(self._log_determinant(float(q)) for q in self.fraction.zeros)
            total -= sum(self._log_determinant(float(p)) for p in self.fraction.poles)
        return total

    def slope(self, columns: Array, cotangents: Array) -> Array:
        """Derivatives in the length, (k,), of each cotangent's product with T times its column."""
        down, up = self.stages(columns), [cotangents]
        for _ in range(self.whole):
            up.append(self.resolvent(0.0, up[-1]))
        root, change = self.assembled.root[:, None], self.assembled.slope(self.length)
        total = np.zeros(columns.shape[1])

        def add(weight: float, left: Array, right: Array) -> None:
            total[:] -= weight * ((left / root) * (change @ (right / root))).sum(axis=0)

        for stage in range(self.whole):
            # S^-1 moves by -S^-1 dS S^-1
            add(1.0, up[stage + 1], down[len(down) - 1 - stage])
        if self.fraction is not None:
            for pole, weight in zip(self.fraction.poles, self.fraction.weights, strict=True):
                shift = float(pole)
                add(float(weight), self.resolvent(shift, up[-1]), self.resolvent(shift, columns))
        return total

    def log_determinant_slope(self) -> float:
        """The derivative of `log_determinant` in the length, by differences: relative error of about 1e-9."""
        step = 1e-3 * self.length
        values = [
            Power(self.assembled, self.length + k * step, self.alpha, self.fraction).log_determinant()
            for k in (-2, -1, 1, 2)
        ]
        return (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * step)

    def variances(self) -> Array:
        """The diagonal of T T, (n,), by selected inverses."""
        shifts, weights = inverse_power_sum(self.alpha, self.assembled.largest(self.length), self.assembled.dimension)
        total = np.zeros(len(self.assembled.mass))
        for shift, weight in zip(shifts.tolist(), weights.tolist(), strict=True):
            factors = self.assembled.elimination.factor(self.assembled.entries(self.length, shift))
            total += weight * inverse_diagonal(factors) * self.assembled.mass
        return total

    def _fractional(self, columns: Array) -> Array:
        assert self.fraction is not None
        total = self.fraction.constant * columns
        for pole, weight in zip(self.fraction.poles, self.fraction.weights, strict=True):
            total = total + weight * self.resolvent(float(pole), columns)
        return total

    def _log_determinant(self, shift: float) -> float:
        """That of S + shift."""
        return float(np.log(self.factors(shift).diagonal).sum() - np.log(self.assembled.mass).sum())
