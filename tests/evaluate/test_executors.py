"""Runs that others evaluate: executors, and evaluators of a user's own, right and wrong."""

from __future__ import annotations

import pickle
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import invsamp as iv
from invsamp.evaluate import Estimate, Evaluator, EvaluatorError, solve

LENGTH = {"draws": 15, "warmup": 120, "chains": 3, "seed": 7, "progress": False}
SAMPLERS = {
    "hmc": iv.hmc(),
    "ladder": iv.relangevin((1.0, 2.0, 4.0), fidelities=["fine", "coarse", "coarse"], swap_fraction=0.5),
    "minibatches": iv.resgld((1.0, 2.0), 0.01, estimator=iv.minibatch(3), fidelities=["fine"] * 2, swap_fraction=0.5),
}


def line(theta):
    return theta[:, :1] + theta[:, 1:] * np.linspace(0.0, 1.0, 5)


def bent(theta):
    return line(theta) + 0.1 * theta[:, :1] ** 2


POSTERIOR = iv.Posterior(
    prior=iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1)),
    forward={"coarse": iv.finite_differences(line), "fine": iv.finite_differences(bent)},
    data=[0.1, 0.4, 0.6, 0.7, 1.1],
    noise=iv.GaussianNoise(0.2),
)


@pytest.fixture(autouse=True)
def no_warnings_of_short_runs(monkeypatch):
    monkeypatch.setattr("invsamp.handing_back.announce", lambda run, stacklevel: None)
    monkeypatch.setattr("invsamp.sampler.announce", lambda run, stacklevel: None)


def same(one, other):
    np.testing.assert_array_equal(one.theta, other.theta)
    for name in ("evaluations", "failed_solves", "swap_accepts", "swap_solves"):
        assert one.report[name] == other.report[name]


class Pickling(ThreadPoolExecutor):
    """Threads that are told what processes would be told."""

    def submit(self, function, /, *arguments):
        return super().submit(
            lambda data: pickle.loads(pickle.dumps(function(*pickle.loads(data)))), pickle.dumps(arguments)
        )


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_and_counts_do_not_depend_on_an_executor(name):
    alone = iv.sample(POSTERIOR, SAMPLERS[name], **LENGTH)
    with Pickling(3) as executor:
        same(iv.sample(POSTERIOR, SAMPLERS[name], executor=executor, **LENGTH), alone)


def test_a_pool_of_processes():
    alone = iv.sample(POSTERIOR, SAMPLERS["ladder"], **LENGTH)
    with ProcessPoolExecutor(2) as executor:
        same(iv.sample(POSTERIOR, SAMPLERS["ladder"], executor=executor, **LENGTH), alone)


def test_rows_are_spread_over_the_workers():
    rows = []

    class Watched(Pickling):
        def submit(self, function, /, *arguments):
            rows.append(len(arguments[2].position))
            return super().submit(function, *arguments)

    with Watched(3) as executor:
        iv.sample(POSTERIOR, iv.mala(), executor=executor, **LENGTH)
    assert max(rows[-30:]) == 1


def test_a_run_in_a_directory_goes_on_with_another(tmp_path):
    whole = iv.sample(POSTERIOR, SAMPLERS["ladder"], directory=tmp_path / "whole", **LENGTH)
    with Pickling(2) as executor:
        iv.sample(POSTERIOR, SAMPLERS["ladder"], directory=tmp_path / "run", executor=executor, **LENGTH | {"draws": 8})
    with Pickling(3) as executor:
        more = iv.resume(tmp_path / "run", POSTERIOR, draws=15, progress=False, executor=executor)
    np.testing.assert_array_equal(more.theta, whole.theta)


class Own:
    """Twenty lines of a user's: everything here and now."""

    closed = False

    def open(self, potentials):
        self.potentials, self.rounds = potentials, []

    def evaluate(self, requests):
        self.rounds.append(len(requests))
        return [solve(self.potentials[request.fidelity], request) for request in requests]

    def close(self):
        self.closed = True


class TestOwn:
    @pytest.mark.parametrize("name", SAMPLERS)
    def test_the_same_draws(self, name):
        own = Own()
        assert isinstance(own, Evaluator)
        same(
            iv.sample(POSTERIOR, SAMPLERS[name], executor=own, **LENGTH), iv.sample(POSTERIOR, SAMPLERS[name], **LENGTH)
        )
        assert own.closed

    def test_all_rungs_ask_together(self):
        own = Own()
        iv.sample(POSTERIOR, SAMPLERS["ladder"], executor=own, **LENGTH)
        assert own.rounds.count(3) > 135 * 0.9

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (lambda found: found[:-1], r"must give 1 estimates, got 0"),
            (lambda found: [None], "must give an Estimate for each request, got None"),
            (lambda found: [f._replace(energy=f.energy[:1]) for f in found], r"energies of shape \(3,\) and gradients"),
            (
                lambda found: [f._replace(gradient=f.gradient.T) for f in found],
                r"gradients of shape \(3, 2\), got \(3,\)",
            ),
            (lambda found: [f._replace(energy=["a", "b", "c"]) for f in found], "must give numbers"),
            (lambda found: 1 / 0, "failed: ZeroDivisionError: division by zero"),
        ],
    )
    def test_nonsense_is_named(self, wrong, message):
        class Wrong(Own):
            def evaluate(self, requests):
                return wrong(super().evaluate(requests))

            def __repr__(self):
                return "the queue"

        own = Wrong()
        with pytest.raises(EvaluatorError, match=rf"the queue .*{message}|the queue {message}"):
            iv.sample(POSTERIOR, iv.mala(), executor=own, **LENGTH)
        assert own.closed

    def test_solves_that_fail_are_counted_and_refused(self):
        class Failing(Own):
            def evaluate(self, requests):
                found = super().evaluate(requests)
                return [
                    f._replace(energy=np.where(r.position[:, 0] > 0.3, np.nan, f.energy))
                    for r, f in zip(requests, found, strict=True)
                ]

        run = iv.sample(POSTERIOR, iv.mala(), executor=Failing(), start=[0.0, 0.0], **LENGTH)
        assert run.report["failed_solves"]["fine"] > 10
        assert run.theta[..., 0].max() <= 0.3

    def test_what_was_drawn_is_kept(self):
        class Dying(Own):
            def evaluate(self, requests):
                if len(self.rounds) > 200:
                    raise ConnectionError("the cluster is gone")
                return super().evaluate(requests)

        settings = LENGTH | {"draws": 500}
        with pytest.warns(
            UserWarning, match=r"the cluster is gone.* The run holds the \d+ draws that were made, of 500"
        ):
            run = iv.sample(POSTERIOR, iv.mala(), executor=Dying(), **settings)
        kept = run.theta.shape[1]
        assert 10 < kept < 500
        np.testing.assert_array_equal(run.theta, iv.sample(POSTERIOR, iv.mala(), **settings).theta[:, :kept])


class TestRefusals:
    @pytest.mark.parametrize("executor", [4, "processes", ThreadPoolExecutor, Future()])
    def test_of_what_cannot_evaluate(self, executor):
        with pytest.raises(
            ValueError, match=r"executor must be a concurrent.futures.Executor, or have the methods open"
        ):
            iv.sample(POSTERIOR, iv.mala(), executor=executor, **LENGTH)

    def test_of_processes_that_make_a_run_together(self):
        with pytest.raises(ValueError, match="comm must be None where an executor evaluates, got 'all'"):
            iv.sample(POSTERIOR, iv.mala(), executor=Own(), comm="all", **LENGTH)

    def test_of_what_cannot_be_sent(self):
        here = iv.Target(iv.FunctionPotential(lambda x: ((x**2).sum(axis=1), 2.0 * x), 2))
        with (
            ThreadPoolExecutor(1) as executor,
            pytest.raises(ValueError, match="executor needs a posterior that can be"),
        ):
            iv.sample(here, iv.mala(), executor=executor, **LENGTH)


def test_estimates_are_plain():
    """What workers send back are arrays of numbers."""
    found = solve(POSTERIOR.potential(), iv.evaluate.Request("fine", np.zeros((2, 2))))
    assert isinstance(pickle.loads(pickle.dumps(found)), Estimate)
