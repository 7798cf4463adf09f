"""Networks fitted to solves, as fidelities; torch functions in single precision and all rungs together."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import invsamp as iv
from invsamp.errors import ModelError

torch = pytest.importorskip("torch", reason="torch is not installed")

from invsamp.torch import network_model  # noqa: E402

GRID = np.linspace(0, 1, 5)


def fine(theta: np.ndarray) -> np.ndarray:
    return np.sin(2 * theta[:, :1] + GRID) + theta[:, 1:] ** 2 * GRID


def fine_slope(theta: np.ndarray) -> np.ndarray:
    return np.stack([2 * np.cos(2 * theta[:, :1] + GRID), 2 * theta[:, 1:] * GRID], axis=2)


FINE = iv.with_jacobian(fine, fine_slope)


def rough(theta: np.ndarray) -> np.ndarray:
    return 0.9 * fine(theta) + 0.1 * theta[:, :1] ** 3


def rough_slope(theta: np.ndarray) -> np.ndarray:
    return 0.9 * fine_slope(theta) + 0.3 * np.stack([theta[:, :1] ** 2 + 0 * GRID, np.zeros((len(theta), 5))], axis=2)


COARSE = iv.with_jacobian(rough, rough_slope)
STATES = np.random.default_rng(0).normal(size=(120, 2)) * 0.7


def posterior(coarse: object) -> iv.Posterior:
    prior = iv.Prior(a=iv.Normal(0, 0.7), b=iv.Normal(0, 0.7))
    data = fine(np.array([[0.3, 0.5]]))[0]
    return iv.Posterior(prior, {"coarse": coarse, "fine": FINE}, data, iv.GaussianNoise(0.1))


@pytest.mark.parametrize("coarse", [None, COARSE], ids=["alone", "residual"])
def test_fitted(coarse):
    model = network_model(coarse, (20,), steps=600)
    fitted = model.fit(STATES, fine(STATES))
    assert model.error is None and fitted.error < 0.5
    theta = np.random.default_rng(1).normal(size=(50, 2)) * 0.5
    missed = np.sqrt(np.square(fitted(theta) - fine(theta)).mean())
    before = np.std(fine(theta)) if coarse is None else np.sqrt(np.square(coarse(theta) - fine(theta)).mean())
    assert missed < 0.3 * before
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again(theta), fitted(theta))
    np.testing.assert_array_equal(model.fit(STATES, fine(STATES))(theta), fitted(theta))
    assert posterior(fitted).check_gradient(fidelity="coarse").passed


def test_not_fitted():
    theta = STATES[:3]
    np.testing.assert_array_equal(network_model(COARSE)(theta), COARSE(theta))
    np.testing.assert_array_equal(network_model(COARSE).linearize(theta)[0], COARSE(theta))
    with pytest.raises(ModelError, match="the surrogate has not been fitted"):
        network_model()(theta)


def test_of_a_coarse_model_that_predicts_some_of_the_data():
    class Some:
        data_indices = np.array([0, 2])

        def __call__(self, theta):
            return rough(theta)[:, self.data_indices]

        def linearize(self, theta):
            return self(theta), lambda cotangent: np.einsum("bm,bmp->bp", cotangent, rough_slope(theta)[:, [0, 2]])

    fitted = network_model(Some(), (5,), steps=50).fit(STATES, fine(STATES))
    assert fitted(STATES).shape == (120, 2) and posterior(fitted).check_gradient(fidelity="coarse").passed


def test_as_a_fidelity_that_is_corrected():
    states = np.random.default_rng(2).normal([0.3, 0.5], 0.15, size=(60, 2))
    network = network_model(COARSE, (10,), steps=400)
    plain, learned = (iv.correct(posterior(model), states) for model in (COARSE, network))
    assert learned.posterior.forward["coarse"] is not None
    assert learned.levels[0].sd["none"] < 0.2 * plain.levels[0].sd["none"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: network_model(lambda t: t), "coarse must be a forward model"),
        (lambda: network_model(hidden=(0,)), r"hidden\[0\] must be"),
        (lambda: network_model(hidden=3), "hidden must be a sequence"),
        (lambda: network_model(steps=0), "steps must be"),
        (lambda: network_model().fit(STATES[:9], fine(STATES[:9])), "at least 10 states, got 9"),
        (lambda: network_model().fit(STATES, fine(STATES[1:])), r"observations must have shape \(120, m\)"),
        (
            lambda: iv.from_torch(lambda t: t, dtype="float16"),
            "dtype must be one of 'float64', 'float32', got 'float16'",
        ),
        (lambda: iv.from_torch(lambda t: t, device=""), "device must be a string"),
    ],
)
def test_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_single_precision(draw):
    def function(theta):
        assert theta.dtype == torch.float32
        return torch.sin(theta[:, :1] * torch.ones(3)) * theta[:, 1:]

    model = iv.from_torch(function, dtype="float32", device="cpu")
    theta = np.array([[0.3, 2.0], [1.1, -1.0]])
    y, vjp = model.linearize(theta)
    np.testing.assert_allclose(y, np.sin(theta[:, :1]) * theta[:, 1:] * np.ones(3), rtol=1e-6)
    slope = vjp(np.ones((2, 3)))
    np.testing.assert_allclose(slope[:, 0], 3 * np.cos(theta[:, 0]) * theta[:, 1], rtol=1e-5)
    assert y.dtype == slope.dtype == float and model.derivative_error == 1e-3
    posed = iv.Posterior(iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1)), model, [0.1, 0.2, 0.3], iv.GaussianNoise(0.1))
    assert draw(posed, iv.mala(), draws=20, warmup=100, chains=4).report["warnings"] == []  # nor of its gradient


def test_all_rungs_are_one_batch(draw):
    rows = []

    def function(theta):
        rows.append(len(theta))
        return torch.sin(2 * theta[:, :1] + torch.from_numpy(GRID)) + theta[:, 1:] ** 2 * torch.from_numpy(GRID)

    data = fine(np.array([[0.3, 0.5]]))[0]
    prior = iv.Prior(a=iv.Normal(0, 0.7), b=iv.Normal(0, 0.7))
    posed = iv.Posterior(prior, iv.from_torch(function), data, iv.GaussianNoise(0.1))
    settings = {"draws": 30, "warmup": 100, "chains": 3, "check_gradient": False}
    alone = draw(posed, iv.samplers.parallel_tempering((1, 2, 4), 0.01), **settings)
    assert max(rows) == 3
    rows.clear()
    joined = draw(posed, iv.samplers.parallel_tempering((1, 2, 4), 0.01), executor=iv.evaluate.together(), **settings)
    assert rows.count(9) > 100
    np.testing.assert_allclose(joined.theta, alone.theta, rtol=1e-6)
