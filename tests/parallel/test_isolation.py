"""Models in worker processes: the numbers of the model itself, and one row lost for each fault, whatever the fault."""

from __future__ import annotations

import os
import pickle
import signal
from functools import partial

import flaky_models as flaky
import launch
import numpy as np
import pytest
from forks import in_a_fork

import invsamp as iv
from invsamp.errors import ModelError, WrongShapeError
from invsamp.parallel.isolation import isolated
from invsamp.parallel.process import Worker
from invsamp.posing.forward_models.guarded_model import GuardedModel
from invsamp.protocols import ForwardModel

THETA = np.random.default_rng(0).normal(size=(5, 2))
COTANGENT = np.random.default_rng(1).normal(size=(5, 3))
GRADIENT = np.einsum("bm,bmp->bp", COTANGENT, flaky.derivatives(THETA))
BAD = np.array([False, True, False, False, True])
TROUBLED = np.where(BAD[:, None], [11.0, 1.0], THETA)
TIME_LIMIT = 3.0  # other processes on the machine must not make a right answer late


@pytest.fixture(scope="module")
def model():
    with isolated(flaky.Thorough(), workers=2) as model:
        yield model


def test_a_plain_function_has_no_derivatives_and_returns_rows_as_they_end():
    with isolated(flaky.square_and_process, workers=2) as plain:
        assert plain.no_derivatives == "it is a function without derivatives"
        runs = list(plain.finished(THETA))
        assert sorted(run.row for run in runs) == [0, 1, 2, 3, 4] and all(run.seconds >= 0.0 for run in runs)
        for run in runs:
            np.testing.assert_array_equal(run.outputs[:2], THETA[run.row] ** 2)
        posterior = iv.Posterior(
            iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1)), plain, np.zeros(3), iv.GaussianNoise(1.0)
        )
        with pytest.raises(ValueError, match="sampler must follow no gradients of fidelity 'model'"):
            iv.sample(posterior, iv.mala(0.1), draws=5)


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

    def test_attributes_of_the_model_are_passed_on(self, model):
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
        waiting = [worker.forgotten for worker in model._pool.workers.values()]
        before = sum(map(len, waiting))
        del first
        assert sum(map(len, waiting)) == before + len(THETA)

    def test_survive_pickling_without_the_processes(self, model):
        copy = pickle.loads(pickle.dumps(model))
        assert not copy._pool.workers
        assert repr(copy) == repr(model)
        with copy:
            np.testing.assert_array_equal(copy(THETA[:1]), model(THETA[:1]))


FAULTS = {
    "raise": ("raised", "RuntimeError: the solver diverged"),
    "nan": ("not_finite", "not finite"),
    "hang": ("timed_out", "no answer within 3 s"),
    "crash": ("died", "signal SIGSEGV"),
    "exit": ("died", "exit code 3"),
    "orphan": ("died", "signal SIGKILL"),
}


@pytest.fixture
def interrupted():
    """SIGALRM, which the deed "interrupt" sends, does what Ctrl-C does."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.signal(signal.SIGALRM, before)


class TestFaults:
    @pytest.mark.parametrize("deed", FAULTS)
    def test_cost_their_rows_alone(self, deed):
        kind, words = FAULTS[deed]
        limit = TIME_LIMIT if deed == "hang" else None
        with isolated(flaky.Troubled(deed), workers=2, time_limit=limit) as model:
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
        for worker in model._pool.workers.values():
            os.kill(worker._process.pid, signal.SIGKILL)
            worker._process.join()
        np.testing.assert_array_equal(model(THETA), row_by_row(flaky.observations))
        assert not any(model.failures.values())

    def test_an_interrupted_call_leaves_no_stale_answers(self, interrupted):
        with isolated(flaky.Troubled("interrupt")) as model:
            with pytest.raises(KeyboardInterrupt):
                model(TROUBLED)
            np.testing.assert_array_equal(model(THETA), row_by_row(flaky.observations))

    def test_a_start_that_was_interrupted_begins_anew(self, interrupted, tmp_path):
        with isolated(build=partial(flaky.build_in_turns, tmp_path / "starts", ["", "interrupt", ""])) as model:
            model.close()
            with pytest.raises(KeyboardInterrupt):
                model(THETA)
            np.testing.assert_array_equal(model(THETA), row_by_row(flaky.observations))

    @pytest.mark.parametrize("accidents", [3, 4])
    def test_replacements_that_die_at_the_start_are_replaced_a_few_times(self, accidents, tmp_path):
        deeds = ["", *["exit"] * accidents, "", ""]
        with isolated(build=partial(flaky.build_in_turns, tmp_path / "starts", deeds)) as model:
            if accidents > 3:
                with pytest.raises(ModelError, match=r"it ended \(exit code 3\) before it was ready"):
                    model(TROUBLED)
            else:
                np.testing.assert_array_equal(np.isnan(model(TROUBLED)).any(axis=1), BAD)
                assert model.failures["died"] == 2

    def test_a_mistake_is_raised(self):
        with isolated(flaky.Troubled("mistake")) as model, pytest.raises(ModelError, match="the mesh file is gone"):
            GuardedModel(model, 3, "fine")(TROUBLED)

    def test_a_whole_batch_that_fails_says_so(self):
        with isolated(flaky.Troubled()) as model:
            guarded = GuardedModel(model, 3, "fine")
            assert np.isnan(guarded(TROUBLED[BAD])).all()
            assert "the solver diverged" in guarded.message

    def test_a_fork_of_the_owner_cannot_have_workers(self, model, capfd):
        model(THETA)
        assert in_a_fork(lambda: model(THETA)) == 1
        assert "ModelError: worker processes cannot be started in a fork" in capfd.readouterr().err
        np.testing.assert_array_equal(model(THETA), row_by_row(flaky.observations))

    def test_processes_that_a_worker_started_end_with_it(self, interrupted, tmp_path):
        file = tmp_path / "numbers"
        with isolated(flaky.StartsOthers(file=str(file))) as model, pytest.raises(KeyboardInterrupt):
            model(THETA[:1])
        launch.wait_for(lambda: not any(launch.alive(int(pid)) for pid in file.read_text().split()))


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
            ({}, "either model or build must be given, got neither"),
            (
                {"model": flaky.Troubled(), "build": flaky.build_nothing},
                "either model or build must be given, got both",
            ),
            ({"model": flaky.Troubled(), "workers": 0}, "workers must be an integer >= 1, got 0"),
            ({"model": flaky.Troubled(), "time_limit": 0.0}, "time_limit must be a positive finite number"),
            ({"model": flaky.Unpicklable()}, r"picklable.*factorization.*build="),
            ({"build": 3}, "build must be a function"),
        ],
    )
    def test_bad_settings(self, settings, words):
        with pytest.raises(ValueError, match=words):
            isolated(**settings)


def test_complex_observations_are_mistakes():
    with isolated(flaky.Complex()) as model, pytest.raises(ModelError, match="must be numbers"):
        model(THETA)


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


@pytest.fixture
def asked(monkeypatch):
    """Operations that workers were asked for."""
    asked, give = [], Worker.give

    def given(self, task, request, *more):
        asked.append(request.operation)
        return give(self, task, request, *more)

    monkeypatch.setattr(Worker, "give", given)
    return asked


class TestProductsAheadOfTheirCall:
    PARAMETERS = np.random.default_rng(2).normal(size=(5, 4))

    def linearized(self, model, cotangent=flaky.cotangents, theta=THETA):
        return model.linearize_towards(theta, cotangent, self.PARAMETERS)

    def test_are_those_that_are_asked_for(self, model, asked):
        y, vjp = self.linearized(model)
        cotangent = flaky.cotangents(self.PARAMETERS, y)
        np.testing.assert_array_equal(y, row_by_row(flaky.observations))
        asked.clear()
        ahead = vjp(cotangent)
        assert not asked
        np.testing.assert_array_equal(model.linearize(THETA)[1](cotangent), ahead)
        assert "product" in asked

    def test_serve_no_other_cotangent(self, model, asked):
        y, vjp = self.linearized(model)
        cotangent = flaky.cotangents(self.PARAMETERS, y)
        cotangent[[1, 4]] = np.nextafter(cotangent[[1, 4]], np.inf)
        asked.clear()
        found = vjp(cotangent)
        assert asked == ["product"] * 2
        np.testing.assert_array_equal(found, model.linearize(THETA)[1](cotangent))
        np.testing.assert_allclose(vjp(COTANGENT), GRADIENT, rtol=1e-14)

    @pytest.mark.parametrize("cotangent", [flaky.impossible, lambda parameters, y: y])
    def test_are_left_where_the_cotangent_cannot_be_known(self, model, cotangent):
        _, vjp = self.linearized(model, cotangent)
        np.testing.assert_allclose(vjp(COTANGENT), GRADIENT, rtol=1e-14)
        assert not any(model.failures.values())

    def test_are_left_under_a_time_limit(self, asked):
        with isolated(flaky.Troubled(), time_limit=60.0) as model:
            y, vjp = self.linearized(model)
            vjp(flaky.cotangents(self.PARAMETERS, y))
            assert asked.count("product") == 5

    @pytest.mark.parametrize(
        ("deed", "stage"), [(d, "solve") for d in ("raise", "nan", "exit")] + [("raise", "product")]
    )
    def test_count_a_failure_once(self, deed, stage):
        with isolated(flaky.Troubled(deed, stage), workers=2) as model:
            y, vjp = self.linearized(model, theta=TROUBLED)
            gradient = vjp(flaky.cotangents(self.PARAMETERS, y))
            np.testing.assert_array_equal(np.isnan(gradient).all(axis=1), BAD)
            assert np.isfinite(y).all() == (stage == "product")
            assert sum(model.failures.values()) == 2

    def test_a_death_in_one_costs_its_row(self):
        with isolated(flaky.Troubled("exit", stage="product")) as model:
            y, vjp = self.linearized(model, theta=TROUBLED)
            np.testing.assert_array_equal(np.isnan(vjp(flaky.cotangents(self.PARAMETERS, y))).all(axis=1), BAD)
            assert model.failures["died"] == 2


def test_a_run_asks_for_no_product_by_itself_and_draws_what_one_process_does(draw, asked):
    prior = iv.Prior(x=iv.Normal(0.0, 1.0), y=iv.Normal(0.0, 1.0), sigma=iv.LogNormal(0.0, 0.3))
    settings = {"sampler": iv.mala(step_size=0.1), "draws": 20, "warmup": 5, "chains": 4, "check_gradient": False}
    truth = flaky.Troubled()
    with isolated(truth, workers=2) as apart:
        runs = [
            draw(iv.Posterior(prior, model, np.zeros(3), iv.GaussianNoise("sigma")), **settings)
            for model in (truth, apart)
        ]
    np.testing.assert_array_equal(runs[0].theta, runs[1].theta)
    assert set(asked) == {"linearize"}
