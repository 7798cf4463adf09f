"""Which way a right-hand side is compiled, and that its derivatives are right whichever it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.solvers.ode.codegen.compile_rhs import prepare_sensitivities, prepare_states
from invsamp.solvers.ode.model.ode_model import OdeModel, Status

TABLE_TIMES = np.linspace(0.0, 10.0, 21)
TABLE = 1.5 + np.cos(TABLE_TIMES)
RATES = {"slow": 0.3}


def saturation(x, half):
    return x / (half + math.fabs(x))


def smooth(t, x, p):
    return -p[0] * saturation(x[0], 0.5) + np.sin(t), x[0] - p[1] * x[1] * math.exp(-(x[1] ** 2))


def forced(t, x, p):
    """Smooth too, but for the table, which only depends on t."""
    force = np.interp(t, TABLE_TIMES, TABLE)
    return -p[0] * saturation(x[0], 0.5) + force, max(x[0], -5.0) - p[1] * x[1] * math.exp(-(x[1] ** 2))


def branching(t, x, p):
    if x[0] < 0:
        return -p[0] * x[0], x[0] - p[1] * x[1]
    return p[0] - x[0], x[0] - p[1] * x[1]


def branching_jacobian(t, x, p):
    if x[0] < 0:
        return ((-p[0], 0), (1.0, -p[1])), ((-x[0], 0), (0, -x[1]))
    return ((-1, 0.0), (1.0, -p[1])), ((1, 0), (0, -x[1]))


def uncompilable(t, x, p):
    return tuple(map(tuple, np.zeros((2, 2)).tolist())), tuple(map(tuple, np.zeros((2, 2)).tolist()))


def rounding(t, x, p):
    """Has no derivatives in any way that is open."""
    return x[0] // 1.0 - x[1], p[0] + p[1]


def with_a_dictionary(t, x, p):
    return -RATES["slow"] * x[0], sum(p[i] * x[i] for i in range(2))


def model(rhs, **settings):
    return OdeModel(rhs, ("x", "y"), ("a", "b"), rtol=1e-11, atol=1e-12, **settings)


THETA = np.array([0.8, 0.6])
START = np.array([0.4, 1.2])
TIMES = np.array([0.5, 1.0, 3.0])


@pytest.mark.parametrize(
    ("rhs", "jacobian", "way"),
    [
        (smooth, None, "traced"),
        (with_a_dictionary, None, "traced"),
        (forced, None, "complex step"),
        (branching, branching_jacobian, "given"),
        (branching, None, "complex step"),
    ],
)
@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_derivatives_agree_with_finite_differences(rhs, jacobian, way, method):
    # the table's kinks are switches of the right-hand side
    ours = model(rhs, jacobian=jacobian, method=method, breakpoints=TABLE_TIMES[1:7] if rhs is forced else ())
    assert ours.derivatives == way
    assert f"derivatives='{way}'" in repr(ours) and rhs.__name__ in str(ours)
    slopes = ours.solve_with_sensitivities([THETA], START, TIMES, t0=0.0)
    assert slopes.status[0] == Status.OK
    tolerance = 1e-8 if method == "RK45" else 1e-6
    point, step = np.concatenate([THETA, START]), 1e-3
    shifts = np.kron(np.eye(4), np.array([[2], [1], [-1], [-2]])) * step
    moved = ours.solve(point[:2] + shifts[:, :2], point[2:] + shifts[:, 2:], TIMES, t0=0.0).states.reshape(4, 4, 3, 2)
    difference = (8 * (moved[:, 1] - moved[:, 2]) - (moved[:, 0] - moved[:, 3])) / (12 * step)
    np.testing.assert_allclose(np.moveaxis(slopes.sensitivities[0], -1, 0), difference, atol=tolerance)
    np.testing.assert_allclose(slopes.states, ours.solve([THETA], START, TIMES, t0=0.0).states, rtol=1e-6)


def test_the_absolute_value_is_differentiated_on_both_sides():
    # |z| of a complex z is not analytic: taken as it stands, its derivative would come out as 0
    slope = OdeModel(lambda t, x, p: (np.abs(p[0]) + abs(p[0]) + t * (1 if t < 9 else 2),), ["x"], ["a"])
    assert slope.derivatives == "complex step"
    for a in (0.7, -0.7):
        solution = slope.solve_with_sensitivities([[a]], [0.0], [0.0, 2.0], initial_states=())
        assert abs(solution.sensitivities[0, 1, 0, 0] - 4 * math.copysign(1, a)) < 1e-12


def test_columns_for_initial_values_are_as_many_as_asked_for():
    for count in range(3):
        assert prepare_sensitivities(smooth, None, 2, 2, count).derivatives == "traced"
    all_columns = model(smooth).solve_with_sensitivities([THETA], START, TIMES, t0=0.0).sensitivities
    for names, columns in ((["y"], [0, 1, 3]), (["y", "x"], [0, 1, 3, 2]), ([], [0, 1])):
        some = model(smooth).solve_with_sensitivities([THETA], START, TIMES, t0=0.0, initial_states=names)
        np.testing.assert_allclose(some.sensitivities, all_columns[..., columns], rtol=1e-9, atol=1e-12)


def test_a_function_compiled_by_numba_is_taken_too():
    from numba import njit

    fast = model(njit(smooth))
    assert fast.derivatives == "traced"
    np.testing.assert_array_equal(
        fast.solve([THETA], START, TIMES).states, model(smooth).solve([THETA], START, TIMES).states
    )


def test_exceptions_inside_are_failed_trajectories(capfd):
    def strict(t, x, p):
        if x[0] > 1.5:
            raise ValueError("out of range")
        return (p[0],)

    solution = OdeModel(strict, ["x"], ["a"]).solve([[1.0], [0.1]], [1.0], [0.0, 1.0])
    assert solution.status.tolist() == [Status.NON_FINITE, Status.OK]
    assert capfd.readouterr() == ("", "")


def test_captured_values_make_different_functions():
    def decay(rate):
        return lambda t, x, p: (-rate * x[0] if t >= 0 else 0.0,)

    for rate in (1.0, 2.0):
        states = OdeModel(decay(rate), ["x"], [], rtol=1e-9).solve(np.empty((1, 0)), [1.0], [0.0, 1.0]).states
        assert abs(states[0, 1, 0] - math.exp(-rate)) < 1e-7


def test_objects_without_a_fingerprint_are_compiled_in_memory():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

    scale = Scale(3.0)
    traced = OdeModel(lambda t, x, p: (-scale.factor * x[0],), ["x"], [], rtol=1e-9)
    assert traced.derivatives == "traced"
    assert abs(traced.solve(np.empty((1, 0)), [1.0], [0.0, 1.0]).states[0, 1, 0] - math.exp(-3)) < 1e-7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: prepare_states(lambda t, x, p: (x[0].unknown, 1.0), 2, 0),
            "rhs must trace or compile with numba.*AttributeError.*Numba says.*unknown",
        ),
        (
            lambda: model(rounding).solve_with_sensitivities([THETA], START, TIMES),
            "sensitivities need a rhs that traces .* or else jacobian=.*complex128",
        ),
        (
            lambda: model(branching, jacobian=uncompilable).solve_with_sensitivities([THETA], START, TIMES),
            "rhs and jacobian must compile with numba",
        ),
        (lambda: model(smooth, stop=lambda t, x, p: float(str(x[0]))), "stop must compile with numba"),
    ],
)
def test_what_cannot_be_compiled_is_a_value_error(make, message):
    with pytest.raises(ValueError, match=message) as raised:
        make()
    assert len(str(raised.value)) < 1200
    assert model(rounding).derivatives == "none"


@pytest.mark.parametrize(("n", "q"), [(32, 1), pytest.param(1, 33, marks=pytest.mark.slow)])
def test_many_states_or_parameters_with_a_branch(n, q):
    """Python makes tuples of more than 30 entries from lists, which numba does not take."""
    parameters = ", ".join(f"p{j}" for j in range(q)) + ","
    states = ", ".join(f"x{i}" for i in range(n)) + ","
    rates = " + ".join(f"p{j}" for j in range(q))
    # branches, which take the compiler longest, in the first and the last
    later = [i + 2.0 if i in (0, n - 1) else 1.0 for i in range(n)]
    steps = [f"(1.0 if t < 0.5 else {value})" if value > 1.0 else "1.0" for value in later]
    entries = ", ".join(f"({rates}) * {step} - x{i}" for i, step in enumerate(steps)) + ","
    scope = {}
    exec(f"def rhs(t, x, p):\n    {states} = x\n    {parameters} = p\n    return ({entries})", scope)
    names = [f"x{i}" for i in range(n)], [f"p{j}" for j in range(q)]
    ours = OdeModel(scope["rhs"], *names, breakpoints=(0.5,), rtol=1e-9, atol=1e-9)
    assert ours.derivatives == "complex step"
    slopes = ours.solve_with_sensitivities(np.ones((1, q)), np.ones(n), [0.0, 1.0], initial_states=()).sensitivities
    # S' = step - S
    early = 1 - math.exp(-0.5)
    expected = early * math.exp(-0.5) + np.array(later) * early
    np.testing.assert_allclose(slopes[0, 1], np.tile(expected[:, None], q), rtol=1e-7)
