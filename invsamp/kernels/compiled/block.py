"""Arguments and results of a compiled loop over steps."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.evaluate.requests import Memory
from invsamp.kernels.compiled.row_products import multiply
from invsamp.kernels.compiled.swaps import SwapPlan
from invsamp.posing.compiled.energy_pointer import call_energy
from invsamp.protocols import AnyArray, Array

_NONE: Mapping[str, AnyArray] = MappingProxyType({})
Integers = npt.NDArray[np.intp]


class Geometry(NamedTuple):
    """Metrics of rungs: their scales (rungs, d), or matrices by which rows are multiplied.

    See `invsamp.kernels.compiled.row_products.RowMatrix`. The matrices are empty where the scales count.
    """

    scale: Array
    whitening: Array
    whitening_first: Integers
    whitening_last: Integers
    coloring: Array
    coloring_first: Integers
    coloring_last: Integers


class StepBlock(NamedTuple):
    """Steps that a loop is to make of the chains of some rungs, n at most, with the swaps after them.

    Attributes
    ----------
    address, context : int
        Of the energy: see `invsamp.posing.compiled.energy_pointer`.
    temperatures : ndarray, shape (rungs,)
        By which energies and gradients are divided.
    geometry : Geometry
    step_sizes, full_sizes : ndarray, shape (rungs, n)
        Of each step; and before some of them are shortened.
    normal : ndarray, shape (rungs, n, chains, d)
        Random numbers of each step, of which those of the steps that are made are used up.
    log_uniform : ndarray, shape (rungs, n, chains)
        The same; empty for a kernel that does not take them.
    position, energy, gradient, prior : ndarray
        Where the chains stand, (rungs, chains, d), (rungs, chains), (rungs, chains, d) and (rungs, chains): written
        over. The prior's part of the energy has no meaning where a target does not separate it.
    positions, energies, priors, log_ratios : ndarray
        Where they stand after each step and its swaps, and the log Metropolis ratios of the step: written.
    swaps : SwapPlan
    """

    address: int
    context: int
    temperatures: Array
    geometry: Geometry
    step_sizes: Array
    full_sizes: Array
    normal: Array
    log_uniform: Array
    position: Array
    energy: Array
    gradient: Array
    prior: Array
    positions: Array
    energies: Array
    priors: Array
    log_ratios: Array
    swaps: SwapPlan


class StepsMade(NamedTuple):
    """Result of a block: the steps before one that the loop cannot make, as an energy there is not finite.

    Attributes
    ----------
    made : int
        Steps that all rungs have made, with the swaps after them.
    more : int
        The first so many rungs have made one more.
    evaluations : int
        Of the energy, by chains.
    memories : list of Memory
        Of the kernels, after these steps.
    accepted : ndarray, shape (rungs, n)
        Chains that moved in each step, of an adjusted kernel.
    cliffs : ndarray, shape (rungs, n)
        As `invsamp.kernels.contract.Info.cliffs`.
    statistics : mapping of str to ndarray, shape (rungs, n, chains)
        As `invsamp.kernels.contract.Info.statistics`.
    """

    made: int
    more: int
    evaluations: int
    memories: list[Memory]
    accepted: Integers
    cliffs: Integers
    statistics: Mapping[str, AnyArray] = _NONE


@njit(cache=True)
def room(chains: int, d: int) -> Array:
    """An array that is to be filled."""
    return np.empty((chains, d))


@njit(cache=True, inline="always")
def fill(values: Array, out: Array) -> None:
    """Values (chains, d) into ``out``, by a loop: numba compiles a message for slices that do not fit."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[i, j] = values[i, j]


@njit(cache=True)
def record(
    step: int,
    position: Array,
    energy: Array,
    prior: Array,
    swaps: SwapPlan,
    positions: Array,
    energies: Array,
    priors: Array,
) -> None:
    """Keep where the chains of all rungs are after a step."""
    for k in range(energy.shape[0]):
        fill(position[k], positions[k, step])
        for i in range(energy.shape[1]):
            energies[k, step, i] = energy[k, i]
            priors[k, step, i] = prior[k, i]
        for i in range(swaps.replica.shape[1]):
            swaps.replicas[k, step, i] = swaps.replica[k, i]


@njit(cache=True, inline="always")
def of_rung(geometry: Geometry, k: int) -> Geometry:
    """The metric of one rung."""
    return Geometry(
        geometry.scale[k],
        geometry.whitening[k],
        geometry.whitening_first[k],
        geometry.whitening_last[k],
        geometry.coloring[k],
        geometry.coloring_first[k],
        geometry.coloring_last[k],
    )


@njit(cache=True, error_model="numpy", inline="always")
def whiten(gradient: Array, temperature: float, metric: Geometry, reduced: Array, out: Array) -> None:
    """Gradients (chains, d) of the reduced energy in whitened coordinates into ``out``; ``reduced``: room."""
    for i in range(gradient.shape[0]):
        for j in range(gradient.shape[1]):
            reduced[i, j] = gradient[i, j] / temperature
    _times(reduced, metric.scale, metric.whitening, metric.whitening_first, metric.whitening_last, out)


@njit(cache=True, error_model="numpy")
def whiten_change(new: Array, old: Array, temperature: float, metric: Geometry, reduced: Array, out: Array) -> None:
    """The same of the change of gradients."""
    for i in range(new.shape[0]):
        for j in range(new.shape[1]):
            reduced[i, j] = new[i, j] / temperature - old[i, j] / temperature
    _times(reduced, metric.scale, metric.whitening, metric.whitening_first, metric.whitening_last, out)


@njit(cache=True, error_model="numpy", inline="always")
def color(move: Array, metric: Geometry, out: Array) -> None:
    """Moves (chains, d) of whitened coordinates as moves of positions, into ``out``."""
    _times(move, metric.scale, metric.coloring, metric.coloring_first, metric.coloring_last, out)


@njit(cache=True, error_model="numpy", inline="always")
def _times(rows: Array, scale: Array, matrix: Array, first: Integers, last: Integers, out: Array) -> None:
    if matrix.shape[0]:
        multiply(rows, matrix, first, last, out)
        return
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[i, j] = rows[i, j] * scale[j]


@njit(cache=True, error_model="numpy", inline="always")
def evaluated(
    address: int, context: int, position: Array, given: Array, energy: Array, gradient: Array, prior: Array
) -> bool:
    """Energies and gradients at positions; whether all are finite. ``given``: room for what functions write to."""
    fill(position, given)
    if call_energy(address, context, given, energy, gradient, prior) != 0:
        return False
    wrong = 0
    for i in range(len(energy)):
        wrong += not abs(energy[i]) < np.inf
        for j in range(gradient.shape[1]):
            wrong += not abs(gradient[i, j]) < np.inf
    return wrong == 0
