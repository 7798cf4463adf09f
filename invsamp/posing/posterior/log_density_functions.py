"""A posterior's log density with its gradient, as plain functions for other software."""

from __future__ import annotations

import numpy as np

from invsamp.protocols import Array, Potential


def value_and_gradient(potential: Potential, points: Array) -> tuple[Array, Array]:
    """Log density and gradient of positions (d,) or (batch, d), of the leading shape of the points.

    Minus infinity, and a gradient of zero, where the energy is infinite.
    """
    energy, gradient = potential.energy_and_gradient(np.atleast_2d(points))
    if points.ndim == 1:
        return -energy[0], -gradient[0]
    return -energy, -gradient
