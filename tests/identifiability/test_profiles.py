"""Profile likelihoods: intervals in closed form, bounds, parameters that are not identifiable, fits that fail."""

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
    """y = a b: data identify only the product. Solves fail if a is above ``failing``."""

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
        for k, (interval,) in enumerate(found.intervals(level).values()):
            assert interval.low == pytest.approx(mean[k] - half[k], abs=0.02 * half[k])
            assert interval.high == pytest.approx(mean[k] + half[k], abs=0.02 * half[k])
            assert interval[2:] == ("reached", "reached")

    def test_with_the_prior(self):
        posterior = linear(iv.Prior(b=iv.Normal(0.0, 0.2, shape=3)))
        found = iv.profile(posterior, ["b[1]"], of="posterior", seed=1)
        precision = 4.0 * SLOPES.T @ SLOPES + 25.0 * np.eye(3)
        mean, half = self.closed_form(precision, 4.0 * SLOPES.T @ DATA, 0.95)
        (interval,) = found.intervals()["b[1]"]
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
    def test_profiles_end_at_bounds(self):
        found = iv.profile(product(4.0), ["a"], seed=1)
        (interval,) = found.intervals()["a"]
        assert interval[2:] == ("bound", "bound")
        assert interval.low < 0.55 and interval.high > 3.9
        assert np.ptp(found["a"].energies) < 0.01
        assert "(below at a bound, above at a bound)" in str(found)

    def test_points_are_close_if_the_best_is_at_a_bound(self):
        """No Gaussian there gives the length of a first step."""
        model = iv.with_jacobian(lambda t: t.copy(), lambda t: np.tile(np.eye(2), (len(t), 1, 1)))
        prior = iv.Prior(a=iv.Uniform(0.0, 1.0), b=iv.Uniform(-1000.0, 1000.0))
        posterior = iv.Posterior(prior, model, [-0.1, 3.0], iv.GaussianNoise(0.1))
        one = iv.profile(posterior, ["b"], seed=1)["b"]
        assert np.abs(np.diff(one.energies)).max() < 0.6 * 0.5 * chi2.ppf(0.95, 1)
        (interval,) = one.intervals(0.95)
        half = 0.1 * norm.isf(0.025)
        assert interval.low == pytest.approx(3.0 - half, abs=0.02 * half)
        assert interval.high == pytest.approx(3.0 + half, abs=0.02 * half)

    def test_logits_are_bounded_again(self):
        found = iv.profile(product(4.0, transforms={"a": "logit"}), ["a"], seed=1)
        (interval,) = found.intervals()["a"]
        assert interval[2:] == ("bound", "bound")
        assert interval.low < 0.55 and interval.high > 3.9
        assert np.ptp(found["a"].energies) < 0.01

    def test_fits_that_fail_are_reported(self):
        found = iv.profile(product(4.0, failing=2.5), ["a"], seed=1)
        assert found["a"].branches[0].ends[1] == "failed"
        assert found["a"].values.max() < 2.5 < max(found["a"].failed)
        assert "values no fit converged" in str(found)


def well(outputs, data, sds, prior):
    """Data of functions of x and b with derivatives by x, of noise with these sds; b is another unknown, about 0."""
    model = iv.with_jacobian(
        lambda t: np.stack([f(t)[0] for f in outputs], axis=1),
        lambda t: np.stack([np.stack(f(t)[1:], axis=1) for f in outputs], axis=1),
    )
    return iv.Posterior(prior, model, data, iv.GaussianNoise(np.asarray(sds, dtype=float)))


def square(t):
    return t[:, 0] ** 2, 2.0 * t[:, 0], np.zeros(len(t))


def first(t):
    return t[:, 0], np.ones(len(t)), np.zeros(len(t))


def other(t):
    return t[:, 1], np.zeros(len(t)), np.ones(len(t))


def leaning(slope):
    return lambda t: (t[:, 1] - slope * t[:, 0], np.full(len(t), -slope), np.ones(len(t)))


def below(function, level):
    """Ends of the intervals where twice a function of one number is within the level of its least value, on a grid."""
    x = np.linspace(-12.0, 12.0, 1_000_001)
    rise = 2.0 * (function(x) - function(x).min()) - chi2.ppf(level, 1)
    return x[:-1][np.diff(np.sign(rise)) != 0.0].reshape(-1, 2)


class TestSeveralModes:
    PRIOR = iv.Prior(x=iv.Normal(0.0, 5.0), b=iv.Normal(0.0, 1.0))

    def check(self, intervals, wanted, relative=0.03):
        assert len(intervals) == len(wanted)
        for found, (low, high) in zip(intervals, wanted, strict=True):
            assert found.low == pytest.approx(low, abs=relative * (high - low))
            assert found.high == pytest.approx(high, abs=relative * (high - low))
            assert found[2:] == ("reached", "reached")

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_each_has_its_interval(self, seed):
        found = iv.profile(well([square, other], [25.0, 0.0], [1.0, 1.0], self.PRIOR), seed=seed)
        half = norm.isf(0.025)
        wanted = np.sqrt([25.0 - half, 25.0 + half])
        self.check(found.intervals()["x"], [-wanted[::-1], wanted])
        self.check(found.intervals()["b"], [(-half, half)])
        assert str(found).count(" and from ") == 1
        assert [len(axes.patches) for axes in found.plot().axes] == [2, 1]
        assert (np.diff(found["x"].values) > 0.0).all() and (np.diff(found["b"].values) > 0.0).all()

    def test_one_that_is_hardly_within_the_level(self):
        problem = well([square, first], [25.0, 5.0], [1.0, 5.5], self.PRIOR)
        found = iv.profile(problem, ["x"], seed=1)

        def misfit(x):
            return 0.5 * (x**2 - 25.0) ** 2 + 0.5 * ((x - 5.0) / 5.5) ** 2

        wanted = below(misfit, 0.95)
        assert len(wanted) == 2 and np.ptp(wanted[0]) < 0.5 * np.ptp(wanted[1])
        self.check(found.intervals()["x"], wanted)
        # and at a level at which it is not
        self.check(found.intervals(0.9)["x"], below(misfit, 0.9))
        assert len(found.intervals(0.9)["x"]) == 1

    def test_minima_with_a_low_barrier_are_walked_once(self):
        found = iv.profile(well([square], [1.0], [0.6], self.PRIOR), ["x"], seed=1)

        def misfit(x):
            return 0.5 * ((x**2 - 1.0) / 0.6) ** 2

        assert len(found["x"].branches) == 1
        self.check(found.intervals()["x"], below(misfit, 0.95))
        self.check(found.intervals(0.8)["x"], below(misfit, 0.8), 0.06)
        assert (len(found.intervals()["x"]), len(found.intervals(0.8)["x"])) == (1, 2)

    @pytest.mark.parametrize(("slope", "count"), [(0.1, 1), (0.5, 2)])
    def test_the_profile_is_the_lowest_branch(self, slope, count):
        """Modes at x = -5 and 5 lie at other values of b, too."""
        found = iv.profile(well([square, leaning(slope)], [25.0, 0.0], [0.1, 0.4], self.PRIOR), ["b"], seed=1)["b"]
        half, center = 0.4 * norm.isf(0.025), 5.0 * slope
        wanted = [(-center - half, center + half)]
        if count == 2:
            wanted = [(-center - half, -center + half), (center - half, center + half)]
        self.check(found.intervals(0.95), wanted)
        assert len(found.branches) == 2
        apart = np.abs(np.abs(found.values) - center)
        np.testing.assert_allclose(found.energies - found.energies.min(), 0.5 * (apart / 0.4) ** 2, atol=0.05)
        np.testing.assert_allclose(np.abs(found.theta[:, 0]), 5.0, atol=0.1)

    def test_a_bound_beyond_another_mode(self):
        prior = iv.Prior(x=iv.Uniform(-5.05, 9.0), b=iv.Normal(0.0, 1.0))
        found = iv.profile(well([square], [25.0], [1.0], prior), ["x"], seed=1)
        low, high = found.intervals()["x"]
        assert low[2:] == ("bound", "reached") and high[2:] == ("reached", "reached")
        assert low.low == pytest.approx(-5.05, abs=0.01)
        assert "(below at a bound) and from" in str(found)


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

    def test_a_likelihood_that_is_not_reported(self):
        target = iv.Target(iv.extending.FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x), 2))
        with pytest.raises(ValueError, match="of must be 'posterior' where a problem does not give its likelihood"):
            iv.profile(target)
        assert iv.profile(target, of="posterior", seed=1).intervals()["theta[0]"][0].high == pytest.approx(
            1.96, abs=0.02
        )
