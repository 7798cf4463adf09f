"""Log-likelihoods against scipy.stats, derivatives against finite differences, fresh data against the CDF."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from targets import kolmogorov

from invsamp.posing.distributions.univariate import HalfNormal, LogNormal, Normal
from invsamp.posing.noise.base import Noise
from invsamp.posing.noise.bound_likelihood import BoundNoise
from invsamp.posing.noise.continuous import GaussianNoise, LogNormalNoise, StudentTNoise
from invsamp.posing.noise.laplace import LaplaceNoise, LogLaplaceNoise
from invsamp.posing.priors.joint_prior import Prior

NOISES = {
    "gaussian": (GaussianNoise(1.0), lambda y, s: stats.norm(y, s)),
    "log_normal": (LogNormalNoise(1.0), lambda y, s: stats.lognorm(s, scale=y)),
    "laplace": (LaplaceNoise(1.0), lambda y, s: stats.laplace(y, s)),
    "log_laplace": (LogLaplaceNoise(1.0), lambda y, s: stats.loglaplace(1 / s, scale=y)),
    "student_t": (StudentTNoise(3.5, 1.0), lambda y, s: stats.t(3.5, y, s)),
}


def example(batch: int = 3, m: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(0.5, 3.0, (batch, m)), rng.uniform(0.5, 3.0, m), rng.uniform(0.3, 2.0, (batch, m))


@pytest.mark.parametrize("name", NOISES)
def test_log_likelihood_is_that_of_scipy(name: str) -> None:
    noise, reference = NOISES[name]
    y, data, scale = example()
    np.testing.assert_allclose(noise.log_likelihood(y, data, scale), reference(y, scale).logpdf(data), rtol=1e-12)


@pytest.mark.parametrize("name", NOISES)
def test_derivatives_by_finite_differences(name: str) -> None:
    noise, _ = NOISES[name]
    y, data, scale = example()
    h = 1e-6
    _, by_y, by_scale = noise.evaluate(y, data, scale)
    up, down = noise.log_likelihood(y + h, data, scale), noise.log_likelihood(y - h, data, scale)
    np.testing.assert_allclose(by_y, (up - down) / (2 * h), rtol=1e-6, atol=1e-7)
    up, down = noise.log_likelihood(y, data, scale + h), noise.log_likelihood(y, data, scale - h)
    np.testing.assert_allclose(by_scale, (up - down) / (2 * h), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", NOISES)
def test_fresh_data_follow_the_noise(within, name: str) -> None:
    noise, reference = NOISES[name]
    y, scale = np.full((1, 40_000), 2.0), np.full((1, 40_000), 0.4)
    draws = noise.sample(np.random.default_rng(4), y, scale)
    assert draws.shape == y.shape
    # the control has a scale wrong by a fifth
    assert within(*kolmogorov(draws[0], reference(2.0, 0.4).cdf))
    assert not within(*kolmogorov(draws[0], reference(2.0, 0.5).cdf))


def test_observations_that_log_normal_noise_cannot_explain() -> None:
    noise = LogNormalNoise(0.5)
    y = np.array([[1.0, 0.0, -1.0, np.nan]])
    value, by_y, by_scale = noise.evaluate(y, np.ones(4), np.full((1, 4), 0.5))
    assert np.isfinite(value[0, 0]) and value[0, 1] == value[0, 2] == -np.inf
    assert by_y[0, 1] == by_y[0, 2] == by_scale[0, 1] == by_scale[0, 2] == 0.0
    # a failed solve is not taken for a point of zero density
    assert np.isnan(value[0, 3])


def test_many_degrees_of_freedom_are_gaussian() -> None:
    y, data, scale = example()
    np.testing.assert_allclose(
        StudentTNoise(1e9, 1.0).log_likelihood(y, data, scale),
        GaussianNoise(1.0).log_likelihood(y, data, scale),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("data_shape", "scale_shape"),
    [((6,), ()), ((6,), (6,)), ((3, 2), (2,)), ((3, 2), (3, 1)), ((3, 2), (1, 2)), ((), ())],
)
@pytest.mark.parametrize("family", [GaussianNoise, LogNormalNoise, lambda scale: StudentTNoise(4.0, scale)])
def test_unknown_scale_is_read_from_theta(family: object, data_shape: tuple, scale_shape: tuple) -> None:
    rng = np.random.default_rng(1)
    prior = Prior(a=Normal(0, 1), s=LogNormal(0, 0.3, shape=scale_shape), b=Normal(0, 1))
    data = np.asarray(rng.uniform(0.5, 2.0, data_shape))
    theta = prior.sample(rng, 4)
    y = rng.uniform(0.5, 2.0, (4, data.size))
    bound = BoundNoise(family("s"), data, prior)
    scale = np.stack([np.broadcast_to(s, data_shape).ravel() for s in prior.unpack(theta)["s"]])
    expected = family(1.0).log_likelihood(y, data.ravel(), scale)
    np.testing.assert_allclose(bound.log_likelihood(theta, y), expected)

    value, slope = np.zeros(4), np.zeros(theta.shape)
    by_y = bound.accumulate(theta, y, value, slope)
    np.testing.assert_allclose(value, expected.sum(axis=1))
    np.testing.assert_allclose(by_y, family(1.0).evaluate(y, data.ravel(), scale)[1])
    h = 1e-6
    for column in range(theta.shape[1]):
        move = h * np.eye(theta.shape[1])[column]
        up, down = (bound.log_likelihood(theta + by, y).sum(axis=1) for by in (move, -move))
        np.testing.assert_allclose(slope[:, column], (up - down) / (2 * h), rtol=1e-5, atol=1e-6)


def test_own_noise_is_used_as_it_is() -> None:
    class Laplace(Noise):
        def __init__(self, scale: float | str) -> None:
            self.scale = scale

        @property
        def quantities(self) -> dict[str, object]:
            return {"scale": self.scale}

        def evaluate(self, y: np.ndarray, data: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, ...]:
            z = np.abs(data - y) / scale
            return -z - np.log(2 * scale), np.sign(data - y) / scale, (z - 1) / scale

        def sample(self, rng: np.random.Generator, y: np.ndarray, scale: np.ndarray) -> np.ndarray:
            return y + rng.laplace(scale=scale, size=y.shape)

    prior = Prior(s=HalfNormal(1.0))
    bound = BoundNoise(Laplace("s"), np.array([1.0, 2.0]), prior)
    value, slope = np.zeros(1), np.zeros((1, 1))
    by_y = bound.accumulate(np.array([[0.5]]), np.array([[0.0, 3.0]]), value, slope)
    np.testing.assert_allclose(value, stats.laplace(scale=0.5).logpdf([1.0, -1.0]).sum())
    np.testing.assert_allclose(by_y, [[2.0, -2.0]])
    np.testing.assert_allclose(slope, [[4.0]])


def test_noises_compare_and_print() -> None:
    assert GaussianNoise(np.array([1.0, 2.0])) == GaussianNoise((1.0, 2.0)) != GaussianNoise("s")
    assert repr(StudentTNoise(4, "s")) == "StudentTNoise(degrees_of_freedom=4.0, scale='s')"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda p: GaussianNoise(0.0),
            "scale must be positive finite numbers, or the name of a parameter or a formula, got 0.0",
        ),
        (lambda p: StudentTNoise(-1, 1.0), "degrees_of_freedom must be a positive finite number, got -1"),
        (lambda p: BoundNoise(GaussianNoise("q"), np.ones(2), p), r"scale must use the prior's parameters .*\['q'\]"),
        (lambda p: BoundNoise(GaussianNoise("a"), np.ones(2), p), "a is the scale of the noise: its prior must"),
        (lambda p: BoundNoise(GaussianNoise("v"), np.ones(2), p), r"data's shape \(2,\), got shape \(3,\)"),
        (lambda p: BoundNoise(GaussianNoise([1, 2, 3]), np.ones(2), p), r"data's shape \(2,\), got shape \(3,\)"),
        (lambda p: BoundNoise(GaussianNoise(1), np.array([1, np.inf]), p), r"finite, got inf at index \(1,\)"),
        (lambda p: BoundNoise(LogNormalNoise(1), np.array([1.0, 0.0]), p), r"positive .* got 0 at index \(1,\)"),
        (lambda p: GaussianNoise([1.0, 1e-150]), "scale must be at least 1e-70, got 1e-150: .* in other units"),
        (lambda p: StudentTNoise(3.0, ["sd", 1e-150]), "scale must be at least 1e-70, got 1e-150"),
        (lambda p: BoundNoise(GaussianNoise(1), np.array([1.0, -1e200]), p), r"data must be at most .*, got -1e\+200"),
        (lambda p: BoundNoise(GaussianNoise(1), np.ones((0, 2)), p), "data must hold at least one number"),
        (lambda p: BoundNoise(0.1, np.ones(2), p), r"noise must be a noise such as GaussianNoise\(0.1\), got 0.1"),
    ],
)
def test_bad_input(make: object, message: str) -> None:
    prior = Prior(a=Normal(0, 1), v=HalfNormal(1.0, shape=3))
    with pytest.raises(ValueError, match=message):
        make(prior)
