"""Adapters against a model with a known Jacobian; guards against models that fail."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.contract import ForwardModel
from invsamp.posing.forward import (
    GuardedModel,
    WrongShapeError,
    finite_differences,
    from_torch,
    scalar_function,
    with_jacobian,
)


def function(theta: np.ndarray) -> np.ndarray:
    x, y = theta[:, 0], theta[:, 1]
    return np.stack([np.sin(x) * y, x * x * y, np.exp(0.1 * x * y)], axis=1)


def jacobian(theta: np.ndarray) -> np.ndarray:
    x, y = theta[:, 0], theta[:, 1]
    e = 0.1 * np.exp(0.1 * x * y)
    rows = [[np.cos(x) * y, np.sin(x)], [2 * x * y, x * x], [e * y, e * x]]
    return np.moveaxis(np.array(rows), -1, 0)


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


def test_a_function_of_one_theta_without_jacobian_cannot_be_linearized() -> None:
    assert not isinstance(scalar_function(np.sin), ForwardModel)


class Fragile:
    """Raises for negative first columns, in the stage that is asked for."""

    def __init__(self, stage: str = "solve") -> None:
        self.stage = stage
        self.calls = 0

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        self.calls += 1
        self.check("solve", theta)
        return function(theta)

    def linearize(self, theta: np.ndarray) -> tuple:
        y = self(theta)

        def vjp(cotangent: np.ndarray) -> np.ndarray:
            self.check("vjp", theta)
            return np.einsum("bm,bmp->bp", cotangent, jacobian(theta))

        return y, vjp

    def jacobian(self, theta: np.ndarray) -> tuple:
        return self(theta), jacobian(theta)

    def check(self, stage: str, theta: np.ndarray) -> None:
        if stage == self.stage and np.any(theta[:, 0] < 0):
            raise RuntimeError(f"no solution at {theta[theta[:, 0] < 0][0, 0]:.3f}")


BAD = THETA[:, 0] < 0


@pytest.mark.parametrize("stage", ["solve", "vjp"])
def test_a_failing_row_does_not_take_the_batch_down(stage: str) -> None:
    assert 0 < BAD.sum() < len(BAD)
    guard = GuardedModel(Fragile(stage), 3, "fine")
    assert guard.message is None
    y, vjp = guard.linearize(THETA)
    gradient = vjp(COTANGENT)
    np.testing.assert_array_equal(np.isnan(gradient).all(axis=1), BAD)
    np.testing.assert_allclose(gradient[~BAD], EXPECTED[~BAD])
    np.testing.assert_allclose(y[~BAD], function(THETA)[~BAD])
    assert guard.message.startswith("RuntimeError: no solution at -")
    if stage == "solve":
        for values in (y, guard(THETA), guard.jacobian(THETA)[0], guard.jacobian(THETA)[1]):
            np.testing.assert_array_equal(np.isnan(values.reshape(5, -1)).all(axis=1), BAD)
        assert np.isnan(guard.linearize(THETA[BAD])[1](COTANGENT[BAD])).all()


def test_a_batch_that_works_is_called_once() -> None:
    model = Fragile()
    GuardedModel(model, 3, "fine")(np.abs(THETA))
    assert model.calls == 1


class Chosen(Fragile):
    def rows(self, theta: np.ndarray, indices: np.ndarray) -> tuple:
        self.calls += 1
        self.check(self.stage, theta)
        row = np.arange(len(theta))[:, None]
        return function(theta)[row, indices], jacobian(theta)[row, indices]


class Everything(Fragile):
    """Mistakes the rows of the data for those of the batch."""

    def rows(self, theta: np.ndarray, indices: np.ndarray) -> tuple:
        return function(theta), jacobian(theta)


def test_rows_that_fail_do_not_take_the_batch_down() -> None:
    indices = np.array([[2, 0]] * 5)
    guard = GuardedModel(Chosen(), 3, "fine")
    assert guard.has_rows and not GuardedModel(Fragile(), 3, "fine").has_rows
    y, matrix = guard.rows(THETA, indices)
    for values in (y, matrix):
        np.testing.assert_array_equal(np.isnan(values.reshape(5, -1)).all(axis=1), BAD)
    np.testing.assert_array_equal(y[~BAD], function(THETA)[~BAD][:, [2, 0]])
    np.testing.assert_array_equal(matrix[~BAD], jacobian(THETA)[~BAD][:, [2, 0]])
    assert guard.message.startswith("RuntimeError: no solution at -")
    # one call where nothing fails
    guard.model.calls = 0
    guard.rows(np.abs(THETA), indices)
    assert guard.model.calls == 1


def test_an_interrupt_is_not_a_failed_solve() -> None:
    class Stopped(Fragile):
        def __call__(self, theta: np.ndarray) -> np.ndarray:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        GuardedModel(Stopped(), 3, "fine")(THETA)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda: GuardedModel(with_jacobian(function, jacobian), 4, "fine")(THETA),
            r"'fine' must have shape \(5, 4\), ",
        ),
        (lambda: GuardedModel(with_jacobian(lambda t: None, jacobian), 3, "f")(THETA), r"shape \(5, 3\), got \(\)"),
        (
            lambda: GuardedModel(with_jacobian(lambda t: "no", jacobian), 3, "f")(THETA),
            "must be an array of real numbers, got str",
        ),
        (
            lambda: GuardedModel(with_jacobian(function, lambda t: jacobian(t)[:, :, :1]), 3, "f").linearize(THETA),
            r"jacobian must have shape \(5, 3, 2\), got \(5, 3, 1\)",
        ),
        (
            lambda: GuardedModel(Everything(), 3, "f").rows(THETA, np.zeros((5, 2), dtype=int)),
            r"chosen observations of forward model 'f' must have shape \(5, 2\), got \(5, 3\)",
        ),
        (lambda: finite_differences(lambda t: np.ones(3)).linearize(THETA), r"must return shape \(25, observations\)"),
    ],
)
def test_a_wrong_shape_is_a_mistake_and_not_a_failed_solve(act: object, message: str) -> None:
    with pytest.raises(WrongShapeError, match=message):
        act()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: with_jacobian(function, None), "jacobian must be callable, got None"),
        (lambda: finite_differences(function, scheme="magic"), "scheme must be one of .* got 'magic'"),
        (lambda: finite_differences(function, relative_step=-1.0), "relative_step must be positive, got -1.0"),
        (
            lambda: finite_differences(function, scale=0.0),
            "scale must be positive, a number or one per column, got 0.0",
        ),
        (lambda: GuardedModel(function, 3, "f"), r"forward\['f'\] must be callable and have linearize"),
    ],
)
def test_bad_input(act: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        act()
