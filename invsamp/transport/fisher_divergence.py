r"""How far a distribution is from a standard normal one, by scores at its draws.

A robust Fisher divergence,

.. math:: J = E \log \bigl(1 + |\nabla v(z) - z|^2 / d\bigr),

with v the energy in coordinates z: 0 for a standard normal distribution, whose gradient is z. With the score, which is
minus the gradient, the residual is score plus z. The logarithm bounds what single draws far out add. Unlike R-hat and
effective sample sizes it does not depend on whether chains have mixed: each draw shows what the density is around it.
"""

from __future__ import annotations

import numpy as np

from invsamp.protocols import Array

#: Squared residuals above this count as this; also those of draws whose gradient is not finite.
_LARGEST = 1e9


def fisher_divergence(z: Array, gradient: Array) -> float:
    """J of draws z (n, d), centered here, with the gradients (n, d) of the energy there.

    Examples
    --------
    >>> import numpy as np
    >>> from invsamp.transport import fisher_divergence
    >>> z = np.random.default_rng(0).standard_normal((1000, 2))
    >>> round(fisher_divergence(z, z), 2), round(fisher_divergence(z, 3.0 * z), 1)
    (0.0, 1.4)
    """
    return float(np.mean(np.log1p(squared_residuals(z, gradient))))


def squared_residuals(z: Array, gradient: Array, center: Array | None = None) -> Array:
    r"""Squares :math:`|\nabla v - z|^2 / d` (n,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        away = gradient - (z - (_center(z) if center is None else center))
        found = np.square(away).mean(axis=1)
    return np.where(np.isfinite(found), np.minimum(found, _LARGEST), _LARGEST)


def contributions(z: Array, gradient: Array) -> Array:
    """Share (d,) of each coordinate in J, by the squares of its residuals, each draw weighed as J weighs it."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.square(gradient - (z - _center(z)))
    squares = np.where(np.isfinite(squares), np.minimum(squares, _LARGEST), _LARGEST)
    total = squares.mean(axis=1)
    weighed = squares * (np.log1p(total) / np.maximum(total, 1e-300))[:, None]
    return np.asarray(weighed.sum(axis=0) / max(float(weighed.sum()), 1e-300))


def _center(z: Array) -> Array:
    known = np.isfinite(z).all(axis=1)
    return np.asarray(z[known].mean(axis=0)) if known.any() else np.zeros(z.shape[1])
