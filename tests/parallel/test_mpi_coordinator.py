"""Distribution of requests: by rows if that changes no bit, the most expensive first, results counted."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest
import threads

import invsamp as iv
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Request, as_they_come
from invsamp.evaluate.solving import separable
from invsamp.parallel import load_balancing, mpi_coordinator
from invsamp.parallel.evaluator_lifecycle import evaluated
from invsamp.parallel.groups import Groups
from invsamp.parallel.mpi_coordinator import Coordinator
from invsamp.parallel.mpi_evaluator import Ranks
from invsamp.posing.posterior.function_potential import FunctionPotential

POSITION = np.random.default_rng(0).standard_normal((6, 2))


class Clock:
    """The reported seconds of solves, on which the distribution depends, not on the machine's load."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Slow:
    """The identity, for so many seconds a row; remembers how many rows it was asked for."""

    def __init__(self, clock, seconds, twist=0.0):
        self._clock, self.seconds, self.twist, self.rows = clock, seconds, twist, []

    def __call__(self, theta):
        return self.linearize(theta)[0]

    def linearize(self, theta):
        self._clock.now += self.seconds * len(theta)
        self.rows.append(len(theta))
        factor = 1.0 + self.twist * len(theta)
        return factor * theta, lambda cotangent: factor * cotangent


def one(request):
    (found,) = yield (request,)
    return found


def engine_of(models, chains):
    """One with a rung for each model."""
    prior = iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1))
    posterior = iv.Posterior(prior, models, np.array([0.3, 0.7]), iv.GaussianNoise(0.2))
    rungs = [iv.ladder.Rung(1.0 + k, fidelity=name, step_size=0.1) for k, name in enumerate(reversed(models))]
    return Engine(posterior, iv.ladder.Sampler(rungs), Plan(5, 0, 1, chains, 0))


def answers(comm, requests, models, chains=6, apart=False):
    """What a leader answers, again and again, to some tuples of requests, or to each by itself, and its report."""
    engine = engine_of(models, chains)

    def work():
        found = [
            as_they_come([one(request) for request in asked], engine.bound.dispatch.queue)
            if apart
            else engine.bound.dispatch.answer(asked)
            for asked in requests
        ]
        counts = {name: e.evaluations for name, e in engine.potentials.items()}
        return [[e.energy for e in one] for one in found], counts, engine.processes()

    return evaluated(engine, Ranks(comm, engine, {}), work)


@pytest.fixture
def clock(monkeypatch):
    """One for each thread would be truer; the ranks' models take turns enough."""
    import threading

    class Own(threading.local, Clock):
        pass

    own = Own()
    monkeypatch.setattr("invsamp.evaluate.counted.perf_counter", own)
    return own


class TestHandingOut:
    def test_rows_are_shared(self, clock):
        """Once a kind's cost is known, and that its rows have bits of their own."""
        models = [Slow(clock, 0.002) for _ in range(2)]
        asked = [(Request("fine", POSITION),)] * 3
        energies, counts, report = threads.run(2, lambda comm: answers(comm, asked, {"fine": models[comm.rank]}))[0]
        assert report["solved"] == {"fine": "by rows"}
        # here: whether both are the same, to learn the cost, six pieces of the trial, and half of the rows twice
        assert models[0].rows[:2] == [1, 6] and models[0].rows[-2:] == [3, 3]
        assert models[1].rows[0] == 1 and models[1].rows[-2:] == [3, 3]
        assert sorted(models[0].rows[2:-2] + models[1].rows[1:-2]) == sorted([6, 3, 3, 2, 2, 2, *[1] * 6])
        # trials do not count as evaluations
        assert counts == {"fine": 18}
        for (energy,) in energies:
            np.testing.assert_array_equal(energy, energies[0][0])

    def test_not_where_that_would_change_a_bit(self, clock):
        models = [Slow(clock, 0.002, twist=1e-15) for _ in range(2)]
        asked = [(Request("fine", POSITION),)] * 3
        energies, _, report = threads.run(2, lambda comm: answers(comm, asked, {"fine": models[comm.rank]}))[0]
        assert report["solved"] == {"fine": "whole"}
        assert models[0].rows[-2:] == [6, 6]
        for (energy,) in energies:
            np.testing.assert_array_equal(energy, energies[0][0])

    def test_more_rows_than_were_tried_are_tried(self, clock):
        """Rows that share something from the fourth on."""

        class Large(Slow):
            def linearize(self, theta):
                y, product = super().linearize(theta)
                return y * (1.0 + 1e-12 * (len(theta) > 3)), product

        models = [Large(clock, 0.01) for _ in range(2)]
        asked = [(Request("fine", POSITION[:2]),)] * 3 + [(Request("fine", POSITION),)] * 2
        run = lambda comm: answers(comm, asked, {"fine": models[comm.rank]}, chains=2)  # noqa: E731
        energies, _, report = threads.run(2, run)[0]
        assert report["solved"] == {"fine": "whole"}
        np.testing.assert_array_equal(energies[3][0], energies[4][0])
        assert not np.array_equal(energies[3][0][:2], energies[0][0])

    def test_what_is_cheap_is_not_sent(self, clock):
        models = [Slow(clock, 1e-6) for _ in range(2)]
        asked = [(Request("fine", POSITION),)] * 3
        report = threads.run(2, lambda comm: answers(comm, asked, {"fine": models[comm.rank]}))[0][2]
        assert models[0].rows == [1, 6, 6, 6]
        assert models[1].rows == [1]
        assert report["waiting"][1] == pytest.approx(1.0)

    def test_one_process_has_the_expensive_request_and_others_the_cheap_ones(self, clock):
        """One chain: nothing is to be split."""
        asked = [(Request("fine", POSITION[:1]), *[Request("coarse", POSITION[:1])] * 3)] * 4
        models = [{"coarse": Slow(clock, 0.0005), "fine": Slow(clock, 0.005)} for _ in range(2)]
        threads.run(2, lambda comm: answers(comm, asked, models[comm.rank], chains=1))
        assert len(models[0]["fine"].rows) == 5 and len(models[1]["fine"].rows) == 1
        assert len(models[0]["coarse"].rows) == 1 + 3 and len(models[1]["coarse"].rows) == 1 + 9

    def test_who_makes_the_steps_meanwhile_has_the_cheap_ones(self, clock, monkeypatch):
        """Where rungs ask by themselves, and the others are awake."""
        monkeypatch.setattr(mpi_coordinator, "SPIN", math.inf)
        asked = [(Request("fine", POSITION[:1]), *[Request("coarse", POSITION[:1])] * 3)] * 4
        models = [{"coarse": Slow(clock, 0.0005), "fine": Slow(clock, 0.005)} for _ in range(2)]
        energies = threads.run(2, lambda comm: answers(comm, asked, models[comm.rank], chains=1, apart=True))[0][0]
        assert len(models[0]["fine"].rows) == 1 + 1 and len(models[1]["fine"].rows) == 1 + 3
        assert all(np.array_equal(found, energies[0]) for found in energies)

    def test_who_is_asleep_has_the_cheap_ones(self, clock, monkeypatch):
        """Nothing that others wait for begins later than it could."""
        monkeypatch.setattr(mpi_coordinator, "SPIN", -math.inf)
        asked = [(Request("fine", POSITION[:1]), *[Request("coarse", POSITION[:1])] * 3)] * 4
        models = [{"coarse": Slow(clock, 0.0005), "fine": Slow(clock, 0.005)} for _ in range(2)]
        threads.run(2, lambda comm: answers(comm, asked, models[comm.rank], chains=1, apart=True))
        assert len(models[0]["fine"].rows) == 1 + 4 and len(models[1]["fine"].rows) == 1
        assert len(models[0]["coarse"].rows) == 1 + 3 and len(models[1]["coarse"].rows) == 1 + 9

    def test_many_rows_and_few(self, clock):
        """More processes than rows, no rows, and none at all."""
        asked = [
            (Request("fine", POSITION),),
            (Request("fine", POSITION[:2]),),
            (Request("fine", POSITION[:0]),),
            (),
        ] * 2
        models = [Slow(clock, 0.01) for _ in range(5)]
        energies, counts, _ = threads.run(5, lambda comm: answers(comm, asked, {"fine": models[comm.rank]}))[0]
        assert [len(one[0]) if one else None for one in energies] == [6, 2, 0, None] * 2
        np.testing.assert_array_equal(energies[4][0], energies[0][0])
        np.testing.assert_array_equal(energies[5][0], energies[0][0][:2])
        assert counts == {"fine": 16}

    def test_a_cost_falls_at_once_and_rises_slowly(self, clock):
        """A first solve may compile, any may be held up: neither is what the next one costs."""
        model = Slow(clock, 1.0)

        def work(comm):
            if comm.rank:
                return answers(comm, [], {"fine": model}, chains=1)
            kept = []
            original = Coordinator.answer

            def answer(self, requests):
                found = original(self, requests)
                model.seconds = [0.01, 0.02][len(kept) % 2]
                kept.append(next(iter(self._planner._seconds.values())))
                return found

            with pytest.MonkeyPatch.context() as changed:
                changed.setattr(Coordinator, "answer", answer)
                answers(comm, [(Request("fine", POSITION[:1]),)] * 3, {"fine": model}, chains=1)
            return kept

        assert threads.run(2, work)[0] == pytest.approx([1.0, 0.01, 0.012])


class TestWaitingForTheDearest:
    """One chain of four rungs; another process solves for the cold one, and coarse solves are in hand here."""

    def waits(self, due, *, fine=0.005, asked=(("fine",), ("coarse",) * 3), mine=("coarse",)):
        """Whether a coarse solve of .5 ms is put off where the other's answer is due in so many seconds."""
        engine = engine_of({"coarse": Slow(Clock(), 0.0), "fine": Slow(Clock(), 0.0)}, 1)
        comm = threads.ThreadComm(0, threads._Shared(2, threading.Event()))
        groups = Groups(comm, {}, engine.potentials)
        begun = Coordinator(comm, engine.potentials, groups, None, None, 1)
        for name, seconds in (("coarse", 0.0005), ("fine", fine)):
            begun._planner.learn(Request(name, POSITION[:1]), seconds)
        for asking, names in enumerate(asked):
            begun.put(asking, tuple(Request(name, POSITION[:1]) for name in names))
        begun._own.extend(task for task in begun._waiting if task.what.fidelity == "coarse")
        begun._mine = {task.request for task in begun._waiting if task.what.fidelity in mine}
        begun._due = {1: time.perf_counter() + due}
        return begun._most_expensive_is_due(0.0005)

    def test_a_solve_is_put_off_that_would_end_after_the_answer(self):
        assert self.waits(0.0003)

    def test_not_one_that_is_over_before(self):
        assert not self.waits(1.0)

    def test_not_for_ever(self):
        """Another process may be held up by whatever else its machine does."""
        assert not self.waits(-1.0)

    def test_not_where_others_have_as_far_to_go(self):
        assert not self.waits(0.0003, fine=0.001)

    def test_not_if_this_process_shares_the_most_expensive(self):
        assert not self.waits(0.0003, mine=("coarse", "fine"))

    def test_not_without_other_requests(self):
        assert not self.waits(0.0003, asked=(("fine",),))

    def test_the_most_expensive_resumes_first(self, clock):
        """Of two whose answers came together."""
        order = []

        def noting(request):
            (found,) = yield (request,)
            order.append(request.fidelity)
            return found

        class Together(Coordinator):
            def _is_there(self, asking):
                return all(super(Together, self)._is_there(other) for other in self._askings)

        def work(comm):
            engine = engine_of({"coarse": Slow(clock, 0.0005), "fine": Slow(clock, 0.005)}, 1)
            asked = [Request("coarse", POSITION[:1]), Request("fine", POSITION[:1])]

            def drive():
                for _ in range(2):  # costs are known from the first time on
                    as_they_come([noting(request) for request in asked], engine.bound.dispatch.queue)

            return evaluated(engine, Ranks(comm, engine, {}), drive)

        with pytest.MonkeyPatch.context() as changed:
            changed.setattr("invsamp.parallel.mpi_evaluator.Coordinator", Together)
            threads.run(2, work)
        assert order[2:] == ["fine", "coarse"]


class TestSeparable:
    def answer(self, function):
        return CountedPotential(FunctionPotential(function, 2), "fine").answer_all

    def test_rows_by_themselves(self):
        answer = self.answer(lambda x: (0.5 * (x**2).sum(axis=1), x))
        assert separable(Request("fine", POSITION), answer)
        assert separable(Request("fine", POSITION, gradient=False), answer)

    @pytest.mark.parametrize("changed", ["energy", "gradient"])
    def test_sums_that_depend_on_the_batch(self, changed):
        def function(x):
            factor = 1.0 + 1e-15 * len(x)
            return (x**2).sum(axis=1) * (factor if changed == "energy" else 1.0), x * (
                factor if changed == "gradient" else 1.0
            )

        assert not separable(Request("fine", POSITION), self.answer(function))

    def test_equal_rows_give_no_information(self):
        answer = self.answer(lambda x: (0.5 * (x**2).sum(axis=1), x))
        assert not separable(Request("fine", np.ones((4, 2))), answer)

    def test_failed_solves_are_equal(self):
        answer = self.answer(lambda x: (np.where(x[:, 0] > 0, np.nan, 1.0), x))
        assert separable(Request("fine", POSITION), answer)

    def test_a_model_whose_rows_share_steps_is_found_out_from_chains_that_start_at_one_place(self, clock):
        """Of equal rows the common step is that of each."""

        class Common(Slow):
            def linearize(self, theta):
                y, product = super().linearize(theta)
                return y * (1.0 + 1e-12 * np.abs(theta).max()), product

        models = [Common(clock, 0.01) for _ in range(2)]
        asked = [(Request("fine", np.ones((6, 2))),)] * 3
        report = threads.run(2, lambda comm: answers(comm, asked, {"fine": models[comm.rank]}))[0][2]
        assert report["solved"] == {"fine": "whole"}


def test_nothing_is_answered_half():
    """An interrupt while others are working cannot be passed on: no one would receive their results."""

    class Interrupted(Slow):
        def linearize(self, theta):
            if len(self.rows) > 2:
                raise KeyboardInterrupt
            return super().linearize(theta)

    asked = [(Request("fine", POSITION),)] * 3
    with pytest.MonkeyPatch.context() as changed, pytest.raises(KeyboardInterrupt):
        changed.setattr(load_balancing, "MESSAGES", -1.0)
        threads.run(2, lambda comm: answers(comm, asked, {"fine": (Slow if comm.rank else Interrupted)(Clock(), 0.01)}))
