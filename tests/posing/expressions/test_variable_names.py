"""Names that draws could not be stored by are found before the first solve."""

from __future__ import annotations

import numpy as np
import pytest
from functions import square

import invsamp as iv
from invsamp.posing.expressions.variable_names import LabelTable, check_names, labels
from invsamp.results.run import Run

WRONG = {
    "a dimension": ({"draw": (), "b": ()}, "cannot be called 'draw': that is a dimension"),
    "another": ({"b": (), "chain": (2,)}, "cannot be called 'chain': that is a dimension"),
    "a third": ({"rung": ()}, "cannot be called 'rung': that is a dimension"),
    "a path": ({"a/b": ()}, "cannot be called 'a/b': names of files exclude"),
    "a folder": ({"..": ()}, "cannot be called '..': names of files"),
    "a space": ({"a ": ()}, "cannot be called 'a ': names of files"),
    "a line": ({"a\nb": ()}, "names of files exclude .* do not print"),
    "nothing": ({"": ()}, "a name that is a string and not empty, got ''"),
    "an entry": ({"a": (2,), "a[0]": ()}, r"cannot be called 'a\[0\]' beside 'a', of which it is an entry"),
    "an entry before": ({"a[1]": (), "a": (2,)}, r"cannot be called 'a\[1\]' beside 'a', of which it is an entry"),
    "an entry of a matrix": ({"a": (2, 3), "a[1,2]": ()}, r"cannot be called 'a\[1,2\]' beside 'a'"),
    "an axis": ({"a": (2,), "a_dim_0": ()}, "cannot be called 'a_dim_0' beside 'a', of which it is an axis"),
}
RIGHT = (
    {"a[0]": (), "a[1]": ()},
    {"a": (2,), "a[2]": ()},
    {"a": (), "a[0]": (), "a_dim_0": ()},
    {"a": (2, 2), "a[0]": (), "a[0, 2]": (), "a[x]": ()},
    {"draws": (), "log k": (), "λ₁": (), "x.y": (), "temperature": ()},
)


def normal(shapes):
    return {name: iv.Normal(0, 1, shape=shape) for name, shape in shapes.items()}


class Counting:
    """A user's problem, which takes any names."""

    def __init__(self, shapes):
        self.shapes, self.solves = shapes, 0
        self.dimension = sum(int(np.prod(shape)) for shape in shapes.values())
        self.fidelities, self.sampling_domain, self.support = (
            ("target",),
            iv.domains.Unbounded(),
            iv.domains.Unbounded(),
        )

    def potential(self, fidelity=None):
        def solve(position):
            self.solves += 1
            return square(position)

        return iv.extending.FunctionPotential(solve, self.dimension)

    def sample_start(self, rng, n):
        return rng.standard_normal((n, self.dimension))

    def to_theta(self, position):
        return position

    def to_position(self, theta):
        return theta


class TestWrongNames:
    @pytest.mark.parametrize("what", WRONG)
    def test_of_a_prior(self, what):
        shapes, message = WRONG[what]
        with pytest.raises(ValueError, match=message):
            iv.Prior(**normal(shapes))

    @pytest.mark.parametrize("what", WRONG)
    def test_of_a_problem(self, what):
        shapes, message = WRONG[what]
        problem = Counting(shapes)
        with pytest.raises(ValueError, match=message):
            iv.sample(problem, draws=5, warmup=100, progress=False)
        assert problem.solves == 0

    @pytest.mark.parametrize("what", WRONG)
    def test_of_recorded_draws(self, what):
        shapes, message = WRONG[what]
        theta = np.zeros((1, 2, 5, sum(int(np.prod(shape)) for shape in shapes.values())))
        with pytest.raises(ValueError, match=message):
            Run.from_arrays(None, shapes, theta, {}, {})

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            (("draw", "b"), "cannot be called 'draw'"),
            (("a/b", "c"), "cannot be called 'a/b'"),
            (("a", "a"), "names must be a sequence of distinct names"),
            (("a", 1), "names must be a sequence of distinct names"),
            (("a", ""), "names must be a sequence of distinct names"),
            ("ab", "names must be a sequence of names"),
            (("a", "b", "c"), "names must have 2 entries"),
        ],
    )
    def test_of_a_target(self, names, message):
        with pytest.raises(ValueError, match=message):
            iv.Target(iv.extending.FunctionPotential(square, 2), names=names)


class TestRightNames:
    @pytest.mark.parametrize("shapes", RIGHT)
    def test_are_stored_and_found_again(self, shapes, tmp_path):
        check_names(shapes)
        run = iv.sample(Counting(shapes), draws=8, warmup=100, seed=1, progress=False)
        run.save(tmp_path / "run.nc")
        again = Run.load(tmp_path / "run.nc")
        assert again.shapes == shapes
        np.testing.assert_array_equal(again.theta, run.theta)
        assert list(again.summary().index) == list(labels(shapes)) and len(set(labels(shapes))) == run.theta.shape[2]

    def test_a_parameter_may_be_a_temperature(self, tmp_path):
        """Although the hot rungs have one, too."""
        target = iv.Target(iv.extending.FunctionPotential(square, 2), names=("temperature", "b"))
        sampler = iv.samplers.parallel_tempering((1.0, 2.0), (0.1, 0.2))
        settings = {"draws": 8, "warmup": 100, "seed": 1, "progress": False}
        wanted = iv.sample(iv.Target(iv.extending.FunctionPotential(square, 2)), sampler, **settings)
        for run in (
            iv.sample(target, sampler, **settings),
            iv.sample(target, sampler, directory=tmp_path / "run", **settings),
        ):
            np.testing.assert_array_equal(run.rung_theta(1), wanted.rung_theta(1))
            np.testing.assert_array_equal(run.data.hot.temperature[..., 0], wanted.rung_theta(1)[..., 0])


def test_labels():
    assert labels({"x": (), "k": (2,), "m": (1, 2)}) == ("x", "k[0]", "k[1]", "m[0, 0]", "m[0, 1]")


TABLES = {
    "several": ({"x": (), "k": (3,), "m": (2, 11), "b[0]": (), "b[1]": (), "c[x]": (2,)}, {}),
    "labels": ({"x": (), "k": (3,), "m": (2, 2)}, {"k": {"who": ["Ann", "Bob", "[1]"]}, "m": {"a": [1, 2], "b": "uv"}}),
    "labels with commas": ({"m": (2, 2)}, {"m": {"a": ["1", "1, 1"], "b": ["2, 2", "2"]}}),
    "labels that are the same": ({"m": (2, 2), "k": (2,)}, {"m": {"a": "uu", "b": "vw"}, "k": {"a": ["u", "u"]}}),
    "joins that are the same": ({"m": (2, 2)}, {"m": {"a": ["1", "1, 1"], "b": ["1, 1", "1"]}}),
    "labels of another shape": ({"m": (2, 2)}, {"m": {"a": "uvw", "b": "vw"}}),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_has_the_labels_and_finds_each(case):
    shapes, axes = TABLES[case]
    every, table = labels(shapes, axes), LabelTable(shapes, axes)
    assert len(table) == len(every) == len(set(every))
    assert [table[k] for k in range(len(table))] == list(every)
    for name in {
        *every,
        *shapes,
        "b",
        "c",
        "k",
        "m",
        "q",
        "k[01]",
        "k[3]",
        "k[-1]",
        "m[1]",
        "m[0, 1, 0]",
        "x[0]",
        "k[",
    }:
        assert table.find(name) == [k for k, label in enumerate(every) if name in (label, label.split("[")[0])]


def test_a_label_is_found_without_the_others(monkeypatch):
    monkeypatch.setattr("invsamp.posing.expressions.variable_names.product", None)  # which all of them come from
    table = LabelTable({"x": (), "theta": (1000, 1000)})
    assert table[1_000_000] == "theta[999, 999]"
    assert table.find("theta[999, 999]") == [1_000_000]
    block, number = table.block(1_000_000)
    assert (block.name, number) == ("theta", 999_999)
    with pytest.raises(IndexError):
        table[1_000_001]


def test_columns_of_a_run_are_not_exchanged() -> None:
    """The same parameters in another order are other columns of theta."""
    model = iv.with_jacobian(lambda theta: theta, lambda theta: np.tile(np.eye(2), (len(theta), 1, 1)))
    first, second = (
        iv.Posterior(iv.Prior(**dict.fromkeys(names, iv.Normal(0.0, 1.0))), model, [1.0, 2.0], iv.GaussianNoise(0.5))
        for names in (("a", "b"), ("b", "a"))
    )
    run = iv.sample(first, iv.mala(0.1), draws=20, warmup=20, seed=1, progress=False)
    asked = [
        run.posterior_predictive,
        run.predict,
        run.log_likelihood,
        run.loo,
        lambda posterior: run.derive("residual", lambda y: y[:, 0], posterior),
        lambda posterior: iv.fidelities.compare(posterior.with_forward({"coarse": model, "fine": model}), run),
    ]
    for ask in asked:
        with pytest.raises(ValueError, match=r"parameters of the run in their order, \['a', 'b'\], got \['b', 'a'\]"):
            ask(second)
    modes = iv.maximize(first, seed=1)
    for argument, ask in {
        "start": lambda: iv.sample(second, iv.mala(0.1), start=modes, draws=20, progress=False),
        "modes": lambda: iv.profile(second, modes=modes),
        "at": lambda: iv.information(second, at=modes),
    }.items():
        with pytest.raises(ValueError, match=rf"{argument} must be modes of this posterior, with .* \['b', 'a'\], got"):
            ask()
