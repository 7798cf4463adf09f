"""Parameters that depend on each other: densities, draws, coordinates, and what cannot be."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import integrate, stats

import invsamp as iv
from invsamp.posing.priors.joint_prior import widened

Z = np.array([-1.0, 0.0, 2.0])
#: Distributions of x given a and s > 0, and the same in SciPy. Those of the first dictionary are sampled non-centered.
STRETCHED = {
    "normal": (iv.Normal("a", "s"), lambda a, s: stats.norm(a, s)),
    "formulas": (iv.Normal("2 * a - 1", "exp(a) * s"), lambda a, s: stats.norm(2 * a - 1, np.exp(a) * s)),
    "log-normal": (iv.LogNormal("a", "s"), lambda a, s: stats.lognorm(s, scale=np.exp(a))),
    "half-normal": (iv.HalfNormal("s"), lambda a, s: stats.halfnorm(scale=s)),
    "gamma's rate": (iv.Gamma(2.5, "s"), lambda a, s: stats.gamma(2.5, scale=1 / s)),
    "cauchy": (iv.Cauchy("a", "s"), lambda a, s: stats.cauchy(a, s)),
    "t": (iv.StudentT(4, "a", "s"), lambda a, s: stats.t(4, a, s)),
    "half t": (iv.distributions.HalfStudentT(4, "s"), lambda a, s: stats.t(4, 0, s)),
    "half-cauchy": (iv.HalfCauchy("s"), lambda a, s: stats.halfcauchy(scale=s)),
    "exponential": (iv.Exponential("s"), lambda a, s: stats.expon(scale=1 / s)),
    "inverse gamma's rate": (iv.distributions.InverseGamma(3, "s"), lambda a, s: stats.invgamma(3, scale=s)),
    "weibull's scale": (iv.distributions.Weibull(1.7, "s"), lambda a, s: stats.weibull_min(1.7, scale=s)),
    "uniform": (iv.Uniform("a", "a + s"), lambda a, s: stats.uniform(a, s)),
    "log-uniform": (iv.LogUniform("s", "s * exp(s)"), lambda a, s: stats.loguniform(s, s * np.exp(s))),
}
SHAPED = {
    "beta": (iv.Beta("s", "1 + s"), lambda a, s: stats.beta(s, 1 + s)),
    "gamma": (iv.Gamma("s", "1 + s"), lambda a, s: stats.gamma(s, scale=1 / (1 + s))),
    "inverse gamma": (iv.distributions.InverseGamma("2 + s", "s"), lambda a, s: stats.invgamma(2 + s, scale=s)),
    "degrees of freedom": (iv.StudentT("1 + s", "a", "s"), lambda a, s: stats.t(1 + s, a, s)),
    "half degrees of freedom": (iv.distributions.HalfStudentT("1 + s", "s"), lambda a, s: stats.t(1 + s, 0, s)),
    "weibull": (iv.distributions.Weibull("1 + s", "s"), lambda a, s: stats.weibull_min(1 + s, scale=s)),
}
FAMILIES = STRETCHED | SHAPED
PARENTS = {"a": iv.Normal(0.3, 0.4), "s": iv.Gamma(9.0, 8.0)}
A, S = stats.norm(0.3, 0.4), stats.gamma(9.0, scale=1 / 8.0)


def halved(name: str) -> float:
    """The density of an absolute value is twice that of a symmetric number."""
    return np.log(2.0) if name.startswith("half t") or name.startswith("half degrees") else 0.0


def distribution_of(name: str, values: np.ndarray, a: np.ndarray, s: np.ndarray) -> np.ndarray:
    found = FAMILIES[name][1](a, s).cdf(values)
    return 2.0 * found - 1.0 if halved(name) else found


@pytest.mark.parametrize("name", FAMILIES)
class TestFamilies:
    def test_the_density_is_that_of_the_family(self, name) -> None:
        target, reference = FAMILIES[name]
        prior = iv.Prior(x=target, **PARENTS)
        theta = prior.sample(np.random.default_rng(0), 40)
        x, a, s = theta.T
        wanted = reference(a, s).logpdf(x) + halved(name) + A.logpdf(a) + S.logpdf(s)
        np.testing.assert_allclose(prior.log_density(theta), wanted, rtol=1e-9, atol=1e-9)
        step = 1e-6 * np.eye(3)
        for theta_one in theta[:5]:
            differences = np.diff(
                prior.log_density(theta_one + np.stack([-step, step]).reshape(6, 3)).reshape(2, 3), axis=0
            )
            np.testing.assert_allclose(prior.gradient(theta_one[None])[0], differences[0] / 2e-6, rtol=2e-5, atol=2e-5)

    def test_the_density_integrates_to_one(self, name) -> None:
        prior = iv.Prior(x=FAMILIES[name][0], **PARENTS)
        a, s = 0.2, 0.7
        given = np.exp(A.logpdf(a) + S.logpdf(s))
        ends = FAMILIES[name][1](a, s).ppf([1e-7, 1 - 1e-7])
        ends[0] = max(ends[0], 0.0) if halved(name) else ends[0]
        density = lambda x: np.exp(prior.log_density([[x, a, s]])[0]) / given  # noqa: E731
        edges = np.linspace(*(np.arcsinh(ends)), 30)
        whole = sum(integrate.quad(lambda t: density(np.sinh(t)) * np.cosh(t), *edges[k : k + 2])[0] for k in range(29))
        assert whole == pytest.approx(1.0, abs=1e-5)

    def test_draws_are_those_of_the_density(self, name, within) -> None:
        prior = iv.Prior(x=FAMILIES[name][0], **PARENTS)
        n = 4000
        x, a, s = prior.sample(np.random.default_rng(1), n).T
        level = distribution_of(name, x, a, s)
        distance = stats.kstest(level, "uniform").statistic * np.sqrt(n)
        bound = 2.5  # is exceeded once in 130,000: 2 exp(-2 d^2)
        assert within(distance, bound)
        # of draws that do not know their own s, or of half the width
        wrong = distribution_of(name, x * 1.4 + 0.3, a, s)
        assert not within(stats.kstest(wrong, "uniform").statistic * np.sqrt(n), bound)

    def test_coordinates_and_gradients(self, name) -> None:
        density = iv.LogDensity(
            lambda t: -0.5 * (np.arcsinh(t) ** 2).sum(axis=1),
            lambda t: -np.arcsinh(t) / np.sqrt(1 + t**2),
            parameters=["x", "a", "s"],
        )
        for centered in (False, True):
            if centered and "uniform" in name:
                continue
            target = pickle.loads(pickle.dumps(FAMILIES[name][0]))
            object.__setattr__(target, "centered", centered)
            posterior = iv.Posterior(iv.Prior(x=target, **PARENTS), log_likelihood=density)
            position = posterior.sample_start(np.random.default_rng(2), 20)
            theta = posterior.to_theta(position)
            np.testing.assert_allclose(posterior.to_position(theta), position, rtol=1e-7, atol=1e-7)
            assert posterior.check_gradient(theta[0]).passed, posterior.check_gradient(theta[0])
            # the density of positions is that of theta times the volume that a step of them has
            moves = 1e-6 * np.eye(3)
            volumes = [
                np.linalg.slogdet((posterior.to_theta(at + moves) - posterior.to_theta(at - moves)) / 2e-6)[1]
                for at in position[:6]
            ]
            np.testing.assert_allclose(
                posterior.log_prior_at(position[:6]), posterior.log_prior(theta[:6]) + volumes, rtol=1e-5, atol=1e-5
            )
            parts = posterior.potential().parts(position, True)
            np.testing.assert_allclose(-parts.prior, posterior.log_prior_at(position), rtol=1e-10, atol=1e-10)


def test_a_density_with_an_unknown_shape_is_as_exact_as_with_a_known_one() -> None:
    for free, given in (
        (lambda nu: iv.StudentT(nu, 1.0, 2.0), 1e9),
        (lambda nu: iv.distributions.HalfStudentT(nu, 2.0), 1e9),
        (lambda a: iv.Beta(a, 0.5), 1e9),
    ):
        prior = iv.Prior(x=free("n"), n=iv.LogNormal(np.log(given), 1.0))
        x = free(given).sample(np.random.default_rng(0), 5)
        theta = np.stack([x, np.full(5, given)], axis=1)
        found = prior.log_density(theta) - iv.LogNormal(np.log(given), 1.0).log_density([given])
        np.testing.assert_allclose(found, free(given).log_density(x), atol=1e-9)


DEEP = iv.Prior(
    y=iv.Normal("level + slope * z", "exp(log_sd)"),
    level=iv.Normal("top", "spread", shape=3, centered=True),
    z=Z,
    slope=iv.Normal(0, 1),
    log_sd=iv.Normal(-1, 0.3),
    spread=iv.HalfCauchy("2 * width"),
    width=iv.Gamma(4, 4),
    top=iv.Normal(0, "width"),
    ratio="top / (1 + spread)",
    both="y + ratio",
)


class TestDeep:
    def test_density(self) -> None:
        theta = DEEP.sample(np.random.default_rng(0), 7)
        v = DEEP.unpack(theta)
        column = lambda name: v[name][:, None]  # noqa: E731
        wanted = (
            stats.norm.logpdf(v["y"], v["level"] + column("slope") * Z, np.exp(column("log_sd"))).sum(axis=1)
            + stats.norm.logpdf(v["level"], column("top"), column("spread")).sum(axis=1)
            + stats.norm.logpdf(v["slope"])
            + stats.norm.logpdf(v["log_sd"], -1, 0.3)
            + stats.halfcauchy.logpdf(v["spread"], scale=2 * v["width"])
            + stats.gamma.logpdf(v["width"], 4, scale=0.25)
            + stats.norm.logpdf(v["top"], 0, v["width"])
        )
        np.testing.assert_allclose(DEEP.log_density(theta), wanted, rtol=1e-12)
        assert DEEP.shapes["y"] == (3,) and DEEP.dimension == 11 and DEEP.names[0] == "y"
        wide = widened(DEEP, theta)
        ratio = v["top"] / (1 + v["spread"])
        np.testing.assert_allclose(wide[:, DEEP.slices["ratio"]][:, 0], ratio)
        np.testing.assert_allclose(wide[:, DEEP.slices["both"]], v["y"] + ratio[:, None])

    @pytest.mark.parametrize("names", [("y",), ("both",), ("ratio", "z", "level"), ("spread", "both")])
    def test_gradients_through_every_name(self, names) -> None:
        width = sum(int(np.prod(DEEP.known_names.shapes.get(name, (3,)), dtype=int)) for name in names)
        model = iv.with_jacobian(
            lambda t: np.tanh(t), lambda t: (1 - np.tanh(t)[:, :, None] ** 2) * np.eye(width), parameters=names
        )
        posterior = iv.Posterior(
            DEEP, model, np.linspace(-1, 1, width), iv.GaussianNoise("exp(log_sd) + 0.1 * abs(ratio)")
        )
        position = posterior.sample_start(np.random.default_rng(3), 5)
        for theta in posterior.to_theta(position):
            assert posterior.check_gradient(theta).passed
        indices = np.tile(np.arange(width), (5, 1))
        terms = posterior.potential().terms(position, indices)
        energy, gradient = posterior.potential().energy_and_gradient(position)
        np.testing.assert_allclose(terms.prior_energy + terms.energies.sum(axis=1), energy, rtol=1e-10)
        np.testing.assert_allclose(terms.prior_gradient + terms.gradients.sum(axis=1), gradient, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(posterior.potential().energy(position), energy, rtol=1e-13)

    def test_graph(self) -> None:
        assert str(DEEP.graph).splitlines() == [
            "y[3] ~ Normal(level + slope * z, exp(log_sd))  (centering chosen by the run)",
            "level[3] ~ Normal(top, spread)  (centered)",
            "z[3] = [-1.0, 0.0, 2.0]",
            "slope ~ Normal(0, 1)",
            "log_sd ~ Normal(-1, 0.3)",
            "spread ~ HalfCauchy(2 * width)  (centering chosen by the run)",
            "width ~ Gamma(4, 4)",
            "top ~ Normal(0, width)  (centering chosen by the run)",
            "ratio = top / (1 + spread)",
            "both[3] = y + ratio",
        ]
        assert DEEP.graph.parents["y"] == ("level", "slope", "z", "log_sd") and DEEP.graph.parents["slope"] == ()
        again = iv.Prior(**{name: {**DEEP.distributions, **DEEP.fixed, **DEEP.tied}[name] for name in DEEP.order})
        assert again == DEEP and hash(again) == hash(DEEP) and "y + ratio" in repr(DEEP)

    def test_what_neither_noise_nor_distributions_use_is_the_models(self) -> None:
        posterior = iv.Posterior(
            iv.Prior(
                mu=iv.Normal(0, 1), x=iv.Normal("mu", 1, shape=2), z=2.0, y=iv.Normal("z", 1), sd=0.5, both="x + y"
            ),
            log_likelihood=iv.LogDensity(lambda t: t.sum(axis=1)),
        )
        value = posterior.log_likelihood([[10.0, 1.0, 2.0, 4.0]])  # x, y, sd, both
        assert value[0] == 1 + 2 + 4 + 0.5 + (5 + 6)

    def test_data_are_drawn_by_tied_quantities(self) -> None:
        prior = iv.Prior(a=iv.Normal(0, 1), sd="exp(a) / 1e9")
        posterior = iv.Posterior(
            prior, iv.finite_differences(lambda t: 3 * t, parameters="a"), [1.0], iv.GaussianNoise("sd")
        )
        drawn = posterior.sample_data(np.random.default_rng(0), [[0.5]])
        assert 0.0 < abs(drawn[0, 0] - 1.5) < 1e-7

    def test_predictions_and_noise_have_tied_quantities(self) -> None:
        prior = iv.Prior(a=iv.Normal(0, 1), b="2 * a", sd="exp(b) / 1e9")
        posterior = iv.Posterior(
            prior, iv.finite_differences(lambda t: 3 * t, parameters="b"), [1.0], iv.GaussianNoise("sd")
        )
        y = posterior.predict({"a": [0.5]})
        assert y[0, 0] == 3.0
        noisy = posterior.sample_noise(np.random.default_rng(0), y, [[0.5]])
        assert 0.0 < abs(noisy[0, 0] - 3.0) < 1e-7
        wanted = stats.norm.logpdf(1.0, 3.0 * 0.2, np.exp(0.2) / 1e9)
        assert posterior.log_likelihood([[0.1]])[0, 0] == pytest.approx(wanted)
        assert posterior.check_gradient([1 / 6 + 1e-10]).admitted > 0

    def test_a_model_of_all_that_is_sampled_gets_nothing_that_is_tied(self) -> None:
        line = iv.with_jacobian(lambda t: t, lambda t: np.tile(np.eye(2), (len(t), 1, 1)))
        prior = iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1), sd="exp(a)")
        potential = iv.Posterior(prior, line, [1.0, 2.0], iv.GaussianNoise("sd")).potential()
        energy, gradient = potential.energy_and_gradient(theta := np.array([[0.3, -0.5], [-1.0, 0.2]]))
        misfit = 0.5 * ((theta - [1.0, 2.0]) ** 2).sum(axis=1) / np.exp(2 * theta[:, 0])
        log_terms = 2 * theta[:, 0] + 2 * np.log(2 * np.pi)  # of the noise, and constants of the prior, too
        np.testing.assert_allclose(energy, 0.5 * (theta**2).sum(axis=1) + misfit + log_terms, rtol=1e-13)
        np.testing.assert_array_equal(potential.energy(theta), energy)
        slope = theta + (theta - [1.0, 2.0]) / np.exp(2 * theta[:, :1])
        slope[:, 0] += 2.0 - 2.0 * misfit
        np.testing.assert_allclose(gradient, slope, rtol=1e-12)


MEANS, ERRORS = np.array([2.8, 0.8, -0.3, 0.7, -0.1, 1.8]), np.array([1.5, 1.0, 1.6, 1.1, 0.9, 1.8])


UNIT = iv.with_jacobian(lambda t: t, lambda t: np.tile(np.eye(6), (len(t), 1, 1)))


def schools(density) -> np.ndarray:
    """Means of log(tau), mu, its square and the first school: tau by quadrature, the others are Gaussian given it."""
    tau = np.exp(np.linspace(-12, 4, 6001))
    total = tau[:, None] ** 2 + ERRORS**2
    precision = 1 / 4.0 + (1 / total).sum(axis=1)
    mean = (MEANS / total).sum(axis=1) / precision
    log = -0.5 * (np.log(total) + MEANS**2 / total).sum(axis=1) - 0.5 * np.log(precision) + 0.5 * mean**2 * precision
    weight = np.exp(log - log.max()) * density(tau) * tau
    weight /= weight.sum()
    share = tau**2 / (tau**2 + ERRORS[0] ** 2)
    first = share * MEANS[0] + (1 - share) * mean
    values = np.log(tau), mean, mean**2 + 1 / precision, first
    return np.array([(weight * value).sum() for value in values])


def sampled(draw, tau, centered, **settings) -> np.ndarray:
    prior = iv.Prior(theta=iv.Normal("mu", "tau", shape=6, centered=centered), mu=iv.Normal(0, 2), tau=tau)
    run = draw(iv.Posterior(prior, UNIT, MEANS, iv.GaussianNoise(ERRORS)), iv.mala(), **settings)
    values = [np.log(run.draws("tau")), run.draws("mu"), run.draws("mu") ** 2, run.draws("theta")[..., 0]]
    return np.stack(values, axis=-1).mean(axis=1)


@pytest.mark.parametrize("centered", [False, True])
def test_a_hierarchy_is_sampled_right(centered, draw, agrees) -> None:
    values = sampled(draw, iv.LogNormal(0, 0.4), centered, draws=50, warmup=300, thin=4)
    assert agrees(values, schools(lambda tau: stats.lognorm(0.4).pdf(tau)))
    assert not agrees(values, schools(lambda tau: stats.lognorm(0.4, scale=1.4).pdf(tau)))


@pytest.mark.slow
def test_a_funnel_is_sampled_right(draw, agrees) -> None:
    values = sampled(draw, iv.HalfCauchy(1), False, draws=60, warmup=1000, thin=5)
    assert agrees(values, schools(lambda tau: stats.halfcauchy.pdf(tau)))
    assert not agrees(values, schools(lambda tau: stats.halfcauchy.pdf(tau, scale=3.0)))


def test_proposals_hold_to_the_standard_normal() -> None:
    prior = iv.Prior(mu=iv.Normal(1, 2), tau=iv.LogNormal(0, 0.5), x=iv.Normal("mu", "tau", shape=2))
    posterior = iv.Posterior(prior, log_likelihood=lambda t: t[:, 0])
    mean, sd, exact = posterior.reference()
    assert exact is not None
    np.testing.assert_allclose(mean, [1, 0, 0, 0])
    np.testing.assert_allclose(sd, [2, 0.5, 1, 1])


def test_what_a_domain_constrains_is_sampled_as_itself() -> None:
    prior = iv.Prior(mu=iv.Normal(0, 1), x=iv.Normal("mu", 0.5, shape=2), y=iv.Normal("mu", 0.5))
    posterior = iv.Posterior(
        prior,
        domain=iv.constraint("x[0] < x[1]"),
        log_likelihood=iv.LogDensity(lambda t: -((t - 1) ** 2).sum(axis=1), lambda t: -2 * (t - 1)),
    )
    position = posterior.sample_start(np.random.default_rng(0), 20)
    theta = posterior.to_theta(position)
    np.testing.assert_array_equal(theta[:, 1:3], position[:, 1:3])
    assert (theta[:, 1] < theta[:, 2]).all() and (theta[:, 3] != position[:, 3]).all()
    assert posterior.check_gradient(theta[0]).passed
    moved = iv.Prior(a=iv.Normal(0, 1), x=iv.Uniform("a", "a + 1"))
    with pytest.raises(
        ValueError, match="x must be sampled non-centered and without a domain that constrains it: the bounds of"
    ):
        iv.Posterior(moved, log_likelihood=lambda t: t[:, 0], domain=iv.constraint("x > 0"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_resumes_to_the_same_draws(tmp_path) -> None:
    prior = iv.Prior(mu=iv.Normal(0, 1), tau=iv.HalfNormal(1), x=iv.Normal("mu", "tau", shape=2), s="sqrt(tau)")
    posterior = iv.Posterior(
        prior, iv.finite_differences(np.sin, parameters=["x", "s"]), [0.1, 0.2, 0.3], iv.GaussianNoise(1)
    )
    settings = {"chains": 2, "warmup": 100, "seed": 4, "progress": False}
    whole = iv.sample(posterior, iv.mala(), draws=30, **settings)
    iv.sample(posterior, iv.mala(), draws=20, directory=tmp_path / "run", **settings)
    run = iv.resume(tmp_path / "run", draws=30, progress=False)
    np.testing.assert_array_equal(run.theta, whole.theta)
    assert list(run.shapes) == ["mu", "tau", "x"]


class TestWhatCannotBe:
    normal = iv.Normal(0, 1)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"x": iv.Normal("nu", 1)}, r"x must use names in the prior, \['a', 'x'\], got \['nu'\] in Normal"),
            ({"x": iv.Normal("a + b", 1)}, r"got \['b'\]"),
            ({"x": "2 * b"}, r"x must use names in the prior, \['a', 'x'\], got \['b'\] in '2 \* b'"),
            ({"x": iv.Normal("y", 1), "y": iv.Normal("x", 1)}, "in a circle, got x -> y -> x"),
            ({"x": iv.Normal("x", 1)}, "in a circle, got x -> x"),
            ({"x": "x + 1"}, "in a circle, got x -> x"),
            ({"x": iv.Normal("y", 1), "y": "z", "z": iv.HalfNormal("x")}, "in a circle, got x -> y -> z -> x"),
            ({"x": iv.Normal(0, "a")}, "sd of x must be positive: the prior of a must have positive support"),
            ({"x": iv.Normal(0, "b"), "b": -2.0}, r"sd of x must be positive, got -2.0 of b"),
            (
                {"b": [1.0, 2.0], "x": iv.Normal("b", 1, shape=3)},
                r"x must be named parameters of shapes that broadcast",
            ),
            ({"b": [1.0, 2.0], "x": iv.Normal("b", 1, shape=1)}, r"must broadcast to its shape \(1,\), got \(2,\)"),
            ({"b": [1.0, 2.0], "c": [1.0, 2.0, 3.0], "x": "b * c"}, "x must be a formula of shapes that broadcast"),
            ({"x": iv.distributions.Triangular("a", 1, 2)}, "x must have numbers for the parameters of Triangular"),
            ({"x": iv.Uniform(0, "1 + a**2", centered=True)}, "x must be sampled non-centered"),
            ({"x": "1 +"}, "x must be made of names, numbers"),
            ({"x": ""}, "x must be a distribution such as"),
        ],
    )
    def test_is_named(self, values, message) -> None:
        with pytest.raises(ValueError, match=message):
            iv.Prior(a=self.normal, **values)

    def test_of_distributions_by_themselves(self) -> None:
        target = iv.Normal("mu", 1.0, shape=3)
        for call in (
            lambda: target.log_density(np.zeros((1, 3))),
            lambda: target.sample(np.random.default_rng(0), 1),
            lambda: iv.distributions.Ordered(target),
            lambda: iv.truncated(target, 0.0),
        ):
            with pytest.raises(ValueError, match="mean must be made of numbers, got 'mu'"):
                call()
        for text in ("mu +", "sinh(mu)", "mu^2"):
            with pytest.raises(ValueError, match="mean must be made of names, numbers"):
                iv.Normal(text, 1)
        with pytest.raises(ValueError, match="centered must be True or False"):
            iv.Normal("mu", 1, centered="no")

    def test_scales_that_turn_negative(self) -> None:
        prior = iv.Prior(a=self.normal, x=iv.Normal(0, "1 + a"))
        with pytest.raises(ValueError, match=r"sd of x must be positive, got -\d.* where 1 \+ a is drawn"):
            prior.sample(np.random.default_rng(0), 100)
        assert prior.log_density([[-2.0, 0.0], [0.0, 0.0]])[0] == -np.inf
        posterior = iv.Posterior(prior, log_likelihood=iv.LogDensity(lambda t: -t[:, 0], lambda t: -np.ones_like(t)))
        energy, gradient = posterior.potential().energy_and_gradient(np.array([[-2.0, 0.0], [0.0, 0.0]]))
        np.testing.assert_array_equal(np.isfinite(energy), [False, True])
        np.testing.assert_array_equal(gradient[0], 0.0)
        with pytest.raises(ValueError, match="upper of x must be above lower"):
            iv.Prior(a=self.normal, x=iv.Uniform(0, "a")).sample(np.random.default_rng(0), 100)

    def test_of_tied_quantities(self) -> None:
        prior = iv.Prior(a=self.normal, b="2 * a")
        with pytest.raises(ValueError, match=r"values must use the prior's parameters \['a'\], got \['b'\]"):
            prior.pack({"a": 1.0, "b": 2.0})
        with pytest.raises(ValueError, match="transforms must use the prior's parameters"):
            iv.Posterior(prior, log_likelihood=lambda t: t[:, 0], transforms={"b": "log"})
