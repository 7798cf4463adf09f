"""Inputs from tables: values, trajectories against closed forms, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import CubicSpline

from invsamp.solvers.ode import OdeModel, Table

KNOTS = np.array([0.0, 1.0, 1.5, 3.0])
VALUES = np.array([1.0, 3.0, 2.0, 0.5])
KINDS = {
    "constant": lambda t: VALUES[np.clip(np.searchsorted(KNOTS, t, "right") - 1, 0, 3)],
    "linear": lambda t: np.interp(t, KNOTS, VALUES),
    "spline": lambda t: CubicSpline(KNOTS, VALUES, bc_type="natural")(np.clip(t, 0.0, 3.0)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values(kind):
    table = Table(KNOTS, VALUES, kind)
    for t in (-1.0, 0.0, 0.3, 1.0, 1.2, 2.999, 3.0, 7.0):
        assert abs(table(t) - KINDS[kind](t)) < 1e-14


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_tank_that_is_filled_by_a_table(kind, method):
    flow = Table(KNOTS, VALUES, kind)
    model = OdeModel(
        lambda t, x, p: (p[1] * flow(t) - p[0] * x[0],), ("x",), ("k", "scale"), method, rtol=1e-10, atol=1e-11,
        breakpoints=KNOTS,
    )  # fmt: skip
    assert model.derivatives == "complex step"
    times = np.array([0.5, 1.0, 2.0, 4.0])
    solution = model.solve_with_sensitivities([[0.7, 1.3]], [0.0], times, t0=0.0)
    for k, end in enumerate(times):
        inner = [t for t in KNOTS if 0 < t < end]

        def integral(weight, end=end, inner=inner):
            return quad(lambda s: weight(end - s) * KINDS[kind](s), 0, end, points=inner or None, epsabs=1e-12)[0]

        amount = integral(lambda d: np.exp(-0.7 * d))
        slope = -1.3 * integral(lambda d: d * np.exp(-0.7 * d))
        tolerance = 1e-7
        assert abs(solution.states[0, k, 0] - 1.3 * amount) < tolerance
        np.testing.assert_allclose(solution.sensitivities[0, k, 0, :2], [slope, amount], atol=10 * tolerance)


def test_a_table_may_be_a_default_of_the_function():
    captured = Table(KNOTS, VALUES, "linear")
    solutions = [
        OdeModel(rhs, ("x",), ("k",), breakpoints=KNOTS).solve_with_sensitivities([[0.7]], [0.0], [0.0, 2.0])
        for rhs in (
            lambda t, x, p: (captured(t) - p[0] * x[0],),
            lambda t, x, p, flow=captured: (flow(t) - p[0] * x[0],),
        )
    ]
    for ours, theirs in zip(*(solution[:2] for solution in solutions), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_table_that_comes_later_by_an_unknown_lag():
    flow = Table(KNOTS, VALUES, "constant")
    model = OdeModel(
        lambda t, x, p: (flow(t - p[0]),), ("x",), ("lag",), rtol=1e-9,
        breakpoints=(*(lambda p, knot=knot: p[0] + knot for knot in (1.0, 1.5, 3.0)),),
    )  # fmt: skip
    slopes = model.solve_with_sensitivities([[0.25]], [0.0], [0.0, 0.5, 2.0, 5.0], initial_states=()).sensitivities
    # the integral of a step function: each jump that has come leaves minus its height
    np.testing.assert_allclose(slopes[0, :, 0, 0], [0.0, 0.0, -1.0, 0.5], atol=1e-9)


def test_other_tables_are_other_functions():
    def filled(flow):
        return lambda t, x, p: (flow(t),)

    results = []
    for factor in (1.0, 2.0):
        model = OdeModel(filled(Table(KNOTS, factor * VALUES, "constant")), ("x",), (), breakpoints=KNOTS)
        results.append(model.solve(np.empty((1, 0)), [0.0], [0.0, 2.0]).states[0, 1, 0])
    np.testing.assert_allclose(results, [3.5, 7.0], rtol=1e-8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 0.0], [1.0, 2.0]), "times must increase"),
        (([0.0], [1.0]), "times must have at least two entries"),
        (([0.0, 1.0], [1.0]), "values must have shape"),
        (([0.0, 1.0], [1.0, np.nan]), "values must be finite numbers"),
        (([0.0, 1.0], [1.0, 2.0], "cubic"), "kind must be one of .*'cubic'"),
    ],
)
def test_bad_input_is_a_value_error_that_names_it(arguments, message):
    with pytest.raises(ValueError, match=message):
        Table(*arguments)
