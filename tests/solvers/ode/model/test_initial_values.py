"""Initial values: names, formulas of names, functions."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.ode import OdeModel

MODEL = OdeModel(
    lambda t, x, p: (-p[0] * x[0] * x[1], p[0] * x[0] * x[1] - p[1] * x[1]),
    states=("healthy", "ill"),
    parameters=("infection", "recovery"),
    rtol=1e-9,
    atol=1e-9,
)
TIMES = [1.0, 3.0]
THETA = np.array([[0.8, 0.3, 0.05], [1.2, 0.4, 0.02]])


def test_names_in_formulas_that_are_not_the_models_are_new_parameters() -> None:
    model = MODEL.observe(TIMES, initial=("1 - first", "first"), t0=0.0)
    assert model.parameters == ("infection", "recovery", "first")
    by_hand = MODEL.solve(THETA[:, :2], np.stack([1 - THETA[:, 2], THETA[:, 2]], axis=1), [0.0, *TIMES])
    np.testing.assert_allclose(model(THETA), by_hand.states[:, 1:].reshape(2, -1), rtol=1e-7)


@pytest.mark.parametrize(
    "initial",
    [
        ("1 - first", "first"),
        ("exp(-first) * recovery", "first / infection"),
        ("1 - first", lambda p: 0.1 * p[1]),
        ("first", lambda p: (lambda infection, recovery: infection * recovery)(*p)),  # of the model's two alone
    ],
)
def test_derivatives_go_through_formulas_of_new_names(initial: tuple[object, object]) -> None:
    model = MODEL.observe(TIMES, initial=initial, t0=0.0)
    slopes, step = model.jacobian(THETA)[1], 1e-5
    for k in range(3):
        shift = step * np.eye(3)[k]
        differences = (model(THETA + shift) - model(THETA - shift)) / (2 * step)
        np.testing.assert_allclose(slopes[:, :, k], differences, atol=2e-5)


def test_new_names_are_in_the_order_in_which_they_are_read() -> None:
    model = MODEL.observe(TIMES, initial={"healthy": "exp(total) * share", "ill": "total"})
    assert model.parameters == ("infection", "recovery", "total", "share")
