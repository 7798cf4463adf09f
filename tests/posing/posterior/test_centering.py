"""Forms of a hierarchy, and the rule that chooses them."""

import numpy as np
import pytest
from scipy.optimize import minimize

import invsamp as iv

rng = np.random.default_rng(3)
#: Estimates of groups with their standard errors, the scale of the prior of tau, and which groups the rule centers.
WEAK = [28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18], 5.0
EVEN = 1.0 + 0.53 * rng.standard_normal(20), np.full(20, 40.0**-0.5), 2.0
SAME = 0.17 * rng.standard_normal(20), np.full(20, 40.0**-0.5), 2.0
STRONG = rng.standard_normal(6), np.full(6, 0.05), 1.0
COUNTS = np.array([1, 1, 1, 2, 2, 50, 100, 200, 400, 1000, 1000, 2000])
UNEVEN = 1.0 + 0.5 * rng.standard_normal(12) + rng.standard_normal(12) / np.sqrt(COUNTS), COUNTS**-0.5, 2.0


def groups(data, errors, width, *, family=iv.Normal, shift=1.0, **settings) -> iv.Posterior:
    """Estimates of groups whose spread is unknown."""
    d = len(data)
    prior = iv.Prior(mu=iv.Normal(0, 5), tau=iv.HalfCauchy(width), theta=family("mu", "tau", shape=d, **settings))
    model = iv.with_jacobian(lambda t: t, lambda t: np.broadcast_to(np.eye(d), (len(t), d, d)), parameters=("theta",))
    return iv.Posterior(prior, model, np.asarray(data) * shift, iv.GaussianNoise(errors))


#: Distributions given m and s, and whether the standard member is one of positive numbers: then the position, which is
#: a logarithm, only shifts.
FAMILIES = {
    "normal": (iv.Normal("m", "s", shape=4), False),
    "log-normal": (iv.LogNormal("m", "s", shape=4), False),
    "Student": (iv.StudentT([3, 4, 5, 6], "m", "s"), False),
    "half-normal": (iv.HalfNormal("s", shape=4), True),
    "exponential": (iv.Exponential("1 / s", shape=4), True),
    "gamma": (iv.Gamma([2.0, 3.0, 4.0, 5.0], "s"), True),
}
MASKS = [True, True, True, True], [False, True, False, True], [True, False, False, False]


@pytest.mark.parametrize("name", FAMILIES)
def test_all_forms_are_one_density(name) -> None:
    family, shifted = FAMILIES[name]
    # what depends on x in its turn is not centered
    below = iv.Normal("log(1 + x**2)", "s", shape=4, centered=False)
    prior = iv.Prior(x=family, m=iv.Normal(0.5, 0.3), s=iv.LogNormal(-0.5, 0.4), y=below)
    posterior = iv.Posterior(prior, log_likelihood=iv.LogDensity(lambda t: -0.1 * (t**2).sum(1), lambda t: -0.2 * t))
    theta = posterior.sample_prior(np.random.default_rng(0), 30)
    energy = posterior.potential().energy(posterior.to_position(theta))
    scale = theta[:, posterior.prior.slices["s"]]
    for mask in MASKS:
        form = posterior.with_centering({"x": mask})
        position = form.to_position(theta)
        np.testing.assert_allclose(form.to_theta(position), theta, rtol=1e-13)
        # a density of theta that is the same: positions of centered entries are scale times as far apart
        apart = 0.0 if shifted else sum(mask) * np.log(scale[:, 0])
        np.testing.assert_allclose(form.potential().energy(position), energy + apart, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            form.log_prior_at(position),
            posterior.log_prior_at(posterior.to_position(theta)) - apart,
            rtol=1e-12,
            atol=1e-11,
        )
        assert taylor(form.potential(), position[:8]) == pytest.approx(2.0, abs=0.1)


def taylor(potential, position) -> float:
    """Order at which the remainder of the first-order expansion falls."""
    rng = np.random.default_rng(1)
    move, steps = rng.standard_normal(position.shape), (1e-2, 1e-3)
    energy, gradient = potential.energy_and_gradient(position)
    left = [
        np.abs(potential.energy(position + step * move) - energy - step * (gradient * move).sum(axis=1)).sum()
        for step in steps
    ]
    return float(np.log10(left[0] / left[1]))


def test_an_array_gives_each_entry_its_form() -> None:
    mask = [True, False, True, False, True, False]
    given, chosen = groups(*STRONG, centered=mask), groups(*STRONG)
    assert (given.centering, chosen.given_centering) == ({}, {})
    np.testing.assert_array_equal(given.given_centering["theta"], mask)
    theta = given.sample_prior(np.random.default_rng(0), 5)
    position = given.to_position(theta)
    np.testing.assert_array_equal(position[:, 2:][:, mask], theta[:, 2:][:, mask])
    np.testing.assert_array_equal(position, chosen.with_centering({"theta": mask}).to_position(theta))
    assert str(given.prior.graph).endswith("theta[6] ~ Normal(mu, tau)  (3 of 6 centered)")
    assert given.prior != chosen.prior
    assert hash(given.prior) != hash(groups(*STRONG, centered=True).prior)


def test_wrong_forms_are_refused() -> None:
    with pytest.raises(ValueError, match="centered must be True or False, an array of these"):
        iv.Normal("mu", 1, centered=[0.5, 1.0])
    with pytest.raises(ValueError, match=r"centered of theta must broadcast to its shape \(6,\), got shape \(3,\)"):
        groups(*STRONG, centered=[True, False, True])
    with pytest.raises(ValueError, match="centered must be one of"):
        groups(*STRONG).with_centering({"mu": True})


@pytest.mark.parametrize("form", [True, False])
def test_domains_and_shapes_leave_no_choice(form) -> None:
    density = iv.LogDensity(lambda t: 0.0 * t[:, 0], lambda t: 0.0 * t)
    prior = iv.Prior(m=iv.Normal(0, 1), x=iv.Normal("m", 1, shape=2), u=iv.Uniform("m", 5), b=iv.Beta("exp(m)", 2))
    posterior = iv.Posterior(prior, log_likelihood=density, domain="x[0] < x[1]" if form else None)
    assert list(posterior.centering) == ([] if form else ["x"])


def minimum(posterior) -> dict:
    """What the rule finds at the lowest of three minima."""
    potential, d = posterior.potential(), posterior.dimension

    def energy(x):
        value, slope = potential.energy_and_gradient(x[None])
        return value[0], slope[0]

    starts = posterior.sample_start(np.random.default_rng(0), 3)
    best = min((minimize(energy, x, jac=True, method="L-BFGS-B") for x in starts), key=lambda found: found.fun).x
    moves = 1e-4 * np.eye(d)
    slopes = [potential.energy_and_gradient(best + way * moves)[1] for way in (1, -1)]
    parts = potential.parts(best[None], "apart")
    return posterior.centering_at(best, (parts.gradient - parts.prior_gradient)[0], (slopes[0] - slopes[1]) / 2e-4)


class TestTheRule:
    @pytest.mark.parametrize(
        ("data", "centered"),
        [(WEAK, 8 * [0]), (EVEN, 20 * [1]), (SAME, 20 * [0]), (STRONG, 6 * [1]), (UNEVEN, [0, 0, 0, 0, 0, *7 * [1]])],
        ids=["weak", "even", "same", "strong", "uneven"],
    )
    def test_what_data_inform_is_centered(self, data, centered) -> None:
        np.testing.assert_array_equal(minimum(groups(*data))["theta"], centered)

    def test_other_families(self) -> None:
        assert minimum(groups(*STRONG, family=lambda *p, **s: iv.StudentT(4, *p, **s)))["theta"].all()
        errors = np.array([3.0, 3.0, 3.0, 0.01, 0.01, 0.01])
        d = len(errors)
        prior = iv.Prior(rate=iv.LogNormal(0, 1), x=iv.Exponential("rate", shape=d))
        model = iv.with_jacobian(lambda t: t, lambda t: np.broadcast_to(np.eye(d), (len(t), d, d)), parameters=("x",))
        found = minimum(iv.Posterior(prior, model, [1.0, 2.0, 0.5, 1.1, 0.6, 2.2], iv.GaussianNoise(errors)))
        np.testing.assert_array_equal(found["x"], [0, 0, 0, 1, 1, 1])

    def test_small_scales_decide(self) -> None:
        """Six groups that may be alike: the data dominate at the expected scale, but not where the scale is small."""
        rng = np.random.default_rng(5)
        truth = rng.normal(2.0, 1.0, 6)
        data = (truth[:, None] + rng.normal(0.0, 0.8, (6, 3))).mean(axis=1)
        prior = iv.Prior(mu=iv.Normal(0, 5), tau=iv.HalfNormal(3), theta=iv.Normal("mu", "tau", shape=6))
        model = iv.with_jacobian(
            lambda t: t, lambda t: np.broadcast_to(np.eye(6), (len(t), 6, 6)), parameters=("theta",)
        )
        near = iv.Posterior(prior, model, data, iv.GaussianNoise(0.8 / np.sqrt(3.0)))
        apart = iv.Posterior(prior, model, 3.0 * data, iv.GaussianNoise(0.8 / np.sqrt(3.0)))
        assert not minimum(near)["theta"].any()
        assert minimum(apart)["theta"].all()

    def test_two_levels(self) -> None:
        # groups of groups: what few data say of a class is not what many say of its schools
        prior = iv.Prior(
            mu=iv.Normal(0, 5),
            tau=iv.HalfNormal(1),
            school=iv.Normal("mu", "tau", shape=(5, 1)),
            sd=iv.HalfNormal(1),
            pupil=iv.Normal("school", "sd", shape=(5, 8)),
        )
        rng = np.random.default_rng(0)
        schools = 2.0 * np.random.default_rng(3).standard_normal((5, 1))
        truth = schools + rng.standard_normal((5, 8))
        eye = np.eye(40)
        model = iv.with_jacobian(lambda t: t, lambda t: np.broadcast_to(eye, (len(t), 40, 40)), parameters=("pupil",))
        # pupils of sd 1 place a school to .35, of a spread of about 2; to 2 where each is seen to 6
        for noise, centered in ((0.05, True), (6.0, False)):
            data = truth + noise * rng.standard_normal(truth.shape)
            found = minimum(iv.Posterior(prior, model, data, iv.GaussianNoise(noise)))
            for name, entries in found.items():
                np.testing.assert_array_equal(entries, centered, err_msg=f"{name} at {noise}")
