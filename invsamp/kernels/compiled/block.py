"""What a compiled loop over steps takes, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.evaluate.requests import Memory
from invsamp.kernels.compiled.row_products import RowMatrix, multiply
from invsamp.posing.compiled.energy_pointer import call_energy
from invsamp.protocols import AnyArray, Array

_NONE: Mapping[str, AnyArray] = MappingProxyType({})


class StepBlock(NamedTuple):
    """Steps that a loop is to make of the chains of a rung, n at the most.

    Attributes
    ----------
    address : int
        Of the energy: see `invsamp.posing.compiled.energy_pointer`.
    temperature : float
        By which energies and gradients are divided.
    scale : ndarray, shape (d,)
        Of the coordinates, where the two matrices are empty.
    whitening, coloring : RowMatrix
        The metric as matrices by which rows are multiplied; empty of a diagonal one.
    step_sizes : ndarray, shape (n,)
    normal : ndarray, shape (n, chains, d)
        Random numbers of each step, of which those of the steps that are made are used up.
    log_uniform : ndarray, shape (n, chains)
        The same; empty for a kernel that is not adjusted.
    position, energy, gradient : ndarray
        Where the chains stand, (chains, d), (chains,) and (chains, d): written over by each step that is made.
    positions, energies, log_ratios : ndarray
        Where they stand after each step, and the log Metropolis ratios of it: written.
    """

    address: int
    temperature: float
    scale: Array
    whitening: RowMatrix
    coloring: RowMatrix
    step_sizes: Array
    normal: Array
    log_uniform: Array
    position: Array
    energy: Array
    gradient: Array
    positions: Array
    energies: Array
    log_ratios: Array


class StepsMade(NamedTuple):
    """What came of a block: the steps before one that the loop cannot make, as an energy there is not finite.

    Attributes
    ----------
    made : int
        Number of steps.
    evaluations : int
        Of the energy, by chains.
    memory : Memory
        Of the kernel, after these steps.
    accepted : ndarray, shape (n,)
        Chains that moved in each step, of an adjusted kernel.
    cliffs : int
        As `invsamp.kernels.contract.Info.cliffs`, of all steps.
    statistics : mapping of str to ndarray, shape (n, chains)
        As `invsamp.kernels.contract.Info.statistics`, of each step.
    """

    made: int
    evaluations: int
    memory: Memory
    accepted: npt.NDArray[np.intp]
    cliffs: int = 0
    statistics: Mapping[str, AnyArray] = _NONE


@njit(cache=True)
def room(chains: int, d: int) -> Array:
    """An array that is to be filled."""
    return np.empty((chains, d))


@njit(cache=True, error_model="numpy")
def whiten(
    gradient: Array,
    temperature: float,
    scale: Array,
    matrix: Array,
    first: Array,
    last: Array,
    reduced: Array,
    out: Array,
) -> None:
    """Gradients (chains, d) of the reduced energy in whitened coordinates into ``out``; ``reduced``: room."""
    for i in range(gradient.shape[0]):
        for j in range(gradient.shape[1]):
            reduced[i, j] = gradient[i, j] / temperature
            if not matrix.shape[0]:
                out[i, j] = reduced[i, j] * scale[j]
    if matrix.shape[0]:
        multiply(reduced, matrix, first, last, out)


@njit(cache=True, error_model="numpy")
def color(move: Array, scale: Array, matrix: Array, first: Array, last: Array, out: Array) -> None:
    """Moves (chains, d) of whitened coordinates as moves of positions, into ``out``."""
    if matrix.shape[0]:
        multiply(move, matrix, first, last, out)
        return
    for i in range(move.shape[0]):
        for j in range(move.shape[1]):
            out[i, j] = move[i, j] * scale[j]


@njit(cache=True, error_model="numpy")
def evaluated(address: int, position: Array, given: Array, energy: Array, gradient: Array) -> bool:
    """Energies and gradients at positions; whether all are finite. ``given``: room for what functions write to."""
    given[:, :] = position
    if call_energy(address, given, energy, gradient) != 0:
        return False
    wrong = 0
    for i in range(len(energy)):
        wrong += not abs(energy[i]) < np.inf
        for j in range(gradient.shape[1]):
            wrong += not abs(gradient[i, j]) < np.inf
    return wrong == 0
