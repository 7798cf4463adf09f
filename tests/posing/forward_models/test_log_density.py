"""Log likelihoods and log densities as functions of theta."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_versions import elpd
from scipy import stats

import invsamp as iv
from invsamp.errors import ModelError

TIMES = np.linspace(0.2, 2.0, 8)
DATA = np.array([1.7, 1.2, 1.05, 0.8, 0.7, 0.45, 0.5, 0.35])
PRIOR = iv.Prior(start=iv.LogNormal(0.5, 0.5), rate=iv.LogNormal(0.0, 0.5), sd=iv.HalfNormal(0.5))


def curve(theta):
    return theta[:, :1] * np.exp(-theta[:, 1:2] * TIMES)


def curve_slopes(theta):
    y = curve(theta)
    return np.stack([y / theta[:, :1], -TIMES * y], axis=2)


def each(theta):
    """Log likelihood of every datum."""
    return stats.norm.logpdf(DATA, curve(theta), theta[:, 2:])


def each_slope(theta):
    z = (DATA - curve(theta)) / theta[:, 2:]
    by_curve = z[:, :, None] / theta[:, 2:, None] * curve_slopes(theta)
    return np.concatenate([by_curve, ((z**2 - 1.0) / theta[:, 2:])[:, :, None]], axis=2)


POSED = iv.Posterior(PRIOR, iv.with_jacobian(curve, curve_slopes, ("start", "rate")), DATA, iv.GaussianNoise("sd"))
DENSITIES = {
    "by datum": iv.LogDensity(each, each_slope, data=8),
    "their sum's gradient": iv.LogDensity(each, lambda t: each_slope(t).sum(axis=1), data=8),
    "both at once": iv.LogDensity(lambda t: (each(t), each_slope(t)), gradient=True, data=8),
    "one number": iv.LogDensity(lambda t: each(t).sum(axis=1), lambda t: each_slope(t).sum(axis=1)),
    "a pair": iv.LogDensity(lambda t: (each(t).sum(axis=1), each_slope(t).sum(axis=1)), True),
    "a model": iv.LogDensity(iv.with_jacobian(each, each_slope), data=8),
    "row by row": iv.LogDensity(
        iv.scalar_function(lambda t: each(t[None]).sum(), lambda t: each_slope(t[None])[0].sum(axis=0))
    ),
    "complex steps": iv.LogDensity(
        iv.finite_differences(
            lambda t: (
                (-0.5 * ((DATA - curve(t)) / t[:, 2:]) ** 2 - np.log(t[:, 2:])).sum(axis=1) - 4.0 * np.log(2.0 * np.pi)
            ),
            scheme="complex_step",
        )
    ),
}


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES)
def test_is_the_posterior_of_model_data_and_noise(density) -> None:
    posterior = iv.Posterior(PRIOR, log_likelihood=density)
    position = posterior.sample_start(np.random.default_rng(0), 5)
    for found, wanted in zip(
        posterior.potential().parts(position, "apart"), POSED.potential().parts(position, "apart"), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(posterior.potential().energy(position), POSED.potential().energy(position), rtol=1e-12)
    assert posterior.check_gradient().passed
    theta = posterior.to_theta(position)
    found = posterior.log_likelihood(theta)
    np.testing.assert_allclose(
        found if density.data else found[:, None].T[0], each(theta) if density.data else each(theta).sum(1)
    )


def test_minibatches_take_derivatives_by_datum() -> None:
    indices = np.array([[0, 3], [7, 1]])
    position = POSED.sample_start(np.random.default_rng(1), 2)
    terms = iv.Posterior(PRIOR, log_likelihood=DENSITIES["by datum"]).potential().terms(position, indices)
    for found, wanted in zip(terms, POSED.potential().terms(position, indices), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
    other = iv.Posterior(PRIOR, log_likelihood=DENSITIES["their sum's gradient"])
    with pytest.raises(iv.ModelError, match=r"gradient must have shape \(2, 8, 3\), of each datum, for minibatches"):
        other.potential().terms(position, indices)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_cross_validation_and_what_cannot_be_predicted() -> None:
    posterior = iv.Posterior(PRIOR, log_likelihood=DENSITIES["by datum"])
    run = iv.sample(posterior, draws=200, chains=4, seed=3, progress=False)
    found, wanted = run.loo(posterior), run.loo(POSED)
    assert elpd(found) == pytest.approx(elpd(wanted), rel=1e-10)
    assert "observed_data" not in run.data and "prior" in run.data
    with pytest.raises(
        ValueError, match="must have a forward model, data and noise, got one posed by its log likelihood"
    ):
        run.posterior_predictive(posterior)
    with pytest.raises(ValueError, match="must have a forward model to predict"):
        posterior.predict(run.theta[0])
    one = iv.Posterior(PRIOR, log_likelihood=DENSITIES["one number"])
    with pytest.raises(ValueError, match=r"posterior must give the log likelihood of each datum .*LogDensity"):
        run.loo(one)
    assert "a log likelihood" in repr(posterior) and "8 data" in repr(posterior)


def test_zero_density_and_failures_are_distinguished() -> None:
    def value(theta):
        found = np.where(theta[:, 0] > 1.0, -np.inf, -theta[:, 0])
        return np.where(theta[:, 0] < -1.0, np.nan, found)

    posterior = iv.Posterior(
        iv.Prior(a=iv.Normal(0, 1)), log_likelihood=iv.LogDensity(value, lambda t: -np.ones_like(t))
    )
    energy, gradient = posterior.potential().energy_and_gradient(np.array([[0.5], [2.0], [-2.0]]))
    np.testing.assert_array_equal(np.isfinite(energy), [True, False, False])
    np.testing.assert_array_equal(gradient[1:], 0.0)

    def fails(theta):
        if (theta > 1.0).any():
            raise RuntimeError("beyond 1")
        return -theta[:, 0]

    posterior = iv.Posterior(
        iv.Prior(a=iv.Normal(0, 1)), log_likelihood=iv.LogDensity(fails, lambda t: -np.ones_like(t))
    )
    energy, _ = posterior.potential().energy_and_gradient(np.array([[0.5], [2.0]]))
    np.testing.assert_array_equal(np.isfinite(energy), [True, False])
    assert posterior.failure_message() == "RuntimeError: beyond 1"


class TestWithoutGradient:
    posterior = iv.Posterior(
        iv.Prior(x=iv.Normal(0, 1, shape=2)), log_likelihood=lambda t: -1.5 * ((t - [1.0, -1.0]) ** 2).sum(axis=1)
    )

    def test_crank_nicolson_is_right(self, draw, agrees) -> None:
        values = draw(self.posterior, iv.pcn(), draws=60, thin=4).draws("x")
        moments = np.concatenate([values.mean(axis=1), (values**2).mean(axis=1)], axis=1)
        assert agrees(moments, [0.75, -0.75, 0.8125, 0.8125])
        assert not agrees(moments, [0.7, -0.7, 0.8125, 0.8125])

    def test_others_refuse_by_name_before_any_solve(self) -> None:
        asked = []
        posterior = iv.Posterior(iv.Prior(a=iv.Normal(0, 1)), log_likelihood=lambda t: asked.append(t))
        for sampler in (None, iv.hmc(), iv.samplers.parallel_tempering((1.0, 4.0))):
            with pytest.raises(
                ValueError, match=r"sampler must follow no gradients of fidelity 'model', got .*pcn\(\)"
            ):
                iv.sample(posterior, sampler, progress=False)
        assert not asked
        with pytest.raises(iv.ModelError, match="the log density has no gradient"):
            iv.maximize(self.posterior, starts=2, seed=1)
        with pytest.raises(iv.ModelError, match="the log density has no gradient"):
            self.posterior.check_gradient()
        with pytest.raises(ValueError, match="sampler must follow no gradients of fidelity 'target'"):
            iv.sample(iv.LogDensity(lambda t: -(t**2).sum(axis=1), dimension=1), iv.mala(), progress=False)


def test_fidelities_and_coordinates() -> None:
    posterior = iv.Posterior(
        iv.Prior(a=iv.Uniform(0, 1), b=iv.Normal(0, 1, shape=2), c=2.0),
        domain=iv.constraint("b[0] < b[1]"),
        transforms={"a": "logit"},
        log_likelihood={
            "coarse": iv.LogDensity(
                lambda t: -t[:, 0], lambda t: -np.eye(3)[:1].repeat(len(t), 0), parameters=["a", "b"]
            ),
            "fine": iv.LogDensity(
                lambda t: -t[:, 0] * t[:, 3], lambda t: -np.stack([t[:, 3], 0 * t[:, 0], 0 * t[:, 0], t[:, 0]], 1)
            ),
        },
    )
    assert posterior.fidelities == ("coarse", "fine")
    position = posterior.sample_start(np.random.default_rng(0), 3)
    theta = posterior.to_theta(position)
    assert (theta[:, 1] < theta[:, 2]).all()
    difference = posterior.potential("fine").energy(position) - posterior.potential("coarse").energy(position)
    np.testing.assert_allclose(difference, theta[:, 0], rtol=1e-12)
    assert posterior.check_gradient(fidelity="coarse").passed and posterior.check_gradient().passed


class TestMistakes:
    prior = iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1))

    @pytest.mark.parametrize(
        ("density", "message"),
        [
            (iv.LogDensity(lambda t: t), r"the log density must have shape \(3,\), got \(3, 2\); .*data=shape"),
            (iv.LogDensity(lambda t: t, data=3), r"the log density must have shape \(3, 3\), got \(3, 2\)"),
            (iv.LogDensity(lambda t: (t[:, 0], t)), r"got a tuple of 2: .*LogDensity\(function, gradient=True\)"),
            (iv.LogDensity(lambda t: t[:, 0], lambda t: t[:, 0]), r"the gradient must have shape \(3, 2\), got \(3,\)"),
        ],
    )
    def test_of_shapes_end_a_run(self, density, message) -> None:
        potential = iv.Posterior(self.prior, log_likelihood=density).potential()
        with pytest.raises(iv.ModelError, match=message):
            potential.energy_and_gradient(np.zeros((3, 2))) if density.gradient else potential.energy(np.zeros((3, 2)))

    def test_of_arguments(self) -> None:
        density = iv.LogDensity(lambda t: t[:, 0])
        for settings, message in (
            ({}, "forward must be given: a posterior has forward, data and noise, or else a log_likelihood, got None"),
            ({"forward": TestWithoutGradient, "data": [1.0]}, "noise must be given"),
            ({"data": [1.0], "log_likelihood": density}, "data must be None beside a log_likelihood"),
            ({"log_likelihood": {}}, "log_likelihood must hold at least one function, got an empty mapping"),
            ({"log_likelihood": 3.0}, "log_likelihood must be a function, got 3.0"),
            ({"log_likelihood": {"fine": 3.0}}, r"log_likelihood\['fine'\] must be a function"),
        ):
            with pytest.raises(ValueError, match=message):
                iv.Posterior(self.prior, **settings)
        with pytest.raises(ValueError, match="gradient must be None beside a function with derivatives"):
            iv.LogDensity(iv.finite_differences(lambda t: t[:, 0]), lambda t: t)
        with pytest.raises(ValueError, match="gradient must be a function"):
            iv.LogDensity(lambda t: t[:, 0], 3.0)
        with pytest.raises(ValueError, match=r"data must be an integer >= 1 or a tuple of these, got 0"):
            iv.LogDensity(lambda t: t[:, 0], data=0)


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    density = iv.LogDensity(
        iv.from_torch(lambda t: -0.5 * ((t - torch.tensor([1.0, 2.0])) ** 2).sum(dim=1)), dimension=2
    )
    energy, gradient = density.energy_and_gradient(np.array([[0.0, 0.0], [1.0, 3.0]]))
    np.testing.assert_allclose(energy, [2.5, 0.5])
    np.testing.assert_allclose(gradient, [[-1.0, -2.0], [0.0, 1.0]])


@pytest.mark.parametrize("gradient", [None, lambda x: -x], ids=["alone", "gradient"])
def test_infinite_density_is_a_mistake(gradient) -> None:
    """Cut off in silence, a rare region would be missing from the draws."""

    def function(theta):
        return np.where(theta[:, 0] > 2.0, np.inf, -0.5 * (theta**2).sum(axis=1))

    density = iv.LogDensity(function, gradient, dimension=2)
    there = np.array([[0.0, 0.0], [2.5, 0.25]])
    prior = iv.Prior(x=iv.Normal(0, 1, shape=2))
    for potential in (density, iv.Posterior(prior, log_likelihood=iv.LogDensity(function, gradient)).potential()):
        for act in (potential.energy, *([potential.energy_and_gradient] if gradient else [])):
            assert np.isfinite(act(there[:1])[0]).all()
            with pytest.raises(ModelError, match=r"log density must be finite.*got \+inf at theta \[2.5, 0.25\]"):
                act(there)


def test_differences_have_the_attributes_of_the_function() -> None:
    class Served:
        """The information that a server gives of its model."""

        input_sizes, parameters, n_observations, output_shape, message = (2, 1), ("a", "b"), 6, (2, 3), "no answer"

        def __call__(self, theta):
            return -0.5 * (theta**2).sum(axis=1)

    served = iv.finite_differences(Served())
    assert served.parameters == ("a", "b") and served.output_shape == (2, 3) and served.message == "no answer"
    assert iv.finite_differences(Served(), parameters=["c"]).parameters == ("c",)

    class One(Served):
        parameters, n_observations, output_shape = None, 1, None

    density = iv.LogDensity(iv.finite_differences(One()))
    assert density.dimension == 3 and iv.Target(density).dimension == 3
    np.testing.assert_allclose(density.energy_and_gradient(np.ones((2, 3)))[1], 1.0, rtol=1e-6)
