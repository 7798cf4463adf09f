"""Hamiltonian Monte Carlo: exact at long steps, at bounds and with failed solves; paths of every length."""

from __future__ import annotations

import numpy as np
import pytest
from functions import QUARTIC, quartic
from targets import CORRELATED, gaussian, second_moments, upper

from invsamp.domains import HalfSpaces
from invsamp.engine.rungs.rung_chains import SHORT_EVERY
from invsamp.kernels import Hamiltonian
from invsamp.kernels.paths import LONGEST, LONGEST_IN_WARMUP, van_der_corput
from invsamp.ladder import Rung
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import hmc, parallel_tempering


def even_moments(run):
    return np.stack([(run.theta[..., 0] ** k).mean(axis=1) for k in (2, 4)], axis=1)


class TestTarget:
    def run(self, draw, function=quartic, dimension=1, domain=None, step_size=0.4, **settings):
        problem = FunctionPotential(function, dimension)
        target = Target(problem) if domain is None else Target(problem, domain, np.zeros(dimension))
        return draw(target, hmc(step_size, length=1.5, preconditioner=None), draws=600, warmup=100, **settings)

    def test_is_exact_at_long_steps(self, draw, agrees):
        run = self.run(draw)
        assert run.report["kernels"] == ["hmc"]
        assert 0.5 < run.report["acceptance"][0] < 0.97
        assert agrees(even_moments(run), QUARTIC)

    def test_paths_that_are_never_refused_are_rejected(self, draw, agrees, monkeypatch):
        """Leapfrog steps of length e alone have variance 1 / (1 - e^2 / 4) on N(0, 1)."""
        target = gaussian(1.0).function
        assert agrees(second_moments(self.run(draw, target)), 1.0)
        monkeypatch.setattr("invsamp.kernels.paths.decided", lambda accept, there, here: there)
        refused_none = second_moments(self.run(draw, target))
        assert agrees(refused_none, 1.25)
        assert not agrees(refused_none, 1.0)

    def test_bounds_and_failed_solves(self, draw, agrees):
        """Uniform on (-1, 0.4): a bound at -1, failed solves beyond 0.4. Paths through these are rejected."""

        def flat(position):
            energy = np.where(position[:, 0] > 0.4, np.nan, 0.0)
            return energy, np.zeros_like(position)

        run = self.run(draw, flat, domain=HalfSpaces([[-1.0], [1.0]], [1.0, 1.0]), step_size=0.02)
        assert run.report["failed_solves"]["target"] > 10_000
        assert run.report["reflections"][0] > 10_000
        moments = np.stack([run.theta[..., 0].mean(axis=1), (run.theta[..., 0] ** 2).mean(axis=1)], axis=1)
        assert agrees(moments, [-0.3, (0.4**3 + 1.0) / (3.0 * 1.4)])

    def test_momenta_that_are_not_reflected_are_rejected(self, draw, agrees, monkeypatch):
        class Forgetful(HalfSpaces):
            def reflect(self, position, move, metric=None):
                return super().reflect(position, move, metric)._replace(move=np.array(move))

        def tilted(position):
            return 2.0 * position[:, 0], np.full_like(position, 2.0)

        def moments(domain):
            run = self.run(draw, tilted, domain=domain, step_size=0.05)
            return np.stack([(run.theta[..., 0] ** k).mean(axis=1) for k in (1, 2)], axis=1)

        # density proportional to exp(-2 x) on (-1, 1)
        x, w = np.polynomial.legendre.leggauss(40)
        truth = [(w * x**k * np.exp(-2.0 * x)).sum() / (w * np.exp(-2.0 * x)).sum() for k in (1, 2)]
        assert agrees(moments(HalfSpaces([[-1.0], [1.0]], [1.0, 1.0])), truth)
        assert not agrees(moments(Forgetful([[-1.0], [1.0]], [1.0, 1.0])), truth)

    def test_preconditioned_with_steps_from_warm_up(self, draw, agrees):
        run = draw(Target(gaussian(np.linalg.inv(CORRELATED))), hmc(), draws=500, warmup=400)
        assert run.report["acceptance"][0] == pytest.approx(0.8, abs=0.05)
        assert agrees(second_moments(run), upper(CORRELATED))

    def test_on_a_ladder(self, draw, agrees):
        sampler = parallel_tempering((1.0, 3.0), 0.4, swap_fraction=0.5, preconditioner=None)
        rungs = [Rung(rung.target, kernel=Hamiltonian(1.5), step_size=0.4) for rung in sampler.rungs]
        run = draw(Target(FunctionPotential(quartic, 1)), type(sampler)(rungs, sampler.swap), draws=500, warmup=100)
        assert run.report["swap_accepts"][0] > 0.3 * run.report["swap_attempts"][0]
        assert agrees(even_moments(run), QUARTIC)


class TestPaths:
    def solves(self, draw, length, step_size, draws=256, warmup=0):
        sampler = hmc(step_size, length=length, preconditioner=None)
        run = draw(Target(gaussian(1.0)), sampler, draws=draws, warmup=warmup, chains=2)
        return run.report["evaluations"]["target"] / 2 - 1

    def test_have_their_mean_length(self, draw):
        # steps of 0.1: lengths are spread over (0, 2), rounded up to steps
        assert self.solves(draw, 1.0, 0.005) == pytest.approx(256 * 10.5, rel=0.01)

    def test_are_at_least_a_step_and_bounded(self, draw):
        assert self.solves(draw, 1e-3, 0.5) == 256
        assert self.solves(draw, 1e9, 1e-6, draws=8) == 8 * LONGEST
        assert self.solves(draw, 1e9, 1e-6, draws=2, warmup=8) == 2 * LONGEST + 8 * LONGEST_IN_WARMUP

    @pytest.mark.parametrize("every", [1, SHORT_EVERY, SHORT_EVERY**2])
    def test_fill_the_unit_interval(self, every):
        """A net in base 3: each of the 81 intervals of length 1/81 holds one of 81 points in a row.

        Of every eighth and every 64th point, too: steps of these paths are short.
        """
        assert sorted(int(81 * van_der_corput(every * k)) for k in range(128, 209)) == list(range(81))

    def test_have_every_length_at_short_steps(self, draw):
        """Every eighth path has steps half as long: of 27 of these, three at least are in each quarter of (0, 2)."""
        run = draw(Target(gaussian(1.0)), hmc(length=20.0), draws=8 * 27, warmup=200)
        steps = np.asarray(run.data.sample_stats["n_steps"])[0].reshape(27, 8)
        assert np.histogram(steps[:, -1], 4, (0, 2 * steps[:, :-1].max()))[0].min() >= 3


@pytest.mark.parametrize("length", [0.0, -1.0, np.nan, "long", True])
def test_length(length):
    with pytest.raises(ValueError, match="length must be a positive finite number, got"):
        Hamiltonian(length)


def test_says_what_it_is():
    assert str(hmc(0.1, length=1.0)) == "Hamiltonian Monte Carlo (mean path length 1), preconditioner None"
