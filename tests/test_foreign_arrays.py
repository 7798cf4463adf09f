"""Arrays that others made: nothing of them is lost in silence, and nothing that they do to them later is felt."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from flaky_models import Forgetful
from scipy import sparse

import invsamp as iv
from invsamp import parallel
from invsamp.domains.boundary import penalized
from invsamp.errors import ModelError, WrongShapeError
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Batch, Request
from invsamp.evaluate.solving import separable
from invsamp.fidelities.states import gather
from invsamp.parallel.isolation import isolated
from invsamp.posing.checks.gradient_check import check_gradient
from invsamp.posing.forward_models.guarded_model import GuardedModel

THETA = np.random.default_rng(0).normal(size=(5, 2))
MASKED = np.ma.array([1.0, 2.0, 999.0], mask=[0, 0, 1])
#: What NumPy makes floats of without a word, or with a warning at most.
MISREAD = {
    "complex": np.array([1.0, 2.0 + 1.0j]),
    "masked": np.ma.array([1.0, 999.0], mask=[0, 1]),
    "text": ["1", "2"],
    "dates": np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
    "truth values": [True, False],
    "objects": np.array([1.0, "2"], dtype=object),
    "sparse": sparse.csr_array(np.eye(2)),
    "too large": [1.0, 10**400],
}


def square(theta):
    return np.column_stack([theta**2, theta.sum(axis=1)])


def posterior(data=(0.5, 0.5, 0.2), noise=0.5, domain=None, **distributions):
    prior = iv.Prior(**(distributions or {"a": iv.Normal(0, 1), "b": iv.Normal(0, 1)}))
    return iv.Posterior(prior, iv.finite_differences(square), data, iv.GaussianNoise(noise), domain)


class TestMisread:
    @pytest.mark.parametrize("what", MISREAD)
    @pytest.mark.parametrize(
        ("name", "take"),
        [
            ("data", posterior),
            ("theta", lambda value: posterior().predict(value)),
            (r"theta\['a'\]", lambda value: posterior().predict({"a": value, "b": 1.0})),
            ("thetas", lambda value: gather(posterior(), value, 10, np.random.default_rng(0))),
            ("start", lambda value: iv.sample(posterior(), start=value, draws=5, warmup=100, progress=False)),
            (r"start\['a'\]", lambda value: iv.sample(posterior(), start={"a": value, "b": [1, 1]}, progress=False)),
            ("mean", lambda value: iv.Normal(value, 1)),
            ("mean", lambda value: iv.MultivariateNormal(value, np.eye(2))),
            ("lower", lambda value: iv.truncated(iv.Normal([0, 0], 1), value)),
            ("scale", iv.GaussianNoise),
            ("lower", lambda value: iv.Box(value, 5.0)),
            ("offsets", lambda value: iv.domains.HalfSpaces(np.eye(2), value)),
            ("theta", lambda value: iv.Prior(a=iv.Normal(0, 1, shape=2)).log_density(value)),
            ("thetas", lambda value: parallel.map(square, value, workers=1)),
        ],
    )
    def test_is_refused_by_name(self, what, name, take):
        if (what, name) == ("masked", "data"):
            pytest.skip("masked data are missing")
        if (what, name) == ("text", "scale"):
            pytest.skip("scales may be names and formulas")
        with pytest.raises(ValueError, match=f"^{name} must "):
            take(MISREAD[what])

    def test_masked_data_are_missing(self):
        np.testing.assert_array_equal(posterior(MASKED).data, [1.0, 2.0, np.nan])
        assert posterior(np.ma.array([1.0, 2.0, 9.0], mask=False)).data.tolist() == [1.0, 2.0, 9.0]

    @pytest.mark.parametrize("what", ["complex", "masked", "text", "truth values"])
    def test_of_a_model_ends_the_run(self, what):
        wrong = np.broadcast_to(MISREAD[what], (5, 2)) if what != "masked" else np.ma.array([MISREAD[what]] * 5)
        right = np.zeros((5, 2))

        class Model:
            def __call__(self, theta):
                return wrong

            def linearize(self, theta):
                return right, lambda cotangent: wrong

            def jacobian(self, theta):
                return right, np.ma.stack([wrong, wrong], axis=2) if what == "masked" else np.stack([wrong, wrong], 2)

        guard = GuardedModel(Model(), 2, "fine")
        for call in (
            lambda: guard(THETA),
            lambda: guard.linearize(THETA)[1](np.ones((5, 2))),
            lambda: guard.jacobian(THETA),
        ):
            with pytest.raises(WrongShapeError, match="'fine' must "):
                call()

    @pytest.mark.parametrize("what", ["complex", "masked"])
    def test_of_a_potential_ends_the_run(self, what):
        wrong = MISREAD[what]
        energies = iv.extending.FunctionPotential(lambda p: (wrong, np.zeros((2, 2))), 2)
        gradients = iv.extending.FunctionPotential(lambda p: (np.zeros(2), np.ma.stack([wrong, wrong])), 2)
        with pytest.raises(WrongShapeError, match="the energy of fidelity 'fine' must"):
            CountedPotential(energies, "fine").energy(THETA[:2])
        with pytest.raises(WrongShapeError, match="the energy of fidelity 'fine' must"):
            CountedPotential(energies, "fine").energy_and_gradient(THETA[:2])
        with pytest.raises(WrongShapeError, match="the gradient of fidelity 'fine' must"):
            CountedPotential(gradients, "fine").energy_and_gradient(THETA[:2])

    def test_a_complex_step_through_a_function_that_drops_it(self):
        model = iv.finite_differences(lambda theta: np.abs(theta), scheme="complex_step")
        with pytest.raises(WrongShapeError, match="must return complex numbers, got float64"):
            model.linearize(THETA)

    def test_numbers_of_other_types_are_taken(self):
        wanted = posterior([1.0, 2.0, 3.0]).data
        given = (
            np.array([1, 2, 3], dtype=np.int8),
            np.array([1, 2, 3], dtype=np.float32),
            np.array([1, 2.0, 3], dtype=object),
            pd.Series([1, 2, 3]),
        )
        for data in given:
            found = posterior(data).data
            assert found.dtype == float
            np.testing.assert_array_equal(found, wanted)


class TestLabels:
    """Tables carry names: their order is not that of the columns."""

    def test_a_table_of_theta_is_taken_by_its_names(self):
        table = pd.DataFrame({"b": THETA[:, 1], "a": THETA[:, 0]})
        np.testing.assert_array_equal(posterior().predict(table), posterior().predict(THETA))
        np.testing.assert_array_equal(posterior().predict(table.iloc[2]), posterior().predict(THETA[2]))
        np.testing.assert_array_equal(posterior().predict(table.to_numpy()), posterior().predict(THETA[:, ::-1]))
        with pytest.raises(ValueError, match=r"prior's parameters \['a', 'b'\], got \['c'\]"):
            posterior().predict(pd.Series({"a": 1.0, "b": 2.0, "c": 3.0}))

    @pytest.mark.parametrize("dims", [("draw", "parameter"), ("parameter", "draw")])
    def test_so_is_a_labeled_array_whatever_the_order_of_its_axes(self, dims):
        labeled = xr.DataArray(THETA[:, ::-1], dims=("draw", "parameter"), coords={"parameter": ["b", "a"]})
        labeled = labeled.transpose(*dims)
        np.testing.assert_array_equal(posterior().predict(labeled), posterior().predict(THETA))
        np.testing.assert_array_equal(posterior().log_density(labeled)[0], posterior().log_density(THETA)[0])
        np.testing.assert_array_equal(posterior().predict(labeled.isel(draw=2)), posterior().predict(THETA[2]))
        unnamed = xr.DataArray(THETA, dims=("draw", "parameter"))
        np.testing.assert_array_equal(posterior().predict(unnamed), posterior().predict(THETA))

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (
                lambda a, b: iv.MultivariateNormal(
                    pd.Series([0.0, 1.0], [a, b]), pd.DataFrame([[1.0, 0.1], [0.1, 2.0]], ["x", "y"], ["x", "y"])
                ),
                r"covariance must come in the order of mean, \['y', 'x'\]",
            ),
            (
                lambda a, b: iv.Normal(pd.Series([0.0, 1.0], [a, b]), pd.Series([1.0, 2.0], ["x", "y"])),
                r"sd must come in the order of mean, \['y', 'x'\]",
            ),
            (
                lambda a, b: iv.Uniform(
                    xr.DataArray([0.0, 1.0], dims="k", coords={"k": [a, b]}), pd.Series([2.0, 3.0], ["x", "y"])
                ),
                r"upper must come in the order of lower, \['y', 'x'\]",
            ),
        ],
    )
    def test_parts_of_a_prior_come_in_one_order(self, make, message):
        make("x", "y")
        with pytest.raises(ValueError, match=message):
            make("y", "x")

    def test_so_is_a_start(self):
        settings = {"draws": 5, "warmup": 100, "seed": 1, "progress": False}
        by_name = iv.sample(posterior(), start=pd.Series({"b": 2.0, "a": 0.5}), **settings)
        by_column = iv.sample(posterior(), start=[0.5, 2.0], **settings)
        np.testing.assert_array_equal(by_name.theta, by_column.theta)


class Reusing:
    """A standard normal's energy that writes into positions and keeps its results in the same memory."""

    dimension = 2

    def __init__(self):
        self._energy, self._gradient = np.empty(0), np.empty(0)

    def energy(self, position):
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position):
        if self._gradient.shape != position.shape:
            self._energy, self._gradient = np.empty(len(position)), np.empty(position.shape)
        self._gradient[...] = position
        position *= position
        position.sum(axis=1, out=self._energy)
        self._energy *= 0.5
        position[...] = 1e3
        return self._energy, self._gradient


class Careful:
    """The same without any of that."""

    dimension = 2

    def energy(self, position):
        return 0.5 * (position * position).sum(axis=1)

    def energy_and_gradient(self, position):
        return self.energy(position), position.copy()


SAMPLERS = {
    "mala": iv.mala(),
    "sgld": iv.samplers.sgld(0.1),
    "ghmc": iv.samplers.ghmc(),
    "sghmc": iv.samplers.sghmc(0.1),
    "ladder": iv.samplers.parallel_tempering((1.0, 3.0), (0.5, 1.0)),
    "penalty": iv.mala(boundary=penalized(5.0)),
    "reflected": iv.mala(),
}


class TestMemoryUsedAgain:
    @pytest.mark.filterwarnings("ignore::UserWarning")
    @pytest.mark.parametrize("name", SAMPLERS)
    def test_by_a_potential_changes_no_draw(self, name):
        domain = iv.Box(-1.5, 1.5) if name in ("penalty", "reflected") else iv.domains.Unbounded()
        settings = {"draws": 300, "warmup": 100, "seed": 3, "progress": False}
        runs = [iv.sample(iv.Target(p, domain), SAMPLERS[name], **settings) for p in (Careful(), Reusing())]
        np.testing.assert_array_equal(runs[0].theta, runs[1].theta)
        np.testing.assert_array_equal(runs[0].data.sample_stats.energy, runs[1].data.sample_stats.energy)

    def test_by_a_prior_of_a_sum(self):
        rows = np.random.default_rng(0).normal(size=(20, 2))

        def term(position, data):
            away = position[:, None] - data
            return 0.5 * (away**2).sum(axis=2), away

        potentials = [
            iv.extending.SumPotential(rows, term, 2, prior=p.energy_and_gradient) for p in (Careful(), Reusing())
        ]
        everything = Batch(np.tile(np.arange(20), (5, 1)), None, 20, "full")

        def twice(potential):
            counted = CountedPotential(potential, "sum")
            found = counted.answer(Request("sum", THETA, batch=everything))
            counted.answer(Request("sum", 2.0 * THETA, batch=everything))
            return found[:5]

        for evaluate in (lambda potential: potential.energy_and_gradient(THETA.copy()), twice):
            for found, wanted in zip(evaluate(potentials[1]), evaluate(potentials[0]), strict=True):
                np.testing.assert_array_equal(found, wanted)

    def test_by_a_potential_that_is_asked_in_blocks(self):
        class Batchwise(Reusing):
            """Whose energies depend on the size of the batch."""

            def energy_and_gradient(self, position):
                energy, gradient = super().energy_and_gradient(position)
                energy += len(position)
                return energy, gradient

        for potential, wanted in ((Reusing(), True), (Batchwise(), False)):
            answer = CountedPotential(potential, "fine").answer_all
            assert separable(Request("fine", THETA.copy()), answer) is wanted

    def test_by_a_potential_whose_gradient_is_checked(self):
        assert check_gradient(Reusing(), THETA[0].copy(), THETA[1]).passed

    def test_by_a_model(self):
        class Model:
            """Which also leaves its last theta in itself, and fails for batches."""

            def __init__(self):
                self.y, self.gradient = np.empty((1, 3)), np.empty((1, 2))

            def __call__(self, theta):
                if len(theta) > 1:
                    theta[:] = 0.0
                    raise RuntimeError("one row at a time")
                self.last = theta.copy()
                self.y[:] = square(theta)
                theta[:] = 1e3
                return self.y

            def linearize(self, theta):
                return self(theta), self.product

            def product(self, cotangent):
                self.gradient[:] = 2.0 * self.last * cotangent[:, :2] + cotangent[:, 2:]
                cotangent[:] = 0.0
                return self.gradient

        given, cotangent = THETA.copy(), np.random.default_rng(1).normal(size=(5, 3))
        guard = GuardedModel(Model(), 3, "fine")
        np.testing.assert_array_equal(guard(given), square(THETA))
        y, vjp = guard.linearize(given)
        np.testing.assert_array_equal(y, square(THETA))
        np.testing.assert_allclose(vjp(cotangent), 2.0 * THETA * cotangent[:, :2] + cotangent[:, 2:], rtol=1e-14)
        first, second = guard(given[:1]), guard(given[1:2])
        np.testing.assert_array_equal(np.concatenate([first, second]), square(THETA[:2]))
        np.testing.assert_array_equal(parallel.map(Model(), given, workers=1), square(THETA))
        np.testing.assert_array_equal(given, THETA)

    def test_by_a_function(self):
        memory = np.empty(3)

        def one(row):
            memory[:] = square(row[None])[0]
            row[:] = 1e3
            return memory

        def slope(row):
            return np.array([[2.0 * row[0], 0.0], [0.0, 2.0 * row[1]], [1.0, 1.0]])

        model, given = iv.scalar_function(one, slope), THETA.copy()
        y, matrix = model.jacobian(given)
        np.testing.assert_array_equal(y, square(THETA))
        np.testing.assert_array_equal(matrix, [slope(row) for row in THETA])
        np.testing.assert_array_equal(given, THETA)

        def writing(theta):
            y = square(theta)
            theta[:] = 1e3
            return y

        _, matrix = iv.with_jacobian(writing, lambda theta: np.stack([slope(row) for row in theta])).jacobian(given)
        np.testing.assert_array_equal(matrix, [slope(row) for row in THETA])

    def test_the_data_may_change_later(self):
        data = np.array([0.5, 0.5, 0.2])
        problem = posterior(data)
        before = problem.log_likelihood(THETA)
        data[:] = 7.0
        np.testing.assert_array_equal(problem.log_likelihood(THETA), before)


def test_a_product_that_does_not_outlive_the_next_linearization():
    cotangent = np.ones((5, 3))
    with isolated(Forgetful()) as model:
        y, vjp = model.linearize(THETA)
        np.testing.assert_array_equal(y, Forgetful()(THETA))
        with pytest.raises(ModelError, match="must stay right when the model is linearized at another theta"):
            vjp(cotangent)
