"""Processes that evaluate together: blocks of chains where that changes no bit, and solves that are distributed."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
import threads

import invsamp as iv
from invsamp import parallel
from invsamp.parallel.carry import communicator
from invsamp.parallel.group import separable
from invsamp.posing.adapters import with_jacobian
from invsamp.posing.potential import FunctionPotential
from invsamp.sampler import sample

PAIR = iv.relangevin((1.0, 4.0), 0.3, preconditioner=None)
DATA = np.array([0.3, 0.7])


def posterior(**forward):
    return iv.Posterior(
        iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1)), noise=iv.GaussianNoise(0.2), data=DATA, forward=forward
    )


class Clock(threading.local):
    """The seconds that a rank's solves say they took: the layout follows them, and another machine's load must not."""

    now = 0.0

    def perf_counter(self):
        return self.now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr("invsamp.parallel.carry.time", CLOCK)


class Slow:
    """The identity, for so many seconds a row; remembers how many rows it was asked for."""

    def __init__(self, seconds, twist=0.0):
        self.seconds, self.twist, self.rows = seconds, twist, []

    def __call__(self, theta):
        return self.linearize(theta)[0]

    def linearize(self, theta):
        CLOCK.now += self.seconds * len(theta)
        self.rows.append(len(theta))
        factor = 1.0 + self.twist * len(theta)
        return factor * theta, lambda cotangent: factor * cotangent


class Together:
    """The identity by all ranks: each knows a part of it, and all add up what they know."""

    def __init__(self, comm):
        self.comm, self.calls = comm, 0

    def __call__(self, theta):
        return self.linearize(theta)[0]

    def linearize(self, theta):
        self.calls += 1
        assert all(np.array_equal(theta, other) for other in self.comm.allgather(theta))
        part = theta.copy()
        part[:, [k for k in range(2) if k % self.comm.size != self.comm.rank]] = 0.0
        return sum(self.comm.allgather(part)), lambda cotangent: sum(self.comm.allgather(cotangent)) / self.comm.size


def make(problem, sampler=None, comm=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"draws": 10, "warmup": 0, "chains": 4, "seed": 3, "check_gradient": False} | settings
        return sample(problem, sampler or iv.mala(0.5, preconditioner=None), comm=comm, progress=False, **settings)


def same_draws(one, other):
    return all(np.array_equal(one.rung_theta(k), other.rung_theta(k)) for k in range(one.rungs))


class TestBlocks:
    def test_chains_are_shared(self):
        """One rung on two ranks: the second takes half of the chains."""
        models = [Slow(0.002) for _ in range(2)]
        runs = threads.run(2, lambda comm: make(posterior(fine=models[comm.rank]), comm=comm))
        assert runs[0].report["processes"]["groups"] == [[[0], [0, 1]]]
        assert runs[0].report["processes"]["how"] == {"fine": "blocks"}
        assert all(same_draws(run, make(posterior(fine=Slow(0.0)))) for run in runs)
        # whether both models are the same, the start, and ten steps
        assert models[1].rows == [1] + [2] * 11
        # all evaluations are counted where the rungs are
        assert runs[0].report["evaluations"] == {"fine": 44}

    def test_not_where_that_would_change_a_bit(self):
        models = [Slow(0.002, twist=1e-15) for _ in range(2)]
        runs = threads.run(2, lambda comm: make(posterior(fine=models[comm.rank]), comm=comm))
        assert runs[0].report["processes"]["how"] == {"fine": "alone"}
        assert models[1].rows == [1]  # whether both models are the same
        assert same_draws(runs[0], make(posterior(fine=Slow(0.0, twist=1e-15))))

    def test_spare_ranks_go_to_the_rung_that_takes_long(self):
        def work(comm):
            problem = posterior(coarse=Slow(0.0002), fine=Slow(0.004))
            return make(problem, PAIR, comm=comm)

        runs = threads.run(3, work)
        assert runs[2].report["processes"]["groups"] == [[[0], [0, 1]], [[1], [2]]]
        alone = make(posterior(coarse=Slow(0.0), fine=Slow(0.0)), PAIR)
        assert all(same_draws(run, alone) for run in runs)

    def test_minibatches_are_shared(self, monkeypatch):
        from invsamp.parallel import carry
        from invsamp.parallel.layout import Group

        def plan(comm, engine, models):
            return carry._Plan((Group(range(1), range(3)),), dict.fromkeys(engine.evaluators, "blocks"))

        monkeypatch.setattr(carry, "_plan", plan)

        def linear():
            slope = 2.0 * np.eye(2)
            return posterior(fine=with_jacobian(lambda t: 2.0 * t, lambda t: np.tile(slope, (len(t), 1, 1))))

        for groups in (None, [0, 1]):
            sampler = iv.sgld(0.05, estimator=iv.minibatch(2, groups), preconditioner=None)
            alone = make(linear(), sampler)
            runs = threads.run(3, lambda comm, sampler=sampler: make(linear(), sampler, comm))
            assert all(same_draws(run, alone) for run in runs)


class TestSeparable:
    def test_rows_by_themselves(self):
        position = np.random.default_rng(0).standard_normal((5, 3))
        assert separable(FunctionPotential(lambda x: (0.5 * (x**2).sum(axis=1), x), 3), position)

    @pytest.mark.parametrize("changed", ["energy", "gradient"])
    def test_sums_that_depend_on_the_batch(self, changed):
        position = np.random.default_rng(0).standard_normal((5, 3))

        def function(x):
            factor = 1.0 + 1e-15 * len(x)
            return (x**2).sum(axis=1) * (factor if changed == "energy" else 1.0), x * (
                factor if changed == "gradient" else 1.0
            )

        assert not separable(FunctionPotential(function, 3), position)

    def test_failed_solves_are_equal(self):
        position = np.random.default_rng(0).standard_normal((4, 2))
        assert separable(FunctionPotential(lambda x: (np.where(x[:, 0] > 0, np.nan, 1.0), x), 2), position)


class TestTogether:
    @pytest.fixture(autouse=True)
    def scaling(self, monkeypatch):
        """What is measured: n ranks are n times as fast."""
        self.set_power(monkeypatch, 1.0)

    def set_power(self, monkeypatch, power):
        def seconds(replica, position, comm=None):
            return 1.0 if comm is None else comm.size**-power

        monkeypatch.setattr("invsamp.parallel.carry._seconds", seconds)

    def build(self, made):
        def build(comm):
            made.append(Together(comm) if comm is not None else Slow(0.0))
            return made[-1]

        return build

    @pytest.mark.parametrize("ranks", [2, 3])
    def test_one_rung(self, monkeypatch, ranks):
        wanted = make(posterior(fine=Slow(0.0)))
        made = [[] for _ in range(ranks)]

        def work(comm):
            model = parallel.distributed(self.build(made[comm.rank]))
            monkeypatch.setattr("invsamp.parallel.joint_solves._everyone", lambda: None)
            return make(posterior(fine=model), comm=comm)

        runs = threads.run(ranks, work)
        assert all(same_draws(run, wanted) for run in runs)
        assert runs[0].report["processes"]["groups"] == [[[0], list(range(ranks))]]
        assert runs[0].report["processes"]["how"] == {"fine": "together"}
        # the first one is that of the posterior's checks; then those of timings, by half of the ranks and by all
        assert [type(model).__name__ for model in made[0]] == ["Slow", "Together", "Together", "Together"]
        assert len({models[3].calls for models in made}) == 1

    @pytest.mark.parametrize(
        ("power", "groups"),
        [(1.0, [[[0, 1], [0, 1, 2]]]), (0.0, [[[0], [0]], [[1], [1]]]), (-0.5, [[[0], [0]], [[1], [1]]])],
    )
    def test_layout_by_measured_scaling(self, monkeypatch, power, groups):
        """A solve that takes two processes as long as one is made by one."""
        self.set_power(monkeypatch, power)
        monkeypatch.setattr("invsamp.parallel.joint_solves._everyone", lambda: None)

        def work(comm):
            models = [parallel.distributed(self.build([])) for _ in range(2)]
            return make(posterior(coarse=models[0], fine=models[1]), PAIR, comm=comm)

        for run in threads.run(3, work):
            assert run.report["processes"]["groups"] == groups

    def test_two_rungs_on_groups_of_their_own(self, monkeypatch):
        """Whatever the layout is, each rung's solves are by its own group."""
        wanted = make(posterior(coarse=Slow(0.0), fine=Slow(0.0)), PAIR)
        monkeypatch.setattr("invsamp.parallel.joint_solves._everyone", lambda: None)
        from invsamp.parallel import carry
        from invsamp.parallel.layout import Group

        def plan(comm, engine, models):
            return carry._Plan((Group(range(1), range(2)), Group(range(1, 2), range(2, 4))), how)

        how = {"coarse": "together", "fine": "together"}
        monkeypatch.setattr(carry, "_plan", plan)
        sizes = [[] for _ in range(4)]

        def work(comm):
            def build(own):
                sizes[comm.rank].append(0 if own is None else own.size)
                return Slow(0.0) if own is None else Together(own)

            problem = posterior(coarse=parallel.distributed(build), fine=parallel.distributed(build))
            return make(problem, PAIR, comm=comm)

        assert all(same_draws(run, wanted) for run in threads.run(4, work))
        assert all(2 in of_rank for of_rank in sizes)

    def test_models_made_for_a_communicator(self):
        """All of its ranks solve; a coarse model that knows nothing of them is the first one's."""
        wanted = make(posterior(coarse=Slow(0.0), fine=Slow(0.0)), PAIR)

        def work(comm):
            problem = posterior(coarse=Slow(0.0), fine=Together(comm))
            assert communicator(problem) is comm
            return make(problem, PAIR)

        runs = threads.run(3, work)
        assert all(same_draws(run, wanted) for run in runs)
        assert runs[0].report["processes"]["how"] == {"coarse": "alone", "fine": "together"}

    def test_distributed_shows_what_the_model_has(self):
        model = parallel.distributed(lambda comm: with_jacobian(lambda t: t, lambda t: t, ("a", "b")))
        assert model.parameters == ("a", "b")
        assert callable(model.jacobian)
        assert not hasattr(model, "rows")
        assert repr(model) == "distributed(TestTogether.test_distributed_shows_what_the_model_has.<locals>.<lambda>)"

    def test_distributed_refuses(self):
        with pytest.raises(ValueError, match="build must be a function of a communicator, got 3"):
            parallel.distributed(3)
