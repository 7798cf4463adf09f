"""Energies, forward models and right-hand sides that several files of tests share."""

from __future__ import annotations

import numpy as np


def square(position):
    """Energy of a standard normal distribution, and its gradient."""
    return 0.5 * (position**2).sum(axis=1), position.copy()


def quartic(position):
    """Energy sum x^4 / 4, far from the harmonic motion that leapfrog steps are nearly exact for, and its gradient."""
    return 0.25 * (position**4).sum(axis=1), position**3


#: E x^2 and E x^4 under exp(-x^4 / 4): 2 Gamma(3/4) / Gamma(1/4), and 1.
QUARTIC = 0.6759782400672847, 1.0


def squares(theta):
    """Observations theta^2."""
    return theta**2


def squares_slope(theta):
    """Their Jacobian."""
    return 2.0 * theta[:, :, None] * np.eye(theta.shape[1])


def lotka_volterra(t, x, p):
    """Prey and predators."""
    u, v = x
    alpha, beta, gamma, delta = p
    return (alpha - beta * v) * u, (-gamma + delta * u) * v


def robertson(t, x, p):
    """Three substances, of which one reacts at once."""
    a, b, c = x
    return -p[0] * a + p[1] * b * c, p[0] * a - p[1] * b * c - p[2] * b * b, p[2] * b * b
