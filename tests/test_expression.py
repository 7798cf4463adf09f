"""Formulas of names: values, derivatives, and what is no formula."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import invsamp as iv
from invsamp.expression import FUNCTIONS, Expression

FORMULAS = [
    "sigma * y**gamma",
    "sqrt(a**2 + (b * y)**2)",
    "-a + 2 * b / y - 0.5",
    "exp(a) * log(y) / sqrt(b) + abs(a - y)",
    "a**-1.5 + 2**b + sin(a) * cos(b * y) - tanh(a * b)",
    "+3.0 * y",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_values_and_derivatives(text: str) -> None:
    rng = np.random.default_rng(0)
    expression = pickle.loads(pickle.dumps(Expression("scale", text)))
    values = {name: rng.uniform(0.5, 2.0, (3, 4)) for name in expression.names}
    value, slopes = expression(values)
    functions = {name: getattr(np, name) for name in FUNCTIONS}
    np.testing.assert_allclose(value, eval(text, functions, values), rtol=1e-14)
    assert set(slopes) == set(expression.names)
    for name in expression.names:
        h = 1e-6
        up, down = (expression(values | {name: values[name] + move})[0] for move in (h, -h))
        np.testing.assert_allclose(np.broadcast_to(slopes[name], (3, 4)), (up - down) / (2 * h), rtol=1e-7, atol=1e-8)


def test_a_power_of_zero_has_no_slope_in_its_exponent() -> None:
    value, slopes = Expression("scale", "a + b * y**gamma")({"a": 0.3, "b": 2.0, "y": np.zeros(2), "gamma": 1.5})
    np.testing.assert_array_equal(value, [0.3, 0.3])
    np.testing.assert_array_equal(slopes["gamma"], [0.0, 0.0])
    np.testing.assert_array_equal(slopes["y"], [0.0, 0.0])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a +", "that is no formula"),
        ("a ^ 2", r"powers are written \*\*"),
        ("gamma(a)", r"'gamma\(a\)' is none of these"),
        ("a.real", "'a.real' is none of these"),
        ("__import__('os')", "is none of these"),
        ("a if b else c", "is none of these"),
        ("exp(a, b)", "is none of these"),
        ("a * True", "'True' is none of these"),
        ("a * 'b'", "is none of these"),
        ("exp * 2", "'exp' is none of these"),
    ],
)
def test_what_is_no_formula(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=rf"^scale must be made of names, numbers, .* got .*: .*{why}"):
        iv.GaussianNoise(text)


def power(theta: np.ndarray) -> np.ndarray:
    return theta[:, :1] * np.exp(0.2 * theta[:, 1:] * np.arange(1.0, 7.0))


class TestScales:
    DATA = np.array([1.0, 1.4, 1.3, 2.1, 2.4, 3.0])
    PRIOR = iv.Prior(
        level=iv.LogNormal(0, 1), rate=iv.HalfNormal(1), sigma=iv.HalfNormal(1, shape=6), gamma=iv.Normal(0.5, 0.2)
    )

    def posterior(self, scale: str = "sigma * y**gamma", make: object = iv.GaussianNoise) -> iv.Posterior:
        return iv.Posterior(
            self.PRIOR, iv.finite_differences(power, parameters=("level", "rate")), self.DATA, make(scale)
        )

    @pytest.mark.parametrize("make", [iv.GaussianNoise, iv.LogNormalNoise, lambda scale: iv.StudentTNoise(4, scale)])
    def test_likelihood_and_gradient(self, make) -> None:
        posterior = self.posterior(make=make)
        theta = self.PRIOR.sample(np.random.default_rng(0), 4)
        y = power(theta[:, :2])
        expected = make(1.0).evaluate(y, self.DATA, theta[:, 2:8] * y ** theta[:, 8:])[0]
        np.testing.assert_allclose(posterior.log_likelihood(theta), expected)
        check = posterior.check_gradient()
        assert check.passed, check

    def test_terms_add_up(self) -> None:
        potential = (posterior := self.posterior()).potential()
        position = posterior.sample_start(np.random.default_rng(0), 4)
        energy, gradient = potential.energy_and_gradient(position)
        indices = np.tile(np.random.default_rng(1).permutation(6), (4, 1))
        terms = potential.terms(position, indices)
        np.testing.assert_allclose(terms.prior_energy + terms.energies.sum(axis=1), energy)
        np.testing.assert_allclose(terms.prior_gradient + terms.gradients.sum(axis=1), gradient, rtol=1e-6, atol=1e-8)
        groups = potential.group_terms(position, indices.reshape(4, 2, 3), np.ones((4, 2, 3)))
        np.testing.assert_allclose(
            groups.gradients, terms.gradients.reshape(4, 2, 3, -1).sum(axis=2), rtol=1e-5, atol=1e-8
        )

    def test_predictions_have_that_noise(self, within) -> None:
        posterior = self.posterior("sqrt(0.1**2 + (0.3 * y)**2)")
        theta = np.tile([1.0, 1.0, *[0.1] * 6, 0.5], (20_000, 1))
        y = posterior.predict(theta)
        noisy = posterior.sample_noise(np.random.default_rng(1), y, theta)
        for scale, right in ((np.hypot(0.1, 0.3 * y[0]), True), (0.1 + 0.3 * y[0], False)):
            assert bool(within((noisy.std(axis=0) / scale - 1) * np.sqrt(40_000), 5.0)) is right

    def test_names_that_are_none(self) -> None:
        with pytest.raises(ValueError, match=r"scale must use the prior's parameters .* got \['tau'\]"):
            self.posterior("tau * y")
        prior = iv.Prior(y=iv.Normal(0, 1), rate=iv.Normal(0, 1))
        with pytest.raises(ValueError, match="scale must not use 'y', which is the noise-free observation"):
            iv.Posterior(prior, iv.finite_differences(power), self.DATA, iv.GaussianNoise("0.1 * y"))

    def test_a_scale_that_is_negative_has_no_density(self) -> None:
        posterior = self.posterior("gamma - 10")
        assert np.isinf(posterior.potential().energy(posterior.sample_start(np.random.default_rng(0), 3))).all()
