"""Solves that processes make together, in groups as large as is fastest."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import threads

import invsamp as iv
from invsamp import parallel
from invsamp.parallel import load_balancing
from invsamp.parallel.groups import Groups
from invsamp.parallel.mpi_evaluator import communicator
from invsamp.posing.forward_models.adapters import with_jacobian
from invsamp.sampling import sample

PAIR = iv.samplers.parallel_tempering((1.0, 4.0), 0.3, preconditioner=None)
ONE = iv.mala(0.5, preconditioner=None)
DATA = np.array([0.3, 0.7])


def identity():
    return with_jacobian(lambda theta: theta, lambda theta: np.tile(np.eye(2), (len(theta), 1, 1)))


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


def posterior(**forward):
    return iv.Posterior(
        iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1)), noise=iv.GaussianNoise(0.2), data=DATA, forward=forward
    )


def make(problem, sampler=ONE, comm=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"draws": 10, "warmup": 0, "chains": 4, "seed": 3} | settings
        return sample(problem, sampler, comm=comm, progress=False, **settings)


def same_draws(one, other):
    return all(np.array_equal(one.rung_theta(k), other.rung_theta(k)) for k in range(one.rungs))


@pytest.fixture
def alone(monkeypatch):
    """Where a posterior is checked, before it is run: each thread by itself."""
    monkeypatch.setattr("invsamp.parallel.joint_solves._everyone", lambda: None)


def scaling(monkeypatch, power):
    """What is measured: n ranks are so much faster."""

    def seconds(groups, size, position):
        groups._bind(size)
        return size**-power

    monkeypatch.setattr(Groups, "_seconds", seconds)


def build(made):
    def build(comm):
        made.append(identity() if comm is None else Together(comm))
        return made[-1]

    return build


@pytest.mark.usefixtures("alone")
class TestDistributed:
    @pytest.mark.parametrize("ranks", [2, 3])
    def test_all_solve_what_all_gain_by(self, monkeypatch, ranks):
        scaling(monkeypatch, 2.0)
        wanted = make(posterior(fine=identity()))
        made = [[] for _ in range(ranks)]
        runs = threads.run(
            ranks, lambda comm: make(posterior(fine=parallel.distributed(build(made[comm.rank]))), comm=comm)
        )
        assert all(same_draws(run, wanted) for run in runs)
        assert runs[0].report["evaluations"] == wanted.report["evaluations"]
        assert runs[0].report["processes"]["solved"] == {"fine": "jointly"}
        assert runs[0].report["processes"]["groups"] == 1
        assert len({models[-1].calls for models in made}) == 1

    @pytest.mark.parametrize(("power", "groups"), [(3.0, 1), (0.5, 2), (-0.5, None)])
    def test_groups_of_the_fastest_size(self, monkeypatch, power, groups):
        """Two rungs on four ranks: one group after the other, two at a time, or each process by itself."""
        scaling(monkeypatch, power)
        monkeypatch.setattr(load_balancing, "MESSAGES", -1.0)
        wanted = make(posterior(coarse=identity(), fine=identity()), PAIR, chains=1, check_gradient=False)

        def work(comm):
            models = {name: parallel.distributed(build([])) for name in ("coarse", "fine")}
            return make(posterior(**models), PAIR, comm, chains=1, check_gradient=False)

        runs = threads.run(4, work)
        assert all(same_draws(run, wanted) for run in runs)
        assert runs[0].report["processes"]["groups"] == groups
        assert runs[0].report["processes"]["solved"]["fine"] == ("whole" if groups is None else "jointly")
        assert runs[0].report["evaluations"] == wanted.report["evaluations"]

    def test_one_that_makes_a_mistake_in_a_joint_solve_ends_all(self, monkeypatch):
        """The others wait for it within the solve."""
        scaling(monkeypatch, 2.0)

        class Mistaken(Together):
            def linearize(self, theta):
                if self.calls > 5 and self.comm.rank == 1:
                    raise iv.ModelError("the mesh is gone")
                return super().linearize(theta)

        def work(comm):
            model = parallel.distributed(lambda own: identity() if own is None else Mistaken(own))
            return make(posterior(fine=model), comm=comm)

        with pytest.raises(iv.ModelError, match="the mesh is gone"):
            threads.run(2, work)

    def test_distributed_shows_what_the_model_has(self):
        model = parallel.distributed(lambda comm: with_jacobian(lambda t: t, lambda t: t, ("a", "b")))
        assert model.parameters == ("a", "b")
        assert callable(model.jacobian)
        assert not hasattr(model, "rows")
        assert repr(model).startswith("distributed(TestDistributed.test_distributed_shows_what_the_model_has")

    def test_distributed_refuses(self):
        with pytest.raises(ValueError, match="build must be a function of a communicator, got 3"):
            parallel.distributed(3)


def test_models_made_for_a_communicator():
    """All of its ranks solve; a coarse model that knows nothing of them is anyone's."""
    wanted = make(posterior(coarse=identity(), fine=identity()), PAIR)

    def work(comm):
        problem = posterior(coarse=identity(), fine=Together(comm))
        assert communicator(problem) is comm
        return make(problem, PAIR)

    runs = threads.run(3, work)
    assert all(same_draws(run, wanted) for run in runs)
    assert runs[0].report["processes"]["solved"]["fine"] == "jointly"
    assert runs[0].report["processes"]["groups"] == 1
