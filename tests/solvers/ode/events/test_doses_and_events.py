"""Doses, breakpoints and events: closed forms, and derivatives through them against closed forms and differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from optional_methods import CVODE

from invsamp.solvers.ode import Event, OdeModel, Status

TIMES = np.linspace(0.1, 5.0, 9)


def differences(forward, theta, step=1e-5):
    columns = []
    for move in np.eye(theta.shape[1]) * step:
        columns.append((forward(theta + move) - forward(theta - move)) / (2 * step))
    return np.stack(columns, axis=2)


def agree(forward, theta, tolerance=1e-6):
    y, slopes = forward.jacobian(theta)
    expected = differences(forward, theta)
    assert forward.message is None
    np.testing.assert_array_equal(y, forward(theta))
    np.testing.assert_allclose(slopes, expected, atol=tolerance * np.abs(expected).max())
    return slopes


def absorption(t, x, p):
    return -p[0] * x[0], p[0] * x[0] - p[1] * x[1]


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Taylor", "Rodas5P", "LSODA", CVODE])
def test_an_unknown_lag_and_an_unknown_dose(method):
    model = OdeModel(
        absorption, ("gut", "blood"), ("ka", "ke", "lag", "dose"), method, rtol=1e-10, atol=1e-11,
        doses=(("lag", {"gut": "dose"}), (1.0, {"gut": lambda p: 2.0 * p[3]})),
    )  # fmt: skip
    forward = model.observe(TIMES, (0.0, 0.0), t0=0.0, states=["blood"])
    theta = np.array([[1.3, 0.4, 0.7, 5.0], [1.1, 0.3, 2.0, 3.0]])

    def exact(ka, ke, lag, dose):
        def after(time):
            since = np.where(time < TIMES, TIMES - time, 0.0)
            return ka / (ka - ke) * (np.exp(-ke * since) - np.exp(-ka * since))

        return dose * after(lag) + 2.0 * dose * after(1.0)

    y, slopes = forward.jacobian(theta)
    tolerance = 1e-8 if method not in ("LSODA", "CVODE") else 1e-6
    for row in range(2):
        np.testing.assert_allclose(y[row], exact(*theta[row]), atol=tolerance)
        for column in range(4):
            moved = theta[row].astype(complex)
            moved[column] += 1e-30j
            since_lag = np.where(theta[row, 2] < TIMES, TIMES - moved[2], 0.0)
            ka, ke, dose = moved[0], moved[1], moved[3]
            since = np.where(TIMES > 1.0, TIMES - 1.0, 0.0)
            value = ka / (ka - ke) * dose * (
                np.exp(-ke * since_lag) - np.exp(-ka * since_lag) + 2.0 * (np.exp(-ke * since) - np.exp(-ka * since))
            )  # fmt: skip
            np.testing.assert_allclose(slopes[row, :, column], value.imag / 1e-30, atol=10 * tolerance)


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_an_infusion_of_unknown_length(method):
    def rhs(t, x, p):
        return (-p[0] * x[0] + (p[1] if 1.0 <= t < 1.0 + p[2] else 0.0),)

    times = np.array([0.5, 1.5, 2.5, 4.0])
    settings = {"rtol": 1e-10, "atol": 1e-10, "method": method}
    model = OdeModel(rhs, ["x"], ["k", "rate", "duration"], breakpoints=(1.0, lambda p: 1.0 + p[2]), **settings)
    forward = model.observe(times, (0.0,), t0=0.0)
    theta = np.array([[0.7, 3.0, 1.2]])
    slopes = forward.jacobian(theta)[1][0]
    k, rate, end = 0.7, 3.0, 2.2
    expected = np.where(times > end, rate * np.exp(-k * (times - end)), 0.0)
    tolerance = 1e-8 if method == "RK45" else 1e-6
    np.testing.assert_allclose(slopes[:, 2], expected, atol=tolerance)
    # found in the right-hand side: without breakpoints, and with one at a number that knows nothing of the parameter
    for breakpoints in ((), (1.0, 2.2)):
        found = OdeModel(rhs, ["x"], ["k", "rate", "duration"], breakpoints=breakpoints, **settings)
        slopes = found.observe(times, (0.0,), t0=0.0).jacobian(theta)[1][0, :, 2]
        np.testing.assert_allclose(slopes, expected, atol=tolerance)


def bouncing(direction="down", method="DOP853"):
    hit = Event(when=lambda t, x, p: x[0], change=lambda t, x, p: (x[0], -p[1] * x[1]), direction=direction)
    settings = {"rtol": 1e-10, "atol": 1e-10, "events": (hit,)}
    return OdeModel(lambda t, x, p: (x[1], -p[0]), ("h", "v"), ("g", "r"), method, **settings)


@pytest.mark.parametrize(
    ("direction", "method"), [("down", "DOP853"), ("both", "DOP853"), ("down", "Taylor"), ("down", "Rodas5P")]
)
def test_a_bouncing_ball(direction, method):
    g, r, h = 9.81, 0.8, 1.0
    first = math.sqrt(2 * h / g)
    times = first * np.array([0.5, 1.5, 2.2, 3.0, 4.0])
    forward = bouncing(direction, method).observe(times, ("h0", 0.0), t0=0.0, states=["h"])
    y, slopes = forward.jacobian(np.array([[g, r, h]]))

    def exact(g, r, h):
        # bounce n starts with speed r^n sqrt(2 g h)
        begin, out = (2 * h / g) ** 0.5, np.empty(len(times), dtype=complex)
        for k, t in enumerate(times):
            if t < first:
                out[k] = h - g * t**2 / 2
                continue
            at, speed = begin, r * (2 * g * h) ** 0.5
            while t > (at + 2 * speed / g).real:
                at, speed = at + 2 * speed / g, r * speed
            out[k] = speed * (t - at) - g * (t - at) ** 2 / 2
        return out

    np.testing.assert_allclose(y[0], exact(g, r, h).real, atol=1e-8)
    for column in range(3):
        moved = np.array([g, r, h], dtype=complex)
        moved[column] += 1e-30j
        np.testing.assert_allclose(slopes[0, :, column], exact(*moved).imag / 1e-30, atol=1e-7)


def test_endless_bounces_have_a_status():
    solution = bouncing().solve([[9.81, 0.5]], [1.0, 0.0], [0.0, 10.0])
    assert solution.status[0] == Status.TOO_MANY_EVENTS
    # bounces at intervals that halve: sqrt(2 / g) (1 + 2 (1/2 + 1/4 + ...))
    assert abs(solution.ended[0] - 3 * math.sqrt(2 / 9.81)) < 1e-3


def test_derivatives_across_a_threshold_that_is_declared():
    def rhs(t, x, p):
        return (p[0] if x[0] < 1 else -p[0] * x[0] + 3 * p[0],)

    times, theta = np.linspace(0.5, 3.0, 6), np.array([[0.9]])
    declared = OdeModel(rhs, ["x"], ["k"], rtol=1e-10, atol=1e-10, events=(Event(when=lambda t, x, p: x[0] - 1),))
    # x reaches 1 at .8 / k, and is 3 - 2 exp(.8 - k t) after it
    expected = np.where(times < 0.8 / 0.9, times, 2 * times * np.exp(0.8 - 0.9 * times))
    np.testing.assert_allclose(declared.observe(times, (0.2,), t0=0.0).jacobian(theta)[1][0, :, 0], expected, rtol=1e-7)
    # control: without the event they are wrong after the threshold
    silent = OdeModel(rhs, ["x"], ["k"], rtol=1e-10, atol=1e-10)
    assert np.abs(silent.observe(times, (0.2,), t0=0.0).jacobian(theta)[1][0, :, 0] - expected).max() > 0.1


@pytest.mark.parametrize("method", ["DOP853", "Rodas5P", "LSODA"])
def test_resets_at_times_that_depend_on_parameters(method):
    model = OdeModel(
        absorption, ("a", "b"), ("ka", "ke", "when"), method, rtol=1e-10, atol=1e-11,
        events=(Event(at=lambda p: 2.0 * p[2], change=lambda t, x, p: (x[0] / 2, x[1] ** 2 * p[1] * t)), Event(at=4.0)),
    )  # fmt: skip
    forward = model.observe(TIMES, (lambda p: 3.0 * p[0] + 1.0, "b0"), t0=0.0)
    assert forward.parameters == ("ka", "ke", "when", "b0")
    slopes = agree(forward, np.array([[1.3, 0.4, 0.7, 1.5]]), 1e-5)
    assert np.abs(slopes[0, :, 2]).max() > 0.1


def test_what_an_event_changes_may_set_off_another():
    # a dose fills the first tank over its edge, which empties it into the second, which is what ends the filling
    spill = Event(when=lambda t, x, p: x[0] - p[0], change=lambda t, x, p: (x[0] - p[0], x[1] + p[0]), direction="up")
    model = OdeModel(
        lambda t, x, p: (-0.1 * x[0], -p[1] * x[1]), ("a", "b"), ("edge", "k", "dose"), rtol=1e-10, atol=1e-10,
        doses=((1.0, {"a": "dose"}),), events=(spill,),
    )  # fmt: skip
    solution = model.solve([[2.0, 0.3, 3.0]], [0.5, 0.0], [1.0, 1.0 + 1e-9, 2.0])
    left = 0.5 * 1.0
    np.testing.assert_allclose(solution.states[0, :2], [[left, 0.0], [left + 3.0 - 2.0, 2.0]], atol=1e-6)
    agree(model.observe([0.5, 1.5, 2.5], (0.5, 0.0), t0=0.0), np.array([[2.0, 0.3, 3.0]]))


def test_threads_and_batches_give_the_same_numbers():
    theta = np.array([[9.81, 0.8], [5.0, 0.7], [9.0, 0.6]])
    start = np.array([[1.0, 0.0], [2.0, 0.5], [0.5, 1.0]])
    whole = bouncing().solve_with_sensitivities(theta, start, [0.0, 0.3, 1.0])
    for row in range(3):
        alone = bouncing().solve_with_sensitivities(theta[row : row + 1], start[row], [0.0, 0.3, 1.0])
        np.testing.assert_array_equal(alone.states[0], whole.states[row])
        np.testing.assert_array_equal(alone.sensitivities[0], whole.sensitivities[row])


class TestInitialValues:
    def test_one_parameter_for_several_and_functions_of_parameters(self):
        model = OdeModel(absorption, ("a", "b"), ("ka", "ke", "total"), rtol=1e-10, atol=1e-11)
        theta = np.array([[1.3, 0.4, 2.0, 1.5], [1.1, 0.2, 3.0, 0.5]])
        for initial, start in (
            (("x0", "x0"), theta[:, [3, 3]]),
            (("total", "x0"), theta[:, [2, 3]]),
            ((lambda p: p[2] * p[0], "ke"), np.stack([theta[:, 2] * theta[:, 0], theta[:, 1]], 1)),
            (lambda p: (p[2] / (1 + p[0]), 1.0), np.stack([theta[:, 2] / (1 + theta[:, 0]), np.ones(2)], 1)),
        ):
            forward = model.observe(TIMES, initial, t0=0.0)
            own = theta[:, : len(forward.parameters)]
            assert forward.parameters == (*model.parameters, "x0")[: own.shape[1]]
            states = model.solve(own[:, :3], start, TIMES, t0=0.0).states
            np.testing.assert_array_equal(forward(own), states.reshape(2, -1))
            agree(forward, own)

    def test_parameters_that_are_known_or_have_other_names(self):
        model = OdeModel(absorption, ("a", "b"), ("ka", "ke"), rtol=1e-10, atol=1e-11)
        plain = model.observe(TIMES, (1.0, "b0"), t0=0.0)
        known = model.observe(TIMES, (1.0, "b0"), t0=0.0, given={"ke": 0.4})
        same = model.observe(TIMES, (1.0, "k"), t0=0.0, given={"ke": "k", "ka": "fast"})
        assert known.parameters == ("ka", "b0") and same.parameters == ("fast", "k")
        np.testing.assert_array_equal(known([[1.3, 2.0]]), plain([[1.3, 0.4, 2.0]]))
        np.testing.assert_array_equal(same([[1.3, 0.4]]), plain([[1.3, 0.4, 0.4]]))
        agree(known, np.array([[1.3, 2.0]]))
        agree(same, np.array([[1.3, 0.4]]))

    @pytest.mark.parametrize("initial", [("2 * ka", "exp(-ke)"), {"blood": "exp(-ke)", "gut": "2 * ka"}])
    def test_formulas_by_place_or_by_name(self, initial):
        """The same as functions, where there are doses by formulas, too."""
        doses = [[("ka + 1", {"gut": "sqrt(ke)"})], [(lambda p: p[0] + 1.0, {"gut": lambda p: np.sqrt(p[1])})]]
        written, called = (OdeModel(absorption, ("gut", "blood"), ("ka", "ke"), doses=each) for each in doses)
        theta = np.array([[1.3, 0.4], [0.7, 0.2]])
        first = written.observe(TIMES, initial, t0=0.0)
        second = called.observe(TIMES, lambda p: (2.0 * p[0], np.exp(-p[1])), t0=0.0)
        assert first.parameters == ("ka", "ke")
        for ours, theirs in zip(first.jacobian(theta), second.jacobian(theta), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def model(**settings):
    return OdeModel(absorption, ("a", "b"), ("ka", "ke"), **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: model(doses=(("lag", {"a": 1.0}),)), r"doses\[0\]: its time must be .*parameters.*got 'lag'"),
        (lambda: model(doses=((1.0, {"a": "dose"}),)), r"doses\[0\]: 'a' must be .*got 'dose'"),
        (
            lambda: model(doses=((1.0, {"a": lambda p: p[5]}),)),
            r"doses\[0\]: 'a' must be a function of the 2 parameters",
        ),
        (lambda: model(breakpoints=(lambda p: (1.0, 2.0),)), r"breakpoints\[0\] must return a number, got 2"),
        (lambda: Event(), "when or at must be given"),
        (lambda: Event(at=1.0, when=lambda t, x, p: x[0]), "when or at must be given, and not both"),
        (lambda: Event(at=1.0, direction="left"), "direction must be one of .*'left'"),
        (lambda: model(events=(3,)), r"events\[0\] must be an Event, got 3"),
        (lambda: model(events=(Event(at="lag"),)), r"events\[0\].at must be .*got 'lag'"),
        (lambda: model(events=(Event(when=lambda t, x: x[0]),)), r"events\[0\].when must be"),
        (
            lambda: model(events=(Event(at=1.0, change=lambda t, x, p: (1.0,)),)),
            r"events\[0\].change must return 2 values",
        ),
        (
            lambda: model(events=(Event(when=lambda t, x, p: 1.0 if x[0] > 1 else -1.0),)),
            r"events\[0\].when must be traceable",
        ),
        (lambda: model(method="LSODA", events=(Event(when=lambda t, x, p: x[0]),)), "events with when= need method="),
        (lambda: model().observe(TIMES, lambda p: (1.0,)), "initial must return one value for each of the states"),
        (lambda: model().observe(TIMES, {"a": 1.0}), r"initial must have an entry for each .*'a', 'b'.*got \['a'\]"),
        (
            lambda: model(doses=((1.0, {"a": "2 * kx"}),)),
            r"doses\[0\]: 'a' must be a formula of .*'2 \* kx': kx has to be one of the model's parameters=",
        ),
        (lambda: model().observe(TIMES, ("open('x')", 0.0)), r"initial\[0\] must be a formula of the parameters"),
        (lambda: model().observe(TIMES, (1.0, 2.0), given={"kk": 1.0}), r"given must be of parameters .*\['kk'\]"),
        (lambda: model().observe(TIMES, (1.0, 2.0), given={"ke": [1.0]}), r"given\['ke'\] must be a finite number"),
    ],
)
def test_bad_input_is_a_value_error_that_names_it(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_time_that_is_no_number_fails_its_row():
    lagged = OdeModel(absorption, ("a", "b"), ("ka", "ke"), doses=((lambda p: p[0] ** 0.5, {"a": 1.0}),))
    solution = lagged.solve([[-1.0, 1.0], [1.0, 1.0]], [1.0, 1.0], [0.0, 2.0])
    assert solution.status.tolist() == [Status.NON_FINITE, Status.OK]


@pytest.mark.parametrize(("direction", "count"), [("both", 6), ("up", 3), ("down", 3)])
def test_crossings_are_counted_once_each(direction, count):
    tally = Event(when=lambda t, x, p: x[0], change=lambda t, x, p: (x[0], x[1], x[2] + p[0]), direction=direction)
    model = OdeModel(lambda t, x, p: (x[1], -x[0], 0.0), ("x", "v", "count"), ("one",), events=(tally,))
    begin, end = (0.3, 1.0), 6 * math.pi  # three turns
    solution = model.solve_with_sensitivities([[1.0]], [math.sin(begin[0]), math.cos(begin[0]), 0.0], [0.0, end])
    assert solution.states[0, 1, 2] == count and abs(solution.sensitivities[0, 1, 2, 0] - count) < 1e-9


@pytest.mark.parametrize("power", [1, 2])
def test_a_function_that_is_zero_at_the_start_changes_its_sign_later(power):
    """t^k (t - 1) is negative between 0 and 1: no event happens at 0, and one at 1 upwards."""
    for direction, count in (("both", 1), ("up", 1), ("down", 0)):
        event = Event(lambda t, x, p: t**power * (t - 1.0), change=lambda t, x, p: (x[0] + 1.0,), direction=direction)
        model = OdeModel(lambda t, x, p: (0.0 * x[0],), ("counted",), ("unused",), events=[event])
        assert model.solve([[1.0]], [0.0], [0.0, 0.5, 2.0]).states[0][:, 0].tolist() == [0.0, 0.0, count]
