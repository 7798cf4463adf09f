"""Draws as a prior: of two modes and bounded parameters, measured by held-out draws, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import invsamp as iv
from invsamp.posing.distributions.bounded_mixture import BoundedMixture
from invsamp.results.fitted_prior import fit_draws


def run_of(theta: np.ndarray, shapes: dict, limits: dict | None = None) -> iv.Run:
    draws = theta.reshape(1, 4, -1, theta.shape[1])
    report = {"posed": {"limits": limits or {}}}
    return iv.Run.from_arrays(None, shapes, draws, {"energy": np.zeros(draws.shape[1:3])}, report)


def test_bounds_and_gradient() -> None:
    mixture = iv.distributions.GaussianMixture(
        [1, 2], [[0.0, 1.0, 0.5], [1.0, 0.0, -0.5]], [np.eye(3), 0.5 * np.eye(3)]
    )
    found = BoundedMixture(mixture, [-np.inf, 0.0, 1.0], [np.inf, np.inf, 3.0])
    x = found.sample(np.random.default_rng(0), 5)
    logit = np.log(x[:, 2] - 1) - np.log(3 - x[:, 2])
    jacobian = -np.log(x[:, 1]) + np.log(2.0) - np.log(x[:, 2] - 1) - np.log(3 - x[:, 2])
    expected = mixture.log_density(np.stack([x[:, 0], np.log(x[:, 1]), logit], axis=1)) + jacobian
    np.testing.assert_allclose(found.log_density(x), expected, rtol=1e-10)
    h = 1e-6 * np.eye(3)
    differences = [(found.log_density(x + s) - found.log_density(x - s)) / 2e-6 for s in h]
    np.testing.assert_allclose(found.gradient(x), np.stack(differences, axis=1), rtol=1e-5, atol=1e-6)


def test_two_modes_are_kept_and_one_gaussian_is_called_poor(within) -> None:
    rng = np.random.default_rng(3)
    signs = np.where(rng.random(6000) < 0.5, 1.0, -1.0)
    theta = np.stack([3 * signs + rng.normal(size=6000), np.exp(0.5 * signs + 0.2 * rng.normal(size=6000))], axis=1)
    mixture, fit = fit_draws(theta, ("x", "k"), (np.array([-np.inf, 0.0]), np.full(2, np.inf)), 0)
    assert fit.components > 1 and fit.good and within(fit.distance, fit.expected)
    assert fit.gain > 0.5  # of one Gaussian
    again = mixture.sample(rng, 20_000)
    assert abs(np.mean(again[:, 0] > 0) - 0.5) < 0.05 and np.all(again[:, 1] > 0)
    assert stats.ks_2samp(again[:, 1], theta[:, 1]).statistic < 0.05
    # control: the same draws by one Gaussian, which is all that few of them allow
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("invsamp.results.fitted_prior.COMPONENTS", (1,))
        _, poor = fit_draws(theta, ("x", "k"), (np.array([-np.inf, 0.0]), np.full(2, np.inf)), 0)
    assert (
        not poor.good
        and not within(poor.distance, poor.expected)
        and poor.worst in ("x", "k", "a combination of parameters")
    )


def test_a_run_has_its_parameters_in_the_prior() -> None:
    rng = np.random.default_rng(1)
    theta = rng.multivariate_normal(np.zeros(3), [[1, 0.8, 0], [0.8, 1, 0], [0, 0, 1]], 4000)
    theta[:, 2] = np.exp(theta[:, 2])
    run = run_of(theta, {"x": (2,), "k": ()}, {"k": [[0.0], [np.inf]]})
    prior = run.as_prior()
    assert prior.labels == ("x[0]", "x[1]", "k") and prior.support[0].tolist() == [-np.inf, -np.inf, 0.0]
    draws = prior.sample(rng, 20_000)
    assert np.corrcoef(draws[:, :2].T)[0, 1] == pytest.approx(0.8, abs=0.03)
    assert "component" in str(prior.fit) and prior.fit.held_out > 500
    assert run.as_prior(["k"]).names == ("k",)
    posterior = iv.Posterior(prior, iv.finite_differences(lambda t: t[:, :2]), [1.0, 1.0], iv.GaussianNoise(1.0))
    assert posterior.check_gradient().passed


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
def test_limits_come_from_the_posterior() -> None:
    prior = iv.Prior(a=iv.LogNormal(0, 1), b=iv.Uniform(-1, 2), w=iv.distributions.Dirichlet([1, 1, 1]))
    posterior = iv.Posterior(prior, iv.finite_differences(lambda t: t), np.full(4, 0.3), iv.GaussianNoise(0.1))
    run = iv.sample(posterior, iv.pcn(), draws=400, seed=1, progress=False, check_gradient=False)
    with pytest.raises(ValueError, match=r"does not support \['w'\].*leave them out by names="):
        run.as_prior()
    found = run.as_prior(["a", "b"])
    assert [end.tolist() for end in found.support] == [[0.0, -1.0], [np.inf, 2.0]]
    with pytest.raises(ValueError, match="names must be"):
        run.as_prior(["c"])


def test_too_few_draws_are_refused() -> None:
    theta = np.random.default_rng(0).normal(size=(16, 2))
    with pytest.raises(ValueError, match="as_prior needs at least 40 effective draws of 2 parameters, got"):
        run_of(theta, {"x": (), "y": ()}).as_prior()
