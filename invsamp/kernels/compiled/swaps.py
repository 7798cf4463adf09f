"""Swaps of rungs of one fidelity whose energies are exact and known: decisions, and the replica at each rung."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.protocols import Array

Integers = npt.NDArray[np.intp]


class SwapPlan(NamedTuple):
    """The attempts after each of n steps, and their counts.

    Attributes
    ----------
    begins : ndarray, shape (n + 1,)
        Attempts ``begins[s]`` to ``begins[s + 1] - 1`` follow step s.
    ends : ndarray, shape (attempts, 2)
        The rungs of each.
    pairs, rows : ndarray, shape (attempts,)
        The number of each attempt's pair, and its row of the thresholds.
    thresholds : ndarray, shape (rows, chains)
        Logs of uniform numbers.
    factors : ndarray, shape (rungs, 2)
        Of prior energy and misfit in each rung's target.
    chances, first_chances : ndarray, shape (pairs, chains)
        To which the chances of the attempts are added.
    accepts : ndarray, shape (pairs,)
        The same of swaps.
    replica, last_end, crossings : ndarray, shape (rungs, chains)
        The replica at each rung: see `invsamp.engine.exchange.round_trips`. Overwritten.
    replicas : ndarray, shape (rungs, n, chains)
        The replica at each rung after each step: output.
    """

    begins: Integers
    ends: Integers
    pairs: Integers
    rows: Integers
    thresholds: Array
    factors: Array
    chances: Array
    first_chances: Array
    accepts: Integers
    replica: Integers
    last_end: Integers
    crossings: Integers
    replicas: Integers


def no_swaps(rungs: int, steps: int) -> SwapPlan:
    """No attempts at all."""
    empty, no_chains = np.empty(0, dtype=np.intp), np.empty((rungs, 0), dtype=np.intp)
    return SwapPlan(
        np.zeros(steps + 1, dtype=np.intp),
        np.empty((0, 2), dtype=np.intp),
        *(empty, empty, np.empty((0, 0)), np.empty((rungs, 2)), np.empty((0, 0)), np.empty((0, 0)), empty),
        *(no_chains, no_chains, no_chains, np.empty((rungs, steps, 0), dtype=np.intp)),
    )


@njit(cache=True)
def decide(
    pairs: Integers,
    factors: Array,
    energy: Array,
    prior: Array,
    source: Integers,
    thresholds: Array,
    chances: Array,
    accepted: Integers,
) -> None:
    """Chances (pairs, chains) of pairs (pairs, 2) and how many chains swap, whose columns are exchanged.

    The prior has no columns where no target takes it apart. Infinite energies on both sides give NaN: no swap.
    """
    for i in range(len(pairs)):
        cold, hot, count = pairs[i, 0], pairs[i, 1], 0
        a, b = factors[cold, 0] - factors[hot, 0], factors[cold, 1] - factors[hot, 1]
        for chain in range(energy.shape[1]):
            value = b * (energy[cold, chain] - energy[hot, chain])
            if a != b:
                value += (a - b) * (prior[cold, chain] - prior[hot, chain])
            if np.isnan(value):
                value = -np.inf
            chances[i, chain] = math.exp(min(value, 0.0))
            if thresholds[i, chain] < value:
                count += 1
                energy[cold, chain], energy[hot, chain] = energy[hot, chain], energy[cold, chain]
                if prior.shape[1]:
                    prior[cold, chain], prior[hot, chain] = prior[hot, chain], prior[cold, chain]
                source[cold, chain], source[hot, chain] = source[hot, chain], source[cold, chain]
        accepted[i] = count


@njit(cache=True)
def arrive(
    source: Integers,
    replica: Integers,
    last_end: Integers,
    crossings: Integers,
    new_replica: Integers,
    new_last_end: Integers,
    new_crossings: Integers,
) -> None:
    """The replica at each rung after a move from the rungs ``source`` (rungs, chains), each in its chain."""
    last = len(source) - 1
    for rung in range(last + 1):
        for chain in range(source.shape[1]):
            origin = source[rung, chain]
            end, count = last_end[origin, chain], crossings[origin, chain]
            if rung == 0 or rung == last:
                count += end >= 0 and end != rung
                end = rung
            new_replica[rung, chain] = replica[origin, chain]
            new_last_end[rung, chain], new_crossings[rung, chain] = end, count


@njit(cache=True)
def swapped(
    step: int, plan: SwapPlan, position: Array, energy: Array, gradient: Array, prior: Array, source: Integers
) -> bool:
    """Make the attempts after a step; whether any chain moved. ``source`` (rungs, chains) has their last rungs."""
    rungs, chains = energy.shape
    for k in range(rungs):
        for i in range(chains):
            source[k, i] = k
    chance, count = np.empty((1, chains)), np.empty(1, dtype=np.intp)
    moved = 0
    for a in range(plan.begins[step], plan.begins[step + 1]):
        row, pair = plan.rows[a], plan.pairs[a]
        ends, threshold = plan.ends[a : a + 1], plan.thresholds[row : row + 1]
        decide(ends, plan.factors, energy, prior, source, threshold, chance, count)
        for i in range(chains):
            plan.chances[pair, i] += chance[0, i]
            plan.first_chances[pair, i] += chance[0, i]
        plan.accepts[pair] += count[0]
        moved += count[0]
    if not moved:
        return False
    positions, gradients = position.copy(), gradient.copy()
    for k in range(rungs):
        for i in range(chains):
            if source[k, i] != k:
                for j in range(position.shape[2]):
                    position[k, i, j], gradient[k, i, j] = positions[source[k, i], i, j], gradients[source[k, i], i, j]
    arrive(
        source,
        plan.replica.copy(),
        plan.last_end.copy(),
        plan.crossings.copy(),
        plan.replica,
        plan.last_end,
        plan.crossings,
    )
    return True
