"""One forward model for every member of a population."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv

TIMES = np.array([0.5, 1.0, 2.0])


def decay(theta):
    start, rate, level = theta.T
    return start[:, None] * np.exp(-rate[:, None] * TIMES) + level[:, None]


def slopes(theta):
    fall = np.exp(-theta[:, 1:2] * TIMES)
    return np.stack([fall, -theta[:, :1] * TIMES * fall, np.ones_like(fall)], axis=2)


ONE = iv.with_jacobian(decay, slopes, parameters=("start", "rate", "level"))
PRIOR = iv.Prior(
    level=iv.Normal(0, 1), rate=iv.LogNormal("middle", 0.3, shape=4), middle=iv.Normal(0, 1), start=[1.0, 2.0, 3.0, 4.0]
)


def test_is_the_model_of_each_member() -> None:
    population = iv.Population(ONE, 4, individual=("start", "rate"))
    data = np.random.default_rng(0).normal(size=(4, 3))
    posterior = iv.Posterior(PRIOR, population, data, iv.GaussianNoise(0.5))
    theta = PRIOR.sample(np.random.default_rng(1), 3)
    y = posterior.predict(theta)
    for k in range(4):
        rows = np.column_stack([np.full(3, k + 1.0), theta[:, 1 + k], theta[:, 0]])
        np.testing.assert_array_equal(y[:, k], decay(rows))
    assert posterior.check_gradient(theta[0]).passed
    position = posterior.to_position(theta)
    indices = np.tile(np.arange(12), (3, 1))
    terms, (energy, gradient) = (
        posterior.potential().terms(position, indices),
        posterior.potential().energy_and_gradient(position),
    )
    np.testing.assert_allclose(terms.prior_energy + terms.energies.sum(axis=1), energy, rtol=1e-12)
    np.testing.assert_allclose(terms.prior_gradient + terms.gradients.sum(axis=1), gradient, rtol=1e-10, atol=1e-10)
    assert population.parameters == ("start", "rate", "level") and np.isnan(population.cost)


def test_members_may_be_seen_at_other_times() -> None:
    data = np.ma.masked_array(np.ones((4, 3)), mask=np.eye(4, 3))
    posterior = iv.Posterior(PRIOR, iv.Population(ONE, 4, individual=("start", "rate")), data, iv.GaussianNoise(0.5))
    found = posterior.log_likelihood(PRIOR.sample(np.random.default_rng(1), 2))
    assert (found[:, :3][:, np.eye(3, dtype=bool)] == 0.0).all() and (found != 0.0).sum() == 2 * 9


def test_a_member_that_fails_is_reported() -> None:
    def fails(theta):
        if (theta[:, 1] > 50.0).any():
            raise RuntimeError("too fast")
        return decay(theta)

    model = iv.with_jacobian(fails, slopes, parameters=("start", "rate", "level"))
    posterior = iv.Posterior(
        PRIOR, iv.Population(model, 4, individual=("start", "rate")), np.ones((4, 3)), iv.GaussianNoise(0.5)
    )
    theta = PRIOR.sample(np.random.default_rng(1), 2)
    theta[1, 2] = 60.0
    energy = posterior.potential().energy(posterior.to_position(theta))
    np.testing.assert_array_equal(np.isfinite(energy), [True, False])
    assert posterior.failure_message() == "RuntimeError: too fast"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: iv.Population(ONE, 4, individual=("start", "k")),
            r"individual must hold parameters of the model, .*, got \['k'\]",
        ),
        (lambda: iv.Population(ONE, 0, individual="start"), "members must be an integer >= 1, got 0"),
        (lambda: iv.Population(iv.with_jacobian(decay, slopes), 4, individual="a"), "model must have `parameters`"),
        (lambda: iv.Population(decay, 4, individual="a"), "model must be a forward model that has derivatives"),
    ],
)
def test_bad_input(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("level", "rate", "start", "message"),
    [
        (iv.Normal(0, 1), iv.LogNormal(0, 1, shape=3), 1.0, "prior must give 'rate' shape=4, .* got 3 entries"),
        (iv.Normal(0, 1, shape=4), iv.LogNormal(0, 1), 1.0, "prior must give 'rate' shape=4, .* got 1 entries"),
        (iv.Normal(0, 1), iv.LogNormal(0, 1, shape=4), np.ones(4), "prior must give 'start' one number"),
    ],
)
def test_a_prior_of_other_sizes_is_refused(level, rate, start, message) -> None:
    """Also where there are as many columns in all."""
    prior, model = iv.Prior(level=level, rate=rate, start=start), iv.Population(ONE, 4, individual=("rate",))
    with pytest.raises(ValueError, match=message):
        iv.Posterior(prior, model, np.ones((4, 3)), iv.GaussianNoise(0.5))


def test_data_are_a_row_for_each_member() -> None:
    class Counted:
        parameters, n_observations = ("start", "rate", "level"), 3

        def __call__(self, theta):
            return decay(theta)

        def linearize(self, theta):
            return ONE.linearize(theta)

    population = iv.Population(Counted(), 4, individual=("start", "rate"))
    assert iv.Posterior(PRIOR, population, np.zeros((4, 3)), iv.GaussianNoise(1.0)).data.shape == (4, 3)
    with pytest.raises(ValueError, match=r"arranged as the outputs of the forward model 'model', \(4, 3\), got shape"):
        iv.Posterior(PRIOR, population, np.zeros((3, 4)), iv.GaussianNoise(1.0))
