"""A model with a database runs nothing twice: not in another script, not at the same time, not for other data."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from forks import forked, in_a_fork, status_of

import invsamp as iv
from invsamp.errors import WrongShapeError
from invsamp.protocols import FinishedRun
from invsamp.simulations import SimulationDatabase, stored

NAMES = ["a", "b"]
THETA = np.random.default_rng(0).normal(size=(6, 2))


class Counted:
    """A simulator that fails where a is below -1, and counts its calls in a file, whichever process makes them."""

    def __init__(self, folder, seconds=0.0):
        self.file, self.seconds = folder / "calls", seconds

    def __call__(self, theta):
        assert len(theta) == 1
        with open(self.file, "a") as file:
            file.write(f"{theta.tolist()}\n")
        time.sleep(self.seconds)
        if theta[0, 0] < -1.0:
            raise ArithmeticError("no convergence")
        return np.concatenate([theta, theta.sum(axis=1, keepdims=True)], axis=1)

    @property
    def calls(self):
        return self.file.read_text().splitlines() if self.file.exists() else []


@pytest.fixture
def counted(tmp_path):
    return Counted(tmp_path)


@pytest.fixture
def model(tmp_path, counted):
    return stored(counted, tmp_path / "runs", names=NAMES)


class TestOnce:
    def test_what_is_known_is_looked_up_by_this_script_and_others(self, tmp_path, counted, model):
        y = model(THETA)
        np.testing.assert_array_equal(y, np.concatenate([THETA, THETA.sum(axis=1, keepdims=True)], axis=1))
        np.testing.assert_array_equal(model(THETA[::-1]), y[::-1])
        np.testing.assert_array_equal(stored(counted, tmp_path / "runs", names=NAMES)(THETA), y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(THETA), y)
        assert len(counted.calls) == 6 == model.simulated

    def test_equal_rows_are_run_once(self, counted, model):
        y = model(np.repeat(THETA[:2], 3, axis=0))
        np.testing.assert_array_equal(y, np.repeat(model(THETA[:2]), 3, axis=0))
        assert len(counted.calls) == 2

    def test_a_failure_is_not_tried_again(self, tmp_path, counted, model):
        theta = np.concatenate([THETA[:1], [[-2.0, 0.0]]])
        for one in (model, model, stored(counted, tmp_path / "runs", names=NAMES)):
            assert np.isfinite(one(theta)).all(axis=1).tolist() == [True, False]
            assert one.message == "ArithmeticError: no convergence"
        assert len(counted.calls) == 2

    def test_two_processes_at_the_same_time_share_the_work(self, tmp_path):
        theta = np.random.default_rng(1).normal(size=(30, 2)) + np.array([4.0, 0.0])

        class Meeting(Counted):
            def __call__(self, theta):
                y = super().__call__(theta)
                while len(self.calls) < 2:  # until the other one has begun, too
                    time.sleep(0.005)
                return y

        counted = Meeting(tmp_path)

        def work(rows):
            model = stored(counted, tmp_path / "runs", names=NAMES)
            np.testing.assert_array_equal(model(theta[rows])[:, :2], theta[rows])
            assert model.simulated

        with forked(lambda: work(slice(None))) as one, forked(lambda: work(slice(None, None, -1))) as other:
            assert [status_of(one), status_of(other)] == [0, 0]
        assert len(counted.calls) == len(set(counted.calls)) == 30

    def test_two_threads_too(self, tmp_path):
        counted = Counted(tmp_path, seconds=0.02)
        model = stored(counted, tmp_path / "runs", names=NAMES)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: model(THETA), range(4)))
        np.testing.assert_array_equal(found, [found[0]] * 4)
        assert len(counted.calls) == 6

    def test_who_is_killed_leaves_no_claim_behind(self, tmp_path, counted):
        endless = Counted(tmp_path, seconds=1e6)
        with forked(lambda: stored(endless, tmp_path / "runs", names=NAMES)(THETA[:1])):
            while not endless.calls:
                time.sleep(0.005)
        np.testing.assert_array_equal(stored(counted, tmp_path / "runs", names=NAMES)(THETA[:1])[:, :2], THETA[:1])
        assert len(counted.calls) == 2

    def test_a_fork_runs_what_its_parent_has_not(self, counted, model):
        model(THETA[:3])
        assert in_a_fork(lambda: np.testing.assert_array_equal(model(THETA)[:, :2], THETA)) == 0
        model(THETA)
        assert len(counted.calls) == 6

    def test_rows_that_are_finished_are_kept_where_a_later_one_ends_the_script(self, tmp_path, counted):
        class Interrupted(Counted):
            def __call__(self, theta):
                if len(self.calls) == 3:
                    raise KeyboardInterrupt
                return super().__call__(theta)

        with pytest.raises(KeyboardInterrupt):
            stored(Interrupted(tmp_path), tmp_path / "runs", names=NAMES)(THETA)
        model = stored(counted, tmp_path / "runs", names=NAMES)
        model(THETA)
        assert model.simulated == 3


class TestMistakes:
    def test_where_all_fail_nothing_is_recorded(self, tmp_path):
        def mistaken(theta):
            calls.append(theta)
            return undefined  # noqa: F821

        calls = []
        model = stored(mistaken, tmp_path / "runs", names=NAMES)
        for _ in range(2):  # not called again by this script
            with pytest.raises(RuntimeError, match="NameError: name 'undefined' is not defined"):
                model(THETA)
        assert len(calls) == 6
        right = stored(lambda theta: theta, tmp_path / "runs", names=NAMES)
        np.testing.assert_array_equal(right(THETA), THETA)

    def test_failures_before_the_first_success_are_recorded_with_it(self, tmp_path, counted, model):
        with pytest.raises(RuntimeError, match="no convergence"):
            model(np.array([[-2.0, 0.0]]))
        model(THETA[:1])
        assert SimulationDatabase.open(tmp_path / "runs").lookup([[-2.0, 0.0]]).known.all()

    def test_a_changing_number_of_outputs_ends_the_run(self, tmp_path):
        model = stored(lambda theta: np.ones((1, 2 + (theta[0, 0] > 0.0))), tmp_path / "runs", names=NAMES)
        model(np.array([[-1.0, 0.0]]))
        with pytest.raises(WrongShapeError, match="must have as many outputs as those before in"):
            model(np.array([[1.0, 0.0]]))

    def test_a_function_of_one_theta_is_distinguished_from_one_of_a_batch(self, tmp_path):
        model = stored(lambda theta: np.ones(3), tmp_path / "runs", names=NAMES)
        with pytest.raises(WrongShapeError, match=r"must have shape \(1, m\), got \(3,\).*iv.scalar_function"):
            model(THETA)

    def test_a_model_with_derivatives_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="model must have no derivatives, which a database does not store"):
            stored(iv.finite_differences(lambda theta: theta), tmp_path / "runs", names=NAMES)
        model = iv.finite_differences(stored(lambda theta: theta, tmp_path / "runs", names=NAMES))
        np.testing.assert_allclose(model.jacobian(THETA)[1], np.tile(np.eye(2), (6, 1, 1)), atol=1e-8)


class TestExecutors:
    def test_an_executor_runs_the_rows_and_each_is_recorded_as_it_ends(self, tmp_path, counted):
        with ThreadPoolExecutor(3) as pool:
            model = stored(counted, tmp_path / "runs", names=NAMES, executor=pool)
            np.testing.assert_array_equal(model(THETA)[:, :2], THETA)
        assert len(counted.calls) == 6

    def test_a_model_that_runs_rows_in_parallel_returns_them_one_by_one(self, tmp_path):
        class Backwards:
            def __call__(self, theta):
                raise AssertionError

            def finished(self, theta):
                for row in reversed(range(len(theta))):
                    if row == 2:
                        raise KeyboardInterrupt
                    yield FinishedRun(row, theta[row], None, 1.0)

        model = stored(Backwards(), tmp_path / "runs", names=NAMES)
        with pytest.raises(KeyboardInterrupt):
            model(THETA)
        assert model.database.lookup(THETA).known.tolist() == [False] * 3 + [True] * 3


class TestPosterior:
    PRIOR = iv.Prior(a=iv.Normal(0.0, 1.0), b=iv.Normal(0.0, 1.0))

    def test_another_posterior_of_the_same_model_costs_nothing(self, tmp_path, counted):
        def posterior(prior, data, noise):
            return iv.Posterior(prior, counted, data, noise, simulations=tmp_path / "runs")

        first = posterior(self.PRIOR, [0.0, 0.0, 0.0], iv.GaussianNoise(1.0))
        second = posterior(
            iv.Prior(a=iv.Uniform(-5, 5), b=iv.Normal(0, 9), s=iv.HalfNormal(1.0)), np.ones(3), iv.StudentTNoise(4, "s")
        )
        first.predict(THETA), second.predict(np.concatenate([THETA, np.ones((6, 1))], axis=1))
        assert len(counted.calls) == 6
        assert second.forward["model"].database.names == ("a", "b")

    def test_a_sampler_without_gradients_runs_on_it(self, tmp_path, counted):
        posterior = iv.Posterior(self.PRIOR, counted, np.zeros(3), iv.GaussianNoise(1.0), simulations=tmp_path / "runs")
        settings = {"draws": 20, "warmup": 0, "chains": 2, "seed": 1, "progress": False}
        with pytest.warns(UserWarning):
            run = iv.sample(posterior, iv.pcn(0.5), **settings)
            calls = len(counted.calls)
            again = iv.sample(posterior, iv.pcn(0.5), **settings)
        assert 0 < calls == len(counted.calls) == len(set(counted.calls))
        np.testing.assert_array_equal(run.theta, again.theta)

    @pytest.mark.filterwarnings("ignore::UserWarning")  # so few draws are not to be trusted
    def test_the_workers_of_an_executor_look_up_and_record(self, tmp_path):
        settings = {"draws": 10, "warmup": 0, "chains": 4, "seed": 1, "progress": False}
        counted, runs = Counted(tmp_path, seconds=0.002), []
        with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
            for executor in (pool, None):
                posterior = iv.Posterior(
                    self.PRIOR, counted, np.zeros(3), iv.GaussianNoise(1.0), simulations=tmp_path / "runs"
                )
                runs.append(iv.sample(posterior, iv.pcn(0.5), executor=executor, **settings))
                calls = len(counted.calls)
        assert calls == len(counted.calls) == len(set(counted.calls)) > 10
        assert posterior.forward["model"].simulated == 0  # the second run, in this process
        np.testing.assert_array_equal(runs[0].theta, runs[1].theta)

    def test_each_fidelity_has_a_folder_of_its_own(self, tmp_path):
        forward = {"coarse": lambda theta: theta[:, :1], "fine": lambda theta: theta[:, :1] + theta[:, 1:]}
        posterior = iv.Posterior(self.PRIOR, forward, [0.0], iv.GaussianNoise(1.0), simulations=tmp_path / "runs")
        posterior.predict(THETA, "coarse"), posterior.predict(THETA[:2])
        assert [len(SimulationDatabase.open(tmp_path / "runs" / name)) for name in ("coarse", "fine")] == [6, 2]

    def test_the_models_version_is_its_label(self, tmp_path):
        class Model:
            version = "1.3"

            def __call__(self, theta):
                return theta

        posterior = iv.Posterior(self.PRIOR, Model(), np.zeros(2), iv.GaussianNoise(1.0), simulations=tmp_path / "runs")
        posterior.predict(THETA)
        assert SimulationDatabase.open(tmp_path / "runs").versions() == {"1.3": 6}

    def test_data_of_another_number_than_the_outputs_are_refused_before_a_run(self, tmp_path, model):
        model(THETA)
        with pytest.raises(ValueError, match="it has 3, got 2 data"):
            iv.Posterior(self.PRIOR, model, np.zeros(2), iv.GaussianNoise(1.0))

    def test_a_log_likelihood_has_no_outputs_to_keep(self, tmp_path):
        with pytest.raises(ValueError, match="simulations must be None beside a log_likelihood"):
            iv.Posterior(self.PRIOR, log_likelihood=lambda theta: theta[:, 0], simulations=os.fspath(tmp_path))


def made_of(text: str) -> object:
    """The function ``model`` of a module of this text."""
    scope = {"__name__": "simulator", "np": np}
    exec(text, scope)
    return scope["model"]


def test_changed_code_warns_once(tmp_path):
    first = "def helper(x):\n    return 2.0 * x\n\n\ndef model(theta):\n    return helper(theta)\n"
    commented = first.replace("    return 2.0", "    # twice\n    return 2.0")
    changed, corrected = first.replace("2.0", "3.0"), first.replace("helper(theta)", "helper(theta) + 1.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored(made_of(first), tmp_path, names=["a"])(np.ones((1, 1)))
        stored(made_of(first), tmp_path, names=["a"])
        stored(made_of(commented), tmp_path, names=["a"])
        stored(made_of(changed), tmp_path, names=["a"], version="2")
    for text in (changed, corrected):
        with pytest.warns(iv.diagnostics.InvsampWarning, match="code of the simulator is not that"):
            stored(made_of(text), tmp_path, names=["a"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert stored(made_of(text), tmp_path, names=["a"])(np.ones((1, 1)))[0, 0] == 2.0
