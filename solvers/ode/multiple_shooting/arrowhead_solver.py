r"""Least squares for multiple shooting: Levenberg-Marquardt on normal equations of arrow shape.

The parameters touch all observations, a segment's start only its own and the gaps to its neighbors. The matrix of
the normal equations is

.. math:: \begin{pmatrix} A & B \\ B^T & C \end{pmatrix}

with A (starts) block tridiagonal and C (parameters) small and dense. Banded Cholesky of A and the Schur complement
C - B^T A^-1 B solve them in time and memory proportional to the number of segments (Nocedal and Wright 2006,
"Numerical Optimization", sections 10.3 and A.1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve, cho_solve_banded, cholesky_banded, solve_banded

Array = npt.NDArray[np.float64]

#: A step that promises less than this, in units of the log density, ends the fit.
SMALLEST_GAIN = 1e-8
#: Where it promises less than this the fit has converged: it is a hundredth of a standard deviation away, where the
#: solver's tolerance may make the cost rough.
ROUGHNESS = 1e-4
#: Share of the information about parameters that is left once the starts are unknown, too: below this it is rounding.
#: A standard deviation would be a million times the one given all other unknowns.
LEAST_INFORMATION = 1e-12


@dataclass(frozen=True, eq=False)
class ArrowEquations:
    """Gauss-Newton equations of a sum of squares r^T r / 2 over parameters and S segment starts.

    Attributes
    ----------
    diagonal : ndarray, shape (S, n, n)
        Diagonal blocks of A.
    below : ndarray, shape (S - 1, n, n) or (0, n, n)
        Blocks under them: rows of segment k + 1, columns of segment k. Empty where the starts are free.
    border : ndarray, shape (S, n, q)
        B.
    corner : ndarray, shape (q, q)
        C.
    descent_starts, descent_parameters : ndarray, shapes (S, n) and (q,)
        Minus the gradient.
    """

    diagonal: Array
    below: Array
    border: Array
    corner: Array
    descent_starts: Array
    descent_parameters: Array

    def damped(self, damping: float) -> ArrowEquations:
        """With the diagonal of the whole matrix enlarged by a factor 1 + damping (Marquardt 1963)."""
        diagonal, corner = self.diagonal.copy(), self.corner.copy()
        for matrix in (diagonal, corner):
            entries = np.einsum("...ii->...i", matrix)
            entries *= 1.0 + damping
        return dataclasses.replace(self, diagonal=diagonal, corner=corner)

    def solve(self) -> tuple[Array, Array]:
        """Steps of the parameters (q,) and of the starts (S, n).

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is not positive definite.
        """
        right = self.descent_parameters - self._coupling.T @ self.descent_starts.ravel()
        parameters = cho_solve(self._schur, right)
        inner = cho_solve_banded((self._factor, True), self.descent_starts.ravel())
        return parameters, (inner - self._coupling @ parameters).reshape(self.descent_starts.shape)

    def determined(self) -> bool:
        """Whether all unknowns are: the matrix is positive definite by more than rounding."""
        try:
            lower = np.tril(self._schur[0]) / np.sqrt(np.diag(self.corner))[:, None]
        except np.linalg.LinAlgError:
            return False
        return bool(np.linalg.svd(lower, compute_uv=False)[-1] ** 2 > LEAST_INFORMATION)

    def parameter_covariance(self) -> Array:
        """Block (q, q) of the inverse that belongs to the parameters."""
        inverse: Array = cho_solve(self._schur, np.eye(len(self.corner)))
        return 0.5 * (inverse + inverse.T)

    def covariance(self) -> Array:
        """The whole inverse (q + S n, q + S n), dense: parameters first."""
        corner, coupling = self.parameter_covariance(), self._coupling
        inner = cho_solve_banded((self._factor, True), np.eye(len(coupling)))
        side = coupling @ corner
        return np.block([[corner, -side.T], [-side, 0.5 * (inner + inner.T) + side @ coupling.T]])

    def sample(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Normal draws (n, q) and (n, S, n_states) with mean 0 and the inverse as covariance."""
        q = len(self.corner)
        parameters = rng.standard_normal((n, q)) @ np.linalg.cholesky(self.parameter_covariance()).T
        # rows of the factor's transpose, stored by diagonals as `solve_banded` wants an upper triangle
        bands = len(self._factor) - 1
        upper = np.zeros_like(self._factor)
        for k in range(bands + 1):
            upper[bands - k, k:] = self._factor[k, : self._factor.shape[1] - k]
        free = solve_banded((0, bands), upper, rng.standard_normal((upper.shape[1], n))).T
        return parameters, (free - parameters @ self._coupling.T).reshape(n, *self.descent_starts.shape)

    @cached_property
    def _factor(self) -> Array:
        """Banded lower Cholesky factor of A."""
        segments, n = self.descent_starts.shape
        bands = np.zeros((2 * n if len(self.below) else n, segments * n))
        for i in range(n):
            for j in range(n):
                if i >= j:
                    bands[i - j, j::n] = self.diagonal[:, i, j]
                if len(self.below):
                    bands[n + i - j, j : (segments - 1) * n : n] = self.below[:, i, j]
        factor: Array = cholesky_banded(bands, lower=True)
        return factor

    @cached_property
    def _coupling(self) -> Array:
        """A^-1 B, shape (S n, q)."""
        coupling: Array = cho_solve_banded((self._factor, True), self.border.reshape(-1, len(self.corner)))
        return coupling

    @cached_property
    def _schur(self) -> tuple[Array, bool]:
        factor: tuple[Array, bool] = cho_factor(
            self.corner - self.border.reshape(-1, len(self.corner)).T @ self._coupling, lower=True
        )
        return factor


def levenberg_marquardt(
    cost: Callable[[Array], float],
    equations: Callable[[Array], ArrowEquations | None],
    theta: Array,
    system: ArrowEquations,
    max_iterations: int,
) -> tuple[Array, ArrowEquations, int, bool]:
    """Minimize a sum of squares from theta (q + S n,).

    Parameters
    ----------
    cost : callable
        theta -> half the sum of squares; not finite where the model cannot be solved.
    equations : callable
        theta -> Gauss-Newton equations; None where the model cannot be differentiated.
    theta : array
        Where the cost is finite.
    system : ArrowEquations
        Those at theta.
    max_iterations : int

    Returns
    -------
    theta, equations there, iterations, converged
    """
    current, damping = cost(theta), 1e-3
    for iteration in range(max_iterations):
        moved, gain = _step(system, damping)
        if gain < SMALLEST_GAIN:
            # a damped step promises less than there is to gain
            return theta, system, iteration, _step(system, 0.0)[1] < ROUGHNESS
        candidate = cost(theta + moved)
        if candidate < current and (there := equations(theta + moved)) is not None:
            theta, current, damping, system = theta + moved, candidate, max(damping / 10.0, 1e-12), there
        else:
            damping *= 10.0
    return theta, system, max_iterations, False


def _step(system: ArrowEquations, damping: float) -> tuple[Array, float]:
    """Damped step, and by how much the cost would fall along it in the quadratic model."""
    try:
        parameters, starts = (system.damped(damping) if damping else system).solve()
    except np.linalg.LinAlgError:
        return np.zeros(system.descent_parameters.size + system.descent_starts.size), np.inf
    step = np.concatenate([parameters, starts.ravel()])
    descent = np.concatenate([system.descent_parameters, system.descent_starts.ravel()])
    return step, float(0.5 * descent @ step)
