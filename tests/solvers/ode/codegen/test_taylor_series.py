"""Coefficients of Taylor series against those of known functions, by Cauchy's integral."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from scipy.special import erf

from invsamp.solvers.ode import OdeModel, Table
from invsamp.solvers.ode.codegen.taylor_series import prepare_series, taylor_obstacle
from invsamp.solvers.ode.integrators.taylor import MOST_ORDER

TABLE = Table([0.0, 1.0], [1.0, 2.0])
P, T0 = np.array([0.4, 1.7]), 0.3
#: What does not take complex numbers: the last functions of `of_time` in other words.
IN_OTHER_WORDS = (lambda u: np.arctan(u / (1.0 + u)), erf, lambda u: u * u)


def of_time(t, x, p):
    """Elementary functions of the square of t plus a parameter."""
    u = t * t + p[0]
    return (
        p[1] / (1.0 + u) - (u - 2.0) / (3.0 - u),
        u**2.5 + u ** p[1] + (2.0 - u) ** u + u**-3.0,
        np.sqrt(u) * np.sqrt(1.0 + u * u),
        np.exp(-u) * np.log(u + p[0]) + np.expm1(u) - np.log1p(u),
        np.sin(3.0 * u) - np.cos(u) * np.tan(u),
        np.sinh(u) - np.cosh(u) * np.tanh(u),
        np.arcsin(u) + np.arccos(u / 2.0) * np.arctan(u) - np.arcsinh(u) + np.arctanh(u) + np.arccosh(2.0 + u),
        *((np.arctan2(u, 1.0 + u), math.erf(u), np.where(p[0] > 0.3, u * u, -u)) if not isinstance(t, complex) else ()),
    )


def with_other_words(t):
    return np.array([*of_time(t, None, P), *(function(t * t + P[0]) for function in IN_OTHER_WORDS)])


def series(rhs, y, p, columns, own, t=0.0, order=MOST_ORDER):
    """Coefficients (order, m) of the powers 1, 2, ..."""
    n = len(y) // (1 + columns)
    function = prepare_series(rhs, n, len(p), columns, own)
    out = np.zeros((order, len(y)))
    out[0, 0] = order
    kinds = ctypes.CFUNCTYPE(None, ctypes.c_double, *[ctypes.c_void_p] * 3)
    kinds(function.address)(t, *(np.ascontiguousarray(each).ctypes.data for each in (y, p)), out.ctypes.data)
    return out


def cauchy(function, t, radius, order=MOST_ORDER):
    """The same of a function of complex time."""
    angles = 2.0 * np.pi * np.arange(128) / 128
    values = np.array([function(t + radius * np.exp(1j * angle)) for angle in angles])
    found = np.fft.fft(values, axis=0)[1 : order + 1] / 128
    return (found.T / radius ** np.arange(1, order + 1)).T.real


def test_coefficients_of_elementary_functions():
    first, radius = with_other_words(complex(T0)), 0.2
    found = series(of_time, np.zeros(len(first)), P, 0, (), T0)
    scale = radius ** np.arange(MOST_ORDER)[:, None]
    derivative = np.concatenate([first.real[None], cauchy(with_other_words, T0, radius)])[:MOST_ORDER]
    expected = derivative / np.arange(1, MOST_ORDER + 1)[:, None]
    np.testing.assert_allclose(found * scale, expected * scale, atol=1e-13)


def closed(t, x, p):
    """(1 / (p0 - t)) ^ (1 / p1), its logarithm, and an exponential."""
    return x[0] ** (1.0 + p[1]) / p[1], x[0] ** p[1] / p[1], p[0] * x[2] + np.exp(p[0] * t)


def test_coefficients_of_solutions_and_of_their_sensitivities():
    p, q = np.array([0.8, 1.5]), 2

    def exact(t, p):
        return np.stack([(1 / (p[0] - t)) ** (1 / p[1]), -np.log(p[0] - t) / p[1], (2.0 + t) * np.exp(p[0] * t)])

    step = 1e-30j
    slopes = [exact(0.0, p + step * np.eye(q)[j]).imag / step.imag for j in range(q)]
    y = np.concatenate([exact(0.0, p), *slopes])
    found, radius = series(closed, y, p, q, (0, 1)), 0.3

    def everything(t):
        small = 1e-6
        moved = [(exact(t, p + small * e) - exact(t, p - small * e)) / (2 * small) for e in np.eye(q)]
        return np.concatenate([exact(t, p), *moved])

    scale = radius ** np.arange(1, MOST_ORDER + 1)[:, None]
    expected = cauchy(everything, 0.0, radius) * scale
    np.testing.assert_allclose((found * scale)[:, :3], expected[:, :3], atol=1e-13)
    np.testing.assert_allclose((found * scale)[:, 3:], expected[:, 3:], atol=1e-8)
    # states have the same bits without sensitivities, a lower order the same coefficients
    np.testing.assert_array_equal(series(closed, y[:3], p, 0, ()), found[:, :3])
    np.testing.assert_array_equal(series(closed, y, p, q, (0, 1), order=5), found[:5])


def test_more_columns_than_a_vector_has():
    rates = np.linspace(0.1, 1.2, 11)

    def chain(t, x, p):
        return tuple(-p[i] * x[i] + (p[i - 1] * x[i - 1] if i else 0.0) for i in range(11))

    y = np.concatenate([np.ones(11), np.random.default_rng(1).standard_normal(11 * 13)])
    found = series(chain, y, rates, 13, tuple(range(11)), order=3)
    matrix = np.diag(-rates) + np.diag(rates[:-1], -1)
    slopes = y[11:].reshape(13, 11)
    first = slopes @ matrix.T
    for j in range(11):
        first[j, j] -= 1.0
        if j < 10:
            first[j, j + 1] += 1.0
    np.testing.assert_allclose(found[0, 11:].reshape(13, 11), first, atol=1e-12)


@pytest.mark.parametrize(
    ("rhs", "reason"),
    [
        (lambda t, x, p: (np.where(x[0] > 1.0, p[0], 0.0),), "a comparison"),
        (lambda t, x, p: (-abs(x[0]),), "abs"),
        (lambda t, x, p: (TABLE(t),), "traceable"),
    ],
)
def test_what_has_no_series_is_named(rhs, reason):
    assert reason in taylor_obstacle(rhs, 1, 1)
    with pytest.raises(ValueError, match=f"method='Taylor' needs a rhs with Taylor series, but .*{reason}"):
        OdeModel(rhs, ["x"], ["k"], "Taylor")
