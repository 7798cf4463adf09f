"""Models of PyMC's gallery: densities, gradients and transforms are PyMC's; names, draws and ladders work here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from targets import kolmogorov

import invsamp as iv

pm = pytest.importorskip("pymc", reason="PyMC is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link:UserWarning")


@pytest.fixture(autouse=True)
def without_a_compiler():
    """The same functions in Python: each would be compiled in C for ten seconds and more."""
    import pytensor

    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


GAINS, ERRORS = [28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18]


def eight_schools() -> object:
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("gain", theta, ERRORS, observed=GAINS, dims="school")
    return model


def radon() -> object:
    """Varying intercepts by county, as of the radon data, of made-up houses."""
    rng = np.random.default_rng(0)
    county, floor = rng.integers(6, size=60), rng.integers(2, size=60)
    log_radon = 1.4 - 0.7 * floor + 0.3 * rng.normal(size=6)[county] + 0.7 * rng.normal(size=60)
    with pm.Model(coords={"county": range(6)}) as model:
        mean, spread = pm.Normal("mean", 0, 5), pm.Exponential("spread", 1)
        intercept = pm.Normal("intercept", mean, spread, dims="county")
        slope, noise = pm.Normal("slope", 0, 1), pm.Exponential("noise", 1)
        pm.Normal("log_radon", intercept[county] + slope * floor, noise, observed=log_radon)
    return model


def robust_regression() -> object:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2))
    with pm.Model() as model:
        weights, offset = pm.Normal("weights", 0, 2, shape=2), pm.Flat("offset")
        scale, degrees = pm.HalfNormal("scale", 1), pm.Gamma("degrees", 2, 0.1)
        pm.StudentT(
            "y", degrees, mu=offset + x @ weights, sigma=scale, observed=x @ [1.0, -0.5] + rng.standard_t(3, 40)
        )
    return model


def mixture() -> object:
    rng = np.random.default_rng(2)
    y = np.concatenate([rng.normal(-2, 1, 30), rng.normal(2, 0.5, 20)])
    with pm.Model() as model:
        shares = pm.Dirichlet("shares", np.ones(2))
        ordered = pm.distributions.transforms.ordered
        centers = pm.Normal("centers", 0, 5, shape=2, transform=ordered, initval=[-1.0, 1.0])
        pm.NormalMixture("y", shares, centers, pm.HalfNormal("sd", 1, shape=2), observed=y)
    return model


def survival() -> object:
    """Weibull survival with censored times as a potential."""
    rng = np.random.default_rng(3)
    times, x = rng.weibull(1.5, 40), rng.normal(size=40)
    censored = times > 1.2
    with pm.Model() as model:
        shape, slope = pm.Gamma("shape", 2, 1), pm.Normal("slope", 0, 1)
        low = pm.Uniform("low", 0, shape)  # bounds that another variable sets
        scale = pm.math.exp(slope * x) * (1 + low)
        pm.Weibull("t", alpha=shape, beta=scale[~censored], observed=times[~censored])
        pm.Potential("later", -((1.2 / scale[censored]) ** shape).sum())
    return model


GALLERY: dict[str, Callable[[], object]] = {
    "eight schools": eight_schools,
    "radon": radon,
    "robust regression": robust_regression,
    "mixture": mixture,
    "survival": survival,
}


@pytest.mark.parametrize("name", GALLERY)
def test_density_is_that_of_pymc(name: str) -> None:
    model = GALLERY[name]()
    posterior = iv.from_pymc(model)
    first = model.initial_point()
    position = np.concatenate([np.ravel(first[value.name]) for value in model.value_vars])
    position = position + 0.3 * np.random.default_rng(4).normal(size=(3, posterior.dimension))
    log_density, prior, slope = model.compile_logp(), model.compile_logp(vars=model.free_RVs), model.compile_dlogp()
    potential = posterior.potential()
    found = potential.parts(position, "apart")
    for k, row in enumerate(position):
        ends = np.cumsum([0, *(np.size(first[value.name]) for value in model.value_vars)])
        point = {
            value.name: row[ends[i] : ends[i + 1]].reshape(np.shape(first[value.name]))
            for i, value in enumerate(model.value_vars)
        }
        np.testing.assert_allclose(-found.energy[k], log_density(point), rtol=1e-10)
        np.testing.assert_allclose(-found.prior[k], prior(point), rtol=1e-10)
        np.testing.assert_allclose(-found.gradient[k], slope(point), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(potential.energy(position), found.energy, rtol=1e-12)
    theta = posterior.to_theta(position)
    np.testing.assert_allclose(posterior.to_position(theta), position, rtol=1e-8, atol=1e-8)
    assert posterior.check_gradient().passed
    assert hasattr(posterior, "sample_prior") == (name != "robust regression")  # which has a flat prior
    for function in posterior.deterministics.values():
        assert len(function(theta)) == 3
    assert posterior.log_likelihood(theta).shape == (3, *posterior.data.shape)


def test_a_run_has_names_of_pymc_and_draws_of_the_posterior(within) -> None:
    """A conjugate model, whose posterior is known; the control is its prior."""
    y = np.array([1.2, 0.4, 2.1, 0.9])
    with pm.Model(coords={"day": ["mon", "tue", "wed", "thu"]}) as model:
        mu = pm.Normal("mu", 0, 2)
        pm.Deterministic("twice", 2 * mu)
        pm.Normal("y", mu, 1, observed=y, dims="day")
    posterior = iv.from_pymc(model)
    run = iv.sample(
        posterior, iv.hmc(), draws=1000, seed=1, progress=False, record=posterior.deterministics, check_gradient=False
    )
    assert list(run.data.posterior.data_vars) == ["mu", "twice"]
    np.testing.assert_allclose(run.draws("twice"), 2 * run.draws("mu"))
    variance = 1 / (len(y) + 0.25)
    draws = run.draws("mu").ravel()[:: max(1, int(np.ceil(4000 / run.summary()["ess_bulk"]["mu"])))]
    assert within(*kolmogorov(draws, stats.norm(variance * y.sum(), variance**0.5).cdf))
    assert not within(*kolmogorov(draws, stats.norm(0, 2).cdf))
    prior = posterior.sample_prior(np.random.default_rng(0), 2000)[:, 0]
    assert within(*kolmogorov(prior, stats.norm(0, 2).cdf))


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model must be a pymc\.Model"):
        iv.from_pymc(3)
    with pytest.raises(ValueError, match="without free variables"):
        iv.from_pymc(pm.Model())
    with pm.Model() as model:
        pm.Poisson("n", 3)
    with pytest.raises(ValueError, match=r"discrete \['n'\]: marginalize"):
        iv.from_pymc(model)
