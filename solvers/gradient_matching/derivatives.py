r"""Equations for the parameters from a sampled trajectory: how its time derivative enters gradient matching.

Each part turns states at given times into data and a design, linear in the parameters of a library,

.. math:: d_k = c_k + G_k\, p + \text{noise}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.signal import savgol_coeffs, savgol_filter

from invsamp.arguments import integer
from invsamp.solvers.gradient_matching.library import Library

Array = npt.NDArray[np.float64]
#: Largest relative difference between time steps that count as even.
EVEN = 1e-6


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


@dataclass(frozen=True, eq=False)
class Given:
    """Derivatives (N, n) that were measured, or computed elsewhere; their noise is that of the data."""

    values: Array

    def equations(self, library: Library, times: Array, states: Array) -> Equations:
        """One equation per time."""
        if self.values.shape != states.shape:
            raise ValueError(f"derivatives must have the states' shape {states.shape}, got {self.values.shape}")
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
        step = even_step(times, "savitzky_golay")
        if self.window > len(times):
            raise ValueError(f"window must be at most the {len(times)} times, got {self.window}")
        smooth = savgol_filter(states, self.window, self.degree, axis=0)
        slope = savgol_filter(states, self.window, self.degree, deriv=1, delta=step, axis=0)
        half = self.window // 2
        # near the ends the derivative is taken off the middle of the first or the last window
        off_center = [
            float(np.linalg.norm(savgol_coeffs(self.window, self.degree, deriv=1, delta=step, pos=k)))
            for k in range(half + 1)
        ]
        from_end = np.minimum(np.arange(len(times)), np.arange(len(times))[::-1])
        gain = np.asarray(off_center)[np.minimum(from_end, half)]
        return Equations(times, slope, *library.evaluate(times, smooth), gain)


def finite_differences() -> FiniteDifferences:
    """Derivatives by differences of second order, central, one-sided at the ends.

    Noise in the states is amplified by 1 / (sqrt(2) * time step). It is correlated between times that share a
    state, and enters the design as well; neither is accounted for, and parameters are biased towards zero.

    Examples
    --------
    >>> import numpy as np
    >>> from invsamp.solvers.gradient_matching import finite_differences, linear_in_parameters, match
    >>> times = np.linspace(0, 5, 501)
    >>> decay = linear_in_parameters(lambda t, x, p: [-p[0] * x[0]], ["x"], ["rate"])
    >>> model = match(decay, times, np.exp(-times)[:, None], finite_differences())
    >>> model.gaussian(0.01).mean.round(3)
    array([1.])
    """
    return FiniteDifferences()


def savitzky_golay(window: int = 11, degree: int = 4) -> SavitzkyGolay:
    """Derivatives and smoothed states from polynomials fitted in a moving window, for even times.

    The noise of neighbors is correlated, which is not accounted for.

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

    Examples
    --------
    >>> import numpy as np
    >>> from invsamp.solvers.gradient_matching import linear_in_parameters, match, savitzky_golay
    >>> times = np.linspace(0, 5, 501)
    >>> decay = linear_in_parameters(lambda t, x, p: [-p[0] * x[0]], ["x"], ["rate"])
    >>> model = match(decay, times, np.exp(-times)[:, None], savitzky_golay(window=21))
    >>> model.gaussian(0.01).mean.round(3)
    array([1.])
    """
    window = integer("window", window, least=3)
    if window % 2 == 0:
        raise ValueError(f"window must be an odd number >= 3, got {window}")
    return SavitzkyGolay(window, integer("degree", degree, least=1, most=window - 1))


def _three_points(times: Array) -> tuple[npt.NDArray[np.intp], Array]:
    """Neighbors (N, 3) of every time, and the weights of their states in its derivative."""
    middle = np.clip(np.arange(len(times)), 1, len(times) - 2)
    points = middle[:, None] + np.array([-1, 0, 1])
    a, b, c = times[points].T - times
    # derivative at 0 of the parabola through the values at a, b, c
    return points, np.stack(
        [-(b + c) / ((a - b) * (a - c)), -(a + c) / ((b - a) * (b - c)), -(a + b) / ((c - a) * (c - b))], axis=1
    )


def even_step(times: Array, method: str) -> float:
    """The step of even times; ValueError, naming the method that needs them, where they are not."""
    steps = np.diff(times)
    step = float(times[-1] - times[0]) / (len(times) - 1)
    if np.abs(steps - step).max() > EVEN * step:
        raise ValueError(
            f"times must be even for {method!r}, got steps from {steps.min():g} to {steps.max():g}: "
            "'finite_differences' takes uneven times"
        )
    return step
