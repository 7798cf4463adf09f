"""`sample`: reproducible draws, bad input refused before any solve, failed solves that do not end a run."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from functions import square

from invsamp import Normal, Posterior, Prior, Uniform, diagnostics, finite_differences
from invsamp.domains import Box
from invsamp.estimators import minibatch, noisy
from invsamp.kernels.schedules import exponential
from invsamp.ladder import Rung, Sampler, Swap
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.function_potential import FunctionPotential
from invsamp.posing.posterior.target import Target
from invsamp.samplers import (
    cyclic_sgld,
    fast_resgld,
    mala,
    multi_variance_resgld,
    parallel_tempering,
    resgld,
    sghmc,
    sgld,
)
from invsamp.sampling import sample
from invsamp.swaps.rules import (
    delayed_acceptance,
    metropolis,
    multi_variance,
    noise_penalty,
    product_target,
    state_dependent_penalty,
)
from invsamp.variances.models import kernel_ridge, running_average


class Counting:
    """A potential that counts its calls."""

    def __init__(self, dimension=2):
        self.dimension, self.calls = dimension, 0

    def energy(self, position):
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position):
        self.calls += 1
        return square(position)


TARGET = Target(FunctionPotential(square, 2))
NOISE = {"estimator": noisy(0.5, 0.5)}
SAMPLERS = {
    "sgld": sgld(0.1),
    "schedule": sgld(exponential(0.1, 0.99)),
    "cycles": cyclic_sgld(0.1, cycles=3),
    "momentum": sghmc(),
    "mala": mala(),
    "parallel_tempering": parallel_tempering((1.0, 2.0, 4.0)),
    "resgld": resgld((1.0, 4.0), 0.1, **NOISE),
    "multi_variance": multi_variance_resgld((1.0, 4.0), 0.1, **NOISE),
    "fast": fast_resgld((1.0, 4.0), 0.1, **NOISE, variance=running_average()),
    "fast, ridge": fast_resgld((1.0, 4.0), 0.1, **NOISE, variance=kernel_ridge()),
}


class TestReproducible:
    @pytest.mark.parametrize("name", SAMPLERS)
    def test_seed_fixes_every_bit(self, draw, name):
        runs = [draw(TARGET, SAMPLERS[name], draws=30, warmup=200, chains=3, seed=s) for s in (7, 7, 8)]
        np.testing.assert_array_equal(runs[0].theta, runs[1].theta)
        assert not (runs[0].theta == runs[2].theta).any()
        for rung in range(1, runs[0].rungs):
            np.testing.assert_array_equal(runs[0].rung_theta(rung), runs[1].rung_theta(rung))

    def test_bar_does_not_touch_the_draws(self, draw, capsys):
        quiet = draw(TARGET, SAMPLERS["parallel_tempering"], draws=50, warmup=200, chains=3)
        shown = draw(TARGET, SAMPLERS["parallel_tempering"], draws=50, warmup=200, chains=3, progress=True)
        np.testing.assert_array_equal(quiet.theta, shown.theta)
        assert "250/250" in capsys.readouterr().err

    def test_seed_of_the_system_is_reported(self, draw):
        run = draw(TARGET, sgld(0.1), draws=10, chains=2, seed=None)
        again = draw(TARGET, sgld(0.1), draws=10, chains=2, seed=run.report["seed"])
        np.testing.assert_array_equal(run.theta, again.theta)
        assert run.report["seed"] != draw(TARGET, sgld(0.1), draws=10, chains=2, seed=None).report["seed"]

    def test_thin_keeps_every_so_many_steps(self, draw):
        everything = draw(TARGET, SAMPLERS["parallel_tempering"], draws=60, warmup=200, chains=3)
        thinned = draw(TARGET, SAMPLERS["parallel_tempering"], draws=20, thin=3, warmup=200, chains=3)
        np.testing.assert_array_equal(thinned.theta, everything.theta[:, 2::3])
        assert thinned.report["evaluations"] == everything.report["evaluations"]

    def test_rungs_above_do_not_touch_the_first_without_swaps(self, draw):
        """Streams belong to rungs: a ladder without swaps is a set of single samplers."""
        rungs = [Rung(t, step_size=0.1) for t in (1.0, 2.0, 4.0)]
        rare = Swap(fraction=1e-12)
        one, three = (draw(TARGET, Sampler(rungs[:n], rare), draws=30, warmup=0, chains=3) for n in (2, 3))
        np.testing.assert_array_equal(one.theta, three.theta)


class TestStart:
    def first(self, draw, start, target=TARGET, chains=3):
        """Where the chains stood before their first, tiny step."""
        return draw(target, sgld(1e-12), draws=1, warmup=0, chains=chains, start=start).theta[:, 0]

    @pytest.mark.parametrize(
        "start",
        [
            np.array([1.0, -2.0]),
            [1.0, -2.0],
            [[1.0, -2.0]] * 3,
            {"theta": [1.0, -2.0]},
            {"theta": np.tile([1.0, -2.0], (3, 1))},
        ],
    )
    def test_one_point(self, draw, start):
        np.testing.assert_allclose(self.first(draw, start), np.tile([1.0, -2.0], (3, 1)), atol=1e-4)

    def test_by_name(self, draw):
        target = Target(FunctionPotential(square, 2), names=("a", "b"))
        given = {"b": np.array([1.0, 2.0, 3.0]), "a": 0.5}
        np.testing.assert_allclose(self.first(draw, given, target), [[0.5, 1.0], [0.5, 2.0], [0.5, 3.0]], atol=1e-4)

    def test_every_rung_starts_there(self, draw):
        run = draw(TARGET, parallel_tempering((1.0, 4.0), 1e-12), draws=1, warmup=0, chains=2, start=[3.0, 4.0])
        np.testing.assert_allclose(run.rung_theta(1)[:, 0], [[3.0, 4.0]] * 2, atol=1e-4)

    def test_default_is_the_problems_own_and_differs_between_rungs(self, draw):
        target = Target(FunctionPotential(square, 2), start=lambda rng, n: rng.uniform(5.0, 6.0, (n, 2)))
        run = draw(target, parallel_tempering((1.0, 4.0), 1e-12), draws=1, warmup=0, chains=4)
        both = np.concatenate([run.theta, run.rung_theta(1)]).ravel()
        assert ((both > 4.9) & (both < 6.1)).all()
        assert len(np.unique(both)) == both.size

    def test_starts_that_cannot_be_solved_are_drawn_again(self, draw):
        def half(position):
            energy, gradient = square(position)
            return np.where(position[:, 0] < 0.0, np.nan, energy), gradient

        first = self.first(draw, None, Target(FunctionPotential(half, 2)), chains=40)
        assert (first[:, 0] > -1e-4).all()


def posterior(**settings):
    """Straight line through three data; the model counts its calls."""
    calls = []

    def line(theta):
        calls.append(len(theta))
        return theta[:, :1] + theta[:, 1:] * np.array([0.0, 1.0, 2.0])

    prior = Prior(a=Normal(0.0, 1.0), b=Uniform(0.0, 2.0))
    model = finite_differences(line)
    made = Posterior(prior, model, np.array([0.1, 1.0, 2.1]), GaussianNoise(0.5), **settings)
    return made, calls


class TestBadInput:
    """A ValueError that names the argument and the value, and no solve before it."""

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"draws": 0}, "draws must be an integer >= 1, got 0"),
            ({"draws": 10.5}, "draws must be an integer >= 1, got 10.5"),
            ({"draws": True}, "draws must be an integer >= 1, got True"),
            ({"thin": 0}, "thin must be an integer >= 1, got 0"),
            ({"chains": 0}, "chains must be an integer >= 1, got 0"),
            ({"chains": -3}, "chains must be an integer >= 1, got -3"),
            ({"warmup": -1}, "warmup must be an integer >= 0, got -1"),
            ({"warmup": 10}, "warmup must be at least 100 steps .*, got 10"),
            ({"seed": -5}, "seed must be an integer >= 0, got -5"),
            ({"seed": "today"}, "seed must be an integer >= 0, got 'today'"),
            ({"start": np.zeros(3)}, r"start must have shape \(2,\) or \(4, 2\), got \(1, 3\)"),
            ({"start": np.zeros((5, 2))}, r"start must have shape \(2,\) or \(4, 2\), got \(5, 2\)"),
            ({"start": [0.0, np.nan]}, "start must .*nan"),
            ({"start": [5.0, 0.0]}, r"start must lie inside the domain .*, got \[5.0, 0.0\]"),
            ({"start": {"theta": [0.0, 0.0], "x": 1.0}}, r"start must have a value for each of \['theta'\], got .*'x'"),
            ({"start": {}}, r"start must have a value for each of \['theta'\], got \[\]"),
            ({"start": {"theta": 1.0}}, r"start\['theta'\] must have shape \(..., 2,\), got \(\)"),
            ({"sampler": sgld(0.1, fidelity="fine")}, r"fidelity must be one of \('target',\), got 'fine'"),
            ({"sampler": sgld(0.1, estimator=minibatch(5))}, "minibatch needs a potential with data terms"),
        ],
    )
    def test_sample(self, settings, message):
        potential = Counting()
        settings = {"sampler": mala(), "draws": 10, "progress": False} | settings
        with pytest.raises(ValueError, match=message):
            sample(Target(potential, Box(-2.0, 2.0)), **settings)
        assert potential.calls == 0

    @pytest.mark.parametrize(
        ("start", "message"),
        [
            ({"a": 0.0, "b": 1.0, "c": 1.0}, r"\['c'\]"),
            ({"a": 0.0}, r"start must have a value for each of \['a', 'b'\], got \['a'\]"),
            ({"a": [0.0, 1.0], "b": 3 * [1.0]}, r"start must have the same leading shape for every name, got .*\(3,\)"),
            ({"a": 0.0, "b": 3.0}, r"start must have positive prior density, got \[0.0, 3.0\]"),
            ([0.0, -1.0], r"start must have positive prior density, got \[0.0, -1.0\]"),
            ([0.0, np.inf], r"start must have positive prior density, got \[0.0, inf\]"),
        ],
    )
    def test_start_of_a_posterior(self, start, message):
        problem, calls = posterior()
        with pytest.raises(ValueError, match=message):
            sample(problem, mala(), start=start, progress=False)
        assert calls == []

    @pytest.mark.parametrize("problem", [square, None, 3.0])
    def test_problem(self, problem):
        with pytest.raises(ValueError, match="problem must be a Posterior, a Target or a Potential, got"):
            sample(problem, progress=False)

    @pytest.mark.parametrize("sampler", ["mala", mala, Rung(), 1000])
    def test_sampler(self, sampler):
        with pytest.raises(ValueError, match="sampler must be a Sampler"):
            sample(TARGET, sampler, progress=False)

    def test_wrong_shape_of_a_potential_is_found_at_the_first_solve(self):
        wrong = FunctionPotential(lambda p: ((p**2).sum(), p), 2)
        with pytest.raises(ValueError, match=r"must return an energy of shape \(4,\).*got \(\)"):
            sample(Target(wrong), mala(), progress=False)

    def test_a_potential_that_raises_is_a_bug(self):
        def broken(position):
            raise KeyError("rho")

        with pytest.raises(KeyError, match="rho"):
            sample(Target(FunctionPotential(broken, 2)), mala(), progress=False)

    @pytest.mark.parametrize("rule", [metropolis(), noise_penalty(), state_dependent_penalty(), multi_variance()])
    def test_biased_swaps_of_two_fidelities(self, rule):
        coarse, fine = Counting(), Counting()
        target = Target({"coarse": coarse, "fine": fine})
        sampler = Sampler([Rung(1.0, 0, step_size=0.1), Rung(4.0, 1, step_size=0.1)], Swap(rule))
        with pytest.raises(ValueError, match=r"the swap rule .*'fine' and 'coarse'.*delayed_acceptance\(\)"):
            sample(target, sampler, progress=False)
        assert coarse.calls == fine.calls == 0

    def test_swaps_of_two_fidelities_that_are_accepted(self, draw):
        target = Target({"coarse": Counting(), "fine": Counting()})
        vouched = [
            make(assume_unbiased=True) for make in (metropolis, noise_penalty, state_dependent_penalty, multi_variance)
        ]
        for rule in (None, product_target(), delayed_acceptance(), *vouched):
            sampler = Sampler([Rung(1.0, 0, step_size=0.1), Rung(4.0, 1, step_size=0.1)], Swap(rule))
            run = draw(target, sampler, draws=30, warmup=0, chains=4)
            assert run.report["fidelities"] == ["fine", "coarse"]


class TestFailedSolves:
    """The distribution with failures is tested in test_targets.py."""

    def test_counted_and_the_run_continues(self, draw):
        def sometimes(position):
            energy, gradient = square(position)
            energy[position[:, 0] > 0.5] = np.nan
            gradient[position[:, 1] > 0.5] = np.inf
            return energy, gradient

        target = Target({"coarse": FunctionPotential(sometimes, 2), "fine": FunctionPotential(square, 2)})
        run = draw(target, parallel_tempering((1.0, 4.0)), draws=100, warmup=300, chains=8)
        assert run.report["failed_solves"]["coarse"] > 50
        assert run.report["failed_solves"]["fine"] == 0
        assert np.isfinite(run.theta).all()
        assert (run.rung_theta(1) <= 0.5).all()
        assert run.theta.max() > 1.0

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("sampler", ["sgld", "parallel_tempering", "fast"])
    def test_no_warnings_from_arithmetic(self, draw, sampler):
        def sometimes(position):
            energy, gradient = square(position)
            energy[position[:, 0] > 1.0] = np.inf
            return energy, gradient

        run = draw(Target(FunctionPotential(sometimes, 2)), SAMPLERS[sampler], draws=50, warmup=200, chains=8)
        assert run.report["failed_solves"]["target"] > 0

    def test_all_starts_fail(self):
        failing = FunctionPotential(lambda p: (np.full(len(p), np.nan), p), 2)
        with pytest.raises(RuntimeError, match=r"fidelity 'target' is not finite at the starting points \[\[-?\d"):
            sample(Target(failing), mala(), progress=False, seed=0)
        with pytest.raises(RuntimeError, match=r"starting points \[\[0.25, -1.5\], \[0.25, -1.5\]\]"):
            sample(Target(failing), mala(), start=[0.25, -1.5], chains=2, progress=False)

    def test_all_gradients_fail(self):
        failing = FunctionPotential(lambda p: ((p**2).sum(axis=1), np.full_like(p, np.nan)), 2)
        with pytest.raises(RuntimeError, match=r"the gradient of fidelity 'target' is not.*, though the energy is"):
            sample(Target(failing), mala(), progress=False, seed=0)

    def test_everything_fails_later(self):
        """The message shows natural parameters, and what the model said last."""
        calls = []

        def tired(theta):
            calls.append(len(theta))
            if len(calls) > 30:
                raise ArithmeticError("the mesh is tangled")
            return theta

        problem = Posterior(
            Prior(k=Uniform(2.0, 3.0)), finite_differences(tired), np.array([2.5]), GaussianNoise(0.1),
            transforms={"k": "logit"},
        )  # fmt: skip
        with pytest.raises(RuntimeError, match=r"failed for 200 steps in a row.*\[\[2\.\d+\].*tangled"):
            sample(problem, sgld(0.01), start={"k": 2.5}, chains=2, draws=1, warmup=1000, progress=False)
        calls.clear()
        with pytest.warns(
            UserWarning, match=r"failed for 200 steps in a row.*the run holds the \d+ draws that were made"
        ):
            run = sample(problem, sgld(0.01), start={"k": 2.5}, chains=2, draws=1000, warmup=0, progress=False)
        assert 200 < run.theta.shape[1] < 260 and run.report["interrupted"]


class TestReport:
    def test_is_json_and_complete(self, draw):
        run = draw(TARGET, SAMPLERS["parallel_tempering"], draws=50, warmup=200, chains=4)
        report = json.loads(json.dumps(run.report))
        assert report["draws"] == 50
        assert report["temperatures"] == [1.0, 2.0, 4.0]
        assert len(report["swap_attempts"]) == len(report["swap_accepts"]) == 2
        assert all(0 < a <= b for a, b in zip(report["swap_accepts"], report["swap_attempts"], strict=True))
        for key in ("step_sizes", "acceptance", "clipped_noise", "reflections", "reflection_fallbacks", "kernels"):
            assert len(report[key]) == 3

    def test_schedules_are_reported_by_their_mean_and_by_draw(self, draw):
        run = draw(
            TARGET,
            parallel_tempering((1.0, 4.0), (exponential(0.1, 0.99), 0.2), adjusted=False),
            draws=50,
            thin=2,
            warmup=20,
        )
        steps = 0.1 * 0.99 ** np.arange(20, 120)
        assert run.report["step_sizes"] == pytest.approx([steps.mean(), 0.2], rel=1e-3)
        assert run.report["step_size_source"][0].startswith("the mean of Exponential(step_size=0.1")
        assert run.report["step_size_source"][1] == "given"
        np.testing.assert_allclose(run.data.sample_stats["step_size"], np.tile(steps[1::2], (256, 1)))
        np.testing.assert_array_equal(run.data.hot_stats["step_size"], 0.2)
        assert "step_size" not in draw(TARGET, sgld(0.1), draws=10, warmup=0).data.sample_stats

    def test_cycles_fill_warm_up_and_draws(self, draw):
        run = draw(TARGET, cyclic_sgld(0.2, cycles=4), draws=60, thin=5, warmup=100, chains=2)
        steps = np.asarray(run.data.sample_stats["step_size"])[0]
        np.testing.assert_allclose(steps, 0.1 * (1.0 + np.cos(np.pi * (np.arange(104, 400, 5) % 100) / 100)))
        assert run.report["step_size_source"] == ["the mean of CyclicCosine(step_size=0.2, cycle=100)"]

    def test_evaluations_are_those_of_the_potential(self, draw):
        rows = []

        def counted(position):
            rows.append(len(position))
            return square(position)

        run = draw(Target(FunctionPotential(counted, 2)), SAMPLERS["fast"], draws=50, warmup=200, chains=4)
        before = run.report["gradient_check_evaluations"]["target"]
        stability = sum(found["evaluations"] for found in run.report["step_stability"])
        assert run.report["evaluations"] == {"target": sum(rows) - before - stability}
        assert 0 < before < 20 and 0 < stability < 200

    def test_swap_solves_are_part_of_them(self, draw):
        target = Target({"coarse": Counting(), "fine": Counting()})
        run = draw(target, parallel_tempering((1.0, 4.0), 0.1), draws=400, warmup=0, chains=4)
        attempts, solves = run.report["swap_attempts"][0], run.report["swap_solves"]
        assert solves["coarse"] == attempts
        assert 0 < solves["fine"] <= attempts
        # one for each step and for the start, the others for swaps
        assert run.report["evaluations"]["coarse"] == 4 * 401 + solves["coarse"]
        assert run.report["evaluations"]["fine"] == 4 * 401 + solves["fine"]

    def test_energies_are_those_of_the_draws(self, draw):
        run = draw(TARGET, SAMPLERS["parallel_tempering"], draws=50, warmup=200, chains=4)
        energy = np.asarray(run.data.sample_stats["energy"])
        np.testing.assert_allclose(energy, 0.5 * (run.theta**2).sum(axis=2), rtol=1e-12)

    def test_round_trips_are_those_of_the_stored_replicas(self, draw):
        run = draw(TARGET, SAMPLERS["parallel_tempering"], draws=400, warmup=200, chains=4)
        cold = np.asarray(run.data.sample_stats["replica"])
        hot = np.moveaxis(np.asarray(run.data.hot_stats["replica"]), 2, 0)
        path = diagnostics.replica_paths(np.concatenate([cold[None], hot]))
        assert run.report["round_trips"] > 20
        # the path of the draws begins one step later than the count
        assert 0 <= run.report["round_trips"] - diagnostics.round_trips(path, 3) <= 4

    @pytest.mark.filterwarnings("ignore:ess")
    def test_untrustworthy_runs_warn(self):
        with pytest.warns(UserWarning, match="R-hat"):
            sample(TARGET, sgld(1e-6), draws=50, warmup=0, seed=1, progress=False)


def test_a_bare_potential_and_the_default_sampler():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run = sample(FunctionPotential(square, 2), draws=20, seed=1, progress=False)
    assert run.theta.shape == (4, 20, 2)
    assert run.report["kernels"] == ["mams"]


def test_interrupt_keeps_what_was_drawn(draw):
    steps = []

    def patient(position):
        steps.append(len(position))
        if len(steps) > 100:
            raise KeyboardInterrupt
        return square(position)

    run = draw(Target(FunctionPotential(patient, 2)), sgld(0.1), draws=1000, warmup=0, chains=2, check_gradient=False)
    assert run.report["warnings"][0] == "IV-STOPPED: interrupted: the run holds the 99 draws that were made, of 1000"
    assert run.theta.shape == (2, 99, 2)
    assert run.report["interrupted"]
