r"""Equations for the parameters from a sampled trajectory: how its time derivative enters gradient matching.

Each part turns states at given times into data and a design, linear in the parameters of a library,

.. math:: d_k = c_k + G_k\, p + \text{noise}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.linalg import cholesky_banded, solve_banded
from scipy.signal import savgol_coeffs, savgol_filter

from invsamp.solvers.gradient_matching.libraries import Library

Array = npt.NDArray[np.float64]
#: Largest relative difference between time steps that count as even.
EVEN = 1e-6
#: Iterations for the covariance of the weak form, and the relative change of the parameters that ends them.
MOST_ITERATIONS, CONVERGED = 20, 1e-6
_DIFFERENCE = 1e-5  # step of the right-hand side's derivative by a state, in units of the state's range
_RIDGE = 1e-10


class Equations(NamedTuple):
    """Linear equations for the parameters, M of them in each of the n states."""

    times: Array  # (M,)
    data: Array  # (M, n)
    known: Array  # (M, n)
    design: Array  # (M, n, n_parameters)
    gain: Array  # (M,): standard deviation of the data's noise for a unit standard deviation of what was measured
    ratios: Array | None = None  # (n,): the states' standard deviations must be a multiple of these, where given


class Derivatives(Protocol):
    """A part that makes equations of a trajectory."""

    def equations(self, library: Library, times: Array, states: Array) -> Equations:
        """Equations from states (N, n) at times (N,)."""
        ...


@dataclass(frozen=True, eq=False)
class Given:
    """Derivatives (N, n) that were measured, or computed elsewhere; their noise is that of the data."""

    values: Array

    def equations(self, library: Library, times: Array, states: Array) -> Equations:
        """One equation per time."""
        if self.values.shape != states.shape:
            raise ValueError(f"derivatives must have the states' shape {states.shape}, got {self.values.shape}")
        if not np.isfinite(self.values).all():
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(self.values))[0])
            raise ValueError(f"derivatives must be finite, got {self.values[index]} at index {index}")
        return Equations(times, self.values, *library.evaluate(times, states), np.ones(len(times)))


@dataclass(frozen=True)
class FiniteDifferences:
    """Differences of second order: central, one-sided at the ends; the times may be uneven."""

    def equations(self, library: Library, times: Array, states: Array) -> Equations:
        """One equation per time."""
        if len(times) < 3:
            raise ValueError(f"times must be at least 3 for finite differences, got {len(times)}")
        points, weights = _three_points(times)
        data = np.einsum("kj,kjn->kn", weights, states[points])
        return Equations(times, data, *library.evaluate(times, states), np.linalg.norm(weights, axis=1))


@dataclass(frozen=True)
class SavitzkyGolay:
    """Derivatives, and smoothed states, of polynomials fitted in a moving window; see `savitzky_golay`."""

    window: int
    degree: int

    def equations(self, library: Library, times: Array, states: Array) -> Equations:
        """One equation per time."""
        step = _even_step(times, "savitzky_golay")
        if self.window > len(times):
            raise ValueError(f"window must be at most the {len(times)} times, got {self.window}")
        smooth = savgol_filter(states, self.window, self.degree, axis=0)
        slope = savgol_filter(states, self.window, self.degree, deriv=1, delta=step, axis=0)
        half = self.window // 2
        # near the ends the derivative is taken off the middle of the first or the last window
        off_centre = [
            float(np.linalg.norm(savgol_coeffs(self.window, self.degree, deriv=1, delta=step, pos=k)))
            for k in range(half + 1)
        ]
        from_end = np.minimum(np.arange(len(times)), np.arange(len(times))[::-1])
        gain = np.asarray(off_centre)[np.minimum(from_end, half)]
        return Equations(times, slope, *library.evaluate(times, smooth), gain)


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
        step = _even_step(times, "weak")
        if 2 * self.radius + 1 > len(times):
            raise ValueError(f"radius must leave room for 2 * radius + 1 of the {len(times)} times, got {self.radius}")
        if self.noise is not None and len(self.noise) != n:
            raise ValueError(f"noise must have one number for each of the {n} states, got {self.noise}")
        ratios = np.ones(n) if self.noise is None else np.asarray(self.noise)
        centres = np.arange(self.radius, len(times) - self.radius, self.spacing)
        test, slope = self._test_functions(centres, len(times), step)
        known, design = library.evaluate(times, states)
        linear = _Linear(
            (-(slope @ states)).ravel(),
            (test @ known).ravel(),
            (test @ design.reshape(len(times), -1)).reshape(len(centres) * n, -1),
        )
        white = _reweighted(linear, library, times, states, (test, slope), ratios)
        shape = (len(centres), n)
        parts = (white.data.reshape(shape), white.known.reshape(shape), white.design.reshape(*shape, -1))
        return Equations(times[centres], *parts, np.ones(len(centres)), ratios)

    def _test_functions(self, centres: npt.NDArray[np.intp], n: int, step: float) -> tuple[sparse.csr_matrix, ...]:
        """Integrals against the test functions and against their derivatives, as matrices (centres, n)."""
        offsets = np.arange(1 - self.radius, self.radius) / self.radius
        rest = 1.0 - offsets**2
        slope = -2.0 * self.degree * offsets * rest ** (self.degree - 1) / (self.radius * step)
        # both vanish at the ends of their support, where the trapezoidal rule is a plain sum, and very accurate
        return tuple(_convolution(step * values, centres, n) for values in (rest**self.degree, slope))


def finite_differences() -> FiniteDifferences:
    """Derivatives by differences of second order, central, one-sided at the ends.

    Noise in the states is amplified by 1 / (sqrt(2) * time step). It is correlated between times that share a
    state, and enters the design as well; neither is accounted for, and parameters are biased towards zero.
    """
    return FiniteDifferences()


def savitzky_golay(window: int = 11, degree: int = 4) -> SavitzkyGolay:
    """Derivatives and smoothed states from polynomials fitted in a moving window, for even times.

    The noise of neighbours is correlated, which is not accounted for.

    Parameters
    ----------
    window : int, odd
        Number of times in the window.
    degree : int, >= 1, below ``window``
        Of the polynomials. Features shorter than the window are smoothed away: a bias that grows with the window
        and falls with the degree.

    Raises
    ------
    ValueError
        If the window is not odd or the degree not between 1 and window - 1.

    References
    ----------
    Savitzky and Golay (1964), Analytical Chemistry 36(8).
    """
    if window < 3 or window % 2 == 0:
        raise ValueError(f"window must be an odd number >= 3, got {window}")
    if not 1 <= degree < window:
        raise ValueError(f"degree must be at least 1 and below the window {window}, got {degree}")
    return SavitzkyGolay(int(window), int(degree))


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
    localisation, and the second term, summed up over the whole trajectory, dominates.

    Parameters
    ----------
    radius : int, >= 2
        Of the support, in time steps. At least 6 to integrate accurately, at most what the system takes to turn.
    degree : int, >= 2
        The exponent q.
    spacing : int, >= 2, optional
        Time steps between neighbouring test functions; about a third of the radius by default.
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
    """
    if radius < 2:
        raise ValueError(f"radius must be at least 2 time steps, got {radius}")
    if degree < 2:
        raise ValueError(f"degree must be at least 2, got {degree}")
    spacing = max(2, (radius + 1) // 3) if spacing is None else spacing
    if spacing < 2:
        raise ValueError(f"spacing must be at least 2 time steps, or the equations are dependent, got {spacing}")
    sds = None if noise is None else np.asarray(noise, dtype=float)
    if sds is not None and not (sds.ndim == 1 and np.all(np.isfinite(sds) & (sds > 0))):
        raise ValueError(f"noise must be positive, one number per state, got {noise!r}")
    return Weak(int(radius), int(degree), int(spacing), None if sds is None else tuple(sds.tolist()))


def _three_points(times: Array) -> tuple[npt.NDArray[np.intp], Array]:
    """Neighbours (N, 3) of every time, and the weights of their states in its derivative."""
    middle = np.clip(np.arange(len(times)), 1, len(times) - 2)
    points = middle[:, None] + np.array([-1, 0, 1])
    a, b, c = times[points].T - times
    # derivative at 0 of the parabola through the values at a, b, c
    return points, np.stack(
        [-(b + c) / ((a - b) * (a - c)), -(a + c) / ((b - a) * (b - c)), -(a + b) / ((c - a) * (c - b))], axis=1
    )


def _even_step(times: Array, method: str) -> float:
    steps = np.diff(times)
    step = float(times[-1] - times[0]) / (len(times) - 1)
    if np.abs(steps - step).max() > EVEN * step:
        raise ValueError(
            f"times must be even for {method!r}, got steps from {steps.min():g} to {steps.max():g}: "
            "'finite_differences' takes uneven times"
        )
    return step


def _convolution(values: Array, centres: npt.NDArray[np.intp], n: int) -> sparse.csr_matrix:
    """Sparse matrix (centres, n) with ``values`` around each centre."""
    half = len(values) // 2
    columns = centres[:, None] + np.arange(-half, half + 1)
    starts = np.arange(0, columns.size + 1, len(values))
    return sparse.csr_matrix((np.tile(values, len(centres)), columns.ravel(), starts), shape=(len(centres), n))


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
