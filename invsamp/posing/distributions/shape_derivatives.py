"""Log densities of the families whose parameters may change their shape, for complex arguments.

Where a shape parameter depends on others, derivatives with respect to it are taken by complex steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from invsamp.expression import Value
from invsamp.posing.compiled import density_loops

#: Log density by its number in the compiled loops: of its constant, a number, and coefficients p, q and r.
LOG_DENSITIES: dict[int, Callable[..., Value]] = {
    density_loops.GAMMA: lambda constant, x, p, q: constant + p * np.log(x) - q * x,
    density_loops.BETA: lambda constant, x, p, q: constant + p * np.log(x) + q * np.log1p(-x),
    density_loops.STUDENT_T: lambda constant, x, p, q, r: constant - 0.5 * (r + 1.0) * np.log1p(((x - p) * q) ** 2 / r),
    density_loops.INVERSE_GAMMA: lambda constant, x, p, q: constant - p * np.log(x) - q / x,
    density_loops.WEIBULL: lambda constant, x, p, q: constant + (p - 1.0) * np.log(x * q) - (x * q) ** p,
}


def log_beta(a: Value, b: Value) -> Value:
    """Logarithm of the beta function, of complex numbers too."""
    if np.isrealobj(a) and np.isrealobj(b):
        return special.betaln(a, b)
    return special.loggamma(a) + special.loggamma(b) - special.loggamma(a + b)
