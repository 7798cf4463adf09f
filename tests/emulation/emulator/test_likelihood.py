"""The likelihood with the emulator's variance: what it is for Gaussian noise, and its gradient for others."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv
from invsamp.emulation.emulator.emulated_posterior import EmulatedPosterior
from invsamp.emulation.emulator.emulator_fit import fit_emulator
from invsamp.emulation.emulator.likelihood import EmulatedLikelihood
from invsamp.emulation.emulator.outputs import output_scale, principal_components
from invsamp.emulation.runs.simulation_runs import Simulations

M = 5


def posterior(noise: object, **unknown: object) -> iv.Posterior:
    prior = iv.Prior(a=iv.Normal(0, 1), b=iv.LogNormal(0, 0.5), **unknown)

    class Model:
        parameters = ("a", "b")

        def __call__(self, theta: np.ndarray) -> np.ndarray:
            t = np.linspace(0.5, 2.0, M)
            return 2.0 + np.sin(theta[:, :1] * t) + theta[:, 1:] * t**2

    return iv.Posterior(prior, Model(), np.linspace(2.0, 6.0, M), noise)


def emulated(target: iv.Posterior, points: int = 14) -> EmulatedPosterior:
    rng = np.random.default_rng(0)
    simulations = Simulations(target, 100)
    simulations.run(target.sample_start(rng, points), "prior")
    scale = output_scale(simulations.noise, target.to_theta(target.sample_start(rng, 200)), rng)
    x = simulations.coordinates
    center, near = x.mean(axis=0), np.ones(points, dtype=bool)
    whitening = np.linalg.inv(np.linalg.cholesky(np.cov(x.T)))
    emulator = fit_emulator(simulations, scale, near, center, whitening)
    return EmulatedPosterior(target, emulator)


NOISES = {
    "gaussian": (iv.GaussianNoise(0.2), {}),
    "unknown scale": (iv.GaussianNoise("sigma"), {"sigma": iv.LogNormal(-1.5, 0.5)}),
    "two scales": (
        iv.GaussianNoise(("one", "one", "one", "two", "two")),
        {"one": iv.LogNormal(-1.5, 0.5), "two": iv.LogNormal(-1.5, 0.5)},
    ),
    "log-normal": (iv.LogNormalNoise("sigma"), {"sigma": iv.LogNormal(-2.0, 0.5)}),
    "student": (iv.StudentTNoise(4.0, 0.2), {}),
    "censored": (iv.CensoredNoise(iv.LogNormalNoise("sigma"), lower=2.0), {"sigma": iv.LogNormal(-2.0, 0.5)}),
    "poisson": (iv.PoissonNoise(), {}),
    "scale of what is predicted": (
        iv.GaussianNoise("sqrt(sigma**2 + (part * y)**2)"),
        {"sigma": iv.LogNormal(-3.0, 0.5), "part": iv.Uniform(0.05, 0.2)},
    ),
    "correlated": (iv.GaussianNoise("sigma", iv.noise.AutoRegressive(0.9)), {"sigma": iv.LogNormal(-1.5, 0.5)}),
    "negative binomial": (iv.NegativeBinomialNoise("sigma"), {"sigma": iv.LogNormal(-1.5, 0.5)}),
}


@pytest.mark.parametrize("name", NOISES)
def test_energy_has_the_gradient_of_its_value(name: str) -> None:
    noise, unknown = NOISES[name]
    target = emulated(posterior(noise, **unknown))
    potential, rng = target.potential(), np.random.default_rng(1)
    position = target.sample_start(rng, 40)
    _, slope = potential.energy_and_gradient(position)
    for _ in range(3):
        move = rng.standard_normal(position.shape)
        ends = [potential.energy(position + sign * 1e-5 * move) for sign in (1.0, -1.0)]
        along = (slope * move).sum(axis=1)
        error = np.abs((ends[0] - ends[1]) / 2e-5 - along) / (1.0 + np.abs(along))
        # where a component passes the bound at which the likelihood changes its form, there is a kink
        assert np.quantile(error, 0.9) < 1e-4


def test_is_the_gaussian_noise_with_the_emulators_covariance_added() -> None:
    target = posterior(iv.GaussianNoise(0.2))
    simulations, rng = Simulations(target, 100), np.random.default_rng(0)
    y = simulations.run(target.sample_start(rng, 10), "prior")
    scale = output_scale(simulations.noise, target.to_theta(target.sample_start(rng, 200)), rng)
    # the scale is estimated from draws: the exact one
    scale = type(scale)(np.full(M, 0.2), scale.link, scale.least)
    components, values = principal_components(scale.encode(y), scale)
    variances = np.full(len(components.rows), 0.7)
    likelihood = EmulatedLikelihood(simulations.noise, components, variances)
    packed = np.column_stack([values[:3], np.full(3, 0.9), np.zeros(3)])
    value, theta = np.zeros(3), target.sample_prior(rng, 3)
    likelihood.accumulate(theta, packed, value, np.zeros((3, 2)))
    covariance = 0.04 * (np.eye(M) + 0.63 * components.rows.T @ components.rows)
    away = target.data - components.decode(values[:3]).y
    exact = -0.5 * np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away)
    exact -= 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    assert value == pytest.approx(exact, rel=1e-6)


def test_without_variance_it_is_the_noise_of_what_is_predicted() -> None:
    target = posterior(iv.LogNormalNoise(0.1))
    certain = EmulatedPosterior(target, emulated(target).emulator, uncertain=False)
    position = target.sample_start(np.random.default_rng(2), 5)
    theta = target.to_theta(position)
    energy = target.misfit(theta, certain.predict(theta)) - target.log_prior_at(position)
    assert certain.potential().energy(position) == pytest.approx(energy, rel=1e-8)


def test_uncertainty_never_makes_a_bad_fit_a_good_one() -> None:
    target = emulated(posterior(iv.GaussianNoise(0.2)), points=8)
    far = np.array([[40.0, 3.0], [-30.0, -4.0]])
    near = target.to_position(np.array([[0.0, 1.0]]))
    assert (target.potential().energy(far) > target.potential().energy(near) + 10.0).all()


@pytest.mark.parametrize("sizes", [(0.3, 0.3), (0.01, 2.0)])
def test_uncertainty_never_fits_better_than_the_data_themselves(sizes: tuple[float, float]) -> None:
    """Also where one output's noise is far smaller than another's, so that their curvatures are far apart."""
    noise = iv.GaussianNoise(("small", "small", "large", "large", "large"))
    target = posterior(noise, small=iv.LogNormal(-1.0, 1.0), large=iv.LogNormal(-1.0, 1.0))
    emulator, rng, n = emulated(target).emulator, np.random.default_rng(3), 400
    likelihood = EmulatedLikelihood(target._posed["model"].noise, emulator.components, emulator.scales)
    theta = np.column_stack([target.sample_prior(rng, n)[:, :2], np.tile(sizes, (n, 1))])
    components = 10.0 ** rng.uniform(-1.0, 3.0, (n, 1)) * rng.standard_normal((n, len(emulator.scales)))
    packed = np.column_stack([components, 10.0 ** rng.uniform(-6.0, 6.0, n), np.zeros(n)])
    value, perfect = np.zeros(n), np.zeros(n)
    likelihood.accumulate(theta, packed, value, np.zeros(theta.shape))
    target._posed["model"].noise.accumulate(theta, np.tile(target.data, (n, 1)), perfect, np.zeros(theta.shape))
    assert (value <= perfect + 1e-6).all()


@pytest.mark.parametrize(
    ("noise", "data"),
    [
        (iv.GaussianNoise("sqrt(sigma**2 + (0.3 * y)**2)"), np.linspace(2.0, 6.0, M)),
        (iv.GaussianNoise("sigma", iv.noise.AutoRegressive(0.95)), np.linspace(2.0, 6.0, M)),
        (iv.PoissonNoise(), np.arange(2.0, 2.0 + M)),
    ],
)
def test_no_uncertainty_makes_up_for_a_misfit(noise: iv.extending.Noise, data: np.ndarray) -> None:
    """Where the noise is far smaller about the prediction, or along some residuals, than about the data."""
    target = posterior(noise, **({"sigma": iv.LogNormal(-7.0, 1.0)} if noise != iv.PoissonNoise() else {}))
    target = target.with_data(data)
    emulator, rng, n = emulated(target).emulator, np.random.default_rng(3), 400
    bound = target._posed["model"].noise
    likelihood = EmulatedLikelihood(bound, emulator.components, emulator.scales)
    theta = target.sample_prior(rng, n)
    components = 10.0 ** rng.uniform(-1.0, 3.0, (n, 1)) * rng.standard_normal((n, len(emulator.scales)))
    components[0] = np.linalg.lstsq(emulator.components.rows.T, -emulator.components.mean, rcond=None)[0]  # near y = 0
    packed = np.column_stack([components, 10.0 ** rng.uniform(-6.0, 6.0, n), np.zeros(n)])
    value, alone, perfect = np.zeros(n), np.zeros(n), np.zeros(n)
    likelihood.accumulate(theta, packed, value, np.zeros(theta.shape))
    bound.accumulate(theta, likelihood.observed(packed), alone, np.zeros(theta.shape))
    bound.accumulate(theta, bound.saturated(theta), perfect, np.zeros(theta.shape))
    assert (value <= np.maximum(alone, perfect) + 1e-6).all()


def test_other_data_are_those_of_the_likelihood() -> None:
    target = emulated(posterior(iv.GaussianNoise(0.2)))
    position = target.sample_start(np.random.default_rng(2), 5)
    moved = target.with_data(target.data + 0.3)
    certain = EmulatedPosterior(target.of, target.emulator, uncertain=False).with_data(target.data + 0.3)
    assert (moved.potential().energy(position) != target.potential().energy(position)).all()
    theta = target.to_theta(position)
    energy = certain.misfit(theta, certain.predict(theta)) - certain.log_prior_at(position)
    assert certain.potential().energy(position) == pytest.approx(energy, rel=1e-8)
