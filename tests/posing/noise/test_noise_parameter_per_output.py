"""A list of scales, one for each entry of the data's last axis, and noises by label."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import invsamp as iv

PRIOR = iv.Prior(a=iv.LogNormal(0, 1), s=iv.LogNormal(0, 1), r=iv.LogNormal(0, 1), c=2.0)
DATA = np.array([[1.0, 2.0, 0.5, 0.7], [0.9, 1.8, np.nan, 0.6]])
THETA = np.array([[1.2, 0.4, 0.7], [0.9, 0.3, 0.2]])


def forward(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    powers = np.array([1.0, 2.0, 0.5, -1.0] * 2)
    y = theta[:, :1] ** powers
    return y, (powers * y / theta[:, :1])[:, :, None]


class Powers:
    parameters = ("a",)

    def __call__(self, theta):
        return forward(theta)[0]

    def linearize(self, theta):
        y, jacobian = forward(theta)
        return y, lambda cotangent: np.matmul(cotangent[:, None, :], jacobian)[:, 0]


def scales(theta: np.ndarray, y: np.ndarray) -> np.ndarray:
    a, s, r = theta.T[:, :, None]
    return np.concatenate([s, s * 2.0 + 0 * a, np.full_like(s, 0.3), r * s + 0.1 * y[:, 3::4][:, :1]], axis=1)


@pytest.fixture
def posterior():
    noise = iv.GaussianNoise(["s", "s*c", 0.3, "r*s + 0.1*y"])
    return iv.Posterior(PRIOR, forward=Powers(), data=DATA, noise=noise)


def test_log_likelihood(posterior):
    y = forward(THETA)[0]
    wanted = stats.norm(y, np.tile(scales(THETA, y), 2)).logpdf(DATA.ravel()).reshape(2, 2, 4)
    np.testing.assert_allclose(posterior.log_likelihood(THETA), np.where(np.isnan(DATA), 0.0, wanted), rtol=1e-12)


def test_gradient(posterior):
    potential = posterior.potential()
    u = posterior.to_position(THETA)
    gradient = potential.energy_and_gradient(u)[1]
    for j in range(3):
        h = 1e-5 * np.eye(3)[j]
        slope = (potential.energy(u + h) - potential.energy(u - h)) / 2e-5
        np.testing.assert_allclose(gradient[:, j], slope, rtol=1e-7)


def test_names_and_numbers_alone_are_those_of_one_noise_each():
    listed = iv.Posterior(PRIOR, forward=Powers(), data=DATA, noise=iv.GaussianNoise(["s", 0.2, "r", "s"]))
    noises = {name: iv.GaussianNoise(scale) for name, scale in zip("abcd", ["s", 0.2, "r", "s"], strict=True)}
    apart = iv.Posterior(PRIOR, forward=Powers(), data=DATA, noise=iv.Outputs(**noises))
    u = listed.to_position(THETA)
    for ours, theirs in zip(
        listed.potential().energy_and_gradient(u), apart.potential().energy_and_gradient(u), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_predictive_draws_have_these_scales(posterior):
    theta = np.repeat(THETA[:1], 4000, axis=0)
    y = posterior.predict(theta)
    drawn = posterior.sample_noise(np.random.default_rng(0), y, theta)
    sd = (drawn - y).std(axis=0)
    wanted = np.tile(scales(THETA[:1], forward(THETA[:1])[0]), 2).reshape(2, 4)
    assert (np.abs(sd / wanted - 1.0) < 6.0 / np.sqrt(2 * 4000)).all()


def test_labels():
    labels = ["g", "l", "g", "g"]
    noises = {"g": iv.GaussianNoise(["s", "c", 0.3]), "l": iv.LogNormalNoise("r")}
    noise = iv.Outputs.labeled(labels, noises)
    assert noise == iv.Outputs.labeled(tuple(labels), dict(noises)) != iv.Outputs(**noises)
    assert hash(noise) == hash(iv.Outputs.labeled(labels, noises))

    class Four(Powers):
        def __call__(self, theta):
            return forward(theta)[0][:, :4]

        def linearize(self, theta):
            y, jacobian = forward(theta)
            return y[:, :4], lambda cotangent: np.matmul(cotangent[:, None, :], jacobian[:, :4])[:, 0]

    posterior = iv.Posterior(PRIOR, forward=Four(), data=DATA[0], noise=noise)
    y = forward(THETA)[0][:, :4]
    wanted = np.stack(
        [
            stats.norm(y[:, 0], THETA[:, 1]).logpdf(1.0),
            stats.lognorm(THETA[:, 2], scale=y[:, 1]).logpdf(2.0),
            stats.norm(y[:, 2], 2.0).logpdf(0.5),
            stats.norm(y[:, 3], 0.3).logpdf(0.7),
        ],
        axis=1,
    )
    np.testing.assert_allclose(posterior.log_likelihood(THETA), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (["s", 0.1], "must have one entry for each of the data's last axis"),
        (["s", 0.1, "unknown", 1.0], r"scale\[2\] must use the prior's parameters"),
        (["s", 0.1, "s +", 1.0], r"scale\[2\] must be made of names"),
        (["s", -0.1, "s", 1.0], r"scale\[1\]"),
        (["s", [0.1, 0.2], "s", 1.0], r"scale"),
    ],
)
def test_wrong_lists(scale, message):
    with pytest.raises(ValueError, match=message):
        iv.Posterior(PRIOR, forward=Powers(), data=DATA, noise=iv.GaussianNoise(scale))


@pytest.mark.parametrize(
    ("labels", "noises", "message"),
    [
        (["a", "b"], {"a": iv.GaussianNoise(1.0)}, r"noises must be those of the labels \['a', 'b'\]"),
        (["a"], {"a": 1.0}, "a must be a noise"),
        ([1], {"a": iv.GaussianNoise(1.0)}, r"labels\[0\]"),
    ],
)
def test_wrong_labels(labels, noises, message):
    with pytest.raises(ValueError, match=message):
        iv.Outputs.labeled(labels, noises)
