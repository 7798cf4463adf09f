r"""Control variates: minibatches whose noise is of second order in the distance from a state at which all were seen.

With :math:`l_i` the data terms (or sums over groups of them), s the snapshot of a chain and B a batch of n of the N,

.. math:: e_i(\theta) = l_i(\theta) - l_i(s) - \nabla l_i(s) \cdot (\theta - s), \qquad
          \hat U(\theta) = U_0(\theta) + \sum_i \bigl[l_i(s) + \nabla l_i(s) \cdot (\theta - s)\bigr]
          + \frac{N}{n} \sum_{i \in B} e_i(\theta),

:math:`U_0` the prior's part. The gradient of that, for a batch, is the estimate of the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, integer, store
from invsamp.contract import Array, Gradients
from invsamp.estimators import BoundEstimator, BoundMinibatch, Minibatch, Source, minibatch
from invsamp.evaluate.requests import Asks, Estimate, Memory, Request, Structure

#: Numbers that all data take at a time, about, where a snapshot is made.
AT_ONCE = 2**20


def control_variate(size: int, refresh: int, groups: npt.ArrayLike | None = None) -> ControlVariate:
    r"""Minibatches of less noise: each term less its expansion about a snapshot, at which all data were seen.

    A chain's snapshot is where it was at the last multiple of ``refresh`` steps. It travels with the position at swaps
    between rungs of one fidelity with equal estimators; elsewhere it is made anew, by a pass over all data. Snapshots
    are made of what is known before the step that follows, so that at a snapshot itself an energy has no noise, and
    says so. The variances that are stated are those within the batch, as of `minibatch`.

    An estimate costs twice its batch, as it is evaluated at the snapshot too; a snapshot costs all data.

    The published control variate of energies is :math:`l_i(s)` alone, whose noise is proportional to the distance from
    the snapshot. With the gradients that the one for gradients needs (SVRG) the linear term is free, and energies and
    gradients belong to each other.

    A snapshot that follows the chain makes a chain with memory: where noise is large at the end of a period, swaps are
    biased (published: one running variance for all distances is worse). With stated variances, and noise below a
    unit of energy over temperature, that is out of sight.

    Parameters
    ----------
    size : int, >= 2
        Terms or groups in a batch, n.
    refresh : int, >= 1
        Steps between two snapshots.
    groups : array_like of int, optional
        As of `minibatch`.

    Raises
    ------
    ValueError
        As `minibatch`, or if ``refresh`` is below 1.

    References
    ----------
    Deng, Feng, Karagiannis, Lin and Liang (2021), "Accelerating convergence of replica exchange stochastic gradient
    MCMC via variance reduction", ICLR, Algorithm 1, where snapshots belong to rungs and stay at swaps. Gradients:
    Johnson and Zhang (2013), NeurIPS.
    """
    return ControlVariate(minibatch(size, groups), integer("refresh", refresh, least=1))


@dataclass(frozen=True)
class ControlVariate:
    """Minibatches of terms less their expansions about a snapshot. Made by `control_variate`."""

    batch: Minibatch
    refresh: int

    def __post_init__(self) -> None:
        instance("batch", self.batch, Minibatch, "a minibatch")
        store(self, refresh=integer("refresh", self.refresh, least=1))

    def bind(self, source: Source, structure: Structure) -> BoundEstimator:
        """Join to a fidelity that has data terms."""
        return _BoundControlVariate(source.fidelity, self.batch.bind(source, structure), self.refresh)


class _BoundControlVariate:
    exact = exact_energy = False
    moves: ClassVar[bool] = True

    def __init__(self, fidelity: str, batch: BoundMinibatch, refresh: int) -> None:
        self._fidelity, self.batch, self._refresh = fidelity, batch, refresh
        self.degrees_of_freedom = batch.degrees_of_freedom

    def init(self, rng: np.random.Generator, position: Array) -> Asks[Memory]:
        """Snapshots (n, d), and the sums of all data terms (n,) and of their gradients (n, d) there."""
        rows, d = position.shape
        solved = yield tuple(
            Request(self._fidelity, position, "apart", block) for block in self.batch.blocks(rows, AT_ONCE // (d + 1))
        )
        energy, gradient = np.zeros(rows), np.zeros((rows, d))
        for found in solved:
            assert found.prior is not None and found.prior_gradient is not None  # of batches they are told
            with np.errstate(invalid="ignore"):  # of solves that failed
                energy += found.energy - found.prior
                gradient += found.gradient - found.prior_gradient
        energy[~np.isfinite(energy)] = np.inf
        return {"snapshot": position.copy(), "energy": energy, "gradient": gradient}

    def updated(self, rng: np.random.Generator, memory: Memory, position: Array, iteration: int) -> Asks[Memory]:
        """New snapshots when they are due, of the chains for which all data can be solved."""
        if iteration % self._refresh:
            return memory
        new = yield from self.init(rng, position)
        solved = np.isfinite(new["energy"])
        return {
            name: np.where(solved.reshape(-1, *[1] * (values.ndim - 1)), values, memory[name])
            for name, values in new.items()
        }

    def estimate(
        self, rng: np.random.Generator, position: Array, gradient: Gradients, memory: Memory
    ) -> Asks[Estimate]:
        snapshot, sum_there, slope_there = memory["snapshot"], memory["energy"], memory["gradient"]
        batch = self.batch.drawn(rng, len(position))._replace(reference=snapshot)
        (found,) = yield (Request(self._fidelity, position, gradient, batch),)
        energy = found.energy + sum_there + (slope_there * (position - snapshot)).sum(axis=1)
        if not gradient:
            return found._replace(energy=energy)
        slope = found.gradient + slope_there
        failed = ~np.isfinite(energy)
        if failed.any():
            slope[failed] = 0.0
        return found._replace(energy=energy, gradient=slope, failed=bool(failed.any()))
