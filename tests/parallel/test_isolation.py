"""Models in worker processes: the numbers of the model itself, and one row lost for each fault, whatever the fault."""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path

import flaky_models as flaky
import launch
import numpy as np
import pytest

import invsamp as iv
from invsamp.contract import ForwardModel
from invsamp.parallel.isolation import isolated
from invsamp.posing.forward import GuardedModel, ModelError, WrongShapeError

THETA = np.random.default_rng(0).normal(size=(5, 2))
COTANGENT = np.random.default_rng(1).normal(size=(5, 3))
GRADIENT = np.einsum("bm,bmp->bp", COTANGENT, flaky.derivatives(THETA))
BAD = np.array([False, True, False, False, True])
TROUBLED = np.where(BAD[:, None], [11.0, 1.0], THETA)
TIME_LIMIT = 2.0  # other processes on the machine must not make a right answer late


@pytest.fixture(scope="module")
def model():
    with isolated(flaky.Thorough(), workers=2) as model:
        yield model


def row_by_row(function):
    return np.concatenate([function(THETA[i : i + 1]) for i in range(len(THETA))])


class TestNumbers:
    def test_are_those_of_the_model_to_the_bit(self, model):
        truth = flaky.Thorough()
        assert isinstance(model, ForwardModel)
        np.testing.assert_array_equal(model(THETA), row_by_row(truth))
        y, vjp = model.linearize(THETA)
        np.testing.assert_array_equal(y, row_by_row(truth))
        for _ in range(2):
            np.testing.assert_allclose(vjp(COTANGENT), GRADIENT, rtol=1e-14)
        y, matrix = model.jacobian(THETA)
        np.testing.assert_array_equal(y, row_by_row(truth))
        np.testing.assert_array_equal(matrix, row_by_row(flaky.derivatives))
        assert not any(model.failures.values())
        assert model.message is None
        assert model.cost > 0.0

    def test_of_chosen_data(self, model):
        indices = np.array([[0, 2], [1, 1], [2, 0], [0, 1], [1, 2]])
        y, matrix = model.rows(THETA, indices)
        row = np.arange(5)[:, None]
        np.testing.assert_array_equal(y, row_by_row(flaky.observations)[row, indices])
        np.testing.assert_array_equal(matrix, row_by_row(flaky.derivatives)[row, indices])

    def test_what_the_model_tells_about_itself_is_passed_on(self, model):
        assert model.parameters == ("x", "y")
        assert model.n_observations == 3
        assert model.data_indices is None
        assert repr(model) == f"isolated({flaky.Thorough()!r}, time_limit=None)"
        bare = isolated(flaky.Troubled())
        assert not hasattr(bare, "jacobian")
        assert not hasattr(bare, "rows")
        assert GuardedModel(model, 3, "fine").has_jacobian

    def test_linearizations_outlive_others_and_are_forgotten(self, model):
        _, first = model.linearize(THETA)
        for _ in range(3):
            model.linearize(THETA[::-1])[1](COTANGENT)
        np.testing.assert_allclose(first(COTANGENT), GRADIENT, rtol=1e-14)
        waiting = [worker.forgotten for worker in model._pool.staff.values()]
        before = sum(map(len, waiting))
        del first
        assert sum(map(len, waiting)) == before + len(THETA)

    def test_survive_pickling_without_the_processes(self, model):
        copy = pickle.loads(pickle.dumps(model))
        assert not copy._pool.staff
        assert repr(copy) == repr(model)
        with copy:
            np.testing.assert_array_equal(copy(THETA[:1]), model(THETA[:1]))


FAULTS = {
    "raise": ("raised", "RuntimeError: the solver diverged"),
    "nan": ("not_finite", "not finite"),
    "hang": ("timed_out", "no answer within 2 s"),
    "crash": ("died", "signal SIGSEGV"),
    "exit": ("died", "exit code 3"),
}


class TestFaults:
    @pytest.mark.parametrize("deed", FAULTS)
    def test_cost_their_rows_alone(self, deed):
        kind, words = FAULTS[deed]
        with isolated(flaky.Troubled(deed), workers=2, time_limit=TIME_LIMIT) as model:
            y = model(TROUBLED)
            np.testing.assert_array_equal(np.isnan(y).any(axis=1), BAD)
            np.testing.assert_array_equal(y[~BAD], row_by_row(flaky.observations)[~BAD])
            assert model.failures == dict.fromkeys(model.failures, 0) | {kind: 2}
            assert words in model.message
            assert "[11." in model.message
            np.testing.assert_array_equal(model(THETA), row_by_row(flaky.observations))
            assert sum(model.failures.values()) == 2

    def test_in_a_product_cost_its_row_alone(self):
        # the only worker goes down with the linearizations of all rows
        with isolated(flaky.Troubled("exit", stage="product")) as model:
            y, vjp = model.linearize(TROUBLED)
            assert np.isfinite(y).all()
            gradient = vjp(COTANGENT)
            np.testing.assert_array_equal(np.isnan(gradient).all(axis=1), BAD)
            np.testing.assert_allclose(gradient[~BAD], GRADIENT[~BAD], rtol=1e-14)
            assert model.failures["died"] == 2

    @pytest.mark.parametrize("deed", ["raise", "nan", "exit"])
    def test_are_counted_once_though_a_product_is_asked_for(self, deed):
        with isolated(flaky.Troubled(deed)) as model:
            y, vjp = model.linearize(TROUBLED)
            np.testing.assert_array_equal(np.isnan(vjp(COTANGENT)).all(axis=1), BAD)
            np.testing.assert_array_equal(np.isnan(y).any(axis=1), BAD)
            assert sum(model.failures.values()) == 2

    def test_a_worker_that_dies_in_idleness_costs_nothing(self, model):
        model(THETA)
        for worker in model._pool.staff.values():
            os.kill(worker._process.pid, signal.SIGKILL)
            worker._process.join()
        np.testing.assert_array_equal(model(THETA), row_by_row(flaky.observations))
        assert not any(model.failures.values())

    def test_an_interrupted_call_leaves_no_stale_answers(self, model):
        def interrupt(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        with isolated(flaky.Troubled("hang")) as hanging:
            hanging(THETA)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                with pytest.raises(KeyboardInterrupt):
                    hanging(TROUBLED)
            finally:
                signal.signal(signal.SIGALRM, before)
            np.testing.assert_array_equal(hanging(THETA), row_by_row(flaky.observations))

    def test_a_mistake_is_raised(self):
        with isolated(flaky.Troubled("mistake")) as model, pytest.raises(ModelError, match="the mesh file is gone"):
            GuardedModel(model, 3, "fine")(TROUBLED)

    def test_a_whole_batch_that_fails_says_so(self):
        with isolated(flaky.Troubled()) as model:
            guarded = GuardedModel(model, 3, "fine")
            assert np.isnan(guarded(TROUBLED[BAD])).all()
            assert "the solver diverged" in guarded.message

    def test_processes_that_a_hung_worker_started_end_with_it(self, tmp_path):
        file = tmp_path / "numbers"
        model = isolated(flaky.StartsOthers(file=str(file)), time_limit=0.5)
        with model, pytest.raises(RuntimeError, match="no answer within"):
            model(THETA[:1])
        deadline = time.monotonic() + 5.0
        while any(alive(int(pid)) for pid in file.read_text().split()):
            assert time.monotonic() < deadline
            time.sleep(0.02)


class TestProcesses:
    def test_are_others_without_the_variables_of_a_launcher(self, monkeypatch):
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        with isolated(flaky.ProcessNumber()) as model:
            process, launched, threads = model(THETA)[0]
        assert process != os.getpid()
        assert not launched
        assert threads == 3.0
        assert os.environ["OMPI_COMM_WORLD_SIZE"] == "2"

    @pytest.mark.mpi
    def test_of_a_rank_are_no_ranks(self):
        told = launch.mpi(
            f"""
            import sys
            sys.path.insert(0, {TOOLS!r})
            import flaky_models, numpy as np
            from mpi4py import MPI
            from invsamp.parallel.isolation import isolated

            if __name__ == "__main__":
                with isolated(flaky_models.BeginsMPI(), workers=2) as model:
                    y = model(np.full((3, 2), MPI.COMM_WORLD.rank))
                    print(MPI.COMM_WORLD.rank, y[:, :2].tolist())
            """,
            2,
        ).stdout
        assert sorted(told.splitlines()) == [f"{rank} {[[1.0, float(rank)]] * 3}" for rank in range(2)]

    def test_end_with_the_script_that_used_them(self):
        told = launch.python(SCRIPT, "exit").stdout.split()
        assert told[0] == "0"
        assert not any(alive(int(pid)) for pid in told[1:])

    def test_end_with_a_script_that_is_killed(self, tmp_path):
        file = tmp_path / "script.py"
        file.write_text(SCRIPT)
        process = launch.start([launch.sys.executable, "-u", str(file), "hang"])
        try:
            told = process.stdout.readline().split()
            time.sleep(0.3)  # in the call that hangs, or on its way
            process.kill()
            deadline = time.monotonic() + 10.0
            while any(alive(int(pid)) for pid in told[1:]):
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            launch.stop(process)

    @pytest.mark.slow
    def test_end_even_if_they_hang_in_compiled_code(self, tmp_path):
        file = tmp_path / "script.py"
        file.write_text(SCRIPT)
        process = launch.start([launch.sys.executable, "-u", str(file), "hang in C"])
        try:
            told = process.stdout.readline().split()
            time.sleep(0.3)
            process.kill()
            deadline = time.monotonic() + 20.0
            while any(alive(int(pid)) for pid in told[1:]):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        finally:
            launch.stop(process)

    def test_of_a_script_without_a_guard_are_refused(self):
        ended = launch.python(
            f"""
            import sys
            sys.path.insert(0, {TOOLS!r})
            import flaky_models
            from invsamp.parallel.isolation import isolated

            print(isolated(flaky_models.Troubled())(flaky_models.np.zeros((1, 2))))
            """,
            check=False,
        )
        assert ended.returncode != 0
        assert "__main__" in ended.stderr.splitlines()[-1]
        assert "ModelError" in ended.stderr.splitlines()[-1]


TOOLS = str(Path(flaky.__file__).parent)
SCRIPT = f"""
import sys
sys.path.insert(0, {TOOLS!r})
import flaky_models, numpy as np
from invsamp.parallel.isolation import isolated

if __name__ == "__main__":
    model = isolated(flaky_models.Troubled(sys.argv[1]), workers=2, time_limit=None if sys.argv[1] == "hang" else 2.0)
    y = model(np.zeros((8, 2)))
    print(np.isnan(y).sum(), *(w._process.pid for w in model._pool.staff.values()))
    if sys.argv[1] != "exit":
        model(np.full((2, 2), 11.0))
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class TestConstruction:
    def test_a_function_makes_what_cannot_be_pickled(self):
        with isolated(build=flaky.build_unpicklable, workers=2) as model:
            assert model.parameters == ("x", "y")
            assert model.n_observations == 3
            np.testing.assert_array_equal(model(THETA), row_by_row(flaky.observations))

    @pytest.mark.parametrize(
        ("build", "words"), [(flaky.build_nothing, "'no model'"), (flaky.build_failing, "OSError: no license")]
    )
    def test_a_function_that_makes_no_model(self, build, words):
        with pytest.raises(ModelError, match=words):
            isolated(build=build)

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({}, "model or build, got neither"),
            ({"model": flaky.Troubled(), "build": flaky.build_nothing}, "model or build, got both"),
            ({"model": flaky.Troubled(), "workers": 0}, "workers must be an integer >= 1, got 0"),
            ({"model": flaky.Troubled(), "time_limit": 0.0}, "time_limit must be positive"),
            ({"model": flaky.Unpicklable()}, r"picklable.*factorisation.*build="),
            ({"model": np.sin}, "with linearize"),
            ({"build": 3}, "build must be callable"),
        ],
    )
    def test_bad_settings(self, settings, words):
        with pytest.raises(ValueError, match=words):
            isolated(**settings)


def test_wrong_shapes_are_mistakes(model, monkeypatch):
    monkeypatch.setattr(model, "_width", 4)
    with pytest.raises(WrongShapeError, match=r"\[3, 4\]"):
        model(THETA)


def test_a_run_counts_the_failures_and_says_what_they_were(draw):
    prior = iv.Prior(x=iv.Normal(9.0, 1.0), y=iv.Normal(0.0, 1.0))
    with isolated(flaky.Troubled(), workers=2) as model:
        posterior = iv.Posterior(prior, model, np.zeros(3), iv.GaussianNoise(1e3))
        run = draw(posterior, iv.mala(step_size=0.5), draws=20, warmup=0, chains=4)
        assert run.report["failed_solves"]["model"] == model.failures["raised"] > 0
        assert "the solver diverged" in run.report["failure_message"]
        assert (run.data.posterior["x"].values <= 10.0).all()
