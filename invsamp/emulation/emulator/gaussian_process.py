r"""A Gaussian process of several outputs at once, with the gradients of its mean and variance.

Outputs share one correlation function of inputs x (p,), standardized to be of the size of 1,

.. math:: k(x, x') = 1 + a_1 s + a_2 s^2 + a_3 s^3 + b\, e^{-\frac12 \sum_i (x_i - x'_i)^2 / \ell_i^2},
          \qquad s = \sum_i w_i x_i x'_i

(Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", sections 2.7 and 4.2): a constant, a linear, a
quadratic and a cubic trend, and what these leave. The weights w are 1 / p, or 4 / l^2 where the trends share the
lengths; both are 1 / p where lengths have their prior median. Each output has its own variance, in closed form. The
hyperparameters maximize the sum of the outputs' profiled log marginal likelihoods, with weak priors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy  # its optimizers take long to import: not before they are wanted
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from invsamp.protocols import Array

#: Least variance of an output: one that never changes has none.
TINY = 1e-12
#: Least variance of the noise of an output, as a share of the output's own; with less, variances lose their digits.
LEAST_NOISE = 1e-9
#: Added to each variance, as a share of it: far out the trends are so large that rounding exceeds the noise.
_ROUNDING = 1e-10
#: Means and sds of the hyperparameters' priors: logs of the weights of the trends and of the rest, and of the lengths.
_WEIGHTS, _WEIGHTS_SD, _LENGTHS_SD = np.array([2.0, -1.0, -4.0, -1.0]), 3.0, 0.7
#: Outputs whose sd is far below this, in units of the noise of the data, do not count when lengths are chosen.
_COUNTED = 0.1


class Hyperparameters(NamedTuple):
    """Of the correlation function."""

    trend: Array  # (3,): a1, a2, a3
    rest: float  # b
    lengths: Array  # (p,)
    noise: float  # variance of the noise, as a share of the output's own
    shared: bool = False  # whether the trends share the lengths

    @property
    def weights(self) -> Array:
        """Of the products of inputs in the trends (p,)."""
        return 4.0 / np.square(self.lengths) if self.shared else np.full(len(self.lengths), 1.0 / len(self.lengths))

    def packed(self) -> Array:
        """Their logs in a row."""
        return np.log(np.concatenate([self.trend, [self.rest], self.lengths, [self.noise]]))

    @classmethod
    def unpacked(cls, row: Array, shared: bool = False) -> Hyperparameters:
        """From their logs in a row."""
        values = np.exp(row)
        return cls(values[:3], float(values[3]), values[4:-1], float(values[-1]), shared)


class Prediction(NamedTuple):
    """Of a batch of inputs."""

    mean: Array  # (batch, k)
    variance: Array  # (batch,), to be multiplied by the variances of the outputs
    pull_back: Callable[[Array, Array], Array]  # slopes by mean and variance -> slope by the inputs (batch, p)


@dataclass(frozen=True)
class GaussianProcess:
    """A Gaussian process at its data.

    Attributes
    ----------
    inputs : ndarray, shape (n, p)
    outputs : ndarray, shape (n, k)
    hyperparameters : Hyperparameters
    evidence : float
        Log posterior density of the hyperparameters, up to a constant: the log marginal likelihood and their priors.
    """

    inputs: Array
    outputs: Array
    hyperparameters: Hyperparameters
    evidence: float = math.nan

    @cached_property
    def _factor(self) -> Array:
        covariance = _correlation(self.hyperparameters, self.inputs, self.inputs)[0]
        _add_noise(covariance, self.hyperparameters.noise)
        return np.asarray(cholesky(covariance, lower=True))

    @cached_property
    def _inverse_factor(self) -> Array:
        return np.asarray(solve_triangular(self._factor, np.eye(len(self.inputs)), lower=True))

    @cached_property
    def _weights(self) -> Array:
        return np.asarray(cho_solve((self._factor, True), self.outputs))

    @cached_property
    def scales(self) -> Array:
        """Variances of the outputs (k,)."""
        return np.asarray(np.einsum("nk,nk->k", self.outputs, self._weights) / len(self.inputs) + TINY)

    def leave_one_out(self) -> tuple[Array, Array]:
        """Errors (n, k) of the prediction of each point by all others, and the factors (n,) of their variances.

        Rasmussen and Williams (2006), eq. (5.12).
        """
        precision = np.square(self._inverse_factor).sum(axis=0)
        return self._weights / precision[:, None], 1.0 / precision

    @np.errstate(over="ignore", invalid="ignore")  # far from all draws
    def predict(self, x: Array) -> Prediction:
        """Mean and variance at inputs (batch, p), with their derivatives."""
        h = self.hyperparameters
        k, slope, bump = _correlation(h, x, self.inputs)
        own = np.square(x) @ h.weights
        prior = 1.0 + own * (h.trend[0] + own * (h.trend[1] + own * h.trend[2])) + h.rest
        whitened = k @ self._inverse_factor.T
        variance = np.maximum(prior - np.square(whitened).sum(axis=1), 0.0)

        @np.errstate(over="ignore", invalid="ignore")
        def pull_back(by_mean: Array, by_variance: Array) -> Array:
            by_k = by_mean @ self._weights.T
            by_k -= 2.0 * by_variance[:, None] * (whitened @ self._inverse_factor)
            by_own = by_variance * (h.trend[0] + own * (2.0 * h.trend[1] + 3.0 * own * h.trend[2]))
            by_bump = by_k * bump
            rest = by_bump.sum(axis=1)[:, None] * x - by_bump @ self.inputs
            by_trends = (by_k * slope) @ self.inputs + 2.0 * by_own[:, None] * x
            return by_trends * h.weights - rest / np.square(h.lengths)

        return Prediction(k @ self._weights, variance, pull_back)


def fit(
    inputs: Array, outputs: Array, start: Hyperparameters | None = None, iterations: int = 40, shared: bool = False
) -> GaussianProcess:
    """The Gaussian process of most probable hyperparameters.

    Parameters
    ----------
    inputs : ndarray, shape (n, p)
        Of the size of 1.
    outputs : ndarray, shape (n, k)
        Centered, in units of the noise of the data.
    start : Hyperparameters, optional
        Where the search begins.
    iterations : int
        Of L-BFGS, at most.
    shared : bool
        Whether the trends share the lengths.
    """
    p = inputs.shape[1]
    length = np.log(2.0 * np.sqrt(p))
    lower = np.concatenate([[-4.0, -14.0, -18.0, -12.0], np.full(p, np.log(0.5)), [np.log(LEAST_NOISE)]])
    upper = np.concatenate([[5.0, 4.0, 4.0, 4.0], np.full(p, np.log(30.0)), [-1.0]])
    first = np.concatenate([[0.0, -1.0, -3.0, -1.0], np.full(p, length), [-10.0]])
    if start is not None:
        first = start.packed()
    variance = np.square(outputs).mean(axis=0)
    objective = _Objective(inputs, outputs, variance / (variance + _COUNTED**2), length, shared)
    options = {"maxiter": iterations}
    bounds = list(zip(lower, upper, strict=True))
    found = scipy.optimize.minimize(
        objective, np.clip(first, lower, upper), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return GaussianProcess(inputs, outputs, Hyperparameters.unpacked(found.x, shared), -float(found.fun))


class _Objective:
    """Minus the log posterior density of the hyperparameters, with its gradient."""

    def __init__(self, inputs: Array, outputs: Array, counted: Array, length: float, shared: bool) -> None:
        self._inputs, self._outputs, self._counted = inputs, outputs, counted
        self._length, self._shared = length, shared

    def __call__(self, row: Array) -> tuple[float, Array]:
        h, n, x = Hyperparameters.unpacked(row, self._shared), len(self._outputs), self._inputs
        covariance, slope, bump = _correlation(h, x, x)
        _add_noise(covariance, h.noise)
        factor = cho_factor(covariance, lower=True)
        inverse, weights = cho_solve(factor, np.eye(n)), cho_solve(factor, self._outputs)
        misfit = np.einsum("nk,nk->k", self._outputs, weights) + TINY
        log_determinant = 2.0 * np.log(np.diag(factor[0])).sum()
        value = 0.5 * self._counted.sum() * log_determinant + 0.5 * n * (self._counted * np.log(misfit / n)).sum()
        by_covariance = 0.5 * self._counted.sum() * inverse - 0.5 * n * (weights * (self._counted / misfit)) @ weights.T
        by_noise = np.trace(by_covariance) * h.noise
        by_covariance[np.diag_indices(n)] *= 1.0 + _ROUNDING
        by_bump, s = by_covariance * bump, (x * h.weights) @ x.T
        apart = by_bump.sum(axis=1) @ np.square(x) - np.einsum("ik,ik->k", x, by_bump @ x)
        by_lengths = 2.0 * apart / np.square(h.lengths)
        if h.shared:
            by_lengths -= 2.0 * h.weights * np.einsum("ik,ik->k", x, (by_covariance * slope) @ x)
        gradient = np.concatenate(
            [
                [a * np.vdot(by_covariance, s ** (i + 1)) for i, a in enumerate(h.trend)],
                [by_bump.sum()],
                by_lengths,
                [by_noise],
            ]
        )
        return self._with_priors(row, value, gradient)

    def _with_priors(self, row: Array, value: float, gradient: Array) -> tuple[float, Array]:
        weights, lengths = (row[:4] - _WEIGHTS) / _WEIGHTS_SD, (row[4:-1] - self._length) / _LENGTHS_SD
        gradient[:4] += weights / _WEIGHTS_SD
        gradient[4:-1] += lengths / _LENGTHS_SD
        return float(value + 0.5 * weights @ weights + 0.5 * lengths @ lengths), gradient


def _add_noise(covariance: Array, noise: float) -> None:
    """Add the noise to a covariance (n, n) in place, and what keeps it positive definite in spite of rounding."""
    diagonal = np.diag_indices(len(covariance))
    covariance[diagonal] *= 1.0 + _ROUNDING
    covariance[diagonal] += noise


def _correlation(h: Hyperparameters, x: Array, points: Array) -> tuple[Array, Array, Array]:
    """Correlations (batch, n), their derivatives by s, and the part that decays with the distance."""
    s = (x * h.weights) @ points.T
    scaled, others = x / h.lengths, points / h.lengths
    distance = np.square(scaled).sum(axis=1)[:, None] + np.square(others).sum(axis=1) - 2.0 * scaled @ others.T
    bump = h.rest * np.exp(-0.5 * np.maximum(distance, 0.0))
    k = 1.0 + s * (h.trend[0] + s * (h.trend[1] + s * h.trend[2])) + bump
    return k, h.trend[0] + s * (2.0 * h.trend[1] + 3.0 * s * h.trend[2]), bump
