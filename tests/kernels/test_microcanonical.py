"""The microcanonical sampler: kicks keep volume and energy, draws are exact at long steps, at bounds and on ladders."""

from __future__ import annotations

import numpy as np
import pytest
from functions import QUARTIC, quartic
from targets import CORRELATED, gaussian, second_moments, upper

from invsamp.domains import HalfSpaces
from invsamp.kernels import Microcanonical
from invsamp.ladder import Rung
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import mams, parallel_tempering


def even_moments(run):
    """Of each chain, over its three unknowns."""
    return np.stack([(run.theta**k).mean(axis=(1, 2)) for k in (2, 4)], axis=1)


class TestKicks:
    kernel = Microcanonical()

    @pytest.fixture
    def states(self):
        rng = np.random.default_rng(0)
        return self.kernel.fresh(rng.normal(size=(50, 4))), 10.0 * rng.normal(size=(50, 4))

    def test_two_make_one(self, states):
        velocity, gradient = states
        half, first = self.kernel.kick(velocity, gradient, 0.2)
        whole, second = self.kernel.kick(half, gradient, 0.3)
        np.testing.assert_allclose(self.kernel.kick(velocity, gradient, 0.5)[0], whole, atol=1e-12)
        np.testing.assert_allclose(self.kernel.kick(velocity, gradient, 0.5)[1], first + second, atol=1e-11)

    def test_are_undone_backwards_at_one_speed(self, states):
        velocity, gradient = states
        end, work = self.kernel.kick(velocity, gradient, 0.1)
        back, undone = self.kernel.kick(-end, gradient, 0.1)
        np.testing.assert_allclose(back, -velocity, atol=1e-12)
        np.testing.assert_allclose(undone, -work, atol=1e-11)
        np.testing.assert_allclose(np.square(end).sum(axis=1), 4.0)

    def test_work_is_the_change_of_volume(self, states):
        """The log of the determinant of the turn on the sphere, by differences, is minus the work."""
        velocity, gradient = states
        for u, g in zip(velocity[:5], gradient[:5], strict=True):
            tangent = np.linalg.svd(u[None])[2][1:]
            end, work = self.kernel.kick(u[None], g[None], 0.1)
            moved = u + 1e-6 * tangent
            moved *= 2.0 / np.linalg.norm(moved, axis=1, keepdims=True)
            slopes = (self.kernel.kick(moved, np.tile(g, (3, 1)), 0.1)[0] - end) / 1e-6
            slopes_on_sphere = slopes @ np.linalg.svd(end)[2][1:].T
            assert np.linalg.slogdet(slopes_on_sphere)[1] == pytest.approx(-work[0], abs=1e-4)

    def test_of_gradients_that_vanish_or_are_huge(self):
        velocity = self.kernel.fresh(np.eye(3))
        for scale in (0.0, 1e100):
            turned, work = self.kernel.kick(velocity, np.full((3, 3), scale), 0.1)
            assert np.isfinite(turned).all() and np.isfinite(work).all()


class TestTarget:
    def run(self, draw, function=quartic, domain=None, step_size=0.3, **settings):
        potential = FunctionPotential(function, 3)
        target = Target(potential) if domain is None else Target(potential, domain, np.zeros(3))
        return draw(target, mams(step_size, length=1.5, preconditioner=None), draws=600, warmup=100, **settings)

    def test_is_exact_at_long_steps(self, draw, agrees):
        run = self.run(draw)
        assert run.report["kernels"] == ["mams"]
        assert 0.5 < run.report["acceptance"][0] < 0.97
        assert agrees(even_moments(run), QUARTIC)

    def test_paths_that_are_never_refused_are_rejected(self, draw, agrees, monkeypatch):
        monkeypatch.setattr("invsamp.kernels.paths.decided", lambda accept, there, here: there)
        assert not agrees(even_moments(self.run(draw)), QUARTIC)

    def test_kicks_whose_work_does_not_count_are_rejected(self, draw, agrees, monkeypatch):
        kick = Microcanonical.kick
        monkeypatch.setattr(Microcanonical, "kick", lambda *given: (kick(*given)[0], np.zeros(len(given[1]))))
        assert not agrees(even_moments(self.run(draw)), QUARTIC)

    def test_bounds_reflect_the_velocity(self, draw, agrees):
        """Density exp(-2 x) on (-1, 1) times a normal one of two unknowns."""

        def tilted(position):
            slope = np.concatenate([np.full((len(position), 1), 2.0), position[:, 1:]], axis=1)
            return 2.0 * position[:, 0] + 0.5 * (position[:, 1:] ** 2).sum(axis=1), slope

        run = self.run(draw, tilted, HalfSpaces([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [1.0, 1.0]), 0.1)
        assert run.report["reflections"][0] > 10_000
        x, w = np.polynomial.legendre.leggauss(40)
        truth = [(w * x**k * np.exp(-2.0 * x)).sum() / (w * np.exp(-2.0 * x)).sum() for k in (1, 2)]
        moments = np.stack([(run.theta[..., 0] ** k).mean(axis=1) for k in (1, 2)], axis=1)
        assert agrees(moments, truth)

    def test_preconditioned_with_steps_from_warm_up(self, draw, agrees):
        run = draw(Target(gaussian(np.linalg.inv(CORRELATED))), mams(), draws=500, warmup=400)
        assert run.report["acceptance"][0] == pytest.approx(Microcanonical.target_acceptance, abs=0.05)
        assert agrees(second_moments(run), upper(CORRELATED))

    def test_on_a_ladder(self, draw, agrees):
        sampler = parallel_tempering((1.0, 3.0), 0.3, swap_fraction=0.5, preconditioner=None)
        rungs = [Rung(rung.target, kernel=Microcanonical(1.5), step_size=0.3) for rung in sampler.rungs]
        run = draw(Target(FunctionPotential(quartic, 3)), type(sampler)(rungs, sampler.swap), draws=500, warmup=100)
        assert run.report["swap_accepts"][0] > 0.3 * run.report["swap_attempts"][0]
        assert agrees(even_moments(run), QUARTIC)


def test_one_unknown_is_refused(draw):
    with pytest.raises(ValueError, match="Microcanonical needs at least 2 unknowns, got 1"):
        draw(Target(gaussian(1.0)), mams(0.1), draws=10, warmup=0)


@pytest.mark.parametrize("length", [0.0, -1.0, np.nan, "long", True])
def test_length(length):
    with pytest.raises(ValueError, match="length must be a positive finite number, got"):
        Microcanonical(length)


def test_says_what_it_is():
    assert (
        str(mams(0.1)) == "Metropolis-adjusted microcanonical sampler (mean path length 1 sqrt(d)), preconditioner None"
    )
