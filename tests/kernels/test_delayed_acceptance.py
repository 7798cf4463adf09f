"""Delayed acceptance within a move: its distribution, its requests, and bit-identical resuming."""

from __future__ import annotations

import numpy as np
import pytest
from two_levels import FINE, Line, exact, posed

import invsamp as iv
from invsamp.kernels import DelayedAcceptance, delayed_acceptance
from invsamp.results.run import Run

QUICK = {"draws": 30, "warmup": 200, "chains": 4, "seed": 3, "progress": False}
MALA = iv.kernels.Langevin(adjusted=True)


def near():
    """A coarse model that is a little off, so that the fine one refuses some."""
    return posed(coarse=Line(FINE, 0.15, 0.02), fine=Line())


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(Run, "warnings", lambda self: [])


def moments(run):
    mean, covariance = exact()
    off = run.theta - mean
    return np.concatenate([off.mean(axis=1), np.square(off).mean(axis=1) / np.diag(covariance)], axis=1)


TRUTH = np.r_[np.zeros(3), np.ones(3)]


class Torn(Line):
    """Fails in a part of the posterior: beyond its mean in the first unknown."""

    def __call__(self, theta):
        return np.where(theta[:, :1] > exact()[0][0], np.nan, super().__call__(theta))


class TestTarget:
    @pytest.mark.parametrize(
        ("kernel", "steps"),
        [(MALA, 1), (MALA, 4), (iv.kernels.Hamiltonian(), 3), (iv.kernels.Microcanonical(), 1)],
        ids=str,
    )
    def test_is_that_of_the_fine_model(self, draw, agrees, kernel, steps):
        run = draw(near(), iv.samplers.two_stage(kernel=kernel, steps=steps), draws=100, warmup=200)
        assert agrees(moments(run), TRUTH)

    def test_without_the_second_ratio_s_correction_it_is_not(self, draw, agrees, monkeypatch):
        """What is forgotten: that the proposals have passed the coarse model already."""

        class Forgetful(DelayedAcceptance):
            def step(self, rung, here, memory):
                asking = super().step(rung, here, memory)
                monkeypatch.setattr(delayed_acceptance, "_corrected", lambda log_ratio, change: log_ratio)
                return (yield from asking)

        sampler = iv.ladder.Sampler([iv.ladder.Rung(kernel=Forgetful(MALA))], preconditioner="auto")
        assert not agrees(moments(draw(near(), sampler, draws=100, warmup=200)), TRUTH)

    @pytest.mark.parametrize("steps", [1, 3])
    def test_is_that_of_the_fine_model_where_the_coarse_one_fails(self, draw, agrees, steps):
        """With an infinite energy there no chain ever enters or leaves."""
        problem = posed(coarse=Torn(FINE, 0.15, 0.02), fine=Line())
        run = draw(problem, iv.samplers.two_stage(steps=steps), draws=200, warmup=200)
        failing = run.theta[..., 0] > exact()[0][0]
        assert (failing.any(axis=1) & ~failing.all(axis=1)).mean() > 0.9
        assert agrees(moments(run), TRUTH)


class TestSolves:
    def test_the_fine_model_is_asked_about_what_passes_alone(self, quiet):
        sampler = iv.samplers.two_stage()
        run = iv.sample(near(), sampler, **QUICK)
        drawn = {name: n - run.report["warmup_evaluations"][name] for name, n in run.report["evaluations"].items()}
        assert drawn["coarse"] == 4 * 30  # remembered where the chains are
        assert 0 < drawn["fine"] < 4 * 30
        chance = run.data["sample_stats"]["second_stage"].values
        assert ((chance >= 0.0) & (chance <= 1.0)).all() and 0.3 < chance.mean() < 1.0
        assert drawn["fine"] >= (chance < 1.0).sum()

    def test_an_equal_coarse_model_leaves_nothing_to_decide(self, quiet):
        """The draws are those of the kernel by itself, on the same random numbers but those of the second stage."""
        run = iv.sample(posed(coarse=Line(), fine=Line()), iv.samplers.two_stage(), **QUICK)
        assert run.data["sample_stats"]["second_stage"].values == pytest.approx(1.0, abs=1e-9)

    @pytest.mark.parametrize("failing", ["coarse", "fine"])
    def test_a_model_may_fail_where_the_other_does_not(self, quiet, failing):
        edge = exact()[0][0]
        models = {"coarse": Line(FINE, 0.1), "fine": Line()} | {failing: Torn()}
        start = exact()[0] - np.array([0.1, 0.0, 0.0])
        run = iv.sample(posed(**models), iv.samplers.two_stage(), start=start, **QUICK)
        assert run.report["failed_solves"][failing] > 0 and np.isfinite(run.theta).all()
        # the fine posterior: no mass where its model fails, but mass where the coarse one does
        assert (run.theta[..., 0] > edge).any() == (failing == "coarse")


def test_goes_on_to_the_bit(tmp_path, quiet):
    sampler = iv.samplers.two_stage(kernel=iv.kernels.Hamiltonian(), steps=2)
    whole = iv.sample(near(), sampler, **QUICK | {"draws": 50})
    iv.sample(near(), sampler, **QUICK, directory=tmp_path / "run")
    more = iv.resume(tmp_path / "run", draws=50, progress=False)
    np.testing.assert_array_equal(more.theta, whole.theta)


class TestBadInput:
    def test_is_named(self):
        for kernel in (iv.kernels.Momentum(0.1, True), iv.kernels.Langevin(), iv.kernels.prior_draws()):
            with pytest.raises(ValueError, match="kernel must be an adjusted kernel whose steps are reversible"):
                DelayedAcceptance(kernel)
        with pytest.raises(ValueError, match="coarse must be"):
            DelayedAcceptance(MALA, coarse=0)
        with pytest.raises(ValueError, match="coarse must be another fidelity than the finest"):
            iv.samplers.two_stage(coarse=0)
        with pytest.raises(ValueError, match="coarse of delayed acceptance must be a fidelity below 'fine'"):
            iv.sample(posed(fine=Line()), iv.samplers.two_stage(), **QUICK)
        with pytest.raises(ValueError, match="must be alone, got 2 rungs"):
            iv.sample(
                near(),
                iv.ladder.Sampler(
                    [iv.ladder.Rung(kernel=DelayedAcceptance()), iv.ladder.Rung(iv.tempering.tempered(2.0))]
                ),
                **QUICK,
            )
