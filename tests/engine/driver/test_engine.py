"""A run that is saved and restored at any step goes on bit for bit, under every preset."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import layout_runs
import numpy as np
import pytest
from bent_line import POSTERIOR, model, posterior
from parts import cases

from invsamp.engine.driver import serialization
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.estimators import exact, minibatch, noisy
from invsamp.estimators.control_variates import control_variate
from invsamp.estimators.coupled_sums import coupled_sum
from invsamp.kernels.schedules import exponential
from invsamp.ladder import GradientNoise
from invsamp.posing.forward_models.adapters import with_jacobian
from invsamp.samplers import (
    cyclic_sgld,
    differential_evolution,
    fast_resgld,
    ghmc,
    mala,
    multi_variance_resgld,
    parallel_tempering,
    pcn,
    r2sgld,
    resgld,
    sghmc,
    sgld,
)
from invsamp.swaps.rules import delayed_acceptance
from invsamp.swaps.schemes import adjacent, seo
from invsamp.variances.models import kernel_ridge, running_average

NOISE = {"estimator": noisy(0.5, 0.5), "fidelities": ("fine", "fine")}
SAMPLERS = {
    "sgld": sgld(0.01),
    "schedule": sgld(exponential(0.01, 0.99)),
    "cycles": cyclic_sgld(0.01, cycles=3),
    "minibatch": sgld(estimator=minibatch(4), gradient_noise=GradientNoise(structure="full")),
    "groups": sgld(1e-3, estimator=minibatch(2, groups=np.repeat(range(4), 3)), boundary="ignore"),
    "momentum": sghmc(boundary="project"),
    "adjusted momentum": ghmc(),
    "mala": mala(),
    "mala, diagonal": mala(preconditioner="diagonal"),
    "crank nicolson": pcn(),
    "differential evolution": differential_evolution(),
    "prior to posterior": layout_runs.SAMPLERS["prior to posterior"],
    "parallel_tempering, three fidelities": parallel_tempering((1.0, 2.0, 4.0)),
    "parallel_tempering, adjacent pairs": parallel_tempering(
        (1.0, 2.0, 4.0), fidelities=["fine"] * 3, scheme=adjacent()
    ),
    "resgld": resgld((1.0, 4.0), 0.01, **NOISE),
    "r2sgld": r2sgld((1.0, 4.0), 0.01, fidelities=("fine", "fine")),
    "multi-variance": multi_variance_resgld((1.0, 4.0), 0.01, **NOISE),
    "fast, running average": fast_resgld((1.0, 4.0), **NOISE, variance=running_average(), scheme=seo()),
    "fast, shared pilot": fast_resgld(
        (1.0, 4.0), 0.01, **NOISE, variance=kernel_ridge(20, 1.0, 1.0), structure="diagonal"
    ),
    "fast, effective temperature": fast_resgld(
        (1.0, 4.0),
        0.05,
        estimator=noisy(0.5, 20.0),
        fidelities=("fine", "fine"),
        on_noise_overflow="effective_temperature",
    ),
    "control variates": resgld((1.0, 4.0), 0.01, estimator=control_variate(4, 7), swap_fraction=0.5),
    "control variates, two fidelities": fast_resgld(
        (1.0, 4.0), 0.01, estimator=control_variate(2, 7, groups=np.repeat(range(4), 3)), swap=delayed_acceptance()
    ),
    "coupled sums": fast_resgld((1.0, 4.0), 0.01, estimator=[coupled_sum(), exact()], structure="full"),
}
#: Each has something of its own to keep; `tests/test_papers.py` goes on with many others.
QUICK = {
    *(
        "schedule",
        "minibatch",
        "momentum",
        "adjusted momentum",
        "mala, diagonal",
        "crank nicolson",
        "differential evolution",
        "prior to posterior",
    ),
    *("parallel_tempering, adjacent pairs", "multi-variance", "fast, running average", "fast, shared pilot"),
    *("control variates, two fidelities", "coupled sums"),
}
PLAN = Plan(draws=20, warmup=120, thin=1, chains=3, seed=7)
#: Before the first step, within the windows of warm-up and where they end, where it ends, and after.
MOMENTS = (0, 1, 17, 84, 119, 120, 130)


def begun(name, plan=PLAN):
    engine = Engine(POSTERIOR, SAMPLERS[name], plan)
    engine.begin()
    return engine


def restored(name, data, plan=PLAN):
    engine = Engine(POSTERIOR, SAMPLERS[name], plan)
    engine.restore(serialization.decode(data))
    return engine


def walk(engine, count):
    """Positions, energies and step sizes of all rungs after each of the next steps."""
    path = []
    for _ in range(count):
        engine.step()
        path.append([(r.position, r.estimate.energy, np.ravel(r.step_size)) for r in engine.rungs])
    return path


def without_times(tree):
    """What two runs cannot share is how long they took."""
    if isinstance(tree, dict):
        return tree | {"seconds": 0.0, "evaluation_seconds": {}}
    return tree._replace(seconds=0.0, counts={name: counts | {"seconds": 0.0} for name, counts in tree.counts.items()})


def within_ensemble(state, **changed):
    """The state of a run with other entries in that of its ensemble."""
    return state._replace(phases=state.phases._replace(ensemble=state.phases.ensemble._replace(**changed)))


def rung(state, k, **changed):
    rungs = list(state.phases.ensemble.rungs)
    rungs[k] = rungs[k]._replace(**changed)
    return within_ensemble(state, rungs=rungs)


def exchange(state, **changed):
    return within_ensemble(state, exchange=state.phases.ensemble.exchange._replace(**changed))


def skipped(stream):
    """A stream that leaves out an array, wherever in its block it stands."""
    begin, taken = stream.place
    return stream._replace(place=(begin, taken + 1))


def other_pair(pairs):
    return [pairs[0]._replace(thresholds=skipped(pairs[0].thresholds)), *pairs[1:]]


@pytest.mark.parametrize("name", cases(SAMPLERS, QUICK))
def test_goes_on_bit_for_bit(name):
    whole, kept, expected = begun(name), {}, []
    for k in range(PLAN.steps):
        if k in MOMENTS:
            kept[k] = serialization.encode(whole.state())
        expected += walk(whole, 1)
    last, report = serialization.encode(without_times(whole.state())), without_times(whole.report())
    for k in MOMENTS:
        again = restored(name, kept[k])
        np.testing.assert_equal(walk(again, PLAN.steps - k), expected[k:])
        # all of it, so that a third run would continue from there too
        assert serialization.encode(without_times(again.state())) == last
        np.testing.assert_equal(without_times(again.report()), report)


@pytest.mark.parametrize("name", ["parallel_tempering, three fidelities", "fast, shared pilot"])
def test_restored_at_every_step(name):
    """Every step by another engine."""
    whole = begun(name)
    data = serialization.encode(whole.state())
    for _ in range(PLAN.steps):
        again = restored(name, data)
        np.testing.assert_equal(walk(again, 1), walk(whole, 1))
        data = serialization.encode(again.state())


def test_keeping_a_state_does_not_touch_the_run():
    """Nor does the run touch a state that was kept."""
    name = "parallel_tempering, three fidelities"
    looked_at, left_alone = begun(name), begun(name)
    kept = []
    for _ in range(PLAN.steps):
        kept.append((tree := looked_at.state(), serialization.encode(tree)))
        looked_at.step()
        left_alone.step()
    np.testing.assert_equal(looked_at.rungs[0].position, left_alone.rungs[0].position)
    assert all(serialization.encode(tree) == data for tree, data in kept)


def test_what_a_failed_solve_said_is_still_known_afterwards():
    def broken(theta):
        raise FloatingPointError("the mesh tangled")

    def half_broken(theta):
        return broken(theta) if theta[0, 0] > 0.0 else model(0.0)(theta)

    def problem():
        return posterior(fine=with_jacobian(half_broken, lambda theta: model(0.0).jacobian(theta)[1]))

    engine = Engine(problem(), sgld(0.05), replace(PLAN, chains=1))
    engine.begin()
    walk(engine, 100)
    assert engine.report()["failed_solves"]["fine"] > 0
    again = Engine(problem(), sgld(0.05), replace(PLAN, chains=1))
    again.restore(serialization.decode(serialization.encode(engine.state())))
    assert "the mesh tangled" in again.report()["failure_message"] == engine.report()["failure_message"]


class TestControl:
    """The comparison finds what is missing: a state that forgets one thing does not go on to the same draws."""

    NAME = "parallel_tempering, three fidelities"

    @classmethod
    @cache
    def right(cls, k):
        engine = begun(cls.NAME)
        walk(engine, k)
        data = serialization.encode(engine.state())
        return data, walk(engine, 300)  # some hundred decisions on swaps

    def changed(self, k, change):
        data, expected = self.right(k)
        other = restored(self.NAME, serialization.encode(change(serialization.decode(data))))
        try:
            np.testing.assert_equal(walk(other, 300), expected)
        except AssertionError:
            return True
        return False

    @pytest.mark.parametrize("k", [20, 125])
    @pytest.mark.parametrize(
        "change",
        [
            lambda state: rung(state, 0, moves=skipped(state.phases.ensemble.rungs[0].moves)),
            lambda state: rung(state, 1, thresholds=skipped(state.phases.ensemble.rungs[1].thresholds)),
            lambda state: rung(state, 2, iteration=state.phases.ensemble.rungs[2].iteration + 1),
            lambda state: rung(state, 0, step_size=state.phases.ensemble.rungs[0].step_size * (1.0 + 1e-15)),
            lambda state: exchange(state, all=other_pair(state.phases.ensemble.exchange.all)),
            lambda state: exchange(state, next=state.phases.ensemble.exchange.next + 1),
            lambda state: exchange(state, attempt=state.phases.ensemble.exchange.attempt + 1),
        ],
        ids=["place in a block", "thresholds", "iteration", "step size", "pair", "due", "attempt"],
    )
    def test_of_the_streams_and_counts(self, k, change):
        assert self.changed(k, change)

    def test_of_warm_up(self):
        def forget(state):
            tuners = state.phases.warm_up.tuners
            tuners[0] = tuners[0]._replace(moves=0)
            return state

        assert self.changed(100, forget)

    def test_an_unchanged_state_is_not_found_guilty(self):
        assert not self.changed(20, lambda state: state)


class TestMoreDraws:
    @pytest.mark.parametrize("name", ["parallel_tempering, three fidelities", "schedule"])
    def test_are_those_of_a_longer_run(self, name):
        more = replace(PLAN, draws=40)
        whole, short = begun(name, Plan(40, 120, 1, 3, 7)), begun(name)
        walk(whole, PLAN.steps)
        walk(short, PLAN.steps)
        np.testing.assert_equal(walk(restored(name, serialization.encode(short.state()), more), 20), walk(whole, 20))

    def test_keep_the_cycles_of_the_first_plan(self):
        more = replace(PLAN, draws=40)
        assert more.schedule_steps == PLAN.steps != more.steps
        short = begun("cycles")
        walk(short, PLAN.steps)
        (ahead,) = restored("cycles", serialization.encode(short.state()), more).rungs
        (before,) = short.rungs
        assert ahead.schedule == before.schedule


@pytest.mark.parametrize(
    "change, message",
    [
        ({"draws": 0}, r"draws must be an integer >= 1, got 0"),
        ({"warmup": -1}, r"warmup must be an integer >= 0, got -1"),
        ({"thin": 1.5}, r"thin must be an integer >= 1, got 1.5"),
        ({"chains": True}, r"chains must be an integer >= 1, got True"),
        ({"seed": None}, r"seed must be an integer >= 0, got None"),
    ],
)
def test_plan_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        replace(PLAN, **change)


def test_nothing_is_solved_before_it_begins():
    engine = Engine(POSTERIOR, SAMPLERS["parallel_tempering, three fidelities"], PLAN)
    assert [e.evaluations for e in engine.potentials.values()] == [0, 0, 0]
    with pytest.raises(ValueError, match="warmup must be at least 100"):
        Engine(POSTERIOR, mala(), replace(PLAN, warmup=50))
