"""Ways to derivatives: their order, their noise, and how biased the parameters are that come of them."""

from __future__ import annotations

import numpy as np
import pytest
from lorenz_matching import LIBRARY, NAMES, STATES, TRUTH, lorenz, trajectory

from invsamp.solvers.gradient_matching.derivatives import finite_differences, savitzky_golay
from invsamp.solvers.gradient_matching.library import linear_in_parameters
from invsamp.solvers.gradient_matching.matching import match
from invsamp.solvers.gradient_matching.weak_form import weak

#: u' = a + b u.
AFFINE = linear_in_parameters(lambda t, x, p: (p[0] + p[1] * x[0],), ("u",), ("a", "b"))


class TestDerivatives:
    def test_finite_differences_have_second_order_at_uneven_times(self):
        errors = []
        for n in (50, 100, 200):
            times = np.linspace(0.0, 1.0, n) + 0.1 * np.sin(np.linspace(0.0, 1.0, n))
            found = match(AFFINE, times, np.sin(3 * times)[:, None], "finite_differences").data
            errors.append(np.abs(found - 3 * np.cos(3 * times)).max())
        assert np.abs(np.log2(np.divide(errors[:-1], errors[1:])) - 2.0).max() < 0.1
        assert errors[0] < 1e-2
        # parabolas are exact, at the ends too
        parabola = match(AFFINE, times, times[:, None] ** 2, "finite_differences").data
        np.testing.assert_allclose(parabola, 2 * times, atol=1e-10)

    def test_savitzky_golay_is_exact_on_its_polynomials_and_smooths(self):
        times = np.linspace(0.0, 2.0, 41)
        quartic = (times**4 - times)[:, None]
        model = match(AFFINE, times, quartic, savitzky_golay(9, 4))
        np.testing.assert_allclose(model.data, 4 * times**3 - 1, atol=1e-9)
        np.testing.assert_allclose(model.design[:, 1], quartic[:, 0], atol=1e-9)
        noise = np.random.default_rng(0).standard_normal((41, 1))
        assert match(AFFINE, times, noise, savitzky_golay(9, 2)).design[:, 1].std() < 0.7

    @pytest.mark.parametrize(
        "method", [finite_differences(), savitzky_golay(7, 3), pytest.param(weak(8, 8), marks=pytest.mark.slow)]
    )
    def test_gain_is_the_noise_of_the_data(self, method, agrees):
        """The equation v' = 0, whose right-hand side passes no noise on."""
        times = 0.1 * np.arange(60)
        library = linear_in_parameters(lambda t, x, p: (p[0], 0.0), ("u", "v"), ("a",))
        rng = np.random.default_rng(0)
        noise = 1e-3 * rng.standard_normal((800, 60, 2))
        models = [match(library, times, states, method) for states in noise]
        ratio = np.stack([model.data.reshape(-1, 2)[:, 1] / model.scale(1e-3).reshape(-1, 2)[:, 1] for model in models])
        assert agrees(ratio**2, np.ones(ratio.shape[1]))
        assert not agrees((2.0 * ratio) ** 2, np.ones(ratio.shape[1]))

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

    def test_bias_of_each_method(self, within, fits):
        # sixty other data sets, with standard errors of 0.05%; those of these means are 0.1%
        assert within(self.bias(fits["differences"])[0] + 0.074, 0.006)
        assert within(self.bias(fits["golay"])[0] + 0.042, 0.006)
        assert within(self.bias(fits["weak"]), 0.006)

    def test_the_weak_form_estimates_its_error(self, within, fits):
        # chi-square of 20 scores that are standard normal, but for the second-order bias
        assert within(np.log(self.scores(fits["weak"])), np.log(2.2))
        assert not within(np.log(self.scores(fits["differences"])[0]), np.log(2.2))
