"""Gradient matching without derivatives of the data: integrals against test functions, whitened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import cholesky_banded, solve_banded

from invsamp.arguments import array, integer, optional
from invsamp.solvers.gradient_matching.derivatives import Array, Equations, even_step
from invsamp.solvers.gradient_matching.library import Library

#: Iterations for the covariance of the weak form, and the relative change of the parameters that ends them.
MOST_ITERATIONS, CONVERGED = 20, 1e-6
_DIFFERENCE = 1e-5  # step of the right-hand side's derivative by a state, in units of the state's range
_RIDGE = 1e-10


def weak(radius: int = 8, degree: int = 8, spacing: int | None = None, noise: npt.ArrayLike | None = None) -> Weak:
    r"""Weak form, for even times: no derivative of the data is taken.

    Integrated by parts against test functions of compact support, :math:`x' = f` reads

    .. math:: -\langle \phi_k', x \rangle = \langle \phi_k, f(x) \rangle, \qquad
              \phi_k(t) = (1 - ((t - t_k) / r)^2)^q .

    Independent noise :math:`\varepsilon` of the states makes the difference of the two sides
    :math:`-\langle \phi_k', \varepsilon \rangle - \langle \phi_k, f'(x)\, \varepsilon \rangle` to first order. Its
    covariance depends on the parameters through the Jacobian f'; it is found with them by iteration, and all equations
    are multiplied by the inverse of its Cholesky factor. Their noise is then independent with the states' standard
    deviation, so that Gaussian noise with that is right to first order. The bias of second order, of noise in products
    of states, is left. Whitening by the first term alone, which looks cheaper, would be wrong: it undoes the
    localization, and the second term, summed up over the whole trajectory, dominates.

    Parameters
    ----------
    radius : int, >= 2
        Of the support, in time steps. At least 6 to integrate accurately, at most what the system takes to turn.
    degree : int, >= 2
        The exponent q.
    spacing : int, >= 2, optional
        Time steps between neighboring test functions; about a third of the radius by default.
    noise : array_like, shape (n_states,), > 0, optional
        Standard deviation of each state's noise, up to a common factor. By default the same for all.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Messenger and Bortz (2021), "Weak SINDy: Galerkin-based data-driven model selection", Multiscale Model. Simul.
    19(3), for the weak form. Bortz, Messenger and Dukic (2023), "Direct estimation of parameters in ODE models using
    WENDy", Bull. Math. Biol. 85:110, section 2.2, for the covariance; they use other test functions.

    Examples
    --------
    >>> import numpy as np
    >>> from invsamp.solvers.gradient_matching import linear_in_parameters, match, weak
    >>> times = np.linspace(0, 5, 501)
    >>> decay = linear_in_parameters(lambda t, x, p: [-p[0] * x[0]], ["x"], ["rate"])
    >>> model = match(decay, times, np.exp(-times)[:, None], weak(radius=20))
    >>> model.gaussian(0.01).mean.round(3)
    array([1.])
    """
    radius, degree = integer("radius", radius, least=2), integer("degree", degree, least=2)
    # nearer to each other the equations are dependent
    spacing = max(2, (radius + 1) // 3) if spacing is None else integer("spacing", spacing, least=2)
    sds = optional(array, "noise", noise, ("n_states",), above=0)
    return Weak(radius, degree, spacing, None if sds is None else tuple(sds.tolist()))


@dataclass(frozen=True)
class Weak:
    """Integrals against test functions, whitened; see `weak`."""

    radius: int
    degree: int
    spacing: int
    noise: tuple[float, ...] | None

    def equations(self, library: Library, times: Array, states: Array) -> Equations:
        """One equation per test function."""
        n = states.shape[1]
        step = even_step(times, "weak")
        if 2 * self.radius + 1 > len(times):
            raise ValueError(f"radius must leave room for 2 * radius + 1 of the {len(times)} times, got {self.radius}")
        if self.noise is not None and len(self.noise) != n:
            raise ValueError(f"noise must have one number for each of the {n} states, got {self.noise}")
        ratios = np.ones(n) if self.noise is None else np.asarray(self.noise)
        centers = np.arange(self.radius, len(times) - self.radius, self.spacing)
        test, slope = self._test_functions(centers, len(times), step)
        known, design = library.evaluate(times, states)
        linear = _Linear(
            (-(slope @ states)).ravel(),
            (test @ known).ravel(),
            (test @ design.reshape(len(times), -1)).reshape(len(centers) * n, -1),
        )
        white = _reweighted(linear, library, times, states, (test, slope), ratios)
        shape = (len(centers), n)
        parts = (white.data.reshape(shape), white.known.reshape(shape), white.design.reshape(*shape, -1))
        return Equations(times[centers], *parts, np.ones(len(centers)), ratios)

    def _test_functions(self, centers: npt.NDArray[np.intp], n: int, step: float) -> tuple[sparse.csr_matrix, ...]:
        """Integrals against the test functions and against their derivatives, as matrices (centers, n)."""
        offsets = np.arange(1 - self.radius, self.radius) / self.radius
        rest = 1.0 - offsets**2
        slope = -2.0 * self.degree * offsets * rest ** (self.degree - 1) / (self.radius * step)
        # both vanish at the ends of their support, where the trapezoidal rule is a plain sum, and very accurate
        return tuple(_convolution(step * values, centers, n) for values in (rest**self.degree, slope))


def _convolution(values: Array, centers: npt.NDArray[np.intp], n: int) -> sparse.csr_matrix:
    """Sparse matrix (centers, n) with ``values`` around each center."""
    half = len(values) // 2
    columns = centers[:, None] + np.arange(-half, half + 1)
    starts = np.arange(0, columns.size + 1, len(values))
    return sparse.csr_matrix((np.tile(values, len(centers)), columns.ravel(), starts), shape=(len(centers), n))


class _Linear(NamedTuple):
    """Linear equations, one after the other."""

    data: Array  # (m,)
    known: Array  # (m,)
    design: Array  # (m, n_parameters)


def _reweighted(
    linear: _Linear,
    library: Library,
    times: Array,
    states: Array,
    integrals: tuple[sparse.csr_matrix, ...],
    ratios: Array,
) -> _Linear:
    """Equations whitened by the covariance of their noise, iterated with the parameters that it depends on."""
    sensitivity = _sensitivity(library, times, states)
    weights = np.tile(ratios, len(linear.data) // len(ratios))
    unit = _Linear(*((part.T / weights).T for part in linear))
    parameters = _least_squares(unit)
    for _ in range(MOST_ITERATIONS):
        whiten = _whitening(integrals, sensitivity(parameters), ratios)
        unit = _Linear(*(whiten(part) for part in linear))
        before, parameters = parameters, _least_squares(unit)
        if np.abs(parameters - before).max() <= CONVERGED * np.abs(parameters).max():
            break
    # noise with the standard deviation of each state, rather than 1
    return _Linear(*((part.T * weights).T for part in unit))


def _least_squares(linear: _Linear) -> Array:
    return np.asarray(np.linalg.lstsq(linear.design, linear.data - linear.known, rcond=None)[0])


def _sensitivity(library: Library, times: Array, states: Array) -> Callable[[Array], Array]:
    """Jacobian (N, n, n) of the right-hand side by the states, as a function of the parameters."""
    n = states.shape[1]
    by_state = []
    for j in range(n):
        step = _DIFFERENCE * max(float(np.ptp(states[:, j])), _DIFFERENCE) * np.eye(n)[j]
        sides = [library.evaluate(times, states + sign * step) for sign in (1.0, -1.0)]
        by_state.append([(ahead - behind) / (2.0 * step[j]) for ahead, behind in zip(*sides, strict=True)])
    known, design = (np.stack(parts, axis=2) for parts in zip(*by_state, strict=True))
    return lambda parameters: known + design @ parameters


def _whitening(integrals: tuple[sparse.csr_matrix, ...], jacobian: Array, ratios: Array) -> Callable[[Array], Array]:
    """Multiplication by L^-1, L L^T the banded covariance of the equations' noise, ordered by time, then by state."""
    test, slope = integrals
    n = len(ratios)
    blocks = sparse.bsr_matrix((jacobian, np.arange(len(jacobian)), np.arange(len(jacobian) + 1)))
    identity = sparse.identity(n)
    noise = sparse.kron(slope, identity, "csr") + sparse.kron(test, identity, "csr") @ blocks.tocsr()
    noise = noise @ sparse.diags(np.tile(ratios, len(jacobian)))
    covariance = (noise @ noise.T).tocoo()
    width = int(np.abs(covariance.row - covariance.col).max())
    lower = np.zeros((width + 1, covariance.shape[0]))
    below = covariance.row >= covariance.col
    lower[covariance.row[below] - covariance.col[below], covariance.col[below]] = covariance.data[below]
    # test functions that overlap much are nearly dependent, down to rounding error
    lower[0] *= 1.0 + _RIDGE
    factor = cholesky_banded(lower, lower=True)
    return lambda values: np.asarray(solve_banded((width, 0), factor, values))
