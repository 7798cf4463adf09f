"""Preconditioned Crank-Nicolson: its distribution with any prior, in any number of dimensions, without a gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from targets import gaussian
from tempering import LINE, Field, Square, SquareRoot, two_modes_posterior

import invsamp as iv
from invsamp.kernels import CrankNicolson
from invsamp.kernels.contract import Info, Point, decided
from invsamp.protocols import GaussianReference


def moments(run):
    theta = run.theta
    return np.concatenate([(theta**k).mean(axis=1) for k in (1, 2)], axis=1)


class TestTarget:
    def run(self, draw, problem, sampler=None, **settings):
        return draw(problem, sampler or iv.pcn(), draws=500, thin=4, warmup=500, **settings)

    def test_where_the_prior_is_gaussian(self, draw, agrees, monkeypatch):
        """Exact, and a ratio without the reference's energies is not."""
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.5, 1.0)), Square(), [1.5], iv.GaussianNoise(1.5))
        run = self.run(draw, posterior)
        assert run.report["kernels"] == ["pcn"]
        truth = LINE.truth(posterior.potential(), [iv.tempering.tempered(1.0)])
        assert agrees(LINE.shares(run), truth)
        monkeypatch.setattr("invsamp.kernels.crank_nicolson.reference_energy", lambda z: np.zeros(len(z)))
        assert not agrees(LINE.shares(self.run(draw, posterior)), truth)

    def test_where_it_is_not(self, draw, agrees):
        """Gamma in logarithms, and normal in a domain: the reference is not the prior, the draws are."""

        class Product:
            def __call__(self, theta):
                return theta[:, :1] * theta[:, 1:]

            def linearize(self, theta):
                return self(theta), lambda cotangent: cotangent * theta[:, ::-1]

        prior = iv.Prior(a=iv.Gamma(2.0, 1.0), b=iv.Normal(0.5, 1.0))
        posterior = iv.Posterior(prior, Product(), [1.5], iv.GaussianNoise(1.0), iv.constraint("b < 1.2"))
        run = self.run(draw, posterior)
        a, b = np.meshgrid(np.linspace(1e-4, 30.0, 6001), np.linspace(-6.0, 1.2, 2401), indexing="ij")
        density = a * np.exp(-a - 0.5 * (b - 0.5) ** 2 - 0.5 * (a * b - 1.5) ** 2)
        truth = [(density * value).sum() / density.sum() for value in (a, b, a**2, b**2)]
        assert agrees(moments(run), truth)

    def test_a_gaussian_of_correlated_parameters(self, draw, agrees):
        """Conjugate: the posterior is a Gaussian; the reference has the prior's whole covariance."""
        covariance = np.array([[2.0, 1.2], [1.2, 1.0]])
        prior = iv.Prior(x=iv.MultivariateNormal([1.0, -1.0], covariance), y=iv.LogNormal(0.3, 0.5))

        class First:
            parameters = ("x",)

            def __call__(self, theta):
                return theta[:, :1]

            def linearize(self, theta):
                return self(theta), lambda cotangent: np.concatenate([cotangent, 0.0 * cotangent], axis=1)

        posterior = iv.Posterior(prior, First(), [2.5], iv.GaussianNoise(0.5))
        assert isinstance(posterior, GaussianReference)
        mean, factor, _ = posterior.reference()
        np.testing.assert_allclose(mean, [1.0, -1.0, 0.3], rtol=1e-12)
        np.testing.assert_allclose(factor @ factor.T, np.block([[covariance, np.zeros((2, 1))], [0.0, 0.0, 0.25]]))
        gain = covariance[:, 0] / (covariance[0, 0] + 0.25)
        wanted = np.array([1.0, -1.0]) + gain * 1.5
        after = covariance - np.outer(gain, covariance[0])
        truth = [*wanted, np.exp(0.3 + 0.125), *(wanted**2 + np.diag(after)), np.exp(0.6 + 0.5)]
        assert agrees(moments(self.run(draw, posterior)), truth)

    def test_of_a_density_without_a_prior(self, draw, agrees):
        """A target's reference has the spread of its starts."""
        run = self.run(draw, iv.Target(gaussian(4.0, mean=1.0)))
        assert agrees(moments(run), [1.0, 1.25])

    def test_failed_solves_are_refused(self, draw, agrees):
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(1.0, 1.0)), SquareRoot(), [1.0], iv.GaussianNoise(0.5))
        run = self.run(draw, posterior, start=np.array([1.0]))
        assert run.report["failed_solves"]["model"] > 1000
        x = np.linspace(0.0, 9.0, 90_001)
        density = np.exp(-0.5 * (x - 1.0) ** 2 - 0.5 * ((np.sqrt(x) - 1.0) / 0.5) ** 2)
        assert agrees(moments(run), [(density * x**k).sum() / density.sum() for k in (1, 2)])

    def test_outside_the_domain_nothing_is_solved(self, draw, agrees):
        """Uniform on (0, 1), whose reference reaches far beyond: 1 solve per proposal inside."""
        solved = []

        class Watched(Square):
            def __call__(self, theta):
                solved.append(theta.copy())
                return super().__call__(theta)

        posterior = iv.Posterior(iv.Prior(x=iv.Uniform(0.0, 1.0)), Watched(), [0.5], iv.GaussianNoise(0.3))
        run = self.run(draw, posterior, iv.pcn(1.0))
        positions = np.concatenate(solved)
        assert ((positions >= 0.0) & (positions <= 1.0)).all()
        assert run.report["evaluations"]["model"] < 0.9 * 256 * 2500
        x = np.linspace(0.0, 1.0, 10_001)
        density = np.exp(-0.5 * ((x**2 - 0.5) / 0.3) ** 2)
        assert agrees(moments(run), [(density * x**k).sum() / density.sum() for k in (1, 2)])


@dataclass(frozen=True)
class RandomWalk(CrankNicolson):
    """Steps of the same length in the same coordinates, which do not leave the prior as it is."""

    def step(self, rung, here, memory):
        metric = rung.reference.metric
        end = here.position + metric.color(rung.step_size * rung.normal())
        there = Point(end, (yield from rung.evaluate(end)))
        log_ratio = rung.energy(here.estimate) - rung.energy(there.estimate)
        accept = rung.log_uniform() < log_ratio
        return decided(accept, there, here), memory, Info(log_ratio, int(accept.sum()))


class TestDimension:
    """A field in 20 or 200 Karhunen-Loeve modes, seen at three points: the same posterior of what is seen."""

    def run(self, draw, modes, kernel, **settings):
        posterior = iv.Posterior(
            iv.Prior(k=iv.Normal(0.0, 1.0, shape=modes)), Field(modes), Field.data, iv.GaussianNoise(0.3)
        )
        sampler = iv.ladder.Sampler([iv.ladder.Rung(kernel=kernel, step_size=0.4)])
        return posterior, draw(posterior, sampler, **({"draws": 400, "thin": 2, "warmup": 200} | settings))

    def acceptance(self, draw, modes, kernel, **settings):
        return self.run(draw, modes, kernel, **settings)[1].report["acceptance"][0]

    def test_acceptance_does_not_depend_on_the_mesh(self, draw):
        coarse, fine = (self.acceptance(draw, modes, CrankNicolson(), draws=100) for modes in (20, 200))
        assert abs(fine - coarse) < 0.02
        coarse, fine = (self.acceptance(draw, modes, RandomWalk(), draws=50, warmup=50) for modes in (20, 200))
        assert fine < 0.1 * coarse

    def test_gradients_are_never_asked_for(self, draw, agrees):
        field = Field(20)
        posterior, run = self.run(draw, 20, CrankNicolson(), check_gradient=True)
        assert posterior.forward["model"].linearized == 0
        # conjugate: what is seen has a Gaussian posterior
        seen = run.theta @ field.matrix.T
        gain = field.matrix @ field.matrix.T
        gain = gain @ np.linalg.inv(gain + 0.09 * np.eye(3))
        assert agrees(seen.mean(axis=1), gain @ Field.data)

    def test_gradients_are_where_a_rung_wants_them(self, draw):
        posterior, _ = self.run(draw, 20, iv.kernels.Langevin(adjusted=True))
        assert posterior.forward["model"].linearized > 0


class TestNoisyEnergies:
    @staticmethod
    def spread(position, energy):
        """Standard deviations from 0 to 2, so that no two states have the same."""
        return 2.0 / (1.0 + np.exp(-position[:, 0]))

    def test_they_are_drawn_afresh_and_paid_for(self, draw, agrees):
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.5, 1.0)), Square(), [1.5], iv.GaussianNoise(1.5))

        def shares(**options):
            rung = iv.ladder.Rung(estimator=iv.estimators.noisy(self.spread), kernel=CrankNicolson(), **options)
            return LINE.shares(draw(posterior, iv.ladder.Sampler((rung,)), draws=150, thin=3, warmup=200))

        truth = LINE.truth(posterior.potential(), [iv.tempering.tempered(1.0)])
        assert agrees(shares(), truth)
        assert not agrees(shares(energy_variance=iv.variances.known(0.0)), truth)  # as if they were exact

    def test_noise_does_not_shorten_steps_for_ever(self, draw):
        """Of an sd of 3, it leaves few moves however short they are."""
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.5, 1.0)), Square(), [1.5], iv.GaussianNoise(1.5))
        sampler = iv.ladder.Sampler((iv.ladder.Rung(estimator=iv.estimators.noisy(3.0), kernel=CrankNicolson()),))
        run = draw(posterior, sampler, draws=10, warmup=200)
        assert run.report["step_sizes"][0] > 0.3 and run.report["acceptance"][0] < 0.1


class TestLadder:
    """With gradients on the cold rung and without on the hot ones, which the likelihood hardly moves."""

    posterior = two_modes_posterior()
    targets = tuple(iv.tempering.tempered_likelihood(b) for b in (1.0, 0.3, 0.05))

    def sampler(self, *kernels, rule=None):
        rungs = [iv.ladder.Rung(target, kernel=kernel) for target, kernel in zip(self.targets, kernels, strict=True)]
        return iv.ladder.Sampler(rungs, iv.ladder.Swap(rule, fraction=0.5), "dense")

    @pytest.mark.parametrize("rule", [None, iv.swaps.product_target(), iv.swaps.delayed_acceptance()], ids=str)
    def test_every_rung_samples_its_target(self, draw, agrees, rule):
        sampler = self.sampler(iv.kernels.Langevin(adjusted=True), CrankNicolson(), CrankNicolson(), rule=rule)
        run = draw(self.posterior, sampler, draws=400, thin=2, warmup=600, start=np.array([1.5]))
        assert run.report["kernels"] == ["mala", "pcn", "pcn"]
        assert agrees(LINE.shares(run), LINE.truth(self.posterior.potential(), self.targets))

    def test_at_a_temperature_the_reference_is_as_wide(self, draw, agrees):
        """The prior, too, is tempered: a proposal from its distribution at that temperature."""
        rungs = [iv.ladder.Rung(t, kernel=CrankNicolson()) for t in (1.0, 4.0)]
        run = draw(
            self.posterior, iv.ladder.Sampler(rungs, iv.ladder.Swap(fraction=0.5)), draws=400, thin=2, warmup=600
        )
        assert agrees(
            LINE.shares(run),
            LINE.truth(self.posterior.potential(), [iv.tempering.tempered(1.0), iv.tempering.tempered(4.0)]),
        )


class TestSettings:
    @pytest.mark.parametrize("step_size", [0.0, -1.0, 1.5, np.nan, "long"])
    def test_step_size(self, step_size):
        with pytest.raises(ValueError, match="step_size must be a number in"):
            iv.pcn(step_size)

    def test_warm_up_finds_its_acceptance(self, draw):
        run = draw(two_modes_posterior(), iv.pcn(), draws=200, warmup=500)
        assert run.report["acceptance"][0] == pytest.approx(0.3, abs=0.07)

    def test_warm_up_never_takes_more_than_a_whole_draw(self, draw):
        """Data that say nothing: everything is accepted, at s = 1."""
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0.0, 1.0)), Square(), [0.0], iv.GaussianNoise(1e6))
        run = draw(posterior, iv.pcn(), draws=50, warmup=200)
        assert run.report["step_sizes"] == [1.0]
        assert run.report["acceptance"][0] > 0.999

    def test_says_what_it_is(self):
        assert str(iv.pcn(0.2)) == "preconditioned Crank-Nicolson, preconditioner None"
