"""Lorenz by multiple shooting in every form: free and tied segments, some of the states, data at uneven places."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from invsamp.problems.lorenz import rhs as lorenz
from invsamp.solvers.ode.model.ode_model import OdeModel
from invsamp.solvers.ode.multiple_shooting.multiple_shooting import MultipleShooting

TRUTH = np.array([10.0, 28.0, 8.0 / 3.0])
TIMES = np.round(np.arange(0.0, 2.01, 0.05), 10)
MODEL = OdeModel(lorenz, ("x", "y", "z"), ("sigma", "rho", "beta"), method="RK45", rtol=1e-8, atol=1e-8)
# by SciPy: the model's own solver would be compiled in every process that imports this
PATH = solve_ivp(lambda t, x: lorenz(t, x, TRUTH), (0.0, 2.0), np.ones(3), "DOP853", TIMES, rtol=1e-10, atol=1e-10).y.T
SD = 0.05 * PATH.std(axis=0)
IRREGULAR = {"segments": [-0.1, 0.42, 1.0, 1.7], "mask": np.arange(82).reshape(41, 2) % 5 > 0, "states": ("z", "x")}
CASES = {
    "free": {"segments": 4},
    "continuity": {"segments": 4, "continuity": (0.1, 0.2, 0.3)},
    "irregular": IRREGULAR,
    "irregular continuity": IRREGULAR | {"continuity": 0.5},
}
cases = pytest.mark.parametrize("settings", CASES.values(), ids=CASES)


def shoot(model=MODEL, times=TIMES, **settings):
    return MultipleShooting(model, times, **settings)


def at(shooting, batch=2, seed=0):
    """Theta (batch, n) with starts somewhere near the attractor."""
    rng = np.random.default_rng(seed)
    starts = rng.normal([0.0, 0.0, 25.0], 5.0, (batch, len(shooting.begins), 3))
    return np.concatenate([TRUTH * rng.uniform(0.9, 1.1, (batch, 3)), starts.reshape(batch, -1)], axis=1)


def noisy(seed=0, path=PATH, sd=SD):
    return path + sd * np.random.default_rng(seed).standard_normal(path.shape)


def dense_jacobian(shooting, theta):
    """Jacobian (m, n) at one theta, from the product with every unit cotangent."""
    y, vjp = shooting.linearize(np.tile(theta, (shooting.n_observations, 1)))
    return vjp(np.eye(y.shape[1]))
