"""Changes of variables: inverses, derivatives, Jacobians, and densities that stay normalized."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import Beta, Gamma, LogNormal, Uniform
from invsamp.posing.transforms.univariate import Coordinates, Identity, Log, Logit

TRANSFORMS = [Identity(), Log(), Log(-2.0), Logit(0.0, 1.0), Logit(-3.0, 5.0)]
COORDINATES = Coordinates(TRANSFORMS)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-20, 20), min_size=5, max_size=5))
def test_round_trip(position: list[float]) -> None:
    # the rounding of theta near an end of its interval is what limits the way back
    theta = COORDINATES.to_theta(position)
    slope = COORDINATES.evaluate(np.array([position])).derivative[0]
    tolerance = 1e-12 + 8 * np.spacing(np.maximum(np.abs(theta), 5.0)) / slope
    assert np.all(np.abs(COORDINATES.to_position(theta) - position) <= tolerance)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-700, 700), min_size=5, max_size=5))
def test_all_is_finite_and_inside_up_to_700(position: list[float]) -> None:
    change = COORDINATES.evaluate(np.array([position]))
    assert all(np.all(np.isfinite(part)) for part in change)
    theta = change.theta[0]
    assert theta[1] > 0 and theta[2] > -2 and 0 < theta[3] < 1 and -3 < theta[4] < 5
    assert np.all(change.derivative > 0)


def test_derivatives_by_finite_differences() -> None:
    position = np.random.default_rng(0).normal(scale=2.0, size=(8, 5))
    change = COORDINATES.evaluate(position)
    h = 1e-5
    for column in range(5):
        move = h * np.eye(5)[column]
        ahead, behind = COORDINATES.evaluate(position + move), COORDINATES.evaluate(position - move)
        slope = (ahead.theta - behind.theta)[:, column] / (2 * h)
        np.testing.assert_allclose(change.derivative[:, column], slope, rtol=1e-6)
        slope = (ahead.log_jacobian - behind.log_jacobian) / (2 * h)
        np.testing.assert_allclose(change.log_jacobian_gradient[:, column], slope, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(change.log_jacobian, np.log(change.derivative).sum(axis=1), rtol=1e-10)


def test_single_transforms_agree_with_the_columns() -> None:
    position = np.random.default_rng(1).normal(scale=3.0, size=(6, 5))
    change = COORDINATES.evaluate(position)
    for column, transform in enumerate(TRANSFORMS):
        x = position[:, column]
        np.testing.assert_array_equal(transform.inverse(x), change.theta[:, column])
        np.testing.assert_array_equal(transform.derivative(x), change.derivative[:, column])
        np.testing.assert_array_equal(transform.log_jacobian_gradient(x), change.log_jacobian_gradient[:, column])
        np.testing.assert_allclose(transform.forward(transform.inverse(x)), x, rtol=1e-9, atol=1e-9)
    total = sum(t.log_jacobian(position[:, i]) for i, t in enumerate(TRANSFORMS))
    np.testing.assert_allclose(change.log_jacobian, total)


@pytest.mark.parametrize(
    ("distribution", "transform"),
    [
        (LogNormal(0.3, 0.8), Log()),
        (Gamma(0.7, 2.0), Log()),
        (truncated(Gamma(3.0, 1.0), lower=1.0), Log(1.0)),
        (Beta(0.8, 2.0), Logit(0.0, 1.0)),
        (Uniform(-3.0, 5.0), Logit(-3.0, 5.0)),
    ],
)
def test_density_of_the_position_integrates_to_one(distribution: object, transform: object) -> None:
    def density(x: float) -> float:
        value = distribution.log_density(transform.inverse([x])) + transform.log_jacobian([x])
        return float(np.exp(value)[0])

    total = sum(integrate.quad(density, a, b, epsabs=1e-12, limit=400)[0] for a, b in ((-60, 0), (0, 60)))
    assert abs(total - 1.0) < 1e-8
    # control: without the Jacobian it does not
    wrong = integrate.quad(lambda x: float(np.exp(distribution.log_density(transform.inverse([x])))[0]), -3, 3)[0]
    assert abs(wrong - 1.0) > 0.01


def test_shapes_and_ends() -> None:
    assert COORDINATES.to_theta(np.zeros((2, 3, 5))).shape == (2, 3, 5)
    lower = COORDINATES.to_position([-np.inf, 0.0, -2.0, 0.0, -3.0])
    assert np.all(lower == -np.inf)
    assert np.isnan(COORDINATES.to_position([0.0, -1.0, 0.0, 2.0, 6.0])[[1, 3, 4]]).all()
    assert Coordinates([Log(1.0)]) == Coordinates([Log(1.0)]) != Coordinates([Log(2.0)])
    # an array that is not contiguous is read right
    position = np.random.default_rng(0).normal(size=(5, 4)).T
    np.testing.assert_array_equal(COORDINATES.evaluate(position).theta, COORDINATES.evaluate(position.copy()).theta)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Log(np.inf), "lower must be finite, got inf"),
        (lambda: Logit(1.0, 1.0), "upper must be above lower and both finite, got 1.0 and 1.0"),
        (lambda: Coordinates([]), "transforms must be made of"),
        (lambda: Coordinates(["log"]), "transforms must be made of Identity, Log and Logit"),
        (lambda: COORDINATES.to_theta([1.0]), r"position must have 5 columns, got shape \(1,\)"),
    ],
)
def test_bad_input(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
