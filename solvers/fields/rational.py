r"""Powers of symmetric matrices with eigenvalues of at least 1, as sums of resolvents.

.. math:: x^{-s} \approx c_0 + \sum_i \frac{c_i}{x + p_i}, \qquad p_i \ge 0,\ c_i \ge 0, \qquad 0 < s < 1.

Such sums are Stieltjes functions, as the power is: their zeros lie between the poles and are negative, so that the
inverse of the matrix function is a product of the same kind. Bolin and Kirchner (2020, Journal of Computational and
Graphical Statistics 29, 274-285, eq. (10)) use a rational function in the same place; here the coefficients are a
least squares fit of the relative error.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq, nnls

from invsamp.solvers.fem.contract import Array

#: Largest relative error of a power, and of a pointwise variance.
TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class ResolventSum:
    """The function c_0 + sum of c_i / (x + p_i), with positive coefficients."""

    poles: Array  # p, rising, (k,)
    weights: Array  # c, (k,)
    constant: float  # c_0

    def __call__(self, x: Array) -> Array:
        """Its value at x (m,)."""
        return self.constant + (self.weights / (x[:, None] + self.poles)).sum(axis=1)

    @cached_property
    def zeros(self) -> Array:
        """The q of ``constant`` times the product of (x + q_i) / (x + p_i), rising, (k,); one above each pole."""
        ends = np.append(self.poles, self.poles[-1] + 2.0 * self.weights.sum() / self.constant)
        found = []
        for low, high in itertools.pairwise(ends):
            gap = high - low
            found.append(brentq(self._at_minus, low + 1e-14 * gap, high - 1e-14 * gap, xtol=1e-300, rtol=1e-15))
        return np.array(found)

    def _at_minus(self, q: float) -> float:
        return float(self.constant + (self.weights / (self.poles - q)).sum())


def fractional_power(s: float, largest: float) -> ResolventSum:
    """The power x^-s, 0 < s < 1, for 1 <= x <= ``largest``, to a relative error of `TOLERANCE`."""
    x = np.geomspace(1.0, largest, 1000)
    for poles in range(6, 40, 2):
        p = np.append(0.0, np.geomspace(0.1, largest, poles))
        scale = np.maximum(p, 1.0) ** (1.0 - s)
        terms = np.column_stack([scale / (x[:, None] + p), np.full(len(x), largest**-s)])
        coefficients, _ = nnls(terms * (x**s)[:, None], np.ones(len(x)))
        used = coefficients[:-1] > 0.0
        constant = max(float(coefficients[-1]), 1e-12) * largest**-s
        found = ResolventSum(p[used], (coefficients[:-1] * scale)[used], constant)
        if np.abs(found(x) * x**s - 1.0).max() < TOLERANCE:
            break
    return found


def inverse_power_sum(alpha: float, largest: float, dimension: int) -> tuple[Array, Array]:
    r"""Shifts t > -1 and weights w of :math:`x^{-\alpha} \approx \sum_k w_k / (x + t_k)`, for diagonals.

    For a whole alpha these are differences of the resolvent, whose derivative is
    :math:`d^{\alpha-1}/dt^{\alpha-1}\, (x+t)^{-1} = (-1)^{\alpha-1} (\alpha-1)!\, (x+t)^{-\alpha}`. Otherwise a least
    squares fit, in which x counts as the eigenvalues of a differential operator in ``dimension`` dimensions do.
    """
    if alpha == round(alpha):
        order = round(alpha) - 1
        # symmetric about 0: the error is of the second order in the spacing, or with two more shifts of the fourth
        count, spacing = (order + 1, 0.008) if order <= 2 else (order + 3, 0.03)
        shifts = spacing * (np.arange(count) - (count - 1) / 2)
        powers = shifts[None, :] ** np.arange(count)[:, None]
        right = np.zeros(count)
        right[order] = (-1.0) ** order
        return np.array(shifts, dtype=float), np.array(np.linalg.solve(powers, right), dtype=float)
    x = np.geomspace(1.0, largest, 2000)
    value, counted = x**-alpha, x ** (dimension / 2)
    for count in range(8, 40, 2):
        shifts = np.geomspace(0.4, max(3.0, largest), count) - 1.0
        scale = (1.0 + shifts) ** (1.0 - alpha)
        terms = scale / (x[:, None] + shifts)
        weights = np.linalg.lstsq(terms * counted[:, None], value * counted, rcond=None)[0]
        if np.abs((terms @ weights - value) * counted).max() < TOLERANCE:
            break
    return np.array(shifts, dtype=float), np.array(weights * scale, dtype=float)
