"""Jacobians of observed states from sensitivities, and their products: compiled, for Python and for compiled loops."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]


@njit(cache=True, nogil=True, error_model="numpy")
def observed_slopes(
    values: Array, first: int, output: Integers, mask: BoolArray, kept: Integers, columns: Integers, out: Array
) -> None:
    """The Jacobian (batch, observations, names) of observed states into ``out``.

    Parameters
    ----------
    values : array, shape (batch, n_times, m)
        From component ``first`` on, sensitivities of the states to one quantity after the other.
    first : int
    output : array of int
        The observed states.
    mask : array of bool, shape (n_times, len(output))
    kept : array of int, shape (quantities,)
        Which parameters the quantities are.
    columns : array of int, shape (parameters,)
        Of each parameter its column of the Jacobian, -1 if it has none.
    out : array
        NaN where a sensitivity of the observed state is.
    """
    n = (values.shape[2] - first) // max(len(kept), 1)
    for row in range(values.shape[0]):
        place = 0
        for k in range(values.shape[1]):
            for j in range(len(output)):
                if not mask[k, j]:
                    continue
                for column in range(out.shape[2]):
                    out[row, place, column] = 0.0
                known = True
                for c in range(len(kept)):
                    slope, column = values[row, k, first + c * n + output[j]], columns[kept[c]]
                    known = known and not math.isnan(slope)
                    if column >= 0:
                        out[row, place, column] += slope
                if not known:
                    for column in range(out.shape[2]):
                        out[row, place, column] = math.nan
                place += 1


@njit(cache=True, nogil=True, error_model="numpy")
def multiply(cotangent: Array, jacobian: Array, out: Array) -> None:
    """Products of cotangents (batch, observations) with Jacobians (batch, observations, names) into ``out``."""
    for row in range(jacobian.shape[0]):
        for column in range(jacobian.shape[2]):
            out[row, column] = 0.0
        for k in range(jacobian.shape[1]):
            for column in range(jacobian.shape[2]):
                out[row, column] += cotangent[row, k] * jacobian[row, k, column]
