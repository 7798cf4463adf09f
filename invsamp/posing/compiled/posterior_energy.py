"""Energies of posteriors as compiled functions: all that a posterior's Python does, in the same order.

The forward model is a compiled function itself; see `invsamp.compiled_calls.CompiledRows`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import carray, types

from invsamp import compiled_calls
from invsamp.compiled_calls import CompiledCall, CompiledRows, call_fixed, fixed, stored
from invsamp.posing.compiled import density_loops, likelihood_loops
from invsamp.posing.compiled.density_loops import IntArray, _pose, finish
from invsamp.posing.compiled.likelihood_loops import accumulate
from invsamp.protocols import Array

_POINTER = types.CPointer(types.float64)


class PosteriorParts(NamedTuple):
    """Parts of a posterior.

    Attributes
    ----------
    coordinates, density, box, constant
        Arguments of `invsamp.posing.compiled.density_loops.pose`.
    places : ndarray of int, shape (inputs,)
        The columns of theta that the model gets; -1: a fixed number.
    known : ndarray, shape (inputs,)
        These numbers.
    terms : tuple of ndarray
        The first arguments of `invsamp.posing.compiled.likelihood_loops.accumulate`.
    outputs : int
        Number of observations.
    """

    coordinates: tuple[IntArray, Array, Array]
    density: tuple[IntArray, IntArray, Array, Array, Array]
    box: tuple[Array, Array]
    constant: float
    places: IntArray
    known: Array
    terms: tuple[IntArray, Array]
    outputs: int


class _Calls(NamedTuple):
    """The model."""

    solve: int
    solve_context: int
    product: int
    product_context: int


class _Room(NamedTuple):
    """Arrays of one row that each use writes over."""

    position: Array
    theta: Array
    derivative: Array
    value: Array
    slope: Array
    jacobian_slope: Array
    inside: npt.NDArray[np.bool_]
    given: Array  # (inputs,)
    back: Array  # (inputs,)
    y: Array
    y_slope: Array


def posterior_energy(parts: PosteriorParts, model: CompiledRows) -> CompiledCall:
    """The energy with its gradient: see `invsamp.posing.compiled.energy_pointer.EnergyPointer`."""
    coordinates, density, box, terms = map(_own, (parts.coordinates, parts.density, parts.box, parts.terms))
    places, known = _own((parts.places, parts.known))
    parts = PosteriorParts(coordinates, density, box, parts.constant, places, known, terms, parts.outputs)
    row, inputs, outputs = (1, len(coordinates[0])), len(places), (1, parts.outputs)
    room = _Room(
        position=np.empty(row),
        theta=np.empty(row),
        derivative=np.empty(row),
        value=np.empty(1),
        slope=np.empty(row),
        jacobian_slope=np.empty(row),
        inside=np.empty(1, dtype=np.bool_),
        given=np.empty(inputs),
        back=np.empty(inputs),
        y=np.empty(outputs),
        y_slope=np.empty(outputs),
    )
    calls = _Calls(*model.solve[:2], *model.product[:2])
    function = stored(_energy, compiled_calls, density_loops, likelihood_loops)
    made = fixed(function, (parts, calls, room), _POINTER, types.intp, types.intp, _POINTER, _POINTER, _POINTER)
    return made._replace(owner=(made.owner, model))


def _own(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies: compiled code takes arrays that can be written to, with their entries in order."""
    return tuple(np.array(array, order="C") for array in arrays)


def _energy(
    parts: PosteriorParts,
    calls: _Calls,
    room: _Room,
    positions: Any,
    n: int,
    d: int,
    energies: Any,
    gradients: Any,
    priors: Any,
) -> int:
    """Not 0 where Python is to evaluate: outside, or where the model's function says so."""
    where, energy, gradient = carray(positions, (n, d)), carray(energies, (n,)), carray(gradients, (n, d))
    prior = carray(priors, (n,))
    theta, value, slope = room.theta, room.value, room.slope
    for row in range(n):
        for column in range(d):
            room.position[0, column] = where[row, column]
        everywhere = _pose(
            room.position,
            parts.coordinates,
            parts.density,
            parts.box,
            parts.constant,
            theta,
            room.derivative,
            value,
            slope,
            room.jacobian_slope,
            room.inside,
        )
        if not everywhere:
            return 1
        prior[row] = -value[0]
        for k in range(len(parts.places)):
            room.given[k] = theta[0, parts.places[k]] if parts.places[k] >= 0 else parts.known[k]
            if not math.isfinite(room.given[k]):
                return 1
        if call_fixed(calls.solve, calls.solve_context, room.given, room.y) != 0:
            return 1
        accumulate(parts.terms[0], parts.terms[1], theta, room.y, value, slope, room.y_slope)
        if call_fixed(calls.product, calls.product_context, room.y_slope, room.back) != 0:
            return 1
        for k in range(len(parts.places)):
            if parts.places[k] >= 0:
                slope[0, parts.places[k]] += room.back[k]
        finish(value, slope, room.derivative, room.jacobian_slope)
        energy[row] = value[0]
        for column in range(d):
            gradient[row, column] = slope[0, column]
    return 0
