"""Steady states as starts: closed forms, conservation laws, derivatives against differences, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from invsamp.solvers.ode import OdeModel, SteadyState

TIMES = np.array([0.0, 0.5, 2.0])


def differences(forward, theta, step=1e-5):
    return np.stack(
        [(forward(theta + move) - forward(theta - move)) / (2 * step) for move in np.eye(theta.shape[1]) * step], axis=2
    )


def turnover(t, x, p):
    make, lose, drug, decay = p
    return make - lose * x[0], x[0] * (1 + drug) - decay * x[1] ** 2


TURNOVER = OdeModel(turnover, ("m", "x"), ("make", "lose", "drug", "decay"), rtol=1e-10, atol=1e-12)


def test_at_rest_before_a_drug_is_given():
    forward = TURNOVER.observe(TIMES, SteadyState((0.0, 1.0), {"drug": 0.0}), given={"drug": 2.0})
    assert forward.parameters == ("make", "lose", "decay")
    theta = np.array([[2.0, 0.5, 0.3], [1e-3, 1e-4, 5.0]])
    y, slopes = forward.jacobian(theta)
    m = theta[:, 0] / theta[:, 1]
    np.testing.assert_allclose(y[:, :2], np.stack([m, np.sqrt(m / theta[:, 2])], 1), rtol=1e-10)
    x = np.sqrt(m / theta[:, 2])
    expected = x[:, None] / 2 * np.stack([1 / theta[:, 0], -1 / theta[:, 1], -1 / theta[:, 2]], 1)
    np.testing.assert_allclose(slopes[:, 1], expected, rtol=1e-9)
    np.testing.assert_allclose(slopes[:1], differences(forward, theta[:1]), atol=1e-6)
    assert np.isfinite(slopes).all() and forward.message is None
    np.testing.assert_array_equal(y, forward(theta))
    # control: from the same point without having come to rest
    assert abs(TURNOVER.observe(TIMES, (0.0, 1.0), given={"drug": 2.0})(theta)[0, 0] - m[0]) > 1.0


def test_a_name_of_another_parameter_stands_for_it():
    forward = TURNOVER.observe(TIMES, SteadyState((0.0, 1.0), {"drug": "make"}))
    theta = np.array([[2.0, 0.5, 0.7, 0.3]])
    np.testing.assert_allclose(forward(theta)[0, 1], np.sqrt(4.0 * 3.0 / 0.3), rtol=1e-10)
    np.testing.assert_allclose(forward.jacobian(theta)[1], differences(forward, theta), atol=1e-6)


def test_what_is_conserved_keeps_its_amount():
    # enzyme: e + s <-> c, two conserved amounts, in units that differ by a thousand
    def rhs(t, x, p):
        flux = p[0] * x[0] * x[1] - p[1] * x[2]
        return -flux, -flux, flux

    model = OdeModel(rhs, ("e", "s", "c"), ("on", "off", "total"), rtol=1e-10, atol=1e-13)
    forward = model.observe([0.0, 1.0], SteadyState((1e-3, lambda p: p[2] + 1.0, 0.0)), states=["c"])
    theta = np.array([[2.0, 0.5, 1.5]])
    y, slopes = forward.jacobian(theta)

    def exact(on, off, total):
        e, s = 1e-3, total + 1.0
        half = (e + s + off / on) / 2
        return half - (half**2 - e * s) ** 0.5

    assert abs(y[0, 0] / exact(*theta[0]) - 1) < 1e-7
    for column in range(3):
        moved = theta[0].astype(complex)
        moved[column] += 1e-30j
        slope = exact(*moved).imag / 1e-30
        np.testing.assert_allclose(slopes[0, :, column], slope, rtol=1e-5)


@pytest.mark.parametrize(
    ("rhs", "initial"),
    [
        (lambda t, x, p: (p[0] * x[0],), (1.0,)),
        (lambda t, x, p: (p[0],), (1.0,)),
        (lambda t, x, p: (p[0] * x[0] * x[0],), (1.0,)),
    ],
    ids=["grows", "goes on", "blows up"],
)
def test_no_rest_is_a_failed_row_with_a_message(rhs, initial):
    forward = OdeModel(rhs, ("x",), ("p",)).observe(TIMES, SteadyState(initial, until=100.0))
    y, slopes = forward.jacobian(np.array([[1.0]]))
    assert np.isnan(y).all() and np.isnan(slopes).all()
    assert forward.message.startswith("no stable steady state at t = 100 to start from (1 of 1 rows)")


def test_an_oscillator_and_an_unstable_point_are_no_steady_states():
    model = OdeModel(lambda t, x, p: (x[1], p[0] * (1 - x[0] ** 2) * x[1] - x[0]), ("x", "y"), ("mu",))
    forward = model.observe(TIMES, SteadyState((1e-6, 0.0), until=100.0))
    assert np.isnan(forward(np.array([[1.0]]))).all()
    # the other way round time the origin attracts
    np.testing.assert_allclose(forward(np.array([[-1.0]])), 0.0, atol=1e-8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TURNOVER.observe(TIMES, SteadyState((0.0, "x0"))), "initial of a steady state must be known"),
        (lambda: TURNOVER.observe(TIMES, SteadyState((0.0,))), "initial must have one name or value"),
        (lambda: TURNOVER.observe(TIMES, SteadyState((0.0, 1.0), {"dr": 0.0})), r"given must be of parameters .*'dr'"),
        (lambda: TURNOVER.observe(TIMES, SteadyState((0.0, 1.0), {"drug": "d"})), r"names of other parameters .*'d'"),
        (lambda: SteadyState((0.0, 1.0), 3.0), "given must be a mapping"),
        (lambda: SteadyState((0.0, 1.0), until=0.0), "until must be a positive"),
        (
            lambda: OdeModel(lambda t, x, p: (np.sin(t) - x[0],), ("x",), ()).observe(TIMES, SteadyState((0.0,)))(
                np.empty((1, 0))
            ),
            "rhs must not depend on t where a steady state is asked for",
        ),
    ],
)
def test_bad_input_is_a_value_error_that_names_it(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("rates", [(0.5, 1.0), (1.1, 1.0), (2.0, 1.0)])
def test_the_end_of_an_epidemic_is_one_of_many_steady_states(rates: tuple[float, float]) -> None:
    """What is next to it is at rest, too: the one that is reached follows from an invariant that is not linear."""

    def final(p: np.ndarray) -> float:
        return float(brentq(lambda s: s - 1.0 - p[1] / p[0] * np.log(s / 0.99), 1e-6, 0.99))

    epidemic = OdeModel(
        lambda t, x, p: (-p[0] * x[0] * x[1], p[0] * x[0] * x[1] - p[1] * x[1]), ["s", "i"], ["beta", "gamma"]
    )
    observed = epidemic.observe([0.0], SteadyState([0.99, 0.01]), states=("s",))
    y, vjp = observed.linearize(np.array([rates]))
    assert y[0, 0] == pytest.approx(final(np.array(rates)), rel=1e-5)
    slopes = [(final(np.array(rates) + e) - final(np.array(rates) - e)) / 2e-5 for e in 1e-5 * np.eye(2)]
    assert vjp(np.ones((1, 1)))[0] == pytest.approx(slopes, rel=1e-3)
