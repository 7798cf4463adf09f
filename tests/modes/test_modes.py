"""Modes and their Gaussians: found from anywhere, within bounds, with the evidence known in closed form."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, multivariate_normal, norm
from targets import gaussian

import invsamp as iv
from invsamp.domains import Box, Unbounded
from invsamp.evaluate.requests import Estimate, answered
from invsamp.modes.curvature import extent_of, hessian
from invsamp.modes.descent import Descent, descend
from invsamp.modes.minima import Minima, distinct, lone
from invsamp.modes.objective import Objective
from invsamp.posing.posterior.misfit_potential import MisfitPotential

CENTERS, SDS, WEIGHTS = np.array([[-5.0, 0.0], [5.0, 0.0]]), np.array([1.0, 0.5]), np.array([0.3, 0.7])


def two_modes(x):
    apart = x[:, None, :] - CENTERS
    logs = np.log(WEIGHTS / SDS**2) - 0.5 * (apart**2).sum(axis=2) / SDS**2
    top = logs.max(axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1, keepdims=True)
    slope = ((shares / total / SDS**2)[:, :, None] * apart).sum(axis=1)
    return -(top + np.log(total))[:, 0], slope


def linear_posterior(d, data=30):
    """With its log evidence."""
    rng = np.random.default_rng(d)
    slopes, y = rng.standard_normal((data, d)), rng.standard_normal(data)
    model = iv.with_jacobian(lambda theta: theta @ slopes.T, lambda theta: np.tile(slopes, (len(theta), 1, 1)))
    covariance = slopes @ slopes.T + 0.25 * np.eye(data)
    posterior = iv.Posterior(iv.Prior(b=iv.Normal(np.zeros(d), 1.0)), model, y, iv.GaussianNoise(0.5))
    return posterior, multivariate_normal(np.zeros(data), covariance).logpdf(y)


def led(function, position, domain=None, tolerance=1e-6, most=2000):
    def evaluate(at):
        return Estimate(*function(at))
        yield

    domain = Unbounded() if domain is None else domain
    scale = np.ones(position.shape[1])
    return answered(descend(Objective(evaluate, scale, domain), position, tolerance=tolerance, most=most), None)


class TestMinima:
    def evaluate(self, function):
        def asked(at):
            return Estimate(*function(at))
            yield

        return asked

    def test_curvature_beside_a_cliff(self):
        """A gradient beyond it says nothing of the curvature here."""

        def function(x):
            beyond = x[:, 0] > 1e-7
            return 0.5 * (x**2).sum(axis=1) + 4000.0 * beyond, x + 500.0 * beyond[:, None]

        at = np.zeros(2)
        asking = hessian(Objective(self.evaluate(function), np.ones(2), Unbounded()), at, 0.0, at)
        matrix, bounded = answered(asking, None)
        np.testing.assert_allclose(matrix, np.eye(2), atol=1e-6)
        assert bounded

    @pytest.mark.parametrize("far", [1e13, 1e14, 1e15])
    def test_steps_are_longer_than_numbers_are_apart(self, far):
        """A hundredth of the sd is less than that: differences of 0, or of one rounding, were taken for curvature."""

        def function(x):
            return 0.5 * np.square(x - far).sum(axis=1) / 4.0, (x - far) / 4.0

        at = np.full(2, far)
        asking = hessian(Objective(self.evaluate(function), np.full(2, far), Unbounded()), at, 0.0, np.zeros(2))
        np.testing.assert_allclose(answered(asking, None)[0], np.eye(2) / 4.0, atol=0.01)

    def test_an_end_above_its_minimum_is_led_on(self):
        """Two ends in one bent valley are one minimum; of two wells they are two."""
        ends = np.array([[0.0, 0.0], [1.5, -0.5], [8.0, 0.0]])

        def wells(x):
            left, right = 0.5 * np.square(x), 0.5 * np.square(x - [9.0, 0.0])
            first = left.sum(axis=1) < right.sum(axis=1)
            return np.where(first, left.sum(axis=1), right.sum(axis=1)), np.where(first[:, None], x, x - [9.0, 0.0])

        energy, gradient = wells(ends)
        end = Descent(ends, energy, gradient, np.ones(3, dtype=int), np.ones(3, dtype=bool))
        found = answered(distinct(Objective(self.evaluate(wells), np.ones(2), Unbounded()), end), None)
        np.testing.assert_allclose(found.position, [[0.0, 0.0], [9.0, 0.0]], atol=0.1)
        assert found.counts.tolist() == [2, 1]

    def test_weights_with_bounds(self):
        """The mass of exp(-g u) on [0, w] is 1 / g, and that of a flat one w: their product beside a Gaussian's."""
        low, high = np.array([0.0, -9.0]), np.array([20.0, 9.0])

        def function(x):
            left = 3.0 * x[:, 0], np.column_stack([np.full(len(x), 3.0), np.zeros(len(x))])
            right = 0.5 * np.square(x - [15.0, 0.0]).sum(axis=1) / 0.04 + 1.0, (x - [15.0, 0.0]) / 0.04
            first = x[:, 0] < 10.0
            return np.where(first, left[0], right[0]), np.where(first[:, None], left[1], right[1])

        ends = np.array([[1e-3, 4.0], [15.0, 0.0]])
        end = Descent(ends, *function(ends), np.ones(2, dtype=int), np.ones(2, dtype=bool))
        scale = (high - low) / (2.0 * 1.349)
        found = answered(distinct(Objective(self.evaluate(function), scale, Box(low, high)), end), None)
        assert np.isnan(found.covariances[0]).all()
        one, other = 18.0 / 3.0, 2.0 * np.pi * 0.04 * np.exp(-1.0)
        np.testing.assert_allclose(found.weights, np.array([one, other]) / (one + other), rtol=1e-3)
        assert found.known.all()

    @pytest.mark.parametrize("stiffness", [1e3, 1e12, 1e25])
    def test_an_extent_has_a_factor_however_stiff(self, stiffness):
        rng = np.random.default_rng(0)
        vectors = np.linalg.qr(rng.standard_normal((6, 6)))[0]
        precision = (vectors * [stiffness, 1e4, 1.0, 1e-9, -3.0, 0.0]) @ vectors.T
        extent = extent_of(precision, np.logspace(-2, 2, 6))
        assert (np.diag(np.linalg.cholesky(extent)) > 0.0).all()
        assert (np.diag(extent) <= np.logspace(-4, 4, 6) * (1.0 + 1e-9)).all()

    def test_an_extent_is_as_narrow_as_the_curvature(self):
        """In a funnel's neck, where no Hessian is positive definite, and a volume decides whether there is mass."""
        rng, n = np.random.default_rng(0), 49
        for log_width in (-5.0, -50.0, -100.0):
            slopes = rng.standard_normal(n) / np.sqrt(n) * np.exp(-log_width)
            precision = np.diag([0.6, *np.full(n, np.exp(-2.0 * log_width))])
            precision[0, 1:] = precision[1:, 0] = slopes
            extent = extent_of(precision, np.ones(n + 1))
            np.testing.assert_allclose(np.sqrt(np.diag(extent))[1:], np.exp(log_width), rtol=0.2)
            assert abs(0.5 * np.linalg.slogdet(extent)[1] - n * log_width) < 2.0

    def test_ends_of_their_own(self):
        """Of three levels of energy that were left out as too high one was met twice."""
        energies = np.array([0.0, 0.05, 40.0, 50.0, 50.3, 60.0])
        gaussians, one = 2 * (np.ones((1, 1, 1)),), np.ones(1, bool)
        found = Minima(np.zeros((1, 1)), energies[:1], *gaussians, one, ~one, np.array([2]))
        end = Descent(energies[:, None], energies, energies[:, None], np.ones(6, dtype=int), np.ones(6, dtype=bool))
        assert lone(found, end, 20.0) == 2
        assert lone(found, end, 100.0) == 0


class TestDescent:
    rng = np.random.default_rng(0)

    @pytest.mark.parametrize("sds", [np.full(5, 1e-6), np.logspace(-3, 3, 6), np.ones(1)])
    def test_gaussians_of_any_scale(self, sds):
        end = led(gaussian(np.diag(sds**-2.0)).function, self.rng.standard_normal((8, len(sds))))
        assert end.converged.all()
        assert end.energy.max() < 0.01
        assert end.evaluations.max() < 200

    def test_a_bent_valley(self):
        def rosenbrock(x):
            a, b = x.T
            return (1 - a) ** 2 + 100 * (b - a * a) ** 2, np.stack(
                [-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)], axis=1
            )

        end = led(rosenbrock, 2.0 * self.rng.standard_normal((8, 2)), tolerance=1e-10)
        np.testing.assert_allclose(end.position, 1.0, atol=1e-4)

    def test_uncentered_regressors(self):
        """Chains strand here: condition numbers of 1e8, and energies of 1e9 at the starts."""
        rng = np.random.default_rng(1)
        x = np.column_stack([np.ones(1000), 100.0 + rng.standard_normal((1000, 4))])
        y = x @ [1.0, 2.0, 3.0, -1.0, 0.5] + 0.9 * rng.standard_normal(1000)

        def energy(p):
            left, precision = y - p[:, :5] @ x.T, np.exp(-2.0 * np.maximum(p[:, 5], -50.0))
            squares = (left**2).sum(axis=1)
            value = 0.5 * squares * precision + 1000 * p[:, 5] + 0.5 * (p[:, :5] ** 2).sum(axis=1) / 100
            slope = np.column_stack([-(left @ x) * precision[:, None] + p[:, :5] / 100, 1000 - squares * precision])
            return value, slope

        starts = rng.standard_normal((16, 6)) * np.array([10.0, 10.0, 10.0, 10.0, 10.0, 1.0])
        end = led(energy, starts, tolerance=0.1)
        assert end.converged.all()
        # within what chains of 6 unknowns visit
        assert np.median(end.energy) - end.energy.min() < 10.0 and np.ptp(end.energy) < 50.0
        assert np.median(end.evaluations) < 200

    def test_a_corner(self):
        end = led(lambda x: (2.0 * x.sum(axis=1), np.full_like(x, 2.0)), self.rng.random((8, 3)), Box([0] * 3, [1] * 3))
        assert end.energy.max() < 1e-4
        assert (end.position >= 0.0).all()

    def test_unbounded_densities(self):
        end = led(lambda x: (-x.sum(axis=1), -np.ones_like(x)), np.eye(3, 2), most=50)
        assert not end.converged.any()
        assert (end.evaluations == 50).all()


class TestModes:
    def two(self, **settings):
        target = iv.Target(
            iv.extending.FunctionPotential(two_modes, 2), start=lambda rng, n: 5.0 * rng.standard_normal((n, 2))
        )
        return iv.maximize(target, seed=1, **settings)

    def test_two_with_their_weights(self):
        modes = self.two()
        np.testing.assert_allclose(modes.theta, CENTERS[::-1], atol=1e-5)
        np.testing.assert_allclose(modes.weights, WEIGHTS[::-1], rtol=1e-5)
        assert modes.counts.sum() == 16
        assert str(modes).splitlines()[0].startswith("2 posterior modes from 16 starts; evaluations: ")

    def test_starts_that_came_to_a_mode_alone_are_reported(self):
        modes = self.two()
        assert modes.unseen == 0.0 and "that no other start reached" not in str(modes)
        few = replace(modes, counts=np.array([3, 1]))
        assert few.unseen == 0.25
        assert "1 of 4 starts reached a mode that no other start reached. So about 25% of all starts" in str(few)

    def test_their_draws(self, agrees):
        draws = self.two().draws(20_000, seed=1)
        moments = np.column_stack([draws[:, 0], draws**2]).reshape(200, 100, 3).mean(axis=1)
        assert agrees(moments, [2.0, 25.0 + WEIGHTS @ SDS**2, WEIGHTS @ SDS**2])

    @pytest.mark.parametrize("d", [2, 20, 100])
    def test_evidence_of_linear_models(self, d):
        posterior, evidence = linear_posterior(d)
        modes = iv.maximize(posterior, starts=4, seed=1)
        assert modes.counts.tolist() == [2 if d == 100 else 4]  # Newton descents end once two agree
        assert modes.log_evidence[0] == pytest.approx(evidence, abs=1e-5)

    def test_coarse_fidelities_go_ahead(self):
        posterior, _ = linear_posterior(20)
        fine = posterior.forward["model"]
        both = iv.Posterior(posterior.prior, {"coarse": fine, "fine": fine}, posterior.data, posterior.noise)
        modes = iv.maximize(both, starts=4, seed=1)
        alone = iv.maximize(posterior, starts=4, seed=1).evaluations["model"]
        assert list(modes.evaluations) == ["coarse", "fine"]
        assert modes.evaluations["fine"] < alone

    def test_a_mode_at_a_bound_has_a_truncated_gaussian(self):
        modes = iv.maximize(iv.Target(gaussian(np.eye(2), 2.0), Box([-1.0, -1.0], [1.0, 9.0])), seed=1)
        np.testing.assert_allclose(modes.theta, [[1.0, 2.0]], atol=0.02)
        assert modes.on_wall.all()
        assert np.isnan(modes.covariances).all()
        mass = 2.0 * np.pi * np.diff(norm.cdf([-1.0, 1.0], 2.0))[0] * np.diff(norm.cdf([-1.0, 9.0], 2.0))[0]
        np.testing.assert_allclose(modes.log_evidence, np.log(mass), atol=1e-3)
        np.testing.assert_allclose(modes.draws(3, seed=1), np.tile(modes.theta, (3, 1)))

    def test_a_flat_direction_has_none(self):
        modes = iv.maximize(iv.Target(gaussian(np.diag([1.0, 0.0]))), seed=1)
        assert np.isnan(modes.log_evidence).all()
        assert "flat in some direction (improper, unless a prior or bounds limit it)" in str(modes)
        with pytest.raises(ValueError, match="draws needs a mode with a weight, got none"):
            modes.draws(4)

    def test_an_unbounded_density_is_reported(self):
        def falls(x):
            return 0.5 * x[:, 0] ** 2 - x[:, 1], np.column_stack([x[:, 0], -np.ones(len(x))])

        target = iv.Target(iv.extending.FunctionPotential(falls, 2), names=("level", "slope"))
        message = r"none of 3 optimizations converged within 100 evaluations, .* went farthest are slope\. "
        with pytest.raises(RuntimeError, match=message):
            iv.maximize(target, 3, seed=1, max_evaluations=100)

    def test_a_gradient_that_is_not_that_of_the_energy_is_reported(self):
        message = r"gradient of fidelity 'target' .*Optimizations follow gradients"
        uphill = iv.Target(iv.extending.FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), -x), 2))
        with pytest.warns(UserWarning, match=message):
            assert np.isnan(iv.maximize(uphill, seed=1).log_evidence).all()
        falls = iv.Target(iv.extending.FunctionPotential(lambda x: (-(x**2).sum(axis=1), -x), 2))
        with pytest.raises(iv.ModelError, match=message):
            iv.maximize(falls, 3, seed=1, max_evaluations=100)

    def test_an_end_that_looks_like_a_minimum_is_reported_too(self):
        """A gradient of the prior alone led to its mode, whose Gaussian looked like any other's."""
        for slope, wrong in ((0.0, True), (1.2, True), (1.0, False)):
            model = iv.with_jacobian(lambda x: x, lambda x, slope=slope: np.tile(slope * np.eye(2), (len(x), 1, 1)))
            prior = iv.Prior(x=iv.Normal(np.zeros(2), 1.0))
            posterior = iv.Posterior(prior, model, [0.5, -2.0], iv.GaussianNoise(0.3))
            with warnings.catch_warnings(record=True) as message:
                warnings.simplefilter("always")
                modes = iv.maximize(posterior, 4, seed=1)
            assert np.isfinite(modes.log_evidence).all()
            assert [("Optimizations follow gradients" in str(one.message)) for one in message] == [True] * wrong

    def test_starts_that_cannot_be_solved_are_distinguished(self):
        def model(x):
            return np.where(x > 0.5, np.nan, x)

        posterior = iv.Posterior(
            iv.Prior(x=iv.Normal(0.0, 1.0)),
            iv.with_jacobian(model, lambda x: np.ones((len(x), 1, 1))),
            [0.0],
            iv.GaussianNoise(1.0),
        )
        modes = iv.maximize(posterior, starts=[[0.0], [0.2], [0.6], [2.0], [-1.0]], seed=1)
        assert (modes.counts.tolist(), modes.unsolved, modes.unfinished) == ([3], 2, 0)
        assert "2 more starts could not be solved: narrow the prior" in str(modes)
        assert "did not converge" not in str(modes)

    def test_a_gradient_that_is_not_finite_is_reported(self):
        target = iv.Target(iv.extending.FunctionPotential(lambda x: ((x**2).sum(axis=1), np.full(x.shape, np.nan)), 2))
        with pytest.raises(RuntimeError, match=r"the gradient of fidelity 'target' is not finite at any of 16 starts"):
            iv.maximize(target, seed=1)

    def test_nothing_that_can_be_solved_is_reported(self):
        target = iv.Target(iv.extending.FunctionPotential(lambda x: (np.full(len(x), np.nan), x), 2))
        with pytest.raises(RuntimeError, match="the energy of fidelity 'target' is not finite at any of 16 starts"):
            iv.maximize(target, seed=1)

        def fails(x):
            raise ArithmeticError("no convergence after 50 steps")

        model = iv.with_jacobian(fails, fails)
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.0, 1.0)), model, [0.0], iv.GaussianNoise(1.0))
        message = r"raised ArithmeticError wherever it was called.*no convergence after 50"
        with pytest.raises(iv.ModelError, match=message):
            iv.maximize(posterior, seed=1)

    @pytest.mark.parametrize("of", ["posterior", "likelihood"])
    def test_calls_of_the_function_are_counted(self, of):
        calls = []

        def model(theta):
            calls.append(len(theta))
            return theta

        prior, noise = iv.Prior(x=iv.Normal(0.0, 1.0, shape=3)), iv.GaussianNoise(1.0)
        posterior = iv.Posterior(prior, iv.finite_differences(model), [1.0, 2.0, 3.0], noise)
        modes = iv.maximize(posterior, starts=4, of=of, seed=1)
        (counted,), (evaluations,) = modes.function_calls.values(), modes.evaluations.values()
        # what judges gradients and fits is called, too, and not counted
        assert 2 * evaluations < counted <= sum(calls)
        assert f"({counted} function calls)" in str(modes)
        profiles = iv.profile(posterior, ["x[0]"], seed=1) if of == "posterior" else None
        assert profiles is None or f"({profiles.function_calls:,} function calls)" in str(profiles)

    def test_begins_at_the_given_starts(self):
        posterior = iv.Posterior(
            iv.Prior(a=iv.Normal(0.0, 3.0), b=iv.Normal(0.0, 3.0)),
            log_likelihood=iv.LogDensity(lambda x: -two_modes(x)[0], lambda x: -two_modes(x)[1]),
        )
        found = iv.maximize(posterior, starts=[[-4.0, 0.5], [-6.0, -0.5]], seed=1)
        assert found.counts.tolist() == [2]
        assert found.theta[0, 0] < -4.0
        both = iv.maximize(posterior, starts={"a": [-4.0, 4.0, 6.0], "b": 0.0}, seed=1)
        assert sorted(both.counts.tolist()) == [1, 2]
        with pytest.raises(ValueError, match=r"starts must be a number or have shape \(n, 2\), got \(1, 3\)"):
            iv.maximize(posterior, starts=[[0.0, 0.0, 0.0]])
        with pytest.raises(ValueError, match="starts"):
            iv.maximize(posterior, starts={"a": [0.0]})
        with pytest.raises(ValueError, match="starts must be an integer"):
            iv.maximize(posterior, starts=0.5)

    def test_starts_a_run(self, draw):
        run = draw(
            iv.Target(iv.extending.FunctionPotential(two_modes, 2)), iv.mala(), start=self.two().draws(256, seed=1)
        )
        assert 0.5 < (run.theta[:, 0, 0] > 0).mean() < 0.9

    def test_starts_a_run_by_itself(self, draw):
        run = draw(iv.Target(iv.extending.FunctionPotential(two_modes, 2)), iv.mala(), start=self.two())
        assert 0.5 < (run.theta[:, 0, 0] > 0).mean() < 0.9

    @pytest.mark.parametrize(
        ("scale", "said"), [(0.5, "as it should be"), (0.1, "more than noise"), (9.0, "less than")]
    )
    def test_reports_how_well_data_are_fitted(self, scale, said):
        rng = np.random.default_rng(3)
        slopes = rng.standard_normal((60, 2))
        y = slopes @ [1.0, -1.0] + 0.5 * rng.standard_normal(60)
        model = iv.with_jacobian(lambda t: t @ slopes.T, lambda t: np.tile(slopes, (len(t), 1, 1)))
        posterior = iv.Posterior(iv.Prior(b=iv.Normal(0.0, 100.0, shape=2)), model, y, iv.GaussianNoise(scale))
        modes = iv.maximize(posterior, starts=2, seed=1)
        left = np.linalg.lstsq(slopes, y, rcond=None)[1][0] / scale**2
        assert modes.reduced_chi_squared[0] == pytest.approx(left / 58, rel=1e-3)
        assert said in str(modes)
        assert np.allclose(modes.residuals[0] * scale, y - slopes @ modes.theta[0])
        worst = int(np.abs(modes.residuals[0]).argmax())
        assert f"the largest {modes.residuals[0, worst]:+.3g}, of datum {worst}" in str(modes)

    def line(self, y, noise):
        slopes = np.column_stack([np.ones(len(y)), np.linspace(-1.0, 1.0, len(y))])
        model = iv.with_jacobian(lambda t: t @ slopes.T, lambda t: np.tile(slopes, (len(t), 1, 1)))
        return iv.maximize(iv.Posterior(iv.Prior(b=iv.Normal(0.0, 9.0, shape=2)), model, y, noise), starts=2, seed=1)

    @pytest.mark.parametrize("data", [3, 7, 16, 200])
    def test_the_fit_is_judged_by_quantiles_of_chi_squared(self, data):
        """The bound of three standard deviations was negative below 18 degrees of freedom."""
        modes = self.line(np.random.default_rng(1).standard_normal(data), iv.GaussianNoise(1.0))
        target = chi2(data - 2)
        for value, said in (
            (0.99 * target.ppf(1e-3), "less than"),
            (1.01 * target.ppf(1e-3), "as it should be"),
            (0.99 * target.isf(1e-3), "as it should be"),
            (1.01 * target.isf(1e-3), "more than noise"),
        ):
            assert said in str(replace(modes, chi_squared=np.array([value])))

    def test_data_without_their_noise(self):
        modes = self.line(0.05 * np.random.default_rng(2).standard_normal(16), iv.GaussianNoise(1.0))
        assert modes.reduced_chi_squared[0] < 0.01
        p = 2.0 * chi2(14).cdf(modes.chi_squared[0])
        assert p < 1e-12
        assert f"(p = {p:.2g}): less than noise should leave" in str(modes)

    def test_other_noise_than_gaussian_has_another_distribution(self):
        """The mean for Student's t with 3 degrees of freedom is 1.55 per datum: right data were said to fit badly."""
        y = np.random.default_rng(3).standard_t(3, 400)
        modes = self.line(y, iv.StudentTNoise(3.0, 1.0))
        assert modes.reduced_chi_squared[0] > 1.3
        assert "as it should be" in str(modes)
        assert "more than noise" in str(self.line(3.0 * y, iv.StudentTNoise(3.0, 1.0)))
        assert "less than noise" in str(self.line(0.3 * y, iv.StudentTNoise(3.0, 1.0)))


class TestLikelihood:
    def fitted(self, **settings):
        """A line through data that pull its slope past the bound of its prior, and a mean with a strong prior."""
        x = np.linspace(0.0, 1.0, 12)
        y = 1.0 + 3.0 * x + 0.1 * np.sin(9.0 * x)
        slopes = np.stack([np.ones(12), x], axis=1)
        model = iv.with_jacobian(lambda t: t @ slopes.T, lambda t: np.tile(slopes, (len(t), 1, 1)))
        prior = iv.Prior(level=iv.Normal(0.0, 0.1), slope=iv.Uniform(-2.0, 2.0))
        return iv.Posterior(prior, model, y, iv.GaussianNoise(0.2), **settings), slopes, y

    @pytest.mark.parametrize("transforms", [{}, {"slope": "logit"}])
    def test_is_maximized_without_the_prior_up_to_its_bounds(self, transforms):
        posterior, slopes, y = self.fitted(transforms=transforms)
        modes = iv.maximize(posterior, of="likelihood", seed=1)
        level = (y - 2.0 * slopes[:, 1]).mean()
        np.testing.assert_allclose(modes.theta, [[level, 2.0]], atol=1e-4)
        wanted = -0.5 * np.square((y - slopes @ [level, 2.0]) / 0.2).sum() - 12 * np.log(0.2 * np.sqrt(2.0 * np.pi))
        assert modes.log_likelihood[0] == pytest.approx(wanted, abs=1e-4)
        assert modes.energies[0] == pytest.approx(-wanted, abs=1e-4)
        assert (modes.of, modes.at_bounds, modes.counts.tolist()) == ("likelihood", (("slope",),), [16])
        message = str(modes).splitlines()
        assert message[0].startswith("1 maximum of the likelihood from 16 starts; evaluations: ")
        assert message[1].startswith(f"log-likelihood {wanted:.5g}"[:-1]) and "at a bound (slope)" in message[1]
        posterior_modes = iv.maximize(posterior, seed=1)
        assert posterior_modes.theta[0, 0] < level - 0.3  # its prior is strong
        assert posterior_modes.of == "posterior"
        assert posterior_modes.log_likelihood[0] < modes.log_likelihood[0] - 1.0
        assert "log-likelihood" in str(posterior_modes)

    def test_has_no_weights(self):
        modes = iv.maximize(self.fitted()[0], starts=2, of="likelihood", seed=1)
        assert np.isnan(modes.log_evidence).all()
        with pytest.raises(ValueError, match="draws needs modes of the posterior, got maxima of the likelihood"):
            modes.draws(4)
        with pytest.raises(ValueError, match="preconditioner must be modes of the posterior, got maxima"):
            iv.mala(preconditioner=modes)

    def test_two_are_distinguished(self):
        model = iv.with_jacobian(lambda t: t**2, lambda t: 2.0 * t[:, :, None])
        posterior = iv.Posterior(iv.Prior(t=iv.Normal(0.5, 2.0)), model, [4.0], iv.GaussianNoise(0.1))
        modes = iv.maximize(posterior, of="likelihood", seed=1)
        np.testing.assert_allclose(np.sort(modes.theta[:, 0]), [-2.0, 2.0], atol=1e-5)
        assert modes.counts.sum() == 16
        assert str(modes).startswith("2 maxima of the likelihood from 16 starts")

    def test_is_refused_where_there_is_none(self):
        with pytest.raises(ValueError, match=r"of must be 'posterior' where a problem does not give its"):
            iv.maximize(iv.Target(gaussian(np.eye(2))), of="likelihood")
        with pytest.raises(ValueError, match=r"of must be one of .*, got 'evidence'"):
            iv.maximize(self.fitted()[0], of="evidence")
        with pytest.raises(ValueError, match=r"rank must be None with of='likelihood'.*got 3"):
            iv.maximize(self.fitted()[0], of="likelihood", rank=3)

    def test_misfit_is_the_energy_without_the_prior(self):
        posterior, _, _ = self.fitted(transforms={"slope": "logit"})
        whole = posterior.potential()
        misfit = MisfitPotential(whole)
        position = np.random.default_rng(0).standard_normal((5, 2))
        energy, gradient = misfit.energy_and_gradient(position)
        np.testing.assert_allclose(energy, -posterior.log_likelihood(posterior.to_theta(position)).sum(axis=-1))
        np.testing.assert_allclose(misfit.energy(position), energy)
        sides = [misfit.energy(position + h * np.eye(2)[k]) for k in range(2) for h in (1e-5, -1e-5)]
        slopes = np.stack([(sides[0] - sides[1]), (sides[2] - sides[3])], axis=1) / 2e-5
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-4)
        curved, also = misfit.curvature(position), whole.curvature(position)
        np.testing.assert_allclose(curved.energy, energy)
        np.testing.assert_allclose(curved.gradient, gradient)
        np.testing.assert_allclose(also.matrix[:, 0, 0] - curved.matrix[:, 0, 0], 1.0 / 0.1**2)
        beyond = self.fitted()[0]
        there = beyond.to_position([[0.0, 1.9]]) + np.array([[0.0, 5.0]])
        found = MisfitPotential(beyond.potential()).curvature(there)
        assert found.energy[0] == np.inf and not found.gradient.any()

    def test_more_starts_where_one_alone_came_to_the_best(self):
        """A peak to which one start in five leads, beside a wide optimum far below it."""

        def peak(t):
            return np.exp(-0.5 * ((t[:, 0] - 1.8) / 0.15) ** 2)

        model = iv.with_jacobian(
            lambda t: np.column_stack([peak(t), 0.05 * t[:, 0]]),
            lambda t: np.column_stack([-(t[:, 0] - 1.8) / 0.15**2 * peak(t), np.full(len(t), 0.05)])[:, :, None],
        )
        posterior = iv.Posterior(iv.Prior(t=iv.Uniform(-2.0, 2.0)), model, [1.0, -0.05], iv.GaussianNoise(0.1))
        found = [iv.maximize(posterior, starts=4, of="likelihood", seed=seed) for seed in range(12)]
        best = [modes for modes in found if modes.theta[0, 0] > 1.0]
        assert 0 < len(best) < 12
        assert all(modes.counts[0] > 1 for modes in best)
        assert any(modes.counts.sum() + modes.left_out > 4 for modes in best)
        assert all("far less likely, and are left out" in str(modes) for modes in best if modes.left_out)
        assert not any("only one start reached the first mode" in str(modes) for modes in found)
        alone = replace(best[0], counts=np.array([1]), left_out=3)
        assert "only one start reached the first mode, so there may be a better one" in str(alone)
        assert all(modes.counts.sum() + modes.left_out == 4 for modes in found if modes.theta[0, 0] < 1.0)
        given = iv.maximize(posterior, starts=[[1.7], [-1.0]], of="likelihood", seed=1)
        assert given.counts.sum() + given.left_out == 2
