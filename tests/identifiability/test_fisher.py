"""Fisher information: closed forms for some noises; directions without information; invalid points."""

from __future__ import annotations

import math

import numpy as np
import pytest

import invsamp as iv

SLOPES = np.random.default_rng(0).standard_normal((30, 3))
POINT = np.array([0.4, -0.2, 0.7])
PRIOR = iv.Prior(b=iv.Normal(0.0, 2.0, shape=3))
COVARIANCE = 0.3 * 0.6 ** np.abs(np.subtract.outer(np.arange(30), np.arange(30)))
GAUSSIAN = SLOPES.T @ SLOPES / 0.25


def line(theta):
    return theta[:, :3] @ SLOPES.T


LINEAR = iv.with_jacobian(line, lambda t: np.tile(SLOPES, (len(t), 1, 1)), parameters=["b"])
RATES = iv.with_jacobian(lambda t: np.exp(line(t)), lambda t: np.exp(line(t))[:, :, None] * SLOPES, parameters=["b"])

#: Model, data, noise, and what the information is.
CASES = {
    "gaussian": (LINEAR, np.zeros(30), iv.GaussianNoise(0.5), GAUSSIAN),
    # of Student's noise (nu + 1) / (nu + 3) times as much
    "student": (LINEAR, np.zeros(30), iv.StudentTNoise(4.0, 0.5), GAUSSIAN * 5 / 7),
    "counts": (RATES, np.ones(30), iv.PoissonNoise(), SLOPES.T @ (np.exp(SLOPES @ POINT)[:, None] * SLOPES)),
    "dependent": (
        *(LINEAR, np.zeros(30), iv.GaussianNoise(covariance=COVARIANCE)),
        SLOPES.T @ np.linalg.solve(COVARIANCE, SLOPES),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_closed_forms(name, agrees):
    """Means over 64 independent estimates; a wrong noise is rejected."""
    forward, data, noise, exact = CASES[name]
    posterior = iv.Posterior(PRIOR, forward, data, noise)
    rng, root = np.random.default_rng(5), np.linalg.inv(np.linalg.cholesky(exact))
    found = []
    # of data that depend on each other, a data set is one term and not thirty
    datasets = 40 if name == "dependent" else 10
    for seed in rng.integers(2**31, size=64):
        matrix = iv.information(posterior, {"b": POINT}, datasets=datasets, seed=int(seed)).matrix
        found.append((root @ matrix @ root.T)[np.tril_indices(3)])
    truth = np.eye(3)[np.tril_indices(3)]
    assert agrees(np.array(found), truth)
    assert not agrees(np.array(found), 1.3 * truth)


def product():
    """y = a b with noise of unknown size: data identify the product and the size."""
    prior = iv.Prior(a=iv.LogNormal(0.0, 1.0), b=iv.LogNormal(0.0, 1.0), sigma=iv.LogNormal(-2.0, 1.0))
    model = iv.with_jacobian(
        lambda t: np.repeat(t[:, :1] * t[:, 1:], 40, axis=1),
        lambda t: np.repeat(np.stack([t[:, 1:], t[:, :1]], axis=2), 40, axis=1),
        parameters=["a", "b"],
    )
    return iv.Posterior(prior, model, np.full(40, 2.0), iv.GaussianNoise("sigma"))


def test_a_direction_that_is_not_reported():
    found = iv.information(product(), {"a": 0.5, "b": 4.0, "sigma": 0.2}, datasets=400, seed=1)
    assert found.labels == ("a", "b", "sigma") and found.informed == 2
    # of log(a b) 40 (2 / .2)^2, of log(sigma) 2 for each datum; of 16,000 terms the errors are .01 to .03
    sizes = np.sqrt([4000.0, 4000.0, 80.0])
    exact = [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    np.testing.assert_allclose(found.matrix / np.outer(sizes, sizes), exact, atol=0.2)
    assert found.values[2] < 1e-6
    flat = found.directions[2] * found.scale  # in which log(a) rises as log(b) falls
    np.testing.assert_allclose(flat / flat[0], [1.0, -1.0, 0.0], atol=1e-6)
    sds = found.standard_deviations()
    assert sds["a"] == sds["b"] == math.inf and sds["sigma"] == pytest.approx(1 / math.sqrt(80), rel=0.1)
    assert "the data inform 2 of 3 directions" in str(found) and "(the prior)" in str(found).splitlines()[-1]
    assert len(found.plot().axes) == 2


def test_the_model_is_solved_once_and_the_mode_is_the_default():
    solved = []

    def counted(theta):
        solved.append(len(theta))
        return line(theta)

    forward = iv.with_jacobian(counted, lambda t: np.tile(SLOPES, (len(t), 1, 1)), parameters=["b"])
    posterior = iv.Posterior(PRIOR, forward, SLOPES @ POINT, iv.GaussianNoise(0.5))
    modes = iv.maximize(posterior, starts=2, seed=1)
    before = len(solved)
    found = iv.information(posterior, modes, seed=1)
    assert len(solved) <= before + 3  # is the point good, what would data be, and derivatives
    np.testing.assert_array_equal(found.theta["b"], modes.theta[0])
    default = iv.information(posterior, seed=1)
    np.testing.assert_allclose(default.theta["b"], modes.theta[0], atol=1e-4)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({"a": 0.5, "b": 4.0}, "sigma"),
        ({"a": 0.5, "b": 4.0, "sigma": 0.2, "c": 1.0}, "'c'"),
        ({"a": -0.5, "b": 4.0, "sigma": 0.2}, r"at must lie within the prior.*a=-0\.5"),
        ({"a": [0.5, 0.6], "b": 4.0, "sigma": 0.2}, "at must be one point, got 2"),
    ],
)
def test_bad_points(at, message):
    with pytest.raises(ValueError, match=message):
        iv.information(product(), at)


def test_a_density_without_data_is_refused():
    posterior = iv.Posterior(PRIOR, log_likelihood=lambda t: (-0.5 * (t**2).sum(axis=1), -t))
    with pytest.raises(ValueError, match="posterior must have a forward model and data"):
        iv.information(posterior, {"b": POINT})
