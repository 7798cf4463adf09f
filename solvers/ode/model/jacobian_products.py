"""Jacobians of observed states from sensitivities, and their products: compiled, for Python and for compiled loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
#: Without what takes the compiler longer: wrappers for C, and counts of references to arrays.
_OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


@njit(**_OPTIONS)
def observed_slopes(
    values: Array, first: int, observed: Integers, kept: Integers, columns: Integers, out: Array
) -> None:
    """The Jacobian (batch, observations, names) of observed states into ``out``.

    Parameters
    ----------
    values : array, shape (batch, n_times, m)
        From component ``first`` on, sensitivities of the states to one quantity after the other.
    first : int
    observed : array of int, shape (observations, 2)
        The time and the state of each observation.
    kept : array of int, shape (quantities,)
        Which parameters the quantities are.
    columns : array of int, shape (parameters,)
        Of each parameter its column of the Jacobian, -1 if it has none.
    out : array
        NaN where a sensitivity of the observed state is.
    """
    n = (values.shape[2] - first) // max(len(kept), 1)
    for row in range(out.shape[0]):
        for place in range(out.shape[1]):
            at, state, start = observed[place, 0], observed[place, 1], 0.0
            for c in range(len(kept)):
                if math.isnan(values[row, at, first + c * n + state]):
                    start = math.nan
            for column in range(out.shape[2]):
                out[row, place, column] = start
            for c in range(len(kept)):
                column = columns[kept[c]]
                if column >= 0:
                    out[row, place, column] += values[row, at, first + c * n + state]


@njit(**_OPTIONS)
def multiply(cotangent: Array, jacobian: Array, out: Array) -> None:
    """Products of cotangents (batch, observations) with Jacobians (batch, observations, names) into ``out``."""
    for row in range(jacobian.shape[0]):
        for column in range(jacobian.shape[2]):
            out[row, column] = 0.0
        for k in range(jacobian.shape[1]):
            for column in range(jacobian.shape[2]):
                out[row, column] += cotangent[row, k] * jacobian[row, k, column]
