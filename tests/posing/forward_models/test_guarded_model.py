"""The guard against models that fail, or are wrong."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from flaky_models import derivatives as jacobian
from flaky_models import observations as function

import invsamp as iv
from invsamp.errors import ModelError, WrongShapeError
from invsamp.posing.forward_models.adapters import with_jacobian
from invsamp.posing.forward_models.guarded_model import GuardedModel, same_order

THETA = np.random.default_rng(0).normal(size=(5, 2))
COTANGENT = np.random.default_rng(1).normal(size=(5, 3))
EXPECTED = np.einsum("bm,bmp->bp", COTANGENT, jacobian(THETA))


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


def test_the_message_is_that_of_the_last_failure() -> None:
    guard = GuardedModel(Fragile("solve"), 3, "fine")
    guard.look(guard(THETA))
    assert guard.message.startswith("RuntimeError: no solution at -")
    guard.look(np.array([[1.0, np.nan, 2.0]]))
    assert guard.message.startswith("1 of 3") and "output 1 is nan" in guard.message
    guard.look(np.ones((1, 3)))
    assert guard.message == "the observations are finite, but their likelihood is not"


@pytest.mark.parametrize("gradient", [False, True])
def test_a_failure_without_words_does_not_take_those_of_an_earlier_one(gradient: bool) -> None:
    raises = [True]

    def model(theta: np.ndarray) -> np.ndarray:
        if raises[0] and (theta[:, 0] > 0).any():
            raise ArithmeticError("no convergence")
        return np.where(theta > 0, np.nan, theta)

    prior, forward = iv.Prior(a=iv.Normal(0, 1)), iv.with_jacobian(model, lambda theta: np.ones((len(theta), 1, 1)))
    posterior = iv.Posterior(prior, forward, [0.0], iv.GaussianNoise(1))
    potential, points = posterior.potential(), np.array([[-1.0], [1.0]])
    evaluate = potential.energy_and_gradient if gradient else potential.energy
    evaluate(points)
    assert posterior.failure_message() == "ArithmeticError: no convergence"
    raises[0] = False
    evaluate(points)
    assert posterior.failure_message() == "1 of 1 outputs are not finite: output 0 is nan"


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


def test_no_row_of_a_function_of_one_theta_is_solved_twice() -> None:
    solved = []

    def function(theta: np.ndarray) -> np.ndarray:
        solved.append(float(theta[0]))
        if theta[0] < 0:
            raise ArithmeticError
        return theta

    model = GuardedModel(iv.scalar_function(function), 1, "model")
    theta = np.array([[1.0], [2.0], [-1.0], [3.0]])
    np.testing.assert_array_equal(model(theta), [[1.0], [2.0], [np.nan], [3.0]])
    assert solved == theta.ravel().tolist()


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
        (lambda: GuardedModel(with_jacobian(lambda t: None, jacobian), 3, "f")(THETA), "must be numbers, got None"),
        (lambda: GuardedModel(with_jacobian(lambda t: "no", jacobian), 3, "f")(THETA), "must be numbers, got"),
        (
            lambda: GuardedModel(with_jacobian(lambda t: function(t) + 0j, jacobian), 3, "f")(THETA),
            "must be numbers, got array.*j",
        ),
        (
            lambda: GuardedModel(with_jacobian(function, lambda t: jacobian(t)[:, :, :1]), 3, "f").linearize(THETA),
            r"jacobian must have shape \(5, 3, 2\), got \(5, 3, 1\)",
        ),
        (
            lambda: GuardedModel(Everything(), 3, "f").rows(THETA, np.zeros((5, 2), dtype=int)),
            r"chosen observations of forward model 'f' must have shape \(5, 2\), got \(5, 3\)",
        ),
    ],
)
def test_a_wrong_shape_is_a_mistake_and_not_a_failed_solve(act: object, message: str) -> None:
    with pytest.raises(WrongShapeError, match=message):
        act()


def test_a_plain_function_is_a_model_without_derivatives() -> None:
    guard = GuardedModel(function, 3, "f")
    np.testing.assert_array_equal(guard(THETA), function(THETA))
    with pytest.raises(ModelError, match=r"forward\['f'\] is a function without derivatives.*finite_differences.*pcn"):
        guard.linearize(THETA)
    for wrong in (3.0, "model", Fragile):
        with pytest.raises(ValueError, match=r"forward\['f'\] must be a function or a forward model, got"):
            GuardedModel(wrong, 3, "f")


def test_outputs_for_no_batch_and_in_another_order_are_distinguished() -> None:
    one_theta = GuardedModel(lambda theta: np.array([theta[0], theta[1], theta[0]]), 3, "f")
    with pytest.raises(WrongShapeError, match=r"given theta of shape \(n, d\).*iv.scalar_function\(function\)"):
        one_theta(THETA)

    def arranged(theta: np.ndarray) -> np.ndarray:
        return np.zeros((len(theta), 2, 3))

    with pytest.raises(WrongShapeError, match=r"got \(5, 2, 3\): flatten what belongs to each row"):
        GuardedModel(arranged, 6, "f", arranged=(2, 3))(THETA)
    with pytest.raises(WrongShapeError, match=r"The data have shape \(3, 2\): transpose the data, or the outputs"):
        GuardedModel(arranged, 6, "f", arranged=(3, 2))(THETA)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        *(((2, 3), (2, 3), True), ((6,), (2, 3), True), ((6, 2), (3, 2, 2), True), ((3, 1), (1, 3), True)),
        *(((2, 3), (3, 2), False), ((2, 6), (4, 3), False), ((2, 3, 2), (3, 4), False)),
    ],
)
def test_shapes_of_one_order_split_axes_alone(one: tuple, other: tuple, same: bool) -> None:
    assert same_order(one, other) is same_order(other, one) is same


def test_what_a_model_raises_is_kept_until_it_returns() -> None:
    """With the arrays in its frames, which would stay in memory; and it cannot be pickled."""
    guard = GuardedModel(Fragile(), 3, "fine")
    guard(THETA[BAD])
    assert isinstance(guard.error, RuntimeError) and guard.error.__traceback__ is not None
    assert pickle.loads(pickle.dumps(guard)).error is None
    guard(THETA)
    assert guard.error is None
    guard(THETA[BAD])
    assert guard.error is None and guard.message.startswith("RuntimeError")
    products = GuardedModel(Fragile("vjp"), 3, "fine")
    products.linearize(THETA[BAD])[1](COTANGENT[BAD])
    assert isinstance(products.error, RuntimeError)


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_outputs_that_are_not_finite_are_named():
    def model(theta):
        return np.stack([theta[:, 0], np.where(theta[:, 0] > 0.0, np.nan, 1.0)], axis=1)

    posterior = iv.Posterior(iv.Prior(x=iv.Normal(0, 1)), model, [0.0, 1.0], iv.GaussianNoise(1.0))
    assert posterior.failure_message() is None
    run = iv.sample(posterior, iv.pcn(0.5), draws=20, warmup=0, seed=1, progress=False)
    assert posterior.failure_message() == "1 of 2 outputs are not finite: output 1 is nan"
    assert any("output 1 is nan" in warning for warning in run.warnings())
