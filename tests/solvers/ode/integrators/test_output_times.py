"""Checks of output times."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invsamp.solvers.ode.integrators.output_times import check_times


def test_one_grid_for_all_rows():
    grid, start = check_times([1.0, 2.0], None, 3)
    np.testing.assert_array_equal(grid, [[1.0, 2.0]])
    np.testing.assert_array_equal(start, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(check_times([1.0, 2.0], 0.5, 3)[1], [0.5, 0.5, 0.5])


def test_a_grid_for_each_row():
    times = [[1.0, 2.0], [3.0, math.nan], [math.nan, math.nan]]
    grid, start = check_times(times, None, 3)
    np.testing.assert_array_equal(grid, times)
    np.testing.assert_array_equal(start, [1.0, 3.0, 0.0])
    np.testing.assert_array_equal(check_times(times, [0.0, 3.0, 9.0], 3)[1], [0.0, 3.0, 9.0])


@pytest.mark.parametrize(
    ("times", "t0", "message"),
    [
        ([], None, "times must be non-empty"),
        ([[]], None, "times must be non-empty"),
        (1.0, None, r"times must be non-empty.*got shape \(\)"),
        ([[1.0], [2.0]], None, r"of shape \(n_times,\) or \(3, n_times\), got shape \(2, 1\)"),
        ([1.0, 1.0], None, r"increasing sequence, got \[1. 1.\]: see 1.0 at index 1$"),
        ([1.0, math.nan], None, "non-empty, finite, increasing"),
        ([-math.inf, 1.0], None, "finite"),
        ([1.0, math.inf], None, "finite"),
        ([[1.0, 2.0]] * 2 + [[2.0, 1.0]], None, "NaN at the end of a row, got .*: see 1.0 at index 1 of row 2"),
        ([[1.0, 2.0]] * 2 + [[math.nan, 1.0]], None, "see 1.0 at index 1 of row 2"),
        ([1.0, 2.0], 1.5, "t0 must not be after the first of times, 1.0, got 1.5"),
        ([1.0, 2.0], [0.0, 1.0, 1.25], "t0 must not be after the first of times, 1.0, got 1.25"),
        ([1.0, 2.0], [0.0, 1.0], r"t0 must be a finite number or of shape \(3,\)"),
        ([1.0, 2.0], math.nan, "t0 must be finite numbers"),
    ],
)
def test_bad_times_are_named(times, t0, message):
    with pytest.raises(ValueError, match=message):
        check_times(times, t0, 3)
