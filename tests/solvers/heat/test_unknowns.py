"""Every kind of unknown: Taylor remainders, differences, blocks of right-hand sides, with and without solves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from invsamp.solvers.fem.fields import Constant, LogField, Modes, Sum
from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.fem.piecewise import PerRegion
from invsamp.solvers.fem.random_fields import Matern, karhunen_loeve, square_rule
from invsamp.solvers.heat import (
    DecayingGaussian,
    Disc,
    GaussianBump,
    HeatEquation,
    dirichlet,
    neumann,
    point_sensors,
    region_averages,
)

CELLS, STEPS, END = 10, 6, 0.06
TIMES = [0.02, 0.06]
SENSORS = [point_sensors([[0.31, 0.42], [0.6, 0.55], [0.77, 0.2]]), region_averages([Disc((0.4, 0.6), 0.2)])]
MODES = karhunen_loeve(Matern(1.5, length=0.3), *square_rule(8), count=4)


def with_regions():
    square = unit_square(CELLS)
    left = np.flatnonzero(square.midpoints[:, 0] < 0.45)
    return Mesh(square.points, square.cells, {"iron": left}, square.edges)


def waves(points):
    return np.stack([np.cos(np.pi * k * points[:, 0]) * np.cos(np.pi * points[:, 1]) for k in range(3)], axis=1)


class Case(NamedTuple):
    """Settings, where to linearize, and how far a unit of each column reaches."""

    settings: dict
    theta: list
    scale: list
    linear: bool = False  # in the unknowns themselves


FIXED = GaussianBump(width=0.2, height=2.0, center=(0.45, 0.5))
BUMP = GaussianBump(width="w", height="h", center=("x", "y"))
CASES = {
    "a bump": Case({"initial": BUMP}, [0.45, 0.5, 0.2, 2.0], [0.1, 0.1, 0.05, 1.0]),
    "a bump of which only the height is known": Case(
        {"initial": GaussianBump(width="w", height=3.0)}, [0.4, 0.5, 0.2], [0.1, 0.1, 0.05]
    ),
    "a source": Case(
        {"initial": 0.5, "source": GaussianBump(width=0.2, height="h"), "boundary": "neumann"},
        [0.45, 0.5, 20.0],
        [0.1, 0.1, 1.0],
    ),
    "one center for two": Case(
        {"initial": GaussianBump(0.2), "source": GaussianBump(0.3, height="h"), "boundary": "neumann"},
        [0.45, 0.5, 20.0],
        [0.1, 0.1, 1.0],
    ),
    "a manufactured solution": Case({"initial": DecayingGaussian(0.3), "boundary": "exact"}, [0.45, 0.5], [0.1, 0.1]),
    "modes": Case({"initial": Modes("z", waves, count=3)}, [1.0, -0.5, 0.3], [1.0, 1.0, 1.0], True),
    "modes and a bump": Case(
        {"initial": Sum(Modes("z", waves, count=3), GaussianBump(0.2))},
        [1.0, -0.5, 0.3, 0.45, 0.5],
        [1.0, 1.0, 1.0, 0.1, 0.1],
    ),
    "boundary data": Case(
        {
            "initial": FIXED,
            "boundary": {
                "left": dirichlet("warm"),
                "right": neumann("flux"),
                "top": dirichlet(0.7),
                "bottom": neumann(2),
            },
        },
        [1.5, -3.0],
        [1.0, 1.0],
        True,
    ),
    "a conductivity": Case({"initial": FIXED, "conductivity": "kappa"}, [1.2], [0.5]),
    "a conductivity by region": Case(
        {
            "initial": FIXED,
            "boundary": "neumann",
            "conductivity": LogField(PerRegion({"iron": "log_iron"}, elsewhere="log_rest")),
            "mesh": with_regions(),
            "cells": None,
        },
        [0.5, -1.0],
        [0.5, 0.5],
    ),
    "a random field": Case(
        {"initial": FIXED, "conductivity": LogField(Sum(Modes("z", MODES), Constant(-0.5)))},
        [0.3, -0.4, 0.5, 0.1],
        [0.5, 0.5, 0.5, 0.5],
    ),
    "everything": Case(
        {
            "initial": BUMP,
            "source": GaussianBump(width=0.3, height="power"),
            "conductivity": LogField(Modes("z", MODES)),
            "boundary": {"left": dirichlet("warm"), "top": neumann("flux"), "right": dirichlet(0.3)},
        },
        [0.45, 0.5, 0.2, 2.0, 20.0, 0.3, -0.4, 0.5, 0.1, 3.0, 1.5],
        [0.1, 0.1, 0.05, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 1.0, 0.3],
    ),
}
BACKENDS = ["skfem", pytest.param("dolfinx", marks=pytest.mark.dolfinx)]
EVERY = pytest.mark.parametrize("name", CASES)
LINEAR = [name for name in CASES if "conductivity" not in CASES[name].settings]


def model(name, scheme="crank_nicolson", precompute=False, backend="skfem"):
    if backend == "dolfinx":
        pytest.importorskip("dolfinx")
    settings = {"cells": CELLS, "steps": STEPS, "end_time": END, "scheme": scheme, **CASES[name].settings}
    return HeatEquation(**settings, backend=backend).observe(SENSORS, TIMES, precompute=precompute)


def batch(name, rows=3, seed=0):
    case = CASES[name]
    return case.theta + 0.2 * np.array(case.scale) * np.random.default_rng(seed).normal(size=(rows, len(case.theta)))


@pytest.mark.parametrize("backend", BACKENDS)
@EVERY
def test_taylor_remainder_is_of_second_order_over_five_decades(name, backend):
    case, forward = CASES[name], model(name, backend=backend)
    assert len(forward.parameters) and sum(forward.equation.sizes) == len(case.theta)
    theta = np.array([case.theta])
    direction = np.array(case.scale) * np.random.default_rng(1).choice([-1.0, 1.0], len(case.scale))
    y, vjp = forward.linearize(theta)
    slope = forward.jacobian(theta)[1][0] @ direction
    by_product = [vjp(unit[None])[0] @ direction for unit in np.eye(y.shape[1])]
    np.testing.assert_allclose(by_product, slope, rtol=0, atol=1e-11 * np.abs(slope).max())
    steps = np.logspace(-0.5, -5.5, 11)
    changes = [(forward(theta + h * direction) - y)[0] for h in steps]
    remainders = [np.abs(change - h * slope).max() for change, h in zip(changes, steps, strict=True)]
    if case.linear:
        assert max(remainders) < 1e-13 * np.abs(y).max()
        return
    fitted = np.polyfit(np.log(steps), np.log(remainders), 1)[0]
    assert abs(fitted - 2) < 0.1
    # control: the remainder of a gradient that is off by a thousandth is of first order
    wrong = [np.abs(change - 1.001 * h * slope).max() for change, h in zip(changes, steps, strict=True)]
    assert np.polyfit(np.log(steps[5:]), np.log(wrong[5:]), 1)[0] < 1.5


@pytest.mark.parametrize("scheme", ["backward_euler", "crank_nicolson"])
@EVERY
def test_adjoint_agrees_with_central_differences(name, scheme):
    forward, theta = model(name, scheme), batch(name, 2)
    jacobian = forward.jacobian(theta)[1]
    for column, reach in enumerate(CASES[name].scale):
        step = np.zeros(theta.shape[1])
        step[column] = 1e-4 * reach
        # the error of differences is of fourth order
        near, far = (forward(theta + k * step) - forward(theta - k * step) for k in (1, 2))
        difference = (8 * near - far) / (12 * step[column])
        np.testing.assert_allclose(
            jacobian[:, :, column], difference, rtol=0, atol=1e-6 * np.abs(jacobian[:, :, column]).max()
        )


@pytest.mark.parametrize("name", LINEAR)
def test_weights_equal_solves(name):
    theta, honest, quick = batch(name), model(name), model(name, precompute=True)
    assert honest.method == "solves, factored once" and "solves" not in quick.method
    assert quick.precomputed and not honest.precomputed
    y, jacobian = quick.jacobian(theta)
    expected, slopes = honest.jacobian(theta)
    assert y.shape == (3, 8) == (3, quick.n_observations)
    for values in (y, quick(theta), quick.linearize(theta)[0]):
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
    np.testing.assert_allclose(jacobian, slopes, rtol=0, atol=1e-12 * np.abs(slopes).max())
    cotangent = np.random.default_rng(2).normal(size=y.shape)
    product = np.einsum("bm,bmp->bp", cotangent, slopes)
    for forward in (quick, honest):
        np.testing.assert_allclose(
            forward.linearize(theta)[1](cotangent), product, rtol=0, atol=1e-12 * np.abs(product).max()
        )


@EVERY
@pytest.mark.parametrize("precompute", [True, False])
def test_chosen_observations_are_those_of_all(name, precompute):
    forward, theta = model(name, precompute=precompute), batch(name)
    assert forward.precomputed == (precompute and name in LINEAR)
    indices = np.random.default_rng(3).integers(8, size=(3, 2))
    y, jacobian = forward.jacobian(theta)
    chosen, slopes = forward.rows(theta, indices)
    row = np.arange(3)[:, None]
    np.testing.assert_allclose(chosen, y[row, indices], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(slopes, jacobian[row, indices], rtol=1e-9, atol=1e-11)


@EVERY
def test_a_row_has_the_same_bits_alone_and_in_a_block(name):
    forward, theta = model(name), batch(name, 4)
    y, vjp = forward.linearize(theta)
    cotangent = np.random.default_rng(4).normal(size=y.shape)
    gradient = vjp(cotangent)
    for row in range(4):
        alone, product = forward.linearize(theta[row : row + 1])
        np.testing.assert_array_equal(alone[0], y[row])
        np.testing.assert_array_equal(product(cotangent[row : row + 1])[0], gradient[row])


def test_rows_of_one_conductivity_are_one_block():
    """Three rows, two conductivities: two factorizations, and the rows come out as alone."""
    settings = CASES["everything"].settings
    equation = HeatEquation(CELLS, STEPS, END, **settings)
    theta = batch("everything", 3)
    shared = equation.columns["conductivity"]
    theta[2, shared] = theta[0, shared]
    march, factored = equation.discretization.scheme, []
    object.__setattr__(march, "system", lambda kappa: factored.append(kappa) or type(march).system(march, kappa))
    forward = equation.observe(SENSORS)
    y, vjp = forward.linearize(theta)
    assert len(factored) == 2
    gradient = vjp(np.ones_like(y))
    for row in range(3):
        alone, product = forward.linearize(theta[row : row + 1])
        np.testing.assert_allclose(alone[0], y[row], rtol=1e-12)
        np.testing.assert_allclose(product(np.ones_like(alone))[0], gradient[row], rtol=1e-10)


def test_names_in_order_and_shared():
    everything, shared = model("everything"), model("one center for two")
    assert everything.parameters == ("x", "y", "w", "h", "power", "z", "flux", "warm")
    assert everything.equation.sizes == (1, 1, 1, 1, 1, 4, 1, 1)
    assert shared.parameters == ("x", "y", "h")


@pytest.mark.parametrize("precompute", [True, False])
def test_failed_rows_are_nan_and_leave_the_others_alone(precompute):
    for name, bad in (("a bump", 2), ("a conductivity", 0)):
        forward, theta = model(name, precompute=precompute), batch(name)
        good = forward.jacobian(theta)
        theta[1, bad] = -0.1
        y, vjp = forward.linearize(theta)
        gradient = vjp(np.ones_like(y))
        assert np.isnan(y[1]).all() and np.isnan(gradient[1]).all()
        np.testing.assert_allclose(y[[0, 2]], good[0][[0, 2]], rtol=1e-12)
        assert np.isfinite(gradient[[0, 2]]).all()
        assert np.isnan(forward(theta)[1]).all()
        y, jacobian = forward.jacobian(theta)
        assert np.isnan(y[1]).all() and np.isnan(jacobian[1]).all() and np.isfinite(jacobian[[0, 2]]).all()
    # an exponential that overflows, or a position that was lost
    field = model("a random field")
    for lost in (1e4, -1e4, np.inf, np.nan):
        theta = batch("a random field")
        theta[1] = lost
        assert np.isnan(field(theta)).any(axis=1).tolist() == [False, True, False]
