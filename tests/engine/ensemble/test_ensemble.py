"""Rungs that go on at their own pace between two meetings: the draws of all in step, whatever comes first."""

from __future__ import annotations

import bent_line
import numpy as np
import pytest

import invsamp as iv
from invsamp.engine.driver.draw_buffer import Draws
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble import ensemble
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.exchange.swap_scheduler import Exchange

LADDERS = {
    "two with attempts after every step, two without": (["fine", "fine", "coarse", "medium"], 0.2),
    "each by itself": (["fine", "medium", "coarse", "medium"], 0.2),
    "all with attempts after every step": (["fine"] * 4, None),
    "one": (["fine"], None),
}


class InAnyOrder:
    """A queue that answers whom it likes."""

    def __init__(self, engine, seed):
        self.engine, self.rng, self.asked, self.order, self.cleared = engine, np.random.default_rng(seed), {}, [], 0

    def put(self, asking, requests):
        self.asked[asking] = requests

    def get(self):
        asking = int(self.rng.choice(list(self.asked)))
        self.order.append(asking)
        return asking, self.engine.bound.dispatch.answer(self.asked.pop(asking))

    def clear(self):
        self.asked.clear()
        self.cleared += 1


def engine_of(fidelities, fraction, **settings):
    models = {name: bent_line.model(tilt) for name, tilt in (("coarse", 0.3), ("medium", 0.1), ("fine", 0.0))}
    temperatures = [2.0**k for k in range(len(fidelities))]
    sampler = iv.samplers.parallel_tempering(temperatures, 0.02, fidelities=fidelities, swap_fraction=fraction)
    engine = Engine(bent_line.posterior(**models), sampler, Plan(60, 0, 2, 3, 5, check_gradient=False))
    engine.begin()
    return engine


def drawn(engine, most=50):
    """Draws of the whole run, and how many steps were made at a time."""
    draws, steps = Draws(engine, engine.plan.draws), []
    while engine.done < engine.steps:
        before = engine.done
        engine.step(most, draws)
        steps.append(engine.done - before)
        if engine.drawn % engine.plan.thin == 0:
            draws.append()
    return draws.take(), steps


@pytest.mark.parametrize("name", LADDERS)
def test_draws_are_those_of_rungs_in_step(name, monkeypatch):
    monkeypatch.setattr(ensemble, "LONGEST", 1e6)
    alone = engine_of(*LADDERS[name])
    wanted, steps = drawn(alone)
    assert set(steps) == {1}
    for seed in range(3):
        engine = engine_of(*LADDERS[name])
        queue = InAnyOrder(engine, seed)
        engine.share(engine.bound.dispatch.answer, queue)
        found, steps = drawn(engine)
        assert 2 < max(steps) <= ensemble.AHEAD
        np.testing.assert_array_equal(found.positions, wanted.positions)
        assert list(found.statistics) == list(wanted.statistics)
        for kept, other in zip(found.statistics.values(), wanted.statistics.values(), strict=True):
            np.testing.assert_array_equal(kept, other)
        if alone.exchange is not None:
            assert engine.exchange.round_trips == alone.exchange.round_trips
            np.testing.assert_array_equal(engine.exchange.accepts, alone.exchange.accepts)


def test_rungs_that_miss_a_meeting_draw_otherwise(monkeypatch):
    monkeypatch.setattr(ensemble, "LONGEST", 1e6)
    wanted, _ = drawn(engine_of(*LADDERS["each by itself"]))
    monkeypatch.setattr(Exchange, "ahead", lambda exchange, most: [exchange.due() for _ in range(most)] and most)
    engine = engine_of(*LADDERS["each by itself"])
    engine.share(engine.bound.dispatch.answer, InAnyOrder(engine, 0))
    found, _ = drawn(engine)
    assert not np.array_equal(found.positions, wanted.positions)


def test_expensive_steps_are_few_at_a_time(monkeypatch):
    """A signal waits for them."""
    monkeypatch.setattr(ensemble, "LONGEST", 1e-9)
    engine = engine_of(*LADDERS["each by itself"])
    engine.share(engine.bound.dispatch.answer, InAnyOrder(engine, 0))
    assert set(drawn(engine)[1]) == {1}


def test_what_a_rung_raises_waits_for_what_others_have_asked(monkeypatch):
    monkeypatch.setattr(ensemble, "LONGEST", 1e6)
    engine = engine_of(*LADDERS["each by itself"])
    queue = InAnyOrder(engine, 0)
    engine.share(engine.bound.dispatch.answer, queue)

    class Broken:
        def keep(self, rung):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        while engine.done < engine.steps:
            engine.step(50, Broken())
    assert queue.cleared == 1
