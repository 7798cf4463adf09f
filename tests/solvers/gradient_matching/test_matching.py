"""Gradient matching: derivatives of known order, exact Gaussian posteriors, and samplers against them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import invsamp as iv
from invsamp.contract import ForwardModel, JacobianForwardModel, RowsForwardModel
from invsamp.domains import HalfSpaces
from invsamp.solvers.gradient_matching.derivatives import finite_differences, savitzky_golay
from invsamp.solvers.gradient_matching.libraries import linear_in_parameters, polynomials
from invsamp.solvers.gradient_matching.matching import LinearModel, match
from invsamp.solvers.gradient_matching.weak_form import weak

STATES, NAMES = ("x", "y", "z"), ("sigma", "rho", "beta")
TRUTH = np.array([10.0, 28.0, 8 / 3])
#: sigma, rho, beta > 0, rho > 1, sigma > 1 + beta, as rows of normals @ theta <= offsets
NORMALS = np.array([[-1, 0, 0], [0, -1, 0], [0, 0, -1], [0, -1, 0], [-1, 0, 1]], dtype=float)
OFFSETS = np.array([0.0, 0.0, 0.0, -1.0, -1.0])


def lorenz(t, x, p):
    sigma, rho, beta = p
    return sigma * (x[1] - x[0]), x[0] * (rho - x[2]) - x[1], x[0] * x[1] - beta * x[2]


LIBRARY = linear_in_parameters(lorenz, STATES, NAMES)


def trajectory(end, step, truth=TRUTH, start=(1.0, 1.0, 1.0)):
    times = np.arange(0.0, end + 0.5 * step, step)
    solved = solve_ivp(lambda t, x: lorenz(t, x, truth), (0, end), start, t_eval=times, rtol=1e-9, atol=1e-9)
    return times, solved.y.T


def clean_derivatives(states, truth=TRUTH):
    return np.stack(lorenz(0.0, states.T, truth), axis=1)


def with_noisy_derivatives(end, step, sd, **settings):
    """Lorenz as in the r2SGLD paper: clean states, Gaussian noise on the derivatives."""
    times, states = trajectory(end, step, **settings)
    slope = clean_derivatives(states, settings.get("truth", TRUTH))
    return match(LIBRARY, times, states, slope + sd * np.random.default_rng(3).standard_normal(states.shape))


@pytest.fixture(scope="module")
def small():
    return with_noisy_derivatives(2.0, 0.05, 2.0)


class TestModel:
    def test_is_a_linear_forward_model(self, small):
        for protocol in (ForwardModel, JacobianForwardModel, RowsForwardModel):
            assert isinstance(small, protocol)
        assert small.parameters == NAMES and small.states == STATES
        theta = TRUTH + np.random.default_rng(0).normal(size=(4, 3))
        y = small(theta)
        # by time, then by state
        states = trajectory(2.0, 0.05)[1]
        np.testing.assert_allclose(y[1].reshape(-1, 3), clean_derivatives(states, theta[1]), rtol=1e-12, atol=1e-12)
        jacobian = small.jacobian(theta)[1]
        moved = small(theta + 0.5 * np.eye(3)[1])
        np.testing.assert_allclose(jacobian[:, :, 1], (moved - y) / 0.5, atol=1e-11)
        cotangent = np.random.default_rng(1).normal(size=y.shape)
        expected = np.einsum("bm,bmp->bp", cotangent, jacobian)
        np.testing.assert_allclose(small.linearize(theta)[1](cotangent), expected, rtol=1e-12)
        indices = np.random.default_rng(2).integers(len(small.data), size=(4, 7))
        chosen, chosen_jacobian = small.rows(theta, indices)
        row = np.arange(4)[:, None]
        np.testing.assert_allclose(chosen, y[row, indices], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(chosen_jacobian, jacobian[row, indices])

    @pytest.mark.parametrize("sd", [2.0, (0.5, 2.0, 3.0)])
    def test_sufficient_statistics_are_the_same_posterior(self, small, sd):
        compressed = small.compressed(sd)
        prior = iv.Prior(**{name: iv.Normal(5.0, 20.0) for name in NAMES})
        whole = iv.Posterior(prior, small, small.data, iv.GaussianNoise(small.scale(sd))).potential()
        short = iv.Posterior(prior, compressed, compressed.data, iv.GaussianNoise(1.0)).potential()
        assert len(compressed.data) == 3
        theta = TRUTH + np.random.default_rng(0).normal(size=(20, 3))
        energy, gradient = whole.energy_and_gradient(theta)
        statistic, slope = short.energy_and_gradient(theta)
        np.testing.assert_allclose(energy, statistic + compressed.constant, rtol=1e-12)
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9 * np.abs(gradient).max())

    @pytest.mark.parametrize("prior", [None, (TRUTH + 1, [1.0, 2.0, 0.1]), (TRUTH, 0.1 * np.eye(3) + 0.05)])
    def test_exact_gaussian(self, small, prior):
        mean, covariance = small.gaussian((0.5, 2.0, 3.0), prior)
        weighted = small.design / small.scale((0.5, 2.0, 3.0))[:, None]
        precision = weighted.T @ weighted
        right = weighted.T @ ((small.data - small.known) / small.scale((0.5, 2.0, 3.0)))
        if prior is not None:
            spread = np.asarray(prior[1])
            inverse = np.linalg.inv(np.diag(spread**2) if spread.ndim == 1 else spread)
            precision, right = precision + inverse, right + inverse @ prior[0]
        np.testing.assert_allclose(mean, np.linalg.solve(precision, right), rtol=1e-9)
        np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-9, atol=1e-12)

    def test_fewer_equations_than_parameters(self):
        times, states = trajectory(0.1, 0.05)
        model = match(polynomials(STATES, 2), times, states, clean_derivatives(states))
        p = len(model.parameters)
        compressed = model.compressed(1.0)
        assert compressed.design.shape == (p, p) > model.design.shape
        theta = np.random.default_rng(0).normal(size=(5, p))
        squares = ((model.data - model(theta)) ** 2).sum(axis=1)
        rest = ((compressed.data - compressed(theta)) ** 2).sum(axis=1)
        np.testing.assert_allclose(squares, rest, rtol=1e-10)
        with pytest.raises(ValueError, match=r"must be determined by the data or a prior, got .* undetermined"):
            model.gaussian(1.0)
        mean, _ = model.gaussian(1.0, (np.zeros(p), np.full(p, 10.0)))
        # derivatives up to 53, which a prior as wide as that hardly pulls off the data
        np.testing.assert_allclose(model(mean[None])[0], model.data, atol=0.2)

    def test_undetermined_parameters_are_named(self):
        times, states = np.arange(5.0), np.column_stack([np.arange(5.0), np.zeros(5)])
        library = polynomials(("u", "v"), 1, equations={"u": ["u", "v"]})
        with pytest.raises(ValueError, match=r'got "u\'\[v\]" undetermined'):
            match(library, times, states, states).gaussian(1.0)


class TestDerivatives:
    def test_finite_differences_have_second_order_at_uneven_times(self):
        library = polynomials(("u",), 1)
        errors = []
        for n in (50, 100, 200):
            times = np.linspace(0.0, 1.0, n) + 0.1 * np.sin(np.linspace(0.0, 1.0, n))
            found = match(library, times, np.sin(3 * times)[:, None], "finite_differences").data
            errors.append(np.abs(found - 3 * np.cos(3 * times)).max())
        assert np.abs(np.log2(np.divide(errors[:-1], errors[1:])) - 2.0).max() < 0.1
        assert errors[0] < 1e-2
        # parabolas are exact, at the ends too
        parabola = match(library, times, times[:, None] ** 2, "finite_differences").data
        np.testing.assert_allclose(parabola, 2 * times, atol=1e-10)

    def test_savitzky_golay_is_exact_on_its_polynomials_and_smooths(self):
        times = np.linspace(0.0, 2.0, 41)
        quartic = (times**4 - times)[:, None]
        model = match(polynomials(("u",), 1, include_constant=False), times, quartic, savitzky_golay(9, 4))
        np.testing.assert_allclose(model.data, 4 * times**3 - 1, atol=1e-9)
        np.testing.assert_allclose(model.design[:, 0], quartic[:, 0], atol=1e-9)
        noise = np.random.default_rng(0).standard_normal((41, 1))
        assert match(polynomials(("u",), 1), times, noise, savitzky_golay(9, 2)).design[:, 1].std() < 0.7

    @pytest.mark.parametrize("method", [finite_differences(), savitzky_golay(7, 3), weak(8, 8)])
    def test_gain_is_the_noise_of_the_data(self, method, agrees):
        """The equation v' = 0, whose right-hand side passes no noise on."""
        times = 0.1 * np.arange(60)
        library = polynomials(("u", "v"), 1, equations={"u": ["1"]})
        rng = np.random.default_rng(0)
        noise = 1e-3 * rng.standard_normal((200, 60, 2))
        models = [match(library, times, states, method) for states in noise]
        ratio = np.stack([model.data.reshape(-1, 2)[:, 1] / model.scale(1e-3).reshape(-1, 2)[:, 1] for model in models])
        assert agrees(ratio**2, np.ones(ratio.shape[1]))
        assert not agrees((1.4 * ratio) ** 2, np.ones(ratio.shape[1]))

    def test_weak_form_is_accurate_without_noise(self):
        times, states = trajectory(30.0, 0.05)
        errors = {
            radius: np.abs(match(LIBRARY, times, states, weak(radius, 8)).gaussian(1.0).mean / TRUTH - 1.0).max()
            for radius in (6, 8, 12)
        }
        assert errors[6] < 1e-3 and errors[8] < 1e-4 and errors[12] < 1e-5

    def test_states_of_different_noise(self):
        """The weak form of rescaled states is that of the states."""
        times, states = trajectory(10.0, 0.05)
        noise = np.array([0.1, 0.5, 0.2])
        states = states + noise * np.random.default_rng(0).standard_normal(states.shape)
        model = match(LIBRARY, times, states, weak(noise=noise))
        mean, covariance = model.gaussian(noise)
        unit = np.array([1.0, 10.0, 100.0])

        def rescaled(t, x, p):
            return tuple(
                u * side
                for u, side in zip((1.0, 10.0, 100.0), lorenz(t, (x[0], x[1] / 10.0, x[2] / 100.0), p), strict=True)
            )

        library = linear_in_parameters(rescaled, STATES, NAMES)
        other = match(library, times, states * unit, weak(noise=noise * unit)).gaussian(noise * unit)
        np.testing.assert_allclose(other.mean, mean, rtol=1e-5)
        np.testing.assert_allclose(other.covariance, covariance, rtol=1e-4)
        with pytest.raises(
            ValueError, match=r"sd must be a multiple of \[0.1, 0.5, 0.2\].*got \[1.0, 1.0, 1.0\]: pass"
        ):
            model.scale(1.0)


class TestBias:
    """Lorenz with 5% noise on the states, time step 0.05, 20 data sets."""

    @pytest.fixture(scope="class")
    @classmethod
    def fits(cls):
        times, states = trajectory(100.0, 0.05)
        sd = 0.05 * states.std(axis=0)
        rng = np.random.default_rng(0)
        noisy = [states + sd * rng.standard_normal(states.shape) for _ in range(20)]
        parts = {"differences": finite_differences(), "golay": savitzky_golay(7, 4), "weak": weak(noise=sd)}
        return {name: [match(LIBRARY, times, x, part).gaussian(sd) for x in noisy] for name, part in parts.items()}

    def bias(self, fits):
        return np.mean([fit.mean for fit in fits], axis=0) / TRUTH - 1.0

    def scores(self, fits):
        """Root mean squares over the data sets of error / stated standard deviation."""
        z = [(fit.mean - TRUTH) / np.sqrt(np.diag(fit.covariance)) for fit in fits]
        return np.sqrt(np.square(z).mean(axis=0))

    def test_bias_of_each_method(self, fits):
        # standard errors of these means are below 0.1%
        np.testing.assert_allclose(self.bias(fits["differences"])[0], -0.071, atol=0.005)
        np.testing.assert_allclose(self.bias(fits["golay"])[0], -0.040, atol=0.005)
        assert np.abs(self.bias(fits["weak"])).max() < 0.004

    def test_the_weak_form_knows_its_error(self, fits):
        # chi-square of 20 scores that are standard normal, but for the second-order bias
        assert self.scores(fits["weak"]).max() < 1.6
        assert self.scores(fits["weak"]).min() > 0.6
        assert self.scores(fits["differences"])[0] > 10.0


class TestRefusals:
    times, states = trajectory(1.0, 0.05)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"library": "x*y"}, r"library must be a Library .* got 'x\*y'"),
            ({"times": times[::-1]}, r"times must increase, got 1.0 before 0.95.* at index 1"),
            (
                {"times": times[:1], "states": states[:1]},
                r"times must be at least two finite numbers, got shape \(1,\)",
            ),
            ({"states": states[:-1]}, r"states must have shape \(21, 3\), got \(20, 3\)"),
            (
                {"states": np.where(states == states[3, 1], np.nan, states)},
                r"states must be finite, got nan at index \(3, 1\)",
            ),
            ({"derivatives": "magic"}, "derivatives must be an array or one of .* got 'magic'"),
            ({"derivatives": states[:4]}, r"derivatives must have the states' shape \(21, 3\), got \(4, 3\)"),
            ({"derivatives": np.full((21, 3), np.inf)}, r"derivatives must be finite, got inf at index \(0, 0\)"),
            (
                {"times": times**2, "derivatives": "weak"},
                "times must be even for 'weak', got steps from 0.0025 to 0.0975",
            ),
            ({"times": times**2, "derivatives": "savitzky_golay"}, "times must be even for 'savitzky_golay'"),
            ({"derivatives": savitzky_golay(23)}, "window must be at most the 21 times, got 23"),
            ({"derivatives": weak(11)}, r"radius must leave room for 2 \* radius \+ 1 of the 21 times, got 11"),
            ({"derivatives": weak(noise=(1.0, 2.0))}, r"noise must have one number for each of the 3 states, got \(1"),
            ({"times": times[:2], "states": states[:2], "derivatives": "finite_differences"}, "at least 3 for finite"),
        ],
    )
    def test_match(self, change, message):
        arguments = {"library": LIBRARY, "times": self.times, "states": self.states, "derivatives": self.states}
        with pytest.raises(ValueError, match=message):
            match(**(arguments | change))

    @pytest.mark.parametrize(
        ("act", "message"),
        [
            (lambda: savitzky_golay(8), "window must be an odd number >= 3, got 8"),
            (lambda: savitzky_golay(7, 7), "degree must be at least 1 and below the window 7, got 7"),
            (lambda: weak(1), "radius must be at least 2 time steps, got 1"),
            (lambda: weak(8, 1), "degree must be at least 2, got 1"),
            (lambda: weak(8, 8, 1), "spacing must be at least 2 time steps, or the equations are dependent, got 1"),
            (lambda: weak(noise=(1.0, 0.0)), r"noise must be positive, one number per state, got \(1.0, 0.0\)"),
        ],
    )
    def test_parts(self, act, message):
        with pytest.raises(ValueError, match=message):
            act()

    @pytest.mark.parametrize("sd", [0.0, -1.0, np.nan, (1.0, 2.0), (1.0, 1.0, 0.0)])
    def test_standard_deviations(self, small, sd):
        with pytest.raises(ValueError, match="sd must be positive, a number or one per state"):
            small.compressed(sd)

    @pytest.mark.parametrize("prior", [(TRUTH, -np.ones(3)), (TRUTH, -np.eye(3))])
    def test_priors(self, small, prior):
        with pytest.raises(ValueError, match="prior must have a positive definite covariance"):
            small.gaussian(1.0, prior)
        with pytest.raises(ValueError, match=r"prior must be a mean \(3,\) and sds"):
            small.gaussian(1.0, (TRUTH[:2], np.ones(2)))


class TestMinibatches:
    r"""SGLD in coordinates w in which the posterior is N(0, I).

    The gradient is w plus noise of covariance r I, r = (N/n)(1 - n/N), because the squared residuals of N data add up
    to their precision. So w' = (1 - eps) w + eps noise + sqrt(2 eps) xi, where eps is the step size (twice that in the
    notation of Welling and Teh), and its stationary variance is (1 + eps r / 2) / (1 - eps / 2).
    """

    def run(self, draw, model, sd, step, estimator, **settings):
        mean, covariance = model.gaussian(sd)
        factor = np.linalg.cholesky(covariance)
        white = LinearModel(("w",), model.design @ factor, model.known + model.design @ mean, model.data)
        prior = iv.Prior(w=iv.Normal(0.0, 1e3, shape=3))
        posterior = iv.Posterior(prior, white, model.data, iv.GaussianNoise(sd))
        return draw(posterior, iv.sgld(step, estimator=estimator), start=np.zeros(3), **settings).theta

    def check(self, draw, model, size, step, **settings):
        total = len(model.data)
        ratio = total / size * (1.0 - size / total)
        formula = (1.0 + 0.5 * step * ratio) / (1.0 - 0.5 * step)
        w = self.run(draw, model, 1.0, step, iv.minibatch(size), **settings)
        variances = np.square(w).mean(axis=1)  # over the draws, (chains, 3)
        error = variances.mean(axis=1).std(ddof=1) / np.sqrt(len(w))
        assert error < 0.025 * formula  # the bound of 10% is four standard errors
        assert (np.abs(variances.mean(axis=0) / formula - 1.0) < 0.1).all()
        # without the noise of the minibatch
        assert abs(variances.mean() * (1.0 - 0.5 * step) - 1.0) > 0.1
        assert w.mean(axis=1).std(axis=0).max() / np.sqrt(len(w)) < 0.04
        assert np.abs(w.mean(axis=(0, 1))).max() < 0.1

    def test_stationary_variance(self, draw):
        model = with_noisy_derivatives(20.0, 0.01, 1.0)
        self.check(draw, model, 60, 0.2, draws=800, warmup=50, chains=128)

    def test_all_data_have_no_factor(self, draw):
        """The control of the formula: the same sampler without minibatches has the variance of its step alone."""
        model = with_noisy_derivatives(5.0, 0.01, 1.0)
        w = self.run(draw, model, 1.0, 0.5, iv.exact(), draws=150, warmup=50, chains=64)
        assert abs(np.square(w).mean() * 0.75 - 1.0) < 0.05

    @pytest.mark.slow
    def test_stationary_variance_of_the_published_setting(self, draw):
        """t 0..100 by 0.01, minibatches of 4,096 of 30,003 data."""
        model = with_noisy_derivatives(100.0, 0.01, 1.0)
        self.check(draw, model, 4096, 0.4, draws=700, warmup=40, chains=16)


class TestConstraints:
    """Reflection on the truncated Gaussian, at parameters where every kind of constraint cuts."""

    sd, prior = 1.0, (np.ones(3), np.ones(3))

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls):
        return with_noisy_derivatives(10.0, 0.05, cls.sd, truth=(1.35, 1.3, 0.25), start=(2.0, -1.0, 1.0))

    @pytest.fixture(scope="class")
    @classmethod
    def exact(cls, model):
        """Draws of the truncated Gaussian by rejection: means and standard deviations to 0.2%."""
        drawn = np.random.default_rng(0).multivariate_normal(*model.gaussian(cls.sd, cls.prior), 1_000_000)
        for normal, offset, least in zip(NORMALS[2:], OFFSETS[2:], (0.8, 0.8, 0.4), strict=True):
            assert least < (drawn @ normal < offset).mean() < 0.95
        return drawn[(drawn @ NORMALS.T <= OFFSETS).all(axis=1)]

    def run(self, draw, model, exact, boundary):
        compressed = model.compressed(self.sd)
        prior = iv.Prior(**{name: iv.Normal(1.0, 1.0) for name in NAMES})
        domain = HalfSpaces(NORMALS, OFFSETS)
        posterior = iv.Posterior(prior, compressed, compressed.data, iv.GaussianNoise(1.0), domain=domain)
        sampler = iv.sgld(0.02, preconditioner="dense", boundary=boundary)
        return draw(posterior, sampler, draws=1500, thin=2, warmup=400, start=exact[:256]).theta

    def test_reflection_samples_the_truncated_gaussian(self, draw, model, exact):
        theta = self.run(draw, model, exact, "reflect")
        assert (theta @ NORMALS.T <= OFFSETS + 1e-12).all()
        spread = exact.std(axis=0)
        assert (theta.mean(axis=1).std(axis=0) / 16.0 < 0.0125 * spread).all()  # the bound is four standard errors
        assert (np.abs(theta.mean(axis=(0, 1)) - exact.mean(axis=0)) < 0.05 * spread).all()
        assert (np.abs(theta.std(axis=(0, 1)) / spread - 1.0) < 0.05).all()

    def test_projection_does_not(self, draw, model, exact):
        theta = self.run(draw, model, exact, "project")
        assert (theta @ NORMALS.T <= OFFSETS + 1e-12).all()
        assert (np.abs(theta.mean(axis=(0, 1)) - exact.mean(axis=0)) > 0.2 * exact.std(axis=0)).all()
