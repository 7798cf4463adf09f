"""Heat equation with an unknown centre: manufactured solution, gradients, and precomputed weights."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.solvers.heat import DecayingGaussian, GaussianBump, HeatEquation

SENSORS = [[0.3, 0.41], [0.5, 0.5], [0.77, 0.2]]
CENTRES = np.random.default_rng(5).uniform(0.2, 0.8, (4, 2))
CASES = [
    (GaussianBump(0.15, 3.0), "dirichlet"),
    (GaussianBump(0.15), "neumann"),
    (DecayingGaussian(0.15), "exact"),
]
SCHEMES = ("backward_euler", "crank_nicolson")


def equation(case=CASES[0], scheme="backward_euler", cells=12, steps=6):
    return HeatEquation(cells, steps, 0.03, *case, scheme, conductivity=1.3)


def slope(sizes, errors):
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


@pytest.mark.parametrize(("scheme", "order", "bound"), [("backward_euler", 1, 1e-3), ("crank_nicolson", 2, 1e-5)])
def test_manufactured_solution_order_in_time(scheme, order, bound):
    # the same mesh with a step 32 times finer than the finest is the limit in time
    manufactured, centre = DecayingGaussian(0.2), np.array([[0.55, 0.48]])
    steps = np.array([8, 16, 32])
    limit = HeatEquation(10, 1024, 0.03, manufactured, "exact", "crank_nicolson").solve(centre)
    errors = [
        np.abs(HeatEquation(10, int(n), 0.03, manufactured, "exact", scheme).solve(centre) - limit).max() for n in steps
    ]
    assert abs(slope(1 / steps, errors) - order) < 0.1
    assert errors[-1] < bound * manufactured.value(0.0, 0.0)


def test_manufactured_solution_order_in_space():
    manufactured, centre = DecayingGaussian(0.2), np.array([[0.55, 0.48]])
    cells = np.array([12, 24, 48])
    errors = []
    for n in cells:
        model = HeatEquation(int(n), 40, 0.1, manufactured, "exact", "crank_nicolson")
        exact = manufactured.value(np.linalg.norm(model.stepper.nodes - centre, axis=1), 0.1)
        errors.append(np.sqrt(np.mean((model.solve(centre)[0, 0] - exact) ** 2)))
    assert abs(slope(1 / cells, errors) - 2) < 0.1
    # a tenth of the interpolation error's scale h^2 max|u''| = h^2 height / s^2
    assert errors[-1] < 0.1 * manufactured.value(0.0, 0.1) / (48 * 0.2) ** 2


def test_the_published_datum():
    # at distance 0.1 from the centre; 64 squares leave an error of 0.3% in the peak's flank
    manufactured = DecayingGaussian(0.1)
    assert round(float(manufactured.value(0.1, 0.03)), 3) == 9.368
    ring = HeatEquation(64, 64, 0.03, manufactured, "exact").observe([[0.5, 0.5]])
    np.testing.assert_allclose(ring(np.array([[0.6, 0.5], [0.5, 0.4], [0.43, 0.57071]])), 9.368, rtol=5e-3)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_precomputed_weights_equal_the_solve(case, scheme):
    model = equation(case, scheme)
    quick = model.observe(SENSORS, times=[0.015, 0.03])
    honest = model.observe(SENSORS, times=[0.015, 0.03], precompute=False)
    assert quick.precomputed and not honest.precomputed
    y, jacobian = honest.jacobian(CENTRES)
    assert y.shape == (4, 6) and jacobian.shape == (4, 6, 2)
    for observed in (quick(CENTRES), quick.jacobian(CENTRES)[0], honest(CENTRES)):
        np.testing.assert_allclose(observed, y, atol=1e-14 * np.abs(y).max())
    # a derivative to the centre brings in 1/width, and the source three of them
    np.testing.assert_allclose(quick.jacobian(CENTRES)[1], jacobian, atol=1e-12 * np.abs(jacobian).max())
    cotangent = np.random.default_rng(0).normal(size=y.shape)
    for forward in (quick, honest):
        product = forward.linearize(CENTRES)[1](cotangent)
        np.testing.assert_allclose(
            product, np.einsum("bm,bmp->bp", cotangent, jacobian), atol=1e-12 * np.abs(y).max() / 0.01
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_the_observation_is_the_field_at_the_sensor(case):
    model = equation(case)
    at_nodes = model.observe(model.stepper.nodes[[30, 70, 100]], times=[0.0, 0.005, 0.03])
    fields = model.solve(CENTRES, [0.0, 0.005, 0.03])
    np.testing.assert_allclose(at_nodes(CENTRES).reshape(4, 3, 3), fields[:, :, [30, 70, 100]], atol=1e-12)


@pytest.mark.parametrize("precompute", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_adjoint_agrees_with_central_differences(case, precompute):
    forward = equation(case).observe(SENSORS, precompute=precompute)
    _, jacobian = forward.jacobian(CENTRES)
    for column, step in enumerate(1e-5 * np.eye(2)):
        difference = (forward(CENTRES + step) - forward(CENTRES - step)) / 2e-5
        np.testing.assert_allclose(jacobian[:, :, column], difference, atol=1e-6 * np.abs(jacobian).max())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_taylor_remainder_is_of_second_order_over_decades(case):
    forward = equation(case, "crank_nicolson").observe(SENSORS, precompute=False)
    y, jacobian = forward.jacobian(CENTRES)
    direction = np.array([0.6, -0.8])
    steps = np.logspace(-1.5, -4.5, 7)
    remainders = [np.abs(forward(CENTRES + h * direction) - y - h * jacobian @ direction).max() for h in steps]
    assert abs(slope(steps, remainders) - 2) < 0.1
    # control: the remainder of a gradient that is off by a thousandth is of first order
    wrong = [np.abs(forward(CENTRES + h * direction) - y - 1.001 * h * jacobian @ direction).max() for h in steps]
    assert slope(steps[3:], wrong[3:]) < 1.5


@pytest.mark.parametrize("precompute", [True, False])
def test_a_batch_equals_its_rows(precompute):
    forward = equation().observe(SENSORS, precompute=precompute)
    batch = forward.jacobian(CENTRES)
    for row in range(len(CENTRES)):
        single = forward.jacobian(CENTRES[row : row + 1])
        for whole, part in zip(batch, single, strict=True):
            np.testing.assert_allclose(whole[row], part[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("precompute", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_chosen_observations_are_those_of_all(case, precompute):
    model = equation(case).observe([(0.4, 0.5), (0.7, 0.3)], [0.015, 0.03], precompute=precompute)
    rng = np.random.default_rng(0)
    theta, indices = rng.uniform(0.2, 0.8, (3, 2)), rng.integers(4, size=(3, 2))
    y, jacobian = model.jacobian(theta)
    chosen, slopes = model.rows(theta, indices)
    row = np.arange(3)[:, None]
    np.testing.assert_allclose(chosen, y[row, indices], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(slopes, jacobian[row, indices], rtol=1e-10, atol=1e-12)


def test_centres_outside_the_square_still_have_a_field():
    y = equation().observe(SENSORS)(np.array([[-0.2, 1.3], [40.0, 0.5]]))
    assert np.isfinite(y).all() and (np.abs(y) < 1e-3).all()


def test_names_cost_and_repr():
    forward = equation().observe(SENSORS, parameters=("east", "north"))
    assert forward.parameters == ("east", "north")
    assert 0 < forward.cost < 1
    assert "precomputed=True" in repr(forward)
    assert equation() == equation()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: equation().observe([[0.5, 1.2]]), r"sensors must lie in the unit square, got \[0.5, 1.2\]"),
        (lambda: equation().observe([[0.5, np.nan]]), "sensors must lie in the unit square"),
        (lambda: equation().observe([0.5, 0.5]), r"sensors must have shape \(n_sensors, 2\), got \(2,\)"),
        (lambda: equation().observe(SENSORS, times=[0.004]), "times must be multiples of the time step"),
        (lambda: equation().observe(SENSORS, times=[0.06]), "times must be multiples of the time step"),
        (lambda: equation().observe(SENSORS, times=[]), "times must be a non-empty"),
        (lambda: equation().observe(SENSORS, parameters=("x", "x")), "parameters must be two distinct names"),
        (lambda: equation().observe(SENSORS)(np.ones((3, 3))), r"theta must have shape \(batch, 2\), got \(3, 3\)"),
        (lambda: equation(steps=0), "steps must be an integer of at least 1, got 0"),
        (lambda: GaussianBump(width=0.0), "width must be positive and finite, got 0.0"),
        (lambda: GaussianBump(height=0.0), "height must be finite and not zero, got 0.0"),
        (
            lambda: equation((GaussianBump(), "exact")),
            "boundary must be 'exact' for DecayingGaussian alone, got 'exact'",
        ),
        (lambda: equation((DecayingGaussian(), "neumann")), "boundary must be 'exact' for DecayingGaussian alone"),
        (lambda: equation((3.0, "neumann")), "initial must be a GaussianBump or a DecayingGaussian, got 3.0"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
