"""A noise of its own for each output."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import invsamp as iv

TIMES = np.arange(5.0)
DATA = np.array([[30.0, 4.0, 0.2], [21.0, 6.0, 0.1], [14.0, 9.0, -0.3], [11.0, 7.0, 0.4], [8.0, 12.0, 0.0]])
PRIOR = iv.Prior(
    a=iv.LogNormal(3, 0.3),
    b=iv.HalfNormal(0.5),
    s=iv.LogNormal(-1, 0.5, shape=5),
    t=iv.HalfNormal(1),
    c=iv.HalfNormal(1),
)


def states(theta):
    decay = theta[:, :1] * np.exp(-theta[:, 1:] * TIMES)
    return np.stack([decay, 0.5 * decay[:, ::-1], decay - decay.mean(axis=1, keepdims=True)], axis=2).reshape(-1, 15)


NOISE = iv.Outputs(hares=iv.LogNormalNoise("s"), lynx=iv.NegativeBinomialNoise("c"), rest=iv.StudentTNoise(4, "t * b"))


def posterior(noise=NOISE, data=DATA):
    return iv.Posterior(PRIOR, iv.finite_differences(states, parameters=("a", "b")), data, noise)


def by_hand(theta):
    y = states(theta[:, :2]).reshape(-1, 5, 3)
    value = np.empty(y.shape)
    value[..., 0] = stats.lognorm(theta[:, 2:7], scale=y[..., 0]).logpdf(DATA[:, 0])
    a = theta[:, 8:]
    value[..., 1] = stats.nbinom(1 / a, 1 / (1 + a * y[..., 1])).logpmf(DATA[:, 1])
    value[..., 2] = stats.t(4, y[..., 2], theta[:, 7:8] * theta[:, 1:2]).logpdf(DATA[:, 2])
    return value


def test_likelihood_gradient_and_terms() -> None:
    whole = posterior()
    theta = PRIOR.sample(np.random.default_rng(0), 4)
    np.testing.assert_allclose(whole.log_likelihood(theta), by_hand(theta), rtol=1e-9)
    position, potential = whole.to_position(theta), whole.potential()
    energy, gradient = potential.energy_and_gradient(position)
    prior = -whole.log_prior(theta) - whole.coordinates.evaluate(position).log_jacobian
    np.testing.assert_allclose(energy, prior - by_hand(theta).sum(axis=(1, 2)))
    check = whole.check_gradient()
    assert check.passed, check
    indices = np.stack([np.random.default_rng(i).permutation(15) for i in range(4)])
    terms = potential.terms(position, indices)
    np.testing.assert_allclose(
        -terms.energies, np.take_along_axis(by_hand(theta).reshape(4, 15), indices, 1), rtol=1e-9
    )
    np.testing.assert_allclose(terms.prior_gradient + terms.gradients.sum(axis=1), gradient, rtol=1e-5, atol=1e-6)


def test_what_is_missing_does_not_count() -> None:
    masked = np.ma.array(DATA, mask=np.zeros((5, 3)))
    masked[2, 0] = masked[:, 1] = np.ma.masked
    theta = PRIOR.sample(np.random.default_rng(0), 4)
    wanted = np.where(np.ma.getmaskarray(masked), 0.0, by_hand(theta))
    found = posterior(data=masked)
    np.testing.assert_allclose(found.log_likelihood(theta), wanted, rtol=1e-9)
    assert found.potential().size == 9


def test_each_output_is_predicted_with_its_noise(within) -> None:
    theta = np.tile(PRIOR.sample(np.random.default_rng(0), 1), (20_000, 1))
    whole = posterior()
    y = whole.predict(theta)
    noisy = whole.sample_noise(np.random.default_rng(1), y, theta)
    lynx = noisy[..., 1]
    assert np.array_equal(lynx, np.floor(lynx)) and (noisy[..., 0] > 0).all()
    logs = (np.log(noisy[..., 0] / y[..., 0]).std(axis=0) / theta[0, 2:7] - 1) * np.sqrt(40_000)
    mean = (lynx.mean(axis=0) - y[0, :, 1]) / (lynx.std(axis=0) / np.sqrt(20_000))
    assert within(np.concatenate([logs, mean]), 5.0)
    # the scales of other times
    assert not within((np.log(noisy[..., 0]).std(axis=0) / theta[0, 6:1:-1] - 1) * np.sqrt(40_000), 5.0)


def test_outputs_compare_and_print() -> None:
    assert iv.Outputs(a=iv.PoissonNoise()) == iv.Outputs(a=iv.PoissonNoise()) != iv.Outputs(b=iv.PoissonNoise())
    assert repr(iv.Outputs(a=iv.GaussianNoise("s"))) == "Outputs(a=GaussianNoise(scale='s'))"
    assert "Outputs(hares=" in repr(posterior())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iv.Outputs(), "noises must hold at least one output, got none"),
        (lambda: iv.Outputs(a=1.0), "a must be a noise such as"),
        (
            lambda: posterior(iv.Outputs(a=iv.PoissonNoise())),
            r"data must have 1 entries along their last axis.*\['a'\]",
        ),
        (
            lambda: posterior(iv.Outputs(a=iv.GaussianNoise(1), b=iv.GaussianNoise(1), c=iv.PoissonNoise())),
            r"data must be counts.* under PoissonNoise, got 0.2 at index \(0,\) of c",
        ),
        (
            lambda: posterior(iv.Outputs(a=iv.GaussianNoise("q"), b=iv.PoissonNoise(), c=iv.GaussianNoise(1))),
            r"a.scale must use the prior's parameters .* got \['q'\]",
        ),
    ],
)
def test_bad_input(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()
