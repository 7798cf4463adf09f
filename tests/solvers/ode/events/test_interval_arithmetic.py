"""Bounds over an interval hold what the functions do within it."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from invsamp.solvers.ode.events.explicit_time import explicit_time
from invsamp.solvers.ode.events.interval_arithmetic import Operations, Scan, enclose

P = np.array([0.7, 1.3])


@njit
def bounds_of(operations: Operations, p, first, last):
    bounds = np.empty((len(operations.codes), 3))
    enclose(Scan(operations, p, bounds), first, last)
    return bounds


FUNCTIONS = [
    lambda t, p: np.exp(-(((t - p[0]) / p[1]) ** 2)),
    lambda t, p: np.sin(3.0 * t) * np.cos(t - p[0]) + np.tanh(t) / (1.0 + t * t),
    lambda t, p: np.sqrt(np.abs(t)) + np.log1p(t * t) - np.arctan(t - p[1]),
    lambda t, p: np.where((t > p[0]) | (t < -p[1]), t**3, np.abs(t - 0.1)),
    lambda t, p: np.maximum(t % p[0], np.cosh(t) - p[1]) + np.floor(t),
    lambda t, p: (1.5 + np.sin(t)) ** p[1] / (2.0 + np.cos(t)) + (t - 0.3) ** 10,
    lambda t, p: np.arctan2(np.sin(t), 2.0 + t * t) + np.minimum(t, p[0]) - np.sinh(t) * np.arcsinh(t),
    lambda t, p: np.where(np.logical_not(np.logical_and(t > 0.0, t <= p[0])), np.expm1(t) / (3.0 - t), 0.1 * t),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_lie_within_and_are_met_at_points(function):
    found = explicit_time(lambda t, x, p: (0.0,), (lambda t, x, p: function(t, p),), 1, 2)
    level = found.switches[0, 1]  # what an event's function is
    rng = np.random.default_rng(0)
    for _ in range(200):
        first = rng.uniform(-2.5, 2.5)
        last = min(first + 10.0 ** rng.uniform(-4.0, 0.5), 2.9)
        low, high, _ = bounds_of(found.operations, P, first, last)[level]
        values = np.array([function(t, P) for t in np.linspace(first, last, 60)], dtype=float)
        slack = 1e-9 * (1.0 + np.abs(values).max())
        assert low <= values.min() + slack and values.max() - slack <= high
        at, same, _ = bounds_of(found.operations, P, first, first)[level]
        assert at == same == pytest.approx(values[0], rel=1e-9, abs=1e-9)
    # they become narrow with the interval
    low, high, _ = bounds_of(found.operations, P, 1.01, 1.01 + 1e-7)[level]
    assert high - low < 1e-4
