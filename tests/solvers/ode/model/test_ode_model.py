"""ODE solves and sensitivities against tight references, finite differences, and closed forms."""

from __future__ import annotations

import dataclasses
import math
import pickle

import numpy as np
import pytest
from functions import lotka_volterra
from scipy.integrate import odeint, solve_ivp

from invsamp.solvers.ode.model.ode_model import OdeModel, Status

METHODS = ("LSODA", "RK45")
TIMES = np.arange(21.0)
THETA = np.array([[0.547, 0.0277, 0.800, 0.0241, 34.0, 5.94], [0.6, 0.03, 0.7, 0.02, 30.0, 7.0]])


def model(method="LSODA", **settings):
    return OdeModel(lotka_volterra, ("u", "v"), ("alpha", "beta", "gamma", "delta"), method=method, **settings)


def reference(theta, times=TIMES):
    rows = [
        solve_ivp(
            lambda t, x, p=row[:4]: lotka_volterra(t, x, p),
            (0, times[-1]),
            row[4:],
            "DOP853",
            times,
            rtol=1e-13,
            atol=1e-13,
        ).y.T
        for row in theta
    ]
    return np.array(rows)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("rtol", "bound"), [(1e-5, 1e-3), (1e-8, 1e-6), (1e-11, 1e-9)])
def test_states_agree_with_a_tight_solution(method, rtol, bound):
    # the local tolerance times at most 100, the growth of errors over two periods
    solution = model(method, rtol=rtol, atol=rtol * 1e-3).solve(THETA[:, :4], THETA[:, 4:], TIMES)
    assert (solution.status == Status.OK).all()
    np.testing.assert_allclose(solution.states, reference(THETA), rtol=bound)


@pytest.mark.parametrize("method", METHODS)
def test_sensitivities_agree_with_central_differences(method):
    forward = model(method, rtol=1e-12, atol=1e-12).observe(TIMES, ("u0", "v0"))
    _, jacobian = forward.jacobian(THETA)
    for column in range(6):
        step = 1e-4 * THETA[:, column]
        moved = np.zeros_like(THETA)
        moved[:, column] = step

        def slope(factor, moved=moved, step=step):
            return (forward(THETA + factor * moved) - forward(THETA - factor * moved)) / (2 * factor * step[:, None])

        difference = (4 * slope(1.0) - slope(2.0)) / 3  # Richardson: fourth order
        scale = np.abs(jacobian[:, :, column]).max()
        np.testing.assert_allclose(jacobian[:, :, column], difference, atol=1e-6 * scale)


@pytest.mark.parametrize("method", METHODS)
def test_sensitivities_of_exponential_decay_are_exact(method):
    decay = OdeModel(lambda t, x, p: (-p[0] * x[0],), ("x",), ("rate",), method=method, rtol=1e-10, atol=1e-12)
    times = np.array([0.5, 1.0, 3.0])
    solution = decay.solve_with_sensitivities(np.array([[0.7]]), np.array([2.0]), times, t0=0.0)
    np.testing.assert_allclose(solution.states[0, :, 0], 2 * np.exp(-0.7 * times), rtol=1e-8)
    np.testing.assert_allclose(solution.sensitivities[0, :, 0, 0], -2 * times * np.exp(-0.7 * times), rtol=1e-7)
    np.testing.assert_allclose(solution.sensitivities[0, :, 0, 1], np.exp(-0.7 * times), rtol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_states_are_the_same_with_and_without_sensitivities(method):
    # the error test looks at the states alone; to rounding, because the generated code adds in another order
    forward = model(method).observe(TIMES, ("u0", "v0"))
    np.testing.assert_allclose(forward(THETA), forward.jacobian(THETA)[0], rtol=1e-11)


@pytest.mark.parametrize("method", METHODS)
def test_sensitivities_differentiate_the_computed_trajectory_at_loose_tolerance(method):
    loose = model(method, rtol=1e-6).observe(TIMES, ("u0", "v0")).jacobian(THETA)[1]
    tight = model(method, rtol=1e-12, atol=1e-12).observe(TIMES, ("u0", "v0")).jacobian(THETA)[1]
    assert (np.abs(loose - tight).max((0, 1)) < 2e-4 * np.abs(tight).max((0, 1))).all()


def test_stiff_sensitivities_with_lsoda():
    def robertson(t, x, p):
        a, b, c = x
        return -p[0] * a + p[1] * b * c, p[0] * a - p[1] * b * c - p[2] * b * b, p[2] * b * b

    stiff = OdeModel(robertson, ("a", "b", "c"), ("k1", "k2", "k3"), "LSODA", rtol=1e-8, atol=1e-12)
    theta = np.array([[0.04, 1e4, 3e7]])
    forward = stiff.observe([0.4, 40.0, 4000.0], (1.0, 0.0, 0.0), t0=0.0)
    _, jacobian = forward.jacobian(theta)
    # the three states sum to one: so their sensitivities sum to zero
    summed = jacobian.reshape(3, 3, 3).sum(1)
    assert np.abs(summed * theta).max() < 1e-9
    tight = OdeModel(robertson, ("a", "b", "c"), ("k1", "k2", "k3"), "LSODA", rtol=1e-11, atol=1e-15)
    difference = np.empty((9, 3))
    observe = tight.observe([0.4, 40.0, 4000.0], (1.0, 0.0, 0.0), t0=0.0)
    for column in range(3):
        moved = np.zeros((1, 3))
        moved[0, column] = 1e-3 * theta[0, column]
        difference[:, column] = (observe(theta + moved) - observe(theta - moved))[0] / (2 * moved[0, column])
    np.testing.assert_allclose(jacobian[0], difference, rtol=2e-4)


def test_rk45_takes_the_steps_of_solve_ivp():
    theta = THETA[0]
    scipy = solve_ivp(
        lambda t, x: lotka_volterra(t, x, theta[:4]), (0, 20), theta[4:], "RK45", TIMES, rtol=1e-6, atol=1e-9
    )
    ours = model("RK45").solve(theta[None, :4], theta[4:], TIMES)
    np.testing.assert_allclose(ours.states[0], scipy.y.T, rtol=1e-13)


def test_lsoda_takes_the_steps_of_odeint():
    theta = THETA[0]
    scipy = odeint(lambda t, x: lotka_volterra(t, x, theta[:4]), theta[4:], TIMES, tfirst=True, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model().solve(theta[None, :4], theta[4:], TIMES).states[0], scipy, rtol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_initial_time_before_the_first_observation(method):
    late = model(method, rtol=1e-10, atol=1e-10).solve(THETA[:, :4], THETA[:, 4:], TIMES[5:], t0=0.0)
    np.testing.assert_allclose(late.states, reference(THETA)[:, 5:], rtol=1e-7)
    only = model(method, rtol=1e-10, atol=1e-10).solve(THETA[:, :4], THETA[:, 4:], TIMES[:1])
    np.testing.assert_array_equal(only.states[:, 0], THETA[:, 4:])


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_equals_its_rows(method):
    forward = model(method).observe(TIMES, ("u0", "v0"))
    y, jacobian = forward.jacobian(THETA)
    for row in range(2):
        y_row, jacobian_row = forward.jacobian(THETA[row : row + 1])
        np.testing.assert_array_equal(y[row], y_row[0])
        np.testing.assert_array_equal(jacobian[row], jacobian_row[0])


def test_vector_jacobian_product_is_the_transposed_jacobian():
    forward = model().observe(TIMES, ("u0", "v0"))
    y, vjp = forward.linearize(THETA)
    cotangent = np.random.default_rng(1).normal(size=y.shape)
    expected = np.stack([forward.jacobian(THETA)[1][row].T @ cotangent[row] for row in range(2)])
    np.testing.assert_allclose(vjp(cotangent), expected, rtol=1e-12)
    assert forward.cost is not None and forward.parameters == ("alpha", "beta", "gamma", "delta", "u0", "v0")


def test_observation_orders_by_time_then_state_and_takes_known_initial_values():
    full = model().observe(TIMES, ("u0", "v0"))(THETA).reshape(2, 21, 2)
    np.testing.assert_array_equal(model().observe(TIMES, ("u0", "v0"), states=("v",))(THETA), full[:, :, 1])
    known = model().observe(TIMES, (34.0, "v0"))
    assert known.parameters == ("alpha", "beta", "gamma", "delta", "v0")
    y, jacobian = known.jacobian(THETA[:1, [0, 1, 2, 3, 5]])
    y_full, jacobian_full = model().observe(TIMES, ("u0", "v0")).jacobian(THETA[:1])
    np.testing.assert_array_equal(y, y_full)
    # which sensitivities there are decides their steps
    scale = np.abs(jacobian_full).max(axis=1)
    np.testing.assert_allclose(
        jacobian / scale[:, None, [0, 1, 2, 3, 5]], (jacobian_full / scale[:, None])[:, :, [0, 1, 2, 3, 5]], atol=1e-5
    )


@pytest.mark.parametrize("method", METHODS)
def test_blow_up_fails_alone(method):
    blow_up = OdeModel(lambda t, x, p: (p[0] * x[0] * x[0],), ("x",), ("rate",), method=method, max_steps=500)
    solution = blow_up.solve_with_sensitivities(np.array([[0.1], [2.0], [0.2]]), np.array([1.0]), np.array([0.0, 1.0]))
    assert solution.status[1] != Status.OK
    assert np.isnan(solution.states[1]).all() and np.isnan(solution.sensitivities[1]).all()
    np.testing.assert_array_equal(solution.status[[0, 2]], Status.OK)
    np.testing.assert_allclose(solution.states[[0, 2], 1, 0], [1 / 0.9, 1 / 0.8], rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "rhs",
    [
        lambda t, x, p: (math.nan if t > 0.5 else 1.0,),
        lambda t, x, p: (math.sqrt(0.5 - t),),
        lambda t, x, p: (1.0 / (t < 0.5),),
        lambda t, x, p: (math.inf,),
        lambda t, x, p: (math.nan,),
    ],
    ids=["nan-later", "domain-error", "division-by-zero", "inf", "nan-at-once"],
)
def test_non_finite_right_hand_sides_are_a_status(method, rhs):
    solution = OdeModel(rhs, ("x",), (), method=method).solve(
        np.empty((2, 0)), np.array([1.0]), np.array([0.0, 1.0, 2.0])
    )
    assert (solution.status == Status.NON_FINITE).all()
    assert np.isnan(solution.states).all()


@pytest.mark.parametrize("method", METHODS)
def test_non_finite_parameters_and_too_few_steps_are_a_status(method):
    theta = THETA.copy()
    theta[0, 0] = np.nan
    assert model(method).solve(theta[:, :4], theta[:, 4:], TIMES).status.tolist() == [Status.NON_FINITE, Status.OK]
    short = model(method, max_steps=30).solve(THETA[:, :4], THETA[:, 4:], TIMES)
    assert (short.status == Status.TOO_MANY_STEPS).all()


def test_elementary_functions_of_math_and_numpy_are_traced():
    def rhs(t, x, p):
        return math.exp(-p[0] * t) * np.sin(x[0]) + math.log(2.0 + np.cos(x[0])), -(x[1] ** 3) + np.arctan(
            x[0]
        ) + math.pi

    mixed = OdeModel(rhs, ("a", "b"), ("k",), rtol=1e-11, atol=1e-11)
    forward = mixed.observe([1.0, 2.0], ("a0", "b0"), t0=0.0)
    theta = np.array([[0.8, 0.3, 0.2]])
    y, jacobian = forward.jacobian(theta)
    np.testing.assert_allclose(y, forward(theta), rtol=1e-10)
    for column in range(3):
        moved = np.zeros((1, 3))
        moved[0, column] = 1e-4
        np.testing.assert_allclose(
            jacobian[0, :, column], ((forward(theta + moved) - forward(theta - moved)) / 2e-4)[0], rtol=1e-5, atol=1e-6
        )


def test_a_branch_on_a_state_goes_by_the_complex_step():
    branch = OdeModel(lambda t, x, p: (p[0] if x[0] < 1 else -p[0],), ("x",), ("k",))
    assert branch.derivatives == "complex step"
    solution = branch.solve_with_sensitivities(np.array([[0.5]]), np.array([0.0]), np.array([0.0, 1.0]))
    assert solution.status[0] == Status.OK
    # x = k t below the switch
    np.testing.assert_allclose(solution.sensitivities[0, 1, 0], [1.0, 1.0], rtol=1e-12)


def test_without_derivatives_solve_still_works():
    steps = OdeModel(lambda t, x, p: (p[0] * (x[0] // 1.0 + 1.0),), ("x",), ("k",))
    assert steps.derivatives == "none"
    assert steps.solve(np.array([[0.5]]), np.array([0.0]), np.array([0.0, 1.0])).status[0] == Status.OK
    with pytest.raises(ValueError, match=r"sensitivities need a rhs that traces .* or else jacobian="):
        steps.solve_with_sensitivities(np.array([[0.5]]), np.array([0.0]), np.array([0.0, 1.0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OdeModel(lotka_volterra, ("u", "v"), ("a", "b", "c")), "4, got 3|expected 4"),
        (lambda: OdeModel(lambda t, x, p: (x[0],), ("u", "v"), ()), "must return 2 values"),
        (lambda: OdeModel(lotka_volterra, ("u", "u"), ("a", "b", "c", "d")), "distinct names"),
        (lambda: model("EULER"), "method must be one of .*'EULER'"),
        (lambda: model(rtol=0.0), "rtol must be .* got 0.0"),
        (lambda: model(atol=-1.0), "atol must be a positive .* got -1.0"),
        (lambda: model(max_steps=0), "max_steps must be an integer >= 1, got 0"),
        (lambda: model(max_steps=2.5), "max_steps must be an integer >= 1, got 2.5"),
        (lambda: model(threads=0), "threads must be an integer >= 1, got 0"),
        (lambda: model(jacobian=3), "jacobian must be a function .* got 3"),
        (lambda: model(stop="u"), "stop must be a function .* got 'u'"),
        (
            lambda: model("LSODA", stop=lambda t, x, p: x[0]),
            "stop needs method='RK45', 'DOP853', 'Taylor', 'Rodas5P' or 'auto', got 'LSODA'",
        ),
        (lambda: model(breakpoints=(1.0, math.inf)), r"breakpoints\[1\] must be a finite number, got inf"),
        (lambda: model(doses=((1.0, {"w": 2.0}),)), r"doses must name states .* got \['w'\] at 1.0"),
        (lambda: model(doses=((1.0, {"u": math.nan}),)), r"doses\[0\]: 'u' must be a finite number, got nan"),
        (lambda: model().observe([1.0, 1.0], ("u0", "v0")), "times must increase"),
        (lambda: model().observe([], ("u0", "v0")), "times must have at least one entry"),
        (lambda: model().observe(TIMES, ("u0", "v0"), t0=1.0), "t0 must not be after .* got 1.0"),
        (lambda: model().observe(TIMES, ("u0",)), "initial must have one name or value"),
        (lambda: model().observe(TIMES, ("", "v0")), "initial must have names that are not empty"),
        (lambda: model().observe(TIMES, ("u0", "v0"), states=("w",)), r"states must be .*got \('w',\)"),
        (
            lambda: model().observe(TIMES, ("u0", "v0"))(np.ones((2, 5))),
            r"theta must have shape \(batch, 6\), got \(2, 5\)",
        ),
        (lambda: model().solve(np.ones((2, 3)), np.ones(2), TIMES), r"parameters must have shape \(batch, 4\)"),
        (lambda: model().solve(np.ones((2, 4)), np.ones(3), TIMES), r"initial must have shape .* got \(3,\)"),
    ],
)
def test_bad_input_is_a_value_error_that_names_it(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_model_can_be_hashed_copied_and_pickled():
    dosed = model("RK45", doses=((1.0, {"u": 2.0}),), breakpoints=[3.0])
    assert hash(dosed) == hash(dataclasses.replace(dosed)) and dosed == dataclasses.replace(dosed)
    copy = pickle.loads(pickle.dumps(dosed))
    np.testing.assert_array_equal(
        copy.solve(THETA[:, :4], THETA[:, 4:], TIMES).states, dosed.solve(THETA[:, :4], THETA[:, 4:], TIMES).states
    )


def test_read_only_and_strided_arrays_are_taken():
    theta = THETA.copy()
    theta.flags.writeable = False
    states = model("RK45").solve(theta[:, :4], theta[0, 4:], TIMES).states
    np.testing.assert_array_equal(
        states, model("RK45").solve(THETA[:, :4].tolist(), THETA[0, 4:].tolist(), TIMES.tolist()).states
    )
    np.testing.assert_array_equal(theta, THETA)
