"""Swaps without cost equal those of single pairs, and leave the ladder's targets invariant when they are many."""

from __future__ import annotations

import numpy as np
import pytest
from swapping import coarse, fine, ladder, swap, where
from tempering import LINE, two_modes_posterior

import invsamp as iv
from invsamp.engine.exchange.replica_pair import Pair
from invsamp.evaluate.requests import Estimate
from invsamp.swaps.rules import delayed_acceptance, noise_penalty
from invsamp.swaps.schemes import adjacent, all_pairs, deo, seo

TEMPERATURES = (1.0, 2.0, 4.0, 8.0)


def split(rungs):
    """Let the rungs report a prior energy, as a part of the position's."""
    for rung in rungs:
        prior = 0.1 * (rung.position**2).sum(axis=1)
        rung.estimate = rung.estimate._replace(prior=prior, prior_gradient=0.2 * rung.position)


@pytest.mark.parametrize("targets", [TEMPERATURES, [iv.tempering.tempered_likelihood(b) for b in (1.0, 0.4, 0.1, 0.0)]])
@pytest.mark.parametrize("scheme", [deo(), seo(), adjacent(), all_pairs()])
def test_is_what_pairs_make_one_by_one(monkeypatch, targets, scheme):
    """The same random numbers, positions, estimates, walkers and counts."""
    found = []
    for vectorized in (True, False):
        if not vectorized:
            monkeypatch.setattr(Pair, "_is_vectorized", lambda pair: False)
        rungs, exchange = ladder((fine,) * 4, targets, rule=noise_penalty(), scheme=scheme)
        split(rungs)
        for _ in range(12):
            swap(exchange)
        states = [(rung.position, *(part for part in rung.estimate.arrays if part is not None)) for rung in rungs]
        counts = [pair.state()._asdict() for pair in exchange._all]
        found.append((states, counts, where(exchange), exchange.round_trips, exchange.solves, exchange.apart))
    np.testing.assert_equal(found[0][0], found[1][0])
    for first, second in zip(found[0][1], found[1][1], strict=True):
        assert first.keys() == second.keys()
        for name in ("attempts", "accepts", "first_stage_accepts", "log_ratio_sd", "chances", "first_stage_chances"):
            np.testing.assert_allclose(first[name], second[name], rtol=1e-12)
    np.testing.assert_equal(found[0][2:], found[1][2:])
    assert sum(count["accepts"] for count in found[0][1]) > 60


def test_infinite_energies_stay_where_they_are_or_go_up():
    """A failed solve has probability zero except under the prior."""
    rungs, exchange = ladder((fine,) * 2, [iv.tempering.tempered_likelihood(b) for b in (1.0, 0.0)])
    split(rungs)
    hot = rungs[1].estimate
    rungs[1].estimate = Estimate(np.full(64, np.inf), hot.gradient, prior=hot.prior)
    swap(exchange)
    assert exchange.accepts.sum() == 0
    assert np.isfinite(rungs[0].estimate.energy).all()


class TestWhen:
    """Without a fraction, by what a swap costs."""

    def attempts(self, functions, steps=300, **swap_settings):
        exchange = ladder(functions, TEMPERATURES[: len(functions)], fraction=None, chains=4, **swap_settings)[1]
        for _ in range(steps):
            swap(exchange)
        return exchange.attempts / (4 * steps), exchange

    def test_three_meetings_after_every_step(self):
        attempts, exchange = self.attempts((fine,) * 4)
        np.testing.assert_allclose(attempts, 1.5)
        assert exchange.parities == 3 and sum(exchange.solves.values()) == 0

    def test_one_of_two_rungs(self):
        np.testing.assert_array_equal(self.attempts((fine, fine))[0], [1.0])

    def test_a_tenth_where_swaps_are_solved_for(self):
        attempts, _ = self.attempts((fine, coarse), steps=2000)
        assert 0.07 < attempts[0] < 0.13

    def test_each_pair_by_its_own_cost(self):
        attempts, _ = self.attempts((fine, coarse, coarse, coarse), steps=1000)
        assert 0.02 < attempts[0] < 0.1  # in turn with the odd pairs, of which none is met then
        np.testing.assert_allclose(attempts[1:], 1.5)

    def test_two_stages_are_solved_for(self):
        attempts, _ = self.attempts((fine, fine), steps=1000, rule=delayed_acceptance())
        assert 0.05 < attempts[0] < 0.15


class TestTargets:
    """Of a ladder whose pairs meet three times after each step."""

    TARGETS = tuple(iv.tempering.tempered_likelihood(b) for b in (1.0, 0.3, 0.1, 0.0))

    def shares(self, draw):
        rungs = [iv.ladder.Rung(target, kernel=iv.kernels.Langevin(adjusted=True)) for target in self.TARGETS[:-1]]
        last = iv.ladder.Rung(self.TARGETS[-1], kernel=iv.kernels.prior_draws())
        run = draw(
            two_modes_posterior(), iv.ladder.Sampler([*rungs, last], preconditioner="dense"), draws=300, warmup=600
        )
        assert run.report["swap_solves"] == {"model": 0}
        return LINE.shares(run)

    def test_are_right(self, draw, agrees):
        assert agrees(self.shares(draw), LINE.truth(two_modes_posterior().potential(), self.TARGETS))

    def test_are_wrong_where_every_swap_is_made_that_is_likelier_than_not(self, draw, agrees, monkeypatch):
        monkeypatch.setattr(Pair, "log_uniform", lambda self: np.full(256, np.log(0.5)))
        assert not agrees(self.shares(draw), LINE.truth(two_modes_posterior().potential(), self.TARGETS))
