"""Gradient matching as a linear forward model: sufficient statistics, the exact Gaussian, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from lorenz_matching import LIBRARY, NAMES, STATES, TRUTH, clean_derivatives, trajectory, with_noisy_derivatives

import invsamp as iv
from invsamp.protocols import ForwardModel, JacobianForwardModel, RowsForwardModel
from invsamp.solvers.gradient_matching.derivatives import savitzky_golay
from invsamp.solvers.gradient_matching.library import linear_in_parameters
from invsamp.solvers.gradient_matching.matching import match
from invsamp.solvers.gradient_matching.weak_form import weak


@pytest.fixture(scope="module")
def small():
    return with_noisy_derivatives(2.0, 0.05, 2.0)


def quadratics(t, x, p):
    """Every monomial up to degree 2 in every equation, with a coefficient of its own."""
    terms = [1.0, *x, *(x[i] * x[j] for i in range(3) for j in range(i + 1))]
    return tuple(sum(p[10 * i + k] * term for k, term in enumerate(terms)) for i in range(3))


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
        names = [f"{state}{k}" for state in STATES for k in range(10)]
        model = match(linear_in_parameters(quadratics, STATES, names), times, states, clean_derivatives(states))
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
        library = linear_in_parameters(lambda t, x, p: (p[0] * x[0] + p[1] * x[1], 0.0), ("u", "v"), ("a", "b"))
        with pytest.raises(ValueError, match="got 'b' undetermined"):
            match(library, times, states, states).gaussian(1.0)


class TestRefusals:
    times, states = trajectory(1.0, 0.05)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"library": "x*y"}, r"library must be a Library, .* got 'x\*y'"),
            ({"times": times[::-1]}, r"times must increase"),
            ({"times": times[:1], "states": states[:1]}, r"times must be at least two"),
            ({"states": states[:-1]}, r"states must have shape \(21, 3\), got \(20, 3\)"),
            (
                {"states": np.where(states == states[3, 1], np.nan, states)},
                r"states must be finite numbers, got nan at index \(3, 1\)",
            ),
            ({"derivatives": "magic"}, "derivatives must be one of 'finite_differences'"),
            ({"derivatives": states[:4]}, r"derivatives must have the states' shape \(21, 3\), got \(4, 3\)"),
            (
                {"derivatives": np.full((21, 3), np.inf)},
                r"derivatives must be finite numbers, or one of .* got inf at index \(0, 0\)",
            ),
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
            (lambda: savitzky_golay(7, 7), r"degree must be an integer in \[1, 6\], got 7"),
            (lambda: weak(1), "radius must be an integer >= 2, got 1"),
            (lambda: weak(8, 1), "degree must be an integer >= 2, got 1"),
            (lambda: weak(8, 8, 1), "spacing must be an integer >= 2, got 1"),
            (lambda: weak(noise=(1.0, 0.0)), "noise must be positive finite numbers, got 0.0 at index 1"),
        ],
    )
    def test_parts(self, act, message):
        with pytest.raises(ValueError, match=message):
            act()

    @pytest.mark.parametrize("sd", [0.0, -1.0, np.nan, (1.0, 2.0), (1.0, 1.0, 0.0)])
    def test_standard_deviations(self, small, sd):
        with pytest.raises(ValueError, match=r"sd must be (a number or one per state|positive finite numbers)"):
            small.compressed(sd)

    @pytest.mark.parametrize("prior", [(TRUTH, -np.ones(3)), (TRUTH, -np.eye(3))])
    def test_priors(self, small, prior):
        with pytest.raises(ValueError, match="prior must have a positive definite covariance"):
            small.gaussian(1.0, prior)
        with pytest.raises(ValueError, match=r"prior must be a mean \(3,\) and sds"):
            small.gaussian(1.0, (TRUTH[:2], np.ones(2)))
