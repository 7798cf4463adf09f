"""Gradients by the adjoint of the steps: against forward sensitivities, finite differences, and in what they cost."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.ode import OdeModel
from invsamp.solvers.ode.model import observation as observations
from invsamp.solvers.ode.model.adjoint import has_adjoint, solve_with_adjoint

TIMES = np.array([0.0, 0.4, 0.45, 1.7, 3.0])
P = np.array([[0.6, 0.5, 0.8, 0.3], [0.5, 0.6, 0.7, 0.4]])
START = np.array([[1.3, 0.7], [1.0, 1.1]])


def forced(t, x, p):
    return (p[0] - p[1] * x[1]) * x[0] + np.sin(t * p[2]), (-p[2] + p[3] * x[0]) * x[1] * np.exp(-p[0] * t)


def stiff(t, x, p):
    return -1e4 * p[0] * (x[0] - np.cos(p[1] * t) * x[1]), -p[2] * x[0] ** 2 - p[3] * x[1]


def gradient(rhs, method, weights, **settings):
    model = OdeModel(rhs, ("u", "v"), tuple("abcd"), method, **settings)
    solution, pullback = solve_with_adjoint(model, P, START, TIMES[None], np.zeros(2))
    np.testing.assert_array_equal(solution.states, model.solve(P, START, TIMES).states)
    return model, pullback(weights)


@pytest.mark.parametrize(
    ("rhs", "method"), [(forced, "RK45"), (forced, "DOP853"), (forced, "Rodas5P"), (stiff, "Rodas5P"), (stiff, "auto")]
)
def test_the_adjoint_is_the_derivative_of_the_solution(rhs, method):
    weights = np.random.default_rng(1).normal(size=(2, len(TIMES), 2))
    model, found = gradient(rhs, method, weights, rtol=1e-9, atol=1e-9, max_steps=100_000)
    forward = model.solve_with_sensitivities(P, START, TIMES).sensitivities
    expected = np.einsum("bti,btic->bc", weights, forward)
    expected = np.concatenate([expected[:, 4:], expected[:, :4]], axis=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Rodas5P"])
def test_it_is_the_derivative_of_the_discrete_steps(method):
    """At a loose tolerance, with steps that no parameter changes: to rounding, against central differences."""
    weights = np.random.default_rng(2).normal(size=(2, len(TIMES), 2))
    settings = {"rtol": 0.9, "atol": 1e6, "max_step": 0.25}
    model, found = gradient(forced, method, weights, **settings)
    for column, e in ((0, 1e-5), (1, 1e-5), (2, 1e-5), (5, 1e-5)):
        moved = np.zeros((2, 6))
        moved[:, column] = e
        values = [
            np.einsum("bti,bti->b", weights, model.solve(P + s * moved[:, 2:], START + s * moved[:, :2], TIMES).states)
            for s in (1, -1)
        ]
        np.testing.assert_allclose(found[:, column], (values[0] - values[1]) / (2 * e), rtol=2e-8, atol=1e-9)


def chain(count):
    def rhs(t, x, p):
        x = np.asarray(x)
        ahead, behind = np.concatenate([x[1:], x[:1]]), np.concatenate([x[-1:], x[:-1]])
        return p[:count] * (ahead - 2.0 * x + behind) + p[count:] * x * (1.0 - x)

    return OdeModel(rhs, [f"x{i}" for i in range(count)], [f"p{j}" for j in range(2 * count)])


def observed(count):
    start = [float(np.exp(-((i / count - 0.4) ** 2) * 30)) for i in range(count)]
    states = [f"x{i}" for i in range(0, count, 7)]
    return chain(count).observe(np.linspace(0.0, 1.0, 6), start, states=states)


def test_models_of_many_parameters_take_it(monkeypatch):
    model = observed(30)
    theta = np.random.default_rng(3).uniform(0.5, 1.5, (2, 60))
    y, product = model.linearize(theta)
    cotangent = np.random.default_rng(4).normal(size=y.shape)
    assert model._takes_adjoint
    np.testing.assert_array_equal(y, model(theta))
    monkeypatch.setattr(observations, "LEAST_ADJOINT", 61)
    same, forward = model.linearize(theta)
    np.testing.assert_array_equal(y, same)
    expected = forward(cotangent)
    np.testing.assert_allclose(product(cotangent), expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_what_has_no_adjoint_takes_sensitivities():
    dosed = OdeModel(forced, ("u", "v"), tuple("abcd"), doses=((1.0, {"u": 1.0}),))
    choosing = OdeModel(lambda t, x, p: (np.where(x[0] > 1, -p[0], p[0] * x[0]),), ["x"], ["a"])
    assert not has_adjoint(dosed) and not has_adjoint(choosing)
    assert not has_adjoint(OdeModel(forced, ("u", "v"), tuple("abcd"), "LSODA"))
    failing = OdeModel(forced, ("u", "v"), tuple("abcd"), "RK45", max_steps=3)
    solution, pullback = solve_with_adjoint(failing, P, START, TIMES[None], np.zeros(2))
    assert (solution.status > 0).all() and np.isnan(pullback(np.ones((2, len(TIMES), 2)))).all()
