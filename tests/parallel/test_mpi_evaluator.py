"""A run of several ranks, here threads with nothing in common: the same draws, counts and errors as alone."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import signal
from functools import cache

import bent_line
import launch
import layout_runs
import numpy as np
import pytest
import threads
from parts import cases

import invsamp as iv
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.multifidelity import surrogate_training
from invsamp.parallel import load_balancing, mpi_coordinator, mpi_evaluator
from invsamp.parallel.evaluator_lifecycle import evaluated
from invsamp.sampling import sample

TEMPERATURES = (1.0, 2.0, 4.0, 8.0)
NOISY = iv.estimators.noisy(0.3, 0.3)
SAMPLERS = layout_runs.SAMPLERS | {
    "adjusted momentum": iv.samplers.parallel_tempering(TEMPERATURES, friction=0.3),
    "noise of one fidelity": iv.samplers.fast_resgld(
        TEMPERATURES,
        fidelities=[0] * 4,
        estimator=[iv.estimators.noisy(0.1 * k, 0.3) for k in range(4)],
        on_noise_overflow="clip",
    ),
    "pilots of two fidelities": iv.samplers.fast_resgld(
        TEMPERATURES, estimator=NOISY, fidelities=[0, 0, 1, 1], variance=iv.variances.kernel_ridge()
    ),
    "minibatches and exact swaps": iv.resgld(
        TEMPERATURES, estimator=iv.estimators.minibatch(3), swap_energies="exact", scheme=iv.swaps.adjacent()
    ),
    "groups": iv.samplers.sgld(0.01, estimator=iv.estimators.minibatch(2, [k // 3 for k in range(12)])),
}

#: Each has something of its own to send; "four rungs" are below.
QUICK = {
    *("one rung", "hmc", "prior to posterior", "minibatches that swap", "one batch for both"),
    *("corrected coarse model", "interacting contours", "shared pilot", "coupled sums", "groups"),
}


@pytest.fixture(autouse=True)
def cheap_models_are_distributed(monkeypatch):
    monkeypatch.setattr(load_balancing, "MESSAGES", -1.0)
    monkeypatch.setattr(surrogate_training, "STEPS", 20)  # of a coarse model only, whose draws are not tested here
    monkeypatch.setattr(surrogate_training, "MOST_ROUNDS", 1)


def posterior(**forward):
    return bent_line.posterior(
        **(forward or {name: bent_line.model(tilt) for name, tilt in (("coarse", 0.3), ("medium", 0.1), ("fine", 0.0))})
    )


def digest(run):
    """Of all draws, statistics and counts, to the last bit."""
    found = hashlib.sha256()
    for k in range(run.rungs):
        found.update(np.ascontiguousarray(run.rung_theta(k)).tobytes())
    found.update(np.ascontiguousarray(run.data.sample_stats["energy"].values).tobytes())
    timed = ("seconds", "evaluation_seconds", "processes")
    counts = {name: value for name, value in run.report.items() if name not in timed}
    found.update(json.dumps(counts, sort_keys=True).encode())
    return found.hexdigest()


def differences(one, other, where="state"):
    """Where two states differ, but for the clock."""
    if isinstance(one, np.random.Generator):
        one, other = one.bit_generator.state, other.bit_generator.state
    if hasattr(one, "_asdict"):
        one, other = one._asdict(), other._asdict()
    if type(one) is not type(other):
        yield where
    elif isinstance(one, dict):
        for key in {**one, **other}:
            if not str(key).endswith("seconds"):
                yield from differences(one.get(key), other.get(key), f"{where}.{key}")
    elif isinstance(one, list | tuple) and len(one) == len(other):
        for k, parts in enumerate(zip(one, other, strict=True)):
            yield from differences(*parts, f"{where}[{k}]")
    elif dataclasses.is_dataclass(one):
        yield from differences(vars(one), vars(other), where)
    elif not np.array_equal(one, other, equal_nan=isinstance(one, float | np.ndarray)):
        yield where


def make(name, comm=None, problem=None, **settings):
    settings = {"draws": 10, "warmup": 120, "chains": 4, "seed": 5} | settings
    sampler = SAMPLERS[name] if isinstance(name, str) else name
    return sample(problem or posterior(), sampler, comm=comm, progress=False, **settings)


@cache
def alone(name):
    return digest(make(name))


@pytest.mark.filterwarnings("ignore")
class TestInvariance:
    @pytest.mark.parametrize("name", cases(SAMPLERS, QUICK))
    def test_of_every_sampler(self, name):
        wanted = alone(name)
        for run in threads.run(3, lambda comm: make(name, comm)):
            assert digest(run) == wanted
            solved = run.report["processes"]["solved"]  # a fidelity that no rung has was asked for once
            assert {solved[used] for used in run.report["fidelities"]} == {"by rows"}

    @pytest.mark.parametrize("ranks", [2, 4, 5])
    @pytest.mark.parametrize("name", cases(["four rungs", "shared pilot"], {"four rungs"}))
    def test_of_any_number(self, name, ranks):
        assert {digest(run) for run in threads.run(ranks, lambda comm: make(name, comm))} == {alone(name)}

    @pytest.mark.parametrize("chains", [1, 64])
    def test_of_few_and_many_chains(self, chains):
        wanted = digest(make("four rungs", chains=chains))
        runs = threads.run(3, lambda comm: make("four rungs", comm, chains=chains))
        assert {digest(run) for run in runs} == {wanted}

    def test_of_cheap_models_that_one_solves_alone(self, monkeypatch):
        monkeypatch.setattr(load_balancing, "MESSAGES", 1e6)
        wanted = digest(make("three fidelities"))
        for run in threads.run(2, lambda comm: make("three fidelities", comm)):
            assert digest(run) == wanted
            assert set(run.report["processes"]["solved"].values()) == {"whole"}

    def test_of_a_form_that_the_run_chooses(self):
        prior = iv.Prior(mu=iv.Normal(0, 2), tau=iv.LogNormal(0, 0.5), x=iv.Normal("mu", "tau", shape=3))
        same = iv.with_jacobian(lambda t: t, lambda t: np.tile(np.eye(3), (len(t), 1, 1)), parameters=("x",))
        groups = iv.Posterior(prior, same, [-1.0, 0.5, 2.0], iv.GaussianNoise([0.05, 0.05, 9.0]))
        wanted = digest(make(iv.mala(), problem=groups))
        for run in threads.run(3, lambda comm: make(iv.mala(), comm, groups)):
            assert run.report["centering"]["x"]["centered"] == [True, True, False]
            assert digest(run) == wanted

    def test_another_seed_is_distinguished(self):
        assert digest(make("three fidelities")) != digest(make("three fidelities", seed=6))

    def test_a_seed_of_the_systems_is_one_for_all(self):
        first, second = threads.run(2, lambda comm: make("one rung", comm, seed=None))
        assert digest(first) == digest(second)

    def test_a_state_resumes_with_any_number(self):
        """Saved in warm-up or after it by some ranks, restored by others."""
        sampler, plan = SAMPLERS["pilots of two fidelities"], Plan(20, 200, 1, 4, 5)

        def part(engine, state, steps):
            engine.begin() if state is None else engine.restore(state)
            for _ in range(steps):
                engine.step()
            return engine.state()

        def work(comm, state, steps):
            engine = Engine(posterior(), sampler, plan)
            return evaluated(engine, mpi_evaluator.Ranks(comm, engine, {}), lambda: part(engine, state, steps))

        state = None
        for ranks, steps in ((2, 90), (3, 60), (1, 55), (2, 15)):
            state = threads.run(ranks, lambda comm, now=state, n=steps: work(comm if comm.size > 1 else None, now, n))[
                0
            ]
        assert list(differences(state, work(None, None, 220))) == []
        assert list(differences(state, work(None, None, 219)))


@pytest.mark.filterwarnings("ignore")
class TestSignals:
    """A signal that comes to rank 1, after so many looks: threads but the main one hear none by themselves."""

    def hear(self, monkeypatch, number, looks):
        class Heard:
            def __init__(self):
                self.looks = 0

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

            @property
            def received(self):
                self.looks += 1
                return number if self.looks > looks else None

        monkeypatch.setattr(mpi_evaluator, "Interrupts", Heard)

    def test_draws_in_memory_are_returned_everywhere(self, monkeypatch):
        self.hear(monkeypatch, signal.SIGINT, 50)
        monkeypatch.setattr(mpi_coordinator, "BETWEEN_LOOKS", 0.0)
        sampler = iv.mala(0.5, preconditioner=None)
        runs = threads.run(2, lambda comm: make(sampler, comm, draws=20_000, warmup=0))
        assert runs[0].report["interrupted"]
        draws = [run.rung_theta(0) for run in runs]
        np.testing.assert_array_equal(draws[0], draws[1])
        whole = make(sampler, draws=draws[0].shape[1], warmup=0).rung_theta(0)
        np.testing.assert_array_equal(draws[0], whole)

    def test_one_after_the_last_look_is_heard_after_the_last_step(self, monkeypatch):
        self.hear(monkeypatch, signal.SIGTERM, 0)
        monkeypatch.setattr(mpi_coordinator, "BETWEEN_LOOKS", 1e6)

        def work(comm):
            with pytest.raises(SystemExit) as ended:
                make("one rung", comm)
            return ended.value.code

        assert threads.run(3, work) == [128 + signal.SIGTERM] * 3

    def test_a_stored_run_stops_with_a_checkpoint_and_resumes(self, monkeypatch, tmp_path):
        self.hear(monkeypatch, signal.SIGTERM, 50)
        monkeypatch.setattr(mpi_coordinator, "BETWEEN_LOOKS", 0.0)
        directory = tmp_path / "run"

        def stopped(comm):
            with pytest.raises(SystemExit):
                make("four rungs", comm, draws=300, directory=directory)

        threads.run(2, stopped)
        monkeypatch.undo()
        run = iv.resume(directory, posterior(), progress=False)
        assert digest(run) == digest(make("four rungs", draws=300))


class Model:
    """The identity, of which one rank makes a mistake in a later call."""

    def __init__(self, rank, mistake):
        self.calls, self._mistake = 0, mistake if rank == 1 else lambda: None

    def __call__(self, theta):
        return self.linearize(theta)[0]

    def linearize(self, theta):
        self.calls += 1
        if self.calls > 30:
            self._mistake()
        return np.repeat(theta[:, :1], 12, axis=1), lambda cotangent: cotangent.sum(axis=1)[:, None] * [1.0, 0.0]


def fail(error):
    raise error


@pytest.mark.filterwarnings("ignore")
class TestMistakes:
    def test_a_models_is_raised_on_all_ranks_with_whose_it_is(self):
        def work(comm):
            problem = posterior(fine=Model(comm.rank, lambda: fail(iv.ModelError("cooling water is out"))))
            with pytest.raises(iv.ModelError, match="cooling water is out") as raised:
                make("one rung", comm, problem)
            return raised.value.__notes__

        for notes in threads.run(3, work):
            assert "raised on rank 1 of 3" in notes

    def test_the_end_of_one_is_the_end_of_all(self):
        with pytest.raises(SystemExit, match="that is all"):
            threads.run(
                2,
                lambda comm: make(
                    "one rung", comm, posterior(fine=Model(comm.rank, lambda: fail(SystemExit("that is all"))))
                ),
            )

    def test_solves_that_fail_elsewhere_are_counted_and_say_why(self):
        def work(comm):
            problem = posterior(fine=Model(comm.rank, lambda: fail(ArithmeticError("no root"))))
            return make("one rung", comm, problem).report

        first, second = threads.run(2, work)
        assert first["failed_solves"]["fine"] > 0
        assert first["failure_message"] == "ArithmeticError: no root" == second["failure_message"]

    def test_what_the_first_one_cannot_write_is_raised_everywhere(self, monkeypatch, tmp_path):
        from invsamp.engine.driver import checkpoint_loop

        monkeypatch.setattr(checkpoint_loop, "start_run", lambda *_: fail(OSError(28, "no space left")))

        def work(comm):
            with pytest.raises(OSError, match="no space left"):
                make("one rung", comm, directory=tmp_path / "run")

        threads.run(2, work)

    def test_another_shape_on_one_rank_is_named(self):
        class Odd:
            """Whose rank 1 returns one energy too many."""

            dimension = 2

            def __init__(self, rank):
                self._rank = rank

            def energy(self, position):
                return self.energy_and_gradient(position)[0]

            def energy_and_gradient(self, position):
                energy = 0.5 * (position**2).sum(axis=1)
                return (np.append(energy, 0.0) if self._rank and len(position) > 1 else energy), position

            def sample_start(self, rng, chains):
                return rng.standard_normal((chains, 2))

        def work(comm):
            with pytest.raises(ValueError, match="must return an energy of shape") as raised:
                make("one rung", comm, Odd(comm.rank), chains=8)
            return raised.value.__notes__

        assert threads.run(2, work) == [["raised on rank 1 of 2"]] * 2


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_samples_uses_one_process():
    inner = posterior()

    class Sampling(Model):
        def linearize(self, theta):
            if self.calls % 40 == 0:
                made = make("one rung", problem=inner, draws=5, warmup=100)
                assert made.report["processes"] == {"count": 1}
            return super().linearize(theta)

    problem = lambda: posterior(fine=Sampling(0, lambda: None))  # noqa: E731
    wanted = digest(make("one rung", problem=problem(), draws=5))
    assert {digest(run) for run in threads.run(2, lambda comm: make("one rung", comm, problem(), draws=5))} == {wanted}


@pytest.mark.mpi
@pytest.mark.parametrize("rank", [0, 1])
def test_a_second_signal_ends_a_step_that_hangs_and_the_run_resumes_from_its_checkpoint(tmp_path, rank):
    """Of whichever process: the others do not wait for it."""
    code = """
        import os, signal, sys, time
        import numpy as np
        import invsamp as iv
        from invsamp import parallel
        from invsamp.parallel import load_balancing

        load_balancing.MESSAGES = -1.0
        calls = 0

        def model(theta):
            global calls
            calls += 1
            if calls == 120 and parallel.rank() == int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(3600)
            return theta

        model = iv.with_jacobian(model, lambda theta: np.ones((len(theta), 1, 1)))
        posterior = iv.Posterior(iv.Prior(x=iv.Normal(0, 1)), {"fine": model}, [1.0], iv.GaussianNoise(0.5))
        iv.sample(posterior, iv.mala(0.5, preconditioner=None), draws=200, warmup=0, seed=1, progress=False,
                  directory=sys.argv[1], segment=5)
    """
    found = launch.mpi(code, 2, tmp_path / "run", rank, check=False)
    assert found.returncode != 0
    assert f"rank {rank} of 2 failed, which ends all of them" in found.stderr
    assert "KeyboardInterrupt" in found.stderr
    assert 0 < iv.load(tmp_path / "run").report["draws"] < 200
