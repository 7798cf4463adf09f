"""Log densities of the families whose parameters change their shape, for real and complex arguments.

The same densities as in `invsamp.posing.compiled.density_loops`, with constants: there parameters are known numbers,
here derivatives with respect to them are taken too, by complex steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import loggamma

from invsamp.posing.distributions.base import ends
from invsamp.posing.distributions.univariate import Beta, Gamma
from invsamp.posing.distributions.univariate_more import HalfStudentT, InverseGamma, StudentT, Weibull
from invsamp.posing.expressions.expression import Value
from invsamp.protocols import Array


class ShapeFamily(NamedTuple):
    """Log density of a number and of its parameters, in the order of the family's; and where numbers may lie."""

    log_density: Callable[..., Value]
    lower: float
    upper: float

    def support(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Lower and upper end of every entry."""
        return ends(self.lower, self.upper, shape)


def _beta(x: Value, a: Value, b: Value) -> Value:
    return (a - 1.0) * np.log(x) + (b - 1.0) * np.log(1.0 - x) + loggamma(a + b) - loggamma(a) - loggamma(b)


def _gamma(x: Value, a: Value, rate: Value) -> Value:
    return a * np.log(rate) - loggamma(a) + (a - 1.0) * np.log(x) - rate * x


def _inverse_gamma(x: Value, a: Value, rate: Value) -> Value:
    return a * np.log(rate) - loggamma(a) - (a + 1.0) * np.log(x) - rate / x


def _student_t(x: Value, nu: Value, location: Value, scale: Value) -> Value:
    z = (x - location) / scale
    constant = loggamma(0.5 * (nu + 1.0)) - loggamma(0.5 * nu) - 0.5 * np.log(np.pi * nu) - np.log(scale)
    return constant - 0.5 * (nu + 1.0) * np.log(1.0 + z * z / nu)


def _half_student_t(x: object, nu: object, scale: object) -> object:
    return np.log(2.0) + _student_t(x, nu, 0.0, scale)


def _weibull(x: Value, exponent: Value, scale: Value) -> Value:
    return np.log(exponent / scale) + (exponent - 1.0) * np.log(x / scale) - (x / scale) ** exponent


LOG_DENSITIES = {
    Beta: ShapeFamily(_beta, 0.0, 1.0),
    Gamma: ShapeFamily(_gamma, 0.0, np.inf),
    InverseGamma: ShapeFamily(_inverse_gamma, 0.0, np.inf),
    StudentT: ShapeFamily(_student_t, -np.inf, np.inf),
    HalfStudentT: ShapeFamily(_half_student_t, 0.0, np.inf),
    Weibull: ShapeFamily(_weibull, 0.0, np.inf),
}
