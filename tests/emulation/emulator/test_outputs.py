"""Outputs in units of the noise, and the principal components that stand for them."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.emulation.emulator.outputs import (
    LEFT_OUT,
    OutputScale,
    output_scale,
    principal_components,
)

RNG = np.random.default_rng(0)


def scale_of(outputs: int) -> OutputScale:
    return OutputScale(np.ones(outputs), np.full(outputs, "identity"), np.full(outputs, -np.inf))


def with_sds(sds: np.ndarray, points: int = 80) -> np.ndarray:
    """Outputs (points, m) whose principal components have these sds."""
    values = RNG.standard_normal((points, len(sds)))
    left = np.linalg.qr(values - values.mean(axis=0))[0] * np.sqrt(points)
    return (left * sds) @ np.linalg.qr(RNG.standard_normal((len(sds), len(sds))))[0]


@pytest.mark.parametrize(
    ("sds", "kept"),
    [
        (np.array([5.0, 1.0, 0.025, 0.01, 0.001]), 2),  # what is left out has an sd of .027
        (np.concatenate([[5.0, 1.0], np.full(40, 0.02)]), 40),  # two of these have .028, three .035
    ],
)
def test_what_is_left_out_is_small_however_many_components_there_are(sds: np.ndarray, kept: int) -> None:
    eta = with_sds(sds)
    components, values = principal_components(eta, scale_of(len(sds)))
    assert len(components.rows) == kept
    rest = eta - components.decode(values).y
    assert np.sqrt(np.square(rest).sum(axis=1).mean()) <= LEFT_OUT


def test_one_component_is_always_kept() -> None:
    components, values = principal_components(np.zeros((6, 3)), scale_of(3))
    assert components.rows.shape == (1, 3)
    assert not values.any()


def test_what_is_decoded_can_be_whatever_the_emulator_predicts() -> None:
    """So that no error of the emulator cuts off a part of the posterior."""
    links = ["identity", "log", "root", "arcsine"]
    scale = OutputScale(np.array([2.0, 0.3, 0.5, 0.2]), np.array(links), np.array([-np.inf, 1e-9, -np.inf, -np.inf]))
    y = np.array([[-3.0, 2.0, 0.0, 0.0], [1.0, 1e-3, 40.0, 1.0], [0.0, 7.0, 0.2, 0.3]])
    assert scale.decode(scale.encode(y)).y == pytest.approx(y)
    eta = 5.0 * RNG.standard_normal((200, 4))
    found, step = scale.decode(eta), 1e-5
    assert (found.y[:, 1:] >= 0.0).all()
    assert (found.y[:, 3] <= 1.0).all()
    up, down = scale.decode(eta + step), scale.decode(eta - step)
    assert found.slope == pytest.approx((up.y - down.y) / (2.0 * step), rel=1e-6, abs=1e-6)
    assert found.bend == pytest.approx((up.slope - down.slope) / (2.0 * step), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("noise", "link", "sd"),
    [
        (iv.PoissonNoise(), "root", 0.5),
        (iv.BinomialNoise(25), "arcsine", 0.1),
        (iv.CensoredNoise(iv.LogNormalNoise(0.3), upper=100.0), "log", 0.3),
        (iv.TruncatedNoise(iv.LogNormalNoise(0.3), upper=100.0), "log", 0.3),
        (iv.MixtureNoise(iv.LogNormalNoise(0.3), iv.LogNormalNoise(2.0), 0.01), "log", 0.3),
        (iv.noise.LogLaplaceNoise(0.3), "log", 0.3),
        (iv.GaussianNoise(0.3), "identity", 0.3),
    ],
)
def test_noise_is_as_large_everywhere_after_its_link(noise: iv.extending.Noise, link: str, sd: float) -> None:
    """Scales are taken from draws, within their errors, and for data of which all draws are alike from the others."""
    data = [9, 16, 12, 20, 9]
    target = iv.Posterior(iv.Prior(a=iv.Normal(0.0, 1.0)), lambda a: np.tile(a, 5), data, noise)
    bound = target._posed["model"].noise
    scale = output_scale(bound, np.zeros((10, 1)), np.random.default_rng(0))
    assert list(scale.link) == [link] * 5
    assert scale.scale == pytest.approx(np.full(5, sd), rel=0.3)
    exact = bound.saturated(np.zeros((1, 1)))
    assert exact == pytest.approx(np.array([data]) / (25.0 if link == "arcsine" else 1.0))


def test_outputs_in_other_units_have_scales_of_their_own() -> None:
    """Noise that grows with its output is no smaller at a datum near zero than in others."""
    prior, data = iv.Prior(a=iv.Normal(0.0, 1.0)), [1e6, 2e6, 1e-8, 2e-8]
    found = []
    for noise in (iv.GaussianNoise([3e4, 3e4, 3e-10, 3e-10]), iv.GaussianNoise("0.1 * y")):
        bound = iv.Posterior(prior, lambda a: np.tile(a, 4), data, noise)._posed["model"].noise
        found.append(output_scale(bound, np.zeros((10, 1)), np.random.default_rng(0)).scale)
    assert found[0] == pytest.approx([3e4, 3e4, 3e-10, 3e-10], rel=0.2)
    assert (found[1] > 1e4).all()


def test_means_below_zero_are_failed_simulations() -> None:
    noise = iv.Outputs.labeled(
        ["a", "b", "c"], {"a": iv.PoissonNoise(), "b": iv.GaussianNoise(1.0), "c": iv.BinomialNoise(3)}
    )
    target = iv.Posterior(iv.Prior(a=iv.Normal(0.0, 1.0)), lambda a: np.tile(a, 3), [1.0, 1.0, 1.0], noise)
    y = np.array([[1.0, -2.0, 0.5], [-1.0, 2.0, 0.5], [1.0, 2.0, 1.1], [np.nan, 1.0, 0.5]])
    assert target._posed["model"].noise.possible(y).tolist() == [True, False, False, False]
