"""Adapters against a model with a known Jacobian."""

from __future__ import annotations

import numpy as np
import pytest
from flaky_models import derivatives as jacobian
from flaky_models import observations as function

from invsamp.errors import ModelError, WrongShapeError
from invsamp.posing.forward_models.adapters import finite_differences, from_torch, scalar_function, with_jacobian
from invsamp.protocols import ForwardModel

THETA = np.random.default_rng(0).normal(size=(5, 2))
COTANGENT = np.random.default_rng(1).normal(size=(5, 3))
EXPECTED = np.einsum("bm,bmp->bp", COTANGENT, jacobian(THETA))

MODELS = {
    "with_jacobian": (with_jacobian(function, jacobian), 1e-13),
    "central": (finite_differences(function), 1e-8),
    "forward": (finite_differences(function, scheme="forward"), 1e-6),
    "complex_step": (finite_differences(function, scheme="complex_step"), 1e-13),
    "scaled": (finite_differences(function, relative_step=1e-4, scale=(0.1, 1.0)), 1e-6),
    "scalar": (scalar_function(lambda t: function(t[None])[0], lambda t: jacobian(t[None])[0]), 1e-13),
    "scalar_differences": (finite_differences(scalar_function(lambda t: function(t[None])[0])), 1e-8),
}


@pytest.mark.parametrize("name", MODELS)
def test_adapters_agree_with_the_truth(name: str) -> None:
    model, tolerance = MODELS[name]
    assert isinstance(model, ForwardModel)
    y, vjp = model.linearize(THETA)
    np.testing.assert_allclose(model(THETA), function(THETA), rtol=1e-14)
    np.testing.assert_allclose(y, function(THETA), rtol=1e-14)
    np.testing.assert_allclose(vjp(COTANGENT), EXPECTED, atol=tolerance)
    y, matrix = model.jacobian(THETA)
    np.testing.assert_allclose(y, function(THETA), rtol=1e-14)
    np.testing.assert_allclose(matrix, jacobian(THETA), atol=tolerance)
    # a batch is its rows
    single, product = model.linearize(THETA[2:3])
    np.testing.assert_allclose(single, y[2:3], rtol=1e-14)
    np.testing.assert_allclose(product(COTANGENT[2:3]), vjp(COTANGENT)[2:3], rtol=1e-9)


@pytest.mark.parametrize(("scheme", "order"), [("central", 2), ("forward", 1)])
def test_order_of_finite_differences(scheme: str, order: int) -> None:
    steps = np.array([1e-2, 1e-3])
    errors = []
    for step in steps:
        matrix = finite_differences(function, relative_step=step, scheme=scheme).jacobian(THETA)[1]
        errors.append(np.abs(matrix - jacobian(THETA)).max())
    assert abs(np.log10(errors[0] / errors[1]) - order) < 0.1
    assert errors[1] < (1e-5 if order == 2 else 1e-2)


@pytest.mark.parametrize("scheme", ["central", "forward"])
def test_steps_are_those_taken_after_rounding(scheme: str) -> None:
    """Or else even a straight line's slope would be off by the rounding of theta over the step."""
    theta = 1e3 * THETA
    matrix = finite_differences(lambda t: t, scheme=scheme).jacobian(theta)[1]
    np.testing.assert_allclose(matrix, np.broadcast_to(np.eye(2), (5, 2, 2)), rtol=0, atol=1e-13)


def test_from_torch() -> None:
    torch = pytest.importorskip("torch")

    def tensors(theta: object) -> object:
        x, y = theta[:, 0], theta[:, 1]
        return torch.stack([torch.sin(x) * y, x * x * y, torch.exp(0.1 * x * y)], dim=1)

    model = from_torch(tensors, parameters=("x", "y"))
    y, vjp = model.linearize(THETA)
    np.testing.assert_allclose(model(THETA), function(THETA), rtol=1e-12)
    np.testing.assert_allclose(y, function(THETA), rtol=1e-12)
    for _ in range(2):
        np.testing.assert_allclose(vjp(COTANGENT), EXPECTED, rtol=1e-10)
    assert model.parameters == ("x", "y")
    for device in ("cuda:99", "abacus"):
        with pytest.raises(ModelError, match=f"device must be one that this machine has, got '{device}': "):
            from_torch(tensors, device=device).linearize(THETA)


def test_a_function_of_one_theta_without_jacobian_cannot_be_linearized() -> None:
    assert not isinstance(scalar_function(np.sin), ForwardModel)


def test_a_function_of_one_row_is_recognized() -> None:
    with pytest.raises(WrongShapeError, match=r"must return shape \(25, observations\)"):
        finite_differences(lambda t: np.ones(3)).linearize(THETA)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: with_jacobian(function, None), "jacobian must be a function, got None"),
        (lambda: finite_differences(function, scheme="magic"), "scheme must be one of .* got 'magic'"),
        (
            lambda: finite_differences(function, relative_step=-1.0),
            "relative_step must be a positive finite number, got -1.0",
        ),
        (lambda: finite_differences(function, scale=0.0), "scale must be positive finite numbers, got 0.0"),
    ],
)
def test_bad_input(act: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        act()


@pytest.mark.parametrize("scheme", ["central", "forward", "complex_step", None])
def test_what_overflows_is_silent_as_it_is_a_failed_solve(scheme: str | None) -> None:
    """The tests' settings turn a warning of NumPy that arises in the package into an error."""

    def large(theta: np.ndarray) -> np.ndarray:
        return np.where(theta.real > 0.1, np.inf, 1e308 * np.sign(theta.real)) + 1e300j * theta.imag

    def real(theta: np.ndarray) -> np.ndarray:
        return large(theta) if scheme == "complex_step" else large(theta).real

    steep = with_jacobian(real, lambda theta: np.full((len(theta), 2, 2), 1e300))
    model = finite_differences(real, scheme=scheme) if scheme else steep
    vjp = model.linearize(np.array([[1e-9, 0.5]]))[1]
    assert not np.isfinite(vjp(np.full((1, 2), 1e10))).all()
