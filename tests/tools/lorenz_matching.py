"""Trajectories of Lorenz, with exact derivatives or noisy ones, for gradient matching."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from invsamp.problems.lorenz import rhs as lorenz
from invsamp.solvers.gradient_matching.library import linear_in_parameters
from invsamp.solvers.gradient_matching.matching import match

STATES, NAMES = ("x", "y", "z"), ("sigma", "rho", "beta")
TRUTH = np.array([10.0, 28.0, 8 / 3])
#: sigma, rho, beta > 0, rho > 1, sigma > 1 + beta, as rows of normals @ theta <= offsets
NORMALS = np.array([[-1, 0, 0], [0, -1, 0], [0, 0, -1], [0, -1, 0], [-1, 0, 1]], dtype=float)
OFFSETS = np.array([0.0, 0.0, 0.0, -1.0, -1.0])
LIBRARY = linear_in_parameters(lorenz, STATES, NAMES)


def trajectory(end, step, truth=TRUTH, start=(1.0, 1.0, 1.0)):
    times = np.arange(0.0, end + 0.5 * step, step)
    solved = solve_ivp(lambda t, x: lorenz(t, x, truth), (0, end), start, t_eval=times, rtol=1e-9, atol=1e-9)
    return times, solved.y.T


def clean_derivatives(states, truth=TRUTH):
    return np.stack(lorenz(0.0, states.T, truth), axis=1)


def with_noisy_derivatives(end, step, sd, **settings):
    """Lorenz as in the r2SGLD paper: clean states, Gaussian noise on the derivatives."""
    times, states = trajectory(end, step, **settings)
    slope = clean_derivatives(states, settings.get("truth", TRUTH))
    # as `default_rng(3)`, but no shift of the tests' seeds changes it: the constraints cut the posterior of these data
    rng = np.random.Generator(np.random.PCG64(3))
    return match(LIBRARY, times, states, slope + sd * rng.standard_normal(states.shape))
