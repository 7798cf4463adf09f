"""Profile likelihoods: intervals in closed form, walls, parameters that data do not tell apart, fits that fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, norm

import invsamp as iv

SLOPES = np.random.default_rng(0).standard_normal((12, 3))
DATA = np.random.default_rng(1).standard_normal(12)


def linear(prior):
    model = iv.with_jacobian(lambda t: t @ SLOPES.T, lambda t: np.tile(SLOPES, (len(t), 1, 1)))
    return iv.Posterior(prior, model, DATA, iv.GaussianNoise(0.5))


def product(upper, failing=np.inf, **settings):
    """y = a b: data tell the product alone. Solves fail where a is above ``failing``."""

    def function(t):
        y = t[:, :1] * t[:, 1:]
        return np.where(t[:, :1] > failing, np.nan, y)

    model = iv.with_jacobian(function, lambda t: np.stack([t[:, 1:], t[:, :1]], axis=2))
    prior = iv.Prior(a=iv.Uniform(0.5, upper), b=iv.Normal(1.0, 10.0))
    return iv.Posterior(prior, model, [2.0], iv.GaussianNoise(0.1), **settings)


@pytest.fixture(scope="module")
def found():
    return iv.profile(linear(iv.Prior(b=iv.Normal(0.0, 1.0, shape=3))), level=0.99, seed=1)


class TestIntervals:
    def closed_form(self, precision, right, level):
        covariance = np.linalg.inv(precision)
        return covariance @ right, np.sqrt(np.diag(covariance)) * norm.isf(0.5 * (1.0 - level))

    @pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
    def test_of_a_linear_model(self, found, level):
        mean, half = self.closed_form(4.0 * SLOPES.T @ SLOPES, 4.0 * SLOPES.T @ DATA, level)
        for k, interval in enumerate(found.intervals(level).values()):
            assert interval.low == pytest.approx(mean[k] - half[k], abs=0.02 * half[k])
            assert interval.high == pytest.approx(mean[k] + half[k], abs=0.02 * half[k])
            assert interval[2:] == ("reached", "reached")

    def test_with_the_prior(self):
        posterior = linear(iv.Prior(b=iv.Normal(0.0, 0.2, shape=3)))
        found = iv.profile(posterior, ["b[1]"], of="posterior", seed=1)
        precision = 4.0 * SLOPES.T @ SLOPES + 25.0 * np.eye(3)
        mean, half = self.closed_form(precision, 4.0 * SLOPES.T @ DATA, 0.95)
        interval = found.intervals()["b[1]"]
        assert interval.low == pytest.approx(mean[1] - half[1], abs=0.02 * half[1])
        assert interval.high == pytest.approx(mean[1] + half[1], abs=0.02 * half[1])

    def test_the_others_are_fitted_anew(self, found):
        one = found["b[0]"]
        rest = np.linalg.lstsq(SLOPES[:, 1:], DATA[:, None] - SLOPES[:, :1] * one.values, rcond=None)[0].T
        np.testing.assert_allclose(one.theta[:, 1:], rest, atol=0.02)

    def test_points_are_near_each_other(self, found):
        rises = np.diff(found["b[0]"].energies)
        assert np.abs(rises).max() < 0.6 * 0.5 * chi2.ppf(0.99, 1)
        assert (np.diff(found["b[0]"].values) > 0.0).all()

    def test_prints_and_draws(self, found):
        assert "profile likelihood, intervals at 99%" in str(found)
        assert len(found.plot().axes) == 3
        assert len(found.plot(["b[2]"]).axes) == 1

    def test_not_beyond_what_was_walked(self, found):
        with pytest.raises(ValueError, match=r"level must be at most 0\.99, to which profiles go, got 0\.999"):
            found.intervals(0.999)

    def test_begins_at_modes_that_are_known(self):
        posterior = linear(iv.Prior(b=iv.Normal(0.0, 1.0, shape=3)))
        modes = iv.maximize(posterior, starts=2, seed=1)
        with_modes = iv.profile(posterior, ["b[0]"], modes=modes, seed=1)
        assert with_modes.evaluations < 500
        assert with_modes.lower < 0.01


class TestWhatDataDoNotTell:
    def test_walls_end_the_walks(self):
        found = iv.profile(product(4.0), ["a"], seed=1)
        interval = found.intervals()["a"]
        assert interval[2:] == ("wall", "wall")
        assert interval.low < 0.55 and interval.high > 3.9
        assert np.ptp(found["a"].energies) < 0.01
        assert "(below at a wall, above at a wall)" in str(found)

    def test_points_are_near_each_other_where_the_best_is_at_a_wall(self):
        """There is no Gaussian there that tells how long a first step may be."""
        model = iv.with_jacobian(lambda t: t.copy(), lambda t: np.tile(np.eye(2), (len(t), 1, 1)))
        prior = iv.Prior(a=iv.Uniform(0.0, 1.0), b=iv.Uniform(-1000.0, 1000.0))
        posterior = iv.Posterior(prior, model, [-0.1, 3.0], iv.GaussianNoise(0.1))
        one = iv.profile(posterior, ["b"], seed=1)["b"]
        assert np.abs(np.diff(one.energies)).max() < 0.6 * 0.5 * chi2.ppf(0.95, 1)
        interval = one.interval(0.95)
        half = 0.1 * norm.isf(0.025)
        assert interval.low == pytest.approx(3.0 - half, abs=0.02 * half)
        assert interval.high == pytest.approx(3.0 + half, abs=0.02 * half)

    def test_logits_are_walls_again(self):
        found = iv.profile(product(4.0, transforms={"a": "logit"}), ["a"], seed=1)
        interval = found.intervals()["a"]
        assert interval[2:] == ("wall", "wall")
        assert interval.low < 0.55 and interval.high > 3.9
        assert np.ptp(found["a"].energies) < 0.01

    def test_fits_that_fail_are_told(self):
        found = iv.profile(product(4.0, failing=2.5), ["a"], seed=1)
        assert found["a"].ends[1] == "failed"
        assert found["a"].values.max() < 2.5 < max(found["a"].failed)
        assert "values no fit was had" in str(found)


class TestArguments:
    def test_names(self):
        posterior = linear(iv.Prior(b=iv.Normal(0.0, 1.0, shape=3)))
        with pytest.raises(ValueError, match=r"names must be one of 'b\[0\]', 'b\[1\]', 'b\[2\]', got 'c'"):
            iv.profile(posterior, ["c"])

    def test_a_parameter_whose_prior_another_one_sets(self):
        prior = iv.Prior(mu=iv.Normal(0.0, 1.0), tau=iv.HalfNormal(1.0), b=iv.Normal("mu", "tau"))
        model = iv.with_jacobian(lambda t: t.copy(), lambda t: np.ones((len(t), 1, 1)))
        posterior = iv.Posterior(prior, model, [1.0], iv.GaussianNoise(0.5))
        with pytest.raises(ValueError, match="got 'b', which is sampled together with mu, tau"):
            iv.profile(posterior, ["b"], seed=1)

    def test_a_likelihood_that_is_not_told(self):
        target = iv.Target(iv.FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x), 2))
        with pytest.raises(ValueError, match="of must be 'posterior' where a problem does not tell its likelihood"):
            iv.profile(target)
        assert iv.profile(target, of="posterior", seed=1).intervals()["theta[0]"].high == pytest.approx(1.96, abs=0.02)
