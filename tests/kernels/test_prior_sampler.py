"""Draws from the prior as moves of the last rung: their distribution, and their use for two modes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma, norm
from targets import gaussian, kolmogorov
from tempering import LINE, Square, two_modes_posterior

import invsamp as iv

TARGETS = [iv.tempering.tempered_likelihood(b) for b in (1.0, 0.3, 0.05, 0.0)]


def ladder(last, **settings):
    rungs = [iv.ladder.Rung(target, kernel=iv.kernels.Langevin(adjusted=True)) for target in TARGETS[:-1]] + [
        iv.ladder.Rung(TARGETS[-1], kernel=last)
    ]
    return iv.ladder.Sampler(rungs, iv.ladder.Swap(fraction=0.5), "dense", **settings)


class TestTarget:
    def test_is_the_prior_in_its_domain_and_draws_are_independent(self, draw, within):
        prior = iv.Prior(a=iv.Gamma(2.0, 1.0), b=iv.Normal(0.0, 1.0))

        class Sum:
            def __call__(self, theta):
                return theta.sum(axis=1, keepdims=True)

            def linearize(self, theta):
                return self(theta), lambda cotangent: np.repeat(cotangent, 2, axis=1)

        posterior = iv.Posterior(prior, Sum(), [9.0], iv.GaussianNoise(0.5), iv.constraint("b > 0"))
        rungs = [iv.ladder.Rung(TARGETS[0]), iv.ladder.Rung(TARGETS[-1], kernel=iv.kernels.prior_draws())]
        # hardly a swap: what is left of a rung's own draws
        sampler = iv.ladder.Sampler(rungs, iv.ladder.Swap(fraction=0.001))
        run = draw(posterior, sampler, draws=2000, warmup=200, chains=4, start=np.array([4.0, 4.0]))
        assert run.report["kernels"][1] == "prior draws"
        hot = run.rung_theta(1)
        for column, cdf in ((0, lambda x: gamma.cdf(x, 2.0)), (1, lambda x: 2.0 * norm.cdf(x) - 1.0)):
            assert within(*kolmogorov(hot[..., column].ravel(), cdf))
        assert not within(*kolmogorov(hot[..., 1].ravel(), norm.cdf))
        steps = hot[:, 1:] - hot[:, :-1]
        # of independent draws the variance of a difference is twice that of a draw
        ratio = (steps**2).mean(axis=(0, 1)) / (2.0 * hot.var(axis=(0, 1)))
        assert within(ratio - 1.0, 0.15)

    def test_weights_of_modes_are_right_though_all_chains_start_in_one(self, draw, agrees, within):
        posterior = two_modes_posterior()
        settings = {"draws": 400, "thin": 2, "warmup": 600, "start": np.array([1.5])}
        run = draw(posterior, ladder(iv.kernels.prior_draws()), **settings)
        assert agrees(LINE.shares(run), LINE.truth(posterior.potential(), TARGETS))
        # by itself the cold rung stays where it began
        alone = draw(posterior, iv.mala(), **settings)
        left = LINE.truth(posterior.potential(), TARGETS[:1])[:2].sum()
        assert not within(LINE.shares(alone)[:, :2].sum(axis=1).mean() - left, 0.1)

    def test_of_another_prior_is_rejected(self, draw, agrees, monkeypatch):
        """As if its mean were 0: the weights of the modes are those of that posterior, nearly."""
        posterior = two_modes_posterior()
        sample = iv.Prior.sample
        monkeypatch.setattr(iv.Prior, "sample", lambda prior, rng, n: sample(prior, rng, n) - 0.2)
        run = draw(posterior, ladder(iv.kernels.prior_draws()), draws=400, thin=2, warmup=600, start=np.array([1.5]))
        assert not agrees(LINE.shares(run), LINE.truth(posterior.potential(), TARGETS))


class TestRefused:
    def test_another_distribution_is_rejected(self):
        with pytest.raises(ValueError, match=r"prior_draws\(\) is for the prior.* got beta = 0.3"):
            iv.ladder.Rung(TARGETS[1], kernel=iv.kernels.prior_draws())

    def test_a_problem_without_a_prior(self):
        class Split:
            dimension = 1

            def energy(self, position):
                return gaussian(1.0).energy(position)

            def energy_and_gradient(self, position):
                return gaussian(1.0).energy_and_gradient(position)

            def parts(self, position, gradient):
                energy, slope = self.energy_and_gradient(position)
                return iv.protocols.Parts(energy, slope, 0.5 * energy, 0.5 * slope)

        with pytest.raises(ValueError, match=r"prior_draws\(\) needs a problem whose prior can be drawn from.* Target"):
            iv.sample(Split(), ladder(iv.kernels.prior_draws()), draws=1)

    def test_a_boundary_that_changes_the_prior(self):
        sampler = ladder(iv.kernels.prior_draws(), boundary=iv.domains.penalized(1.0))
        with pytest.raises(ValueError, match=r"supports only the boundaries 'reflect' and 'ignore', got penalty 1"):
            iv.sample(two_modes_posterior(), sampler, draws=1)

    def test_a_domain_of_hardly_any_mass(self):
        posterior = iv.Posterior(
            iv.Prior(x=iv.Normal(0.0, 1.0)), Square(), [1.0], iv.GaussianNoise(1.0), iv.constraint("x > 6")
        )
        with pytest.raises(ValueError, match="domain must overlap the prior"):
            iv.sample(posterior, ladder(iv.kernels.prior_draws()), draws=1, start=np.array([7.0]))
