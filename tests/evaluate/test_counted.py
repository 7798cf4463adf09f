"""Potentials at work: what is not finite becomes a failed solve, and all is counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from asking import Asked
from functions import square

import invsamp as iv
from invsamp.errors import ModelError
from invsamp.estimators import minibatch
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Batch, Request
from invsamp.parallel.worker import describe
from invsamp.posing.posterior.function_potential import FunctionPotential, SumPotential
from invsamp.results.printing import printed
from invsamp.results.report import page


class TestCountedPotential:
    @pytest.mark.parametrize(
        ("where", "bad"),
        [*(("gradient", bad) for bad in (np.nan, np.inf, -np.inf)), ("energy", np.nan), ("energy", np.inf)],
    )
    def test_non_finite_results_become_failed_solves(self, bad, where):
        def function(position):
            energy, gradient = square(position)
            (energy if where == "energy" else gradient[:, 1])[position[:, 0] > 0.0] = bad
            return energy, gradient

        potential = CountedPotential(FunctionPotential(function, 2), "model")
        position = np.array([[1.0, 1.0], [-1.0, 1.0], [2.0, 2.0]])
        energy, gradient = potential.energy_and_gradient(position)
        np.testing.assert_array_equal(energy, [np.inf, 1.0, np.inf])
        np.testing.assert_array_equal(gradient, [[0.0, 0.0], [-1.0, 1.0], [0.0, 0.0]])
        assert (potential.evaluations, potential.failed) == (3, 2)
        if where == "energy":
            np.testing.assert_array_equal(potential.energy(position), energy)
            assert (potential.evaluations, potential.failed) == (6, 4)

    @pytest.mark.parametrize("gradient", [False, True])
    def test_density_without_bound_is_no_failure_but_a_mistake(self, gradient):
        def function(position):
            return np.where(position[:, 0] > 0.0, -np.inf, 1.0), np.zeros(position.shape)

        potential = CountedPotential(FunctionPotential(function, 2), "model")
        with pytest.raises(
            ModelError, match=r"energies of fidelity 'model' must be finite.*-inf at the position \[2.0, 3.0\]"
        ):
            potential.answer(Request("model", np.array([[-1.0, 1.0], [2.0, 3.0]]), gradient))

    def test_large_but_finite_results_are_no_failures(self):
        huge = FunctionPotential(lambda p: (np.full(len(p), 1e200), np.full_like(p, 1e300)), 2)
        potential = CountedPotential(huge, "model")
        energy, gradient = potential.energy_and_gradient(np.zeros((3, 2)))
        assert potential.failed == 0
        assert (energy == 1e200).all()
        assert (gradient == 1e300).all()

    def test_failed_terms(self):
        def term(position, data):
            energies = np.where(data[..., 0] > 2.5, np.nan, 1.0 + 0.0 * position)
            return energies, np.ones((*energies.shape, 1))

        data = np.arange(4.0)[:, None]
        potential = CountedPotential(SumPotential(data, term, 1), "model")
        batch = Batch(np.array([[0, 1], [2, 3]]), None, 4, "full")
        found = potential.answer(Request("model", np.zeros((2, 1)), batch=batch))
        np.testing.assert_array_equal(found.energy, [4.0, np.inf])
        np.testing.assert_array_equal(found.gradient, [[4.0], [0.0]])
        np.testing.assert_array_equal(found.energy_variance, [0.0, 0.0])
        assert found.failed
        assert (potential.evaluations, potential.failed) == (2, 1)
        estimate = Asked(minibatch(2), potential, "full").estimate(np.random.default_rng(0), np.zeros((50, 1)))
        assert np.isinf(estimate.energy).any()
        assert np.isfinite(estimate.energy).any()
        assert np.isfinite(estimate.gradient_variance).all()

    def test_offers_terms_only_where_the_potential_does(self):
        assert CountedPotential(FunctionPotential(square, 2), "model").size is None


class Simulator:
    """A function of a batch that counts its rows."""

    def __init__(self):
        self.rows = 0

    def __call__(self, theta):
        self.rows += len(theta)
        return np.stack([theta[:, 0], theta.sum(axis=1), theta[:, -1] ** 2], axis=1)

    def log_density(self, theta):
        return -0.5 * (self(theta) ** 2).sum(axis=1)


def posed(simulator, scheme="central", **fixed):
    prior = iv.Prior(**({"a": iv.Normal(0, 1), "b": iv.Normal(0, 1), "c": iv.Uniform(-5, 5)} | fixed))
    return iv.Posterior(prior, iv.finite_differences(simulator, scheme=scheme), [0.1, 0.2, 0.3], iv.GaussianNoise(1.0))


def of_a_population(simulator):
    model = iv.Population(iv.finite_differences(simulator, parameters=["a", "b"]), members=4, individual=["a"])
    prior = iv.Prior(a=iv.Normal(0, 1, shape=4), b=iv.Normal(0, 1))
    return iv.Posterior(prior, model, np.zeros((4, 3)), iv.GaussianNoise(1.0))


TAKEN = {
    "central": (lambda f: posed(f), (1, 7)),
    "forward": (lambda f: posed(f, "forward"), (1, 4)),
    "complex steps": (lambda f: posed(f, "complex_step"), (1, 3)),
    "fixed": (lambda f: posed(f, b=0.5), (1, 7)),
    "population": (of_a_population, (4, 4 * 5)),
    "own Jacobian": (lambda f: iv.Posterior(iv.Prior(a=iv.Normal(0, 1)), iv.with_jacobian(
        f, lambda t: np.ones((len(t), 3, 1))), np.zeros(3), iv.GaussianNoise(1.0)), (1, 1)),
    "density": (lambda f: iv.Target(iv.LogDensity(iv.finite_differences(f.log_density), dimension=2)), (1, 5)),
    "transformed": (lambda f: iv.Target(iv.LogDensity(iv.finite_differences(f.log_density)), names=["a", "b"],
        transforms={"a": "log"}), (1, 5)),
}  # fmt: skip


class TestFunctionCalls:
    @pytest.mark.parametrize("name", TAKEN)
    def test_they_are_those_of_the_function(self, name):
        simulator = Simulator()
        make, (value, linearized) = TAKEN[name]
        problem = make(simulator)
        potential = CountedPotential(problem.potential(), "model")
        position = np.full((3, potential.dimension), 0.1)
        potential.energy(position)
        assert potential.calls == simulator.rows == 3 * value
        potential.energy_and_gradient(position)
        assert potential.calls == simulator.rows == 3 * (value + linearized)
        assert potential.evaluations == 6

    def test_a_run_has_them_for_every_evaluator(self, tmp_path):
        settings = {"draws": 20, "warmup": 20, "chains": 2, "seed": 1, "progress": False, "check_gradient": False}
        simulator = Simulator()
        with pytest.warns(UserWarning):
            run = iv.sample(posed(simulator), iv.mala(0.1), **settings)
            here = run.report["function_calls"]
            assert here == {"model": simulator.rows} and simulator.rows > 6 * run.report["evaluations"]["model"]
            together = iv.sample(posed(Simulator()), iv.mala(0.1), executor=iv.evaluate.together(), **settings)
            kept = iv.sample(posed(simulator), iv.mala(0.1), directory=tmp_path / "run", **settings)
        assert together.report["function_calls"] == kept.report["function_calls"] == here
        assert f"({here['model']:,} function calls, " in repr(run) and f"{here['model']:,}" in page(run)

    def test_a_remote_model_reports_its_counts(self):
        assert describe(iv.finite_differences(Simulator()))["function_calls"] == (1, 1, 2)
        assert describe(iv.with_jacobian(square, square))["function_calls"] == (1, 1, 0)


def test_failed_solves_are_printed():
    report = {"evaluations": {"fine": 1000}, "failed_solves": {"fine": 12}, "function_calls": {"fine": 1000}}
    assert "evaluations: 1,000 of 'fine' (12 without a finite result)" in printed(
        pd.DataFrame(columns=["mcse_mean", "mcse_sd"]), report, []
    )
