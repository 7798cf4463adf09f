"""Quantities that are fixed, and priors from tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from waves import WavesWithJacobian, WavesWithRows

import invsamp as iv

DATA = np.random.default_rng(8).uniform(0.7, 1.4, 6)
WHOLE = iv.Prior(a=iv.Normal(0, 1), k=iv.Normal(0, 1, shape=2), b=iv.Normal(0, 1), s=iv.HalfNormal(1))
SOME = iv.Prior(a=iv.Normal(0, 1), k=[0.3, -0.2], b=iv.Normal(0, 1), s=0.4)


def pair(make, noise, names=None):
    """The same posterior with all free, and with k and s fixed; and their states."""
    both = [iv.Posterior(prior, make(names), DATA, noise) for prior in (WHOLE, SOME)]
    free = SOME.sample(np.random.default_rng(0), 4)
    full = np.column_stack([free[:, 0], np.tile([0.3, -0.2], (4, 1)), free[:, 1], np.full(4, 0.4)])
    return *both, full, free


@pytest.mark.parametrize("names", [None, ("k", "b", "a"), ("b", "s", "k")])
@pytest.mark.parametrize("noise", ["s", "s * y + 0.1"])
@pytest.mark.parametrize("make", [WavesWithJacobian, WavesWithRows])
def test_is_as_if_it_had_that_value(make, noise, names) -> None:
    whole, some, full, free = pair(make, iv.GaussianNoise(noise), names)
    np.testing.assert_array_equal(some.predict(free), whole.predict(full))
    np.testing.assert_array_equal(some.log_likelihood(free), whole.log_likelihood(full))
    kept = [0, 3]
    (_, gradient), (_, wanted) = (
        post.potential().energy_and_gradient(post.to_position(theta)) for post, theta in ((some, free), (whole, full))
    )
    np.testing.assert_allclose(gradient, wanted[:, kept], rtol=1e-12)
    indices = np.tile([5, 0, 3], (4, 1))
    terms, others = (
        post.potential().terms(post.to_position(theta), indices) for post, theta in ((some, free), (whole, full))
    )
    np.testing.assert_allclose(terms.gradients, others.gradients[:, :, kept], rtol=1e-12)
    noisy, same = (
        post.sample_noise(np.random.default_rng(1), post.predict(theta), theta)
        for post, theta in ((some, free), (whole, full))
    )
    np.testing.assert_array_equal(noisy, same)


def test_names_and_words() -> None:
    assert SOME.names == ("a", "b") and SOME.order == ("a", "k", "b", "s") and SOME.dimension == 2
    assert repr(iv.Prior(x=1.5, a=iv.Normal(0, 1))) == "Prior(x=1.5, a=Normal(mean=0.0, sd=1.0, shape=()))"
    assert iv.Prior(x=1.5, a=iv.Normal(0, 1)) == iv.Prior(x=1.5, a=iv.Normal(0, 1)) != iv.Prior(x=2, a=iv.Normal(0, 1))
    assert len({iv.Prior(x=1.5, a=iv.Normal(0, 1)), iv.Prior(x=1.5, a=iv.Normal(0, 1))}) == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_with_another_value_is_not_resumed(tmp_path) -> None:
    def posed(value):
        model = iv.finite_differences(lambda theta: theta[:, :1] * theta[:, 1:])
        return iv.Posterior(iv.Prior(a=iv.Normal(0, 1), b=value), model, [1.0], iv.GaussianNoise(1))

    iv.sample(posed(2.0), iv.mala(), draws=5, warmup=100, directory=tmp_path / "run", progress=False, seed=1)
    with pytest.raises(ValueError, match=r"prior.b was '?2.0'?, is '?3.0'?"):
        iv.resume(tmp_path / "run", posed(3.0), draws=10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: iv.Prior(a=1.0), "at least one parameter that is not fixed"),
        (lambda: iv.Prior(a=iv.Normal(0, 1), b="c"), r"b must use names in the prior, \['a', 'b'\], got \['c'\]"),
        (
            lambda: iv.Prior(a=iv.Normal(0, 1), b=np.nan),
            "b must be a distribution such as .* finite numbers, or a formula of names, got nan",
        ),
        (
            lambda: iv.Posterior(iv.Prior(a=iv.Normal(0, 1), s=-1), WavesWithJacobian(), DATA, iv.GaussianNoise("s")),
            r"s is the scale of the noise: it must lie in \(0, inf\), got -1.0",
        ),
        (
            lambda: iv.Posterior(SOME, WavesWithJacobian(("k",)), DATA, iv.GaussianNoise("s")),
            "must depend on at least one parameter, got none",
        ),
        (
            lambda: iv.Posterior(SOME, WavesWithJacobian(("k", "q")), DATA, iv.GaussianNoise("s")),
            r"parameters must use the prior's parameters \['a', 'b'\], got \['q'\]",
        ),
    ],
)
def test_bad_input(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()


class TestTable:
    TABLE = pd.DataFrame(
        {"lower": [0.0, 1e-5, np.nan], "upper": [2.0, 1e3, np.nan], "scale": ["linear", "log", None]},
        index=["x", "k", "n"],
    )

    def test_bounds_scales_and_fixed(self) -> None:
        prior = iv.Prior.from_table(self.TABLE.assign(fixed=[np.nan, np.nan, 4.0]))
        assert prior == iv.Prior(x=iv.Uniform(0, 2), k=iv.LogUniform(1e-5, 1e3), n=4.0)
        assert iv.Prior.from_table({"x": {"lower": 0, "upper": 1}}) == iv.Prior(x=iv.Uniform(0, 1))
        names_in_column = self.TABLE.drop(index="n").rename_axis("name").reset_index().replace("log", "log10")
        assert iv.Prior.from_table(names_in_column) == iv.Prior(x=iv.Uniform(0, 2), k=iv.LogUniform(1e-5, 1e3))

    def test_what_is_nothing_and_what_says_nothing(self) -> None:
        empty = pd.array([None, None, 4.0], dtype="Float64")
        prior = iv.Prior.from_table(self.TABLE.astype(object).assign(fixed=empty, unit="m"))
        assert prior == iv.Prior(x=iv.Uniform(0, 2), k=iv.LogUniform(1e-5, 1e3), n=4.0)

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            (TABLE.rename(columns={"scale": "Scale"}), "must have a column 'scale', or .* got 'Scale'"),
            (TABLE.assign(fixd=4.0), "must have a column 'fixed'"),
            (TABLE.set_axis(["x", "k", "k"]), r"one row for each parameter, got the names \['x', 'k', 'k'\]"),
            (TABLE.set_axis(["lower", "upper", "upper"], axis=1), "must have no column twice"),
            (TABLE["lower"], "table must be a table of parameters"),
        ],
    )
    def test_what_is_no_such_table(self, table, message) -> None:
        with pytest.raises(ValueError, match=message):
            iv.Prior.from_table(table)

    def test_a_name_twice(self) -> None:
        twice = pd.DataFrame({"name": ["x", "x"], "lower": 0.0, "upper": 1.0})
        with pytest.raises(ValueError, match=r"one row for each parameter, got the names \['x', 'x'\]"):
            iv.Prior.from_table(twice)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({}, r"got no \['lower', 'upper'\] of 'n'"),
            ({"scale": ["log", "log", None], "fixed": 1.0}, "at least one parameter that is not fixed"),
            ({"scale": ["log", "log", "log"], "fixed": [np.nan, np.nan, 1]}, r"table\['x'\]: lower must be positive"),
            (
                {"scale": "log3", "fixed": [np.nan, np.nan, 1]},
                "scale of 'x' must be one of 'linear', 'lin', 'log', 'log10', got 'log3'",
            ),
            ({"upper": "a", "fixed": [np.nan, np.nan, 1]}, "upper of 'x' must be a finite number, got 'a'"),
        ],
    )
    def test_bad_tables(self, change, message) -> None:
        with pytest.raises(ValueError, match=message):
            iv.Prior.from_table(self.TABLE.assign(**change))
