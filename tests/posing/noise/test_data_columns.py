"""Tables of data: what their columns are called, that they are those of the model, and what they lack."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import invsamp as iv
from invsamp.posing.noise.data_columns import check_noise_labels, series_of

VALUES = np.array([[0.4, 0.6], [0.1, 0.9], [0.05, 0.95]])
TABLE = pd.DataFrame(VALUES, columns=["left", "right"])
NOISE = iv.GaussianNoise(0.1)
BOTH = iv.Outputs(u=iv.GaussianNoise(0.1), v=iv.GaussianNoise(0.2))


@pytest.mark.parametrize(
    ("data", "noise", "declared", "found"),
    [
        (TABLE, BOTH, ("a", "b"), ("left", "right")),
        (VALUES, BOTH, ("a", "b"), ("u", "v")),
        (VALUES, iv.GaussianNoise(0.1), ("a", "b"), ("a", "b")),
        (VALUES, iv.GaussianNoise(0.1), ("a",), None),
        (VALUES, iv.GaussianNoise(0.1), None, None),
        (VALUES[:, 0], iv.GaussianNoise(0.1), ("a",), ("a",)),
        (VALUES[:, 0], iv.GaussianNoise(0.1), "left", ("left",)),
        (TABLE["left"], iv.GaussianNoise(0.1), ("a",), ("left",)),
        (pd.DataFrame(VALUES), BOTH, None, ("u", "v")),
        (TABLE.set_axis(["left", "left"], axis="columns"), BOTH, None, ("u", "v")),
        (TABLE.set_axis(["left", None], axis="columns"), BOTH, None, ("u", "v")),
        (TABLE.set_axis(["", "right"], axis="columns"), BOTH, None, ("u", "v")),
        (pd.concat({"ear": TABLE}, axis="columns"), BOTH, None, ("ear left", "ear right")),
        (TABLE.set_axis([1900, 1901], axis="columns"), BOTH, None, ("1900", "1901")),
        (VALUES.ravel(), iv.Outputs.labeled(["u", "v"] * 3, BOTH.noises), None, None),
    ],
)
def test_the_first_that_matches_the_number_of_data(data, noise, declared, found) -> None:
    model = SimpleNamespace() if declared is None else SimpleNamespace(series=declared)
    assert series_of(data, noise, model, np.shape(data)) == found


@pytest.mark.parametrize(
    ("data", "noise", "declared", "message"),
    [
        (
            TABLE[["right", "left"]],
            NOISE,
            ("left", "right"),
            r"order of forward, \['left', 'right'\], .* 'right' is in",
        ),
        (TABLE[["right", "left"]], iv.Outputs(left=NOISE, right=NOISE), None, "data must have .* the order of noise"),
        (
            xr.DataArray(VALUES, dims=("hour", "ear"), coords={"ear": ["right", "left"]}),
            NOISE,
            ("left", "right"),
            "data must have .* the order of forward",
        ),
        (VALUES, iv.Outputs(left=NOISE, right=NOISE), ("right", "left"), "noise must have .* the order of forward"),
        (TABLE, NOISE, ("right", "middle"), "'right' is in place 1 instead of 0"),
        (
            TABLE.assign(more=1.0),
            NOISE,
            ("left", "right"),
            r"\['left', 'right', 'more'\]: say table\[\['left', 'right'\]\]",
        ),
        (
            TABLE[["left"]],
            NOISE,
            ("left", "right"),
            r"data must have the columns that forward gives, .* got \['left'\]",
        ),
        (VALUES.T, NOISE, ("left", "right"), r"data must have 2 entries on the last axis, .* got shape \(2, 3\)"),
    ],
)
def test_data_that_would_be_compared_with_other_outputs_are_refused(data, noise, declared, message) -> None:
    with pytest.raises(ValueError, match=message):
        series_of(data, noise, SimpleNamespace(series=declared), np.shape(data))


def halves(theta: np.ndarray) -> np.ndarray:
    return np.broadcast_to(theta[:, :1, None], (len(theta), 3, 2))


def posed(data: object) -> iv.Posterior:
    model = iv.with_jacobian(halves, lambda theta: np.ones((len(theta), 6, 1)))
    return iv.Posterior(iv.Prior(half=iv.Normal(0.0, 1.0)), model, data, NOISE)


@pytest.mark.parametrize("kind", [object, "Float64"])
def test_what_a_table_lacks_is_missing(kind) -> None:
    lacking = TABLE.astype(kind)
    lacking.iloc[1, 0] = None
    with pytest.warns(UserWarning, match="1 of 6 data are NaN: they are taken as missing"):
        assert posed(lacking).series == ("left", "right")
    with pytest.warns(UserWarning, match="1 of 6 data are NaN"):
        np.testing.assert_array_equal(posed(lacking).data, np.where(VALUES[1, 0] == VALUES, np.nan, VALUES))


@pytest.mark.parametrize("column", [["a", "b", "c"], [True, False, True], [1j, 2.0, 3.0], [np.datetime64("now")] * 3])
def test_a_column_that_is_no_numbers_is_named(column) -> None:
    with pytest.raises(ValueError, match=r"data\['right'\] must be numbers"):
        posed(TABLE.assign(right=column))


def test_other_data_come_in_the_order_of_those_before() -> None:
    before = posed(TABLE)
    assert before.with_data(2 * TABLE).data[0, 1] == 2 * VALUES[0, 1]
    with pytest.raises(ValueError, match="order of those before"):
        before.with_data(TABLE[["right", "left"]])


TIMED = TABLE.set_axis(pd.Index([0.0, 1.0, 2.0], name="hour"), axis="index")
ARRAY = xr.DataArray(VALUES, dims=("hour", "ear"), coords={"ear": ["left", "right"]})
COVARIANCE = pd.DataFrame(np.diag([1.0, 2.0, 3.0]), index=TIMED.index, columns=TIMED.index)
HOURS = ARRAY.assign_coords(hour=[0.0, 1.0, 2.0])
BACK = TIMED["right"][::-1]
SERIES = TIMED["left"]


@pytest.mark.parametrize(
    ("data", "noise", "message"),
    [
        (TABLE, iv.GaussianNoise(pd.Series({"right": 0.1, "left": 9.0})), r"scale .* order of the data, \['left', 'r"),
        (TIMED, iv.StudentTNoise(3.0, TIMED[::-1]), r"got \[2.0, 1.0, 0.0\]: 2.0 is in place 0 instead of 2"),
        (TIMED, iv.Outputs(left=iv.GaussianNoise(SERIES), right=iv.GaussianNoise(BACK)), "right.scale must come"),
        (TIMED[:2], iv.GaussianNoise(TIMED["left"][:2]), "scale has labels of another axis"),
        (ARRAY[:2], iv.GaussianNoise(ARRAY[:2, 0].drop_vars("ear")), "got 'hour' for 'ear'"),
        (SERIES, iv.GaussianNoise(covariance=COVARIANCE.iloc[::-1, ::-1]), "rows of covariance must come"),
        (SERIES, iv.GaussianNoise(covariance=iv.noise.Precision(COVARIANCE.iloc[::-1, ::-1])), "rows of covariance"),
        (0.0 * SERIES, iv.BinomialNoise((10 + 0 * BACK).astype(int)), "trials must come"),
        (SERIES, iv.CensoredNoise(NOISE, lower=BACK), "lower must come"),
        (SERIES, iv.MixtureNoise(iv.GaussianNoise(BACK), NOISE, fraction=0.1), "noise.scale must come"),
        (
            SERIES,
            iv.Outputs.labeled(list("uvu"), {"u": iv.GaussianNoise(BACK[[2.0, 0.0]]), "v": NOISE}),
            "u.scale must come",
        ),
    ],
)
def test_numbers_of_a_noise_come_in_the_order_of_the_data(data, noise, message) -> None:
    with pytest.raises(ValueError, match=message):
        iv.Posterior(iv.Prior(half=iv.Normal(0.0, 1.0)), halves_of(data), data, noise)


@pytest.mark.parametrize(
    ("data", "noise"),
    [
        (TABLE, pd.Series({"left": 0.1, "right": 9.0})),
        (TABLE, pd.Series([0.1, 9.0])),
        (TABLE, pd.Series({"sd left": 0.1, "sd right": 9.0})),
        (TIMED, TIMED),
        (SERIES, TIMED["right"]),
        (VALUES[:, 0], BACK),
        (ARRAY, ARRAY),
        (ARRAY, ARRAY[0]),
        (ARRAY, ARRAY[:, :1]),
    ],
)
def test_labels_that_agree_change_nothing(data, noise) -> None:
    prior, plain = iv.Prior(half=iv.Normal(0.0, 1.0)), iv.GaussianNoise(np.asarray(noise))
    found = iv.Posterior(prior, halves_of(data), data, iv.GaussianNoise(noise))
    expected = iv.Posterior(prior, halves_of(data), np.asarray(data), plain)
    np.testing.assert_array_equal(found.log_likelihood([[0.5]]), expected.log_likelihood([[0.5]]))
    assert pickle.loads(pickle.dumps(found.noise)) == plain


@pytest.mark.parametrize(
    ("data", "other"), [(SERIES, SERIES[::-1]), (HOURS[:, 0], HOURS[::-1, 0]), (ARRAY[:2], ARRAY[:2].transpose())]
)
def test_rows_of_other_data_come_in_the_order_of_those_before(data, other) -> None:
    before = iv.Posterior(iv.Prior(half=iv.Normal(0.0, 1.0)), halves_of(data), data, NOISE)
    with pytest.raises(ValueError, match="in the order of those before"):
        before.with_data(other)


def test_other_data_have_the_order_of_the_noise() -> None:
    prior, noise = iv.Prior(half=iv.Normal(0.0, 1.0)), iv.GaussianNoise(SERIES)
    before = iv.Posterior(prior, halves_of(SERIES), SERIES.to_numpy(), noise)
    with pytest.raises(ValueError, match="scale must come in the order of the data"):
        before.with_data(BACK)


def test_outputs_of_the_model_name_the_last_axis() -> None:
    noise = iv.GaussianNoise(pd.Series({"right": 0.1, "left": 9.0}))
    with pytest.raises(ValueError, match=r"scale must come in the order of the data, \['left', 'right'\]"):
        check_noise_labels(noise, VALUES, ("left", "right"), VALUES.shape)


def halves_of(data) -> object:
    return iv.with_jacobian(
        lambda theta: np.broadcast_to(theta[:, :1], (len(theta), data.size)),
        lambda theta: np.ones((len(theta), data.size, 1)),
    )
