"""Models in JAX: values and products against NumPy, any number of rows, precision, pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import invsamp as iv

jax = pytest.importorskip("jax", reason="JAX is not installed")
TIMES = np.linspace(0.0, 2.0, 5)


@pytest.fixture(autouse=True)
def double():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def decay(theta):
    return theta[0] * jax.numpy.exp(-theta[1] * TIMES)


def bowl(theta):
    return -0.5 * jax.numpy.sum(theta**2) - jax.numpy.log(1 + theta[0] ** 2)


@pytest.mark.parametrize("rows", [1, 3, 4, 7])
def test_values_and_products(rows: int) -> None:
    rng = np.random.default_rng(rows)
    model, theta, cotangent = iv.from_jax(decay), rng.random((rows, 2)), rng.normal(size=(rows, 5))
    falling = np.exp(-theta[:, 1:] * TIMES)
    np.testing.assert_allclose(model(theta), theta[:, :1] * falling, rtol=1e-14)
    y, vjp = model.linearize(theta)
    np.testing.assert_allclose(y, theta[:, :1] * falling, rtol=1e-14)
    slopes = np.stack([falling, -theta[:, :1] * TIMES * falling], axis=2)
    for _ in range(2):  # it may be asked for again
        np.testing.assert_allclose(vjp(cotangent), np.einsum("nm,nmp->np", cotangent, slopes), rtol=1e-12)


def test_posteriors_of_models_and_densities() -> None:
    prior = iv.Prior(a=iv.LogNormal(0, 1), rate=iv.LogNormal(0, 1), sigma=iv.HalfNormal(1))
    one = iv.Posterior(prior, iv.from_jax(decay), np.ones(5), iv.GaussianNoise("sigma"))
    assert one.check_gradient().passed
    assert iv.Target(iv.LogDensity(iv.from_jax(bowl)), names={"x": 3}).check_gradient().passed
    density = iv.LogDensity(iv.from_jax(bowl, parameters=["a", "rate"]))
    assert iv.Posterior(prior, log_likelihood=density).check_gradient().passed
    model = pickle.loads(pickle.dumps(one)).forward["model"]
    np.testing.assert_array_equal(model(np.ones((2, 2))), one.forward["model"](np.ones((2, 2))))


def test_each_number_of_rows_up_to_a_power_of_two_is_compiled_once() -> None:
    traced = []

    def counted(theta):
        traced.append(1)
        return decay(theta)

    model = iv.from_jax(counted)
    for rows in (5, 6, 7, 8, 5):
        model(np.ones((rows, 2)))
    assert len(traced) == 1


def test_single_precision_is_said_and_what_is_wrong_refused() -> None:
    jax.config.update("jax_enable_x64", False)
    with pytest.warns(UserWarning, match=r'single precision.*jax.config.update\("jax_enable_x64", True\)'):
        model = iv.from_jax(lambda theta: theta[0] * jax.numpy.arange(3.0))
    assert model.derivative_error > 0.0 and model(np.ones((2, 2))).dtype == np.float64
    with pytest.raises(ValueError, match="function must be"):
        iv.from_jax(3)
