"""Runs that executors' workers evaluate: threads, processes, ranks of MPI, Dask."""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import launch
import numpy as np
import pytest
from evaluating import LENGTH, POSTERIOR, SAMPLERS, Own, same

import invsamp as iv
from invsamp.evaluate import Estimate, EvaluatorError, executors, solve

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted


class Pickling(ThreadPoolExecutor):
    """Threads that get the arguments of processes."""

    def submit(self, function, /, *arguments):
        return super().submit(
            lambda data: pickle.loads(pickle.dumps(function(*pickle.loads(data)))), pickle.dumps(arguments)
        )


class Sent:
    """Counts what is submitted, and how often with the potentials."""

    def __init__(self, monkeypatch, executor):
        self.all = self.whole = 0
        submit = executor.submit

        def counted(function, key, pickled, request):
            self.all += 1
            self.whole += pickled is not None
            return submit(function, key, pickled, request)

        monkeypatch.setattr(executor, "submit", counted)


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_and_counts_do_not_depend_on_an_executor(name):
    alone = iv.sample(POSTERIOR, SAMPLERS[name], **LENGTH)
    with Pickling(3) as executor:
        same(iv.sample(POSTERIOR, SAMPLERS[name], executor=executor, **LENGTH), alone)


def test_a_pool_of_processes(monkeypatch):
    alone = iv.sample(POSTERIOR, SAMPLERS["ladder"], **LENGTH)
    with ProcessPoolExecutor(2) as executor:
        sent = Sent(monkeypatch, executor)
        same(iv.sample(POSTERIOR, SAMPLERS["ladder"], executor=executor, **LENGTH), alone)
    assert sent.whole < 0.1 * sent.all


@pytest.mark.mpi
def test_ranks_of_mpi():
    code = """
        import sys

        sys.path += sys.argv[1:]  # of a worker none
        from evaluating import LENGTH, POSTERIOR, SAMPLERS, same
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor

        import invsamp as iv

        if __name__ == "__main__":
            import no_arviz

            for name, sampler in SAMPLERS.items():
                alone = iv.sample(POSTERIOR, sampler, comm=MPI.COMM_SELF, **LENGTH)
                with MPIPoolExecutor(path=sys.argv[1:]) as executor:
                    same(iv.sample(POSTERIOR, sampler, executor=executor, **LENGTH), alone)
                print(name)
        """
    found = launch.mpi(code, 3, Path(launch.__file__).parent, through="mpi4py.futures")
    assert found.stdout.split() == list(SAMPLERS)


@pytest.mark.slow
def test_workers_of_dask(monkeypatch):
    """One process of two threads; of several is `test_a_pool_of_processes`."""
    distributed = pytest.importorskip("distributed")
    sampler = iv.samplers.parallel_tempering((1.0, 2.0), 0.01, fidelities=["fine", "coarse"], swap_fraction=0.5)
    settings = LENGTH | {"warmup": 20}
    with distributed.Client(n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
        executor = client.get_executor()
        sent = Sent(monkeypatch, executor)
        same(iv.sample(POSTERIOR, sampler, executor=executor, **settings), iv.sample(POSTERIOR, sampler, **settings))
    assert sent.whole < 0.2 * sent.all


def test_each_thread_has_its_own_potentials():
    """Models hold what they solve with: a grid, a factor, the last theta."""

    def held(request):
        assert executors.evaluated("key", pickled, request).energy.shape == (1,)
        return id(executors._HELD.potentials["key"]["fine"])

    pickled, request = pickle.dumps({"fine": POSTERIOR.potential()}), iv.evaluate.Request("fine", np.zeros((1, 2)))
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        assert one.submit(held, request).result() != other.submit(held, request).result()
        assert one.submit(held, request).result() == one.submit(held, request).result()


def test_rows_are_spread_over_the_workers():
    rows = []

    class Watched(Pickling):
        def submit(self, function, /, *arguments):
            rows.append(len(arguments[2].position))
            return super().submit(function, *arguments)

    with Watched(3) as executor:
        iv.sample(POSTERIOR, iv.mala(), executor=executor, check_gradient=False, **LENGTH)
    assert max(rows[-30:]) == 1


def test_a_stored_run_resumes_with_another(tmp_path):
    whole = iv.sample(POSTERIOR, SAMPLERS["ladder"], directory=tmp_path / "whole", **LENGTH)
    with Pickling(2) as executor:
        iv.sample(POSTERIOR, SAMPLERS["ladder"], directory=tmp_path / "run", executor=executor, **LENGTH | {"draws": 8})
    with Pickling(3) as executor:
        more = iv.resume(tmp_path / "run", POSTERIOR, draws=15, progress=False, executor=executor)
    np.testing.assert_array_equal(more.theta, whole.theta)


class Exiting:
    """A potential in two workers, one of which ends itself once both together have had so many calls."""

    dimension = 2

    def __init__(self, calls, file):
        self.calls, self.file, self.driver = calls, file, os.getpid()

    def energy(self, position):
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position):
        if os.getpid() != self.driver:
            with self.file.open("ab") as file:
                file.write(b".")
                if file.tell() == self.calls:
                    os._exit(7)
        return 0.5 * (position**2).sum(axis=1), position.copy()


class TestThatBreak:
    """A worker that ends breaks Python's pools: the run ends with the reason, and nothing that was drawn is lost."""

    SETTINGS = LENGTH | {"draws": 120, "check_gradient": False}
    SAID = r"the executor .*ProcessPool.* failed: BrokenProcessPool: .*terminated abruptly.* where memory runs out.*"

    @pytest.fixture
    def pool(self):
        with ProcessPoolExecutor(2) as pool:
            yield pool

    @pytest.fixture
    def whole(self, tmp_path):
        return iv.sample(iv.Target(Exiting(0, tmp_path)), iv.mala(), start=[0.1, 0.2], **self.SETTINGS).theta

    def sample(self, pool, tmp_path, calls, **settings):
        target = iv.Target(Exiting(calls, tmp_path / "ended"))
        return iv.sample(target, iv.mala(), start=[0.1, 0.2], executor=pool, **self.SETTINGS | settings)

    def test_in_memory(self, pool, whole, tmp_path):
        with pytest.warns(UserWarning, match=self.SAID + r"the run holds the \d+ draws"):
            run = self.sample(pool, tmp_path, 360)
        kept = run.theta.shape[1]
        assert 0 < kept < 120
        np.testing.assert_array_equal(run.theta, whole[:, :kept])

    def test_before_there_are_draws(self, pool, tmp_path):
        with pytest.raises(EvaluatorError, match=self.SAID):
            self.sample(pool, tmp_path, 20)

    def test_in_a_directory(self, pool, whole, tmp_path):
        directory = tmp_path / "run"
        with pytest.raises(EvaluatorError, match=self.SAID) as error:
            self.sample(pool, tmp_path, 400, directory=directory, segment=10)
        assert "Continue it with invsamp.resume" in error.value.__notes__[0]
        assert iv.load(directory).report["draws"] > 0
        again = iv.resume(directory, iv.Target(Exiting(0, tmp_path)), progress=False)
        np.testing.assert_array_equal(again.theta, whole)


class Stuck:
    """A potential whose solves, from some call on, wait until they are released."""

    dimension = 2

    def __init__(self, calls):
        self.left, self.free = calls, threading.Event()

    def energy(self, position):
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position):
        self.left -= 1
        if self.left < 0:
            self.free.wait()
        return 0.5 * (position**2).sum(axis=1), position.copy()

    def __reduce__(self):
        return _stuck, ()


_STUCK = []


def _stuck():
    return _STUCK[-1]


SHORT = {"draws": 50, "warmup": 20, "chains": 1, "seed": 1, "progress": False, "check_gradient": False}


class TestThatNeverEnd:
    @pytest.fixture(params=[0, 40], ids=["at once", "later"])
    def stuck(self, request):
        _STUCK.append(Stuck(request.param))
        yield _STUCK[-1]
        _STUCK.pop().free.set()

    def test_a_run_ends_at_the_limit_with_its_draws(self, stuck):
        later = bool(stuck.left)
        with ThreadPoolExecutor(1) as threads:
            executor = iv.evaluate.executed(threads, time_limit=0.5)
            said = "failed: TimeoutError: no answer within time_limit, 0.5 s"
            if later:
                with pytest.warns(UserWarning, match=said):
                    run = iv.sample(stuck, iv.samplers.sgld(0.1), executor=executor, **SHORT)
                assert 0 < run.theta.shape[1] < 50
            else:
                with pytest.raises(EvaluatorError, match=said):
                    iv.sample(stuck, iv.samplers.sgld(0.1), executor=executor, **SHORT)
            stuck.free.set()

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"time_limit": 0.0}, "time_limit must"),
            ({"workers": 0}, "workers must"),
            ({"executor": 3}, "executor must"),
        ],
    )
    def test_wrong_settings_are_refused(self, wrong, message):
        with ThreadPoolExecutor(1) as threads, pytest.raises(ValueError, match=message):
            iv.evaluate.executed(**{"executor": threads} | wrong)


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
        here = iv.Target(iv.extending.FunctionPotential(lambda x: ((x**2).sum(axis=1), 2.0 * x), 2))
        with (
            ThreadPoolExecutor(1) as executor,
            pytest.raises(ValueError, match="executor needs a posterior that can be"),
        ):
            iv.sample(here, iv.mala(), executor=executor, **LENGTH)


def test_estimates_are_plain():
    """What workers send back are arrays of numbers."""
    found = solve(POSTERIOR.potential(), iv.evaluate.Request("fine", np.zeros((2, 2))))
    assert isinstance(pickle.loads(pickle.dumps(found)), Estimate)
