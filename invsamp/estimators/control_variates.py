r"""Control variates: minibatches whose noise is of second order in the distance from a state at which all were seen.

With :math:`l_i` the data terms (or sums over groups of them), s the snapshot of a chain and B a batch of n of the N,

.. math:: e_i(\theta) = l_i(\theta) - l_i(s) - \nabla l_i(s) \cdot (\theta - s), \qquad
          \hat U(\theta) = U_0(\theta) + \sum_i \bigl[l_i(s) + \nabla l_i(s) \cdot (\theta - s)\bigr]
          + \frac{N}{n} \sum_{i \in B} e_i(\theta),

:math:`U_0` the prior's part. The gradient of that, for a batch, is the estimate of the gradient.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import boolean, instance, integer, one_of, store
from invsamp.estimators.contract import BoundEstimator, Source
from invsamp.estimators.minibatches import BoundControl, BoundMinibatch, Minibatch, data_part, minibatch
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Memory, Request, Structure
from invsamp.protocols import Array, Gradients
from invsamp.stored import stored_dataclass

#: Numbers that all data take at a time, about, where a snapshot is made.
AT_ONCE = 2**20


#: Batches from which an adaptive coefficient is estimated, and the gain by which it follows (the authors' program).
COEFFICIENT_BATCHES, COEFFICIENT_GAIN = 10, 0.2
Order = Literal["linear", "constant"]
ORDERS: tuple[Order, ...] = ("linear", "constant")


def control_variate(
    size: int, refresh: int, groups: npt.ArrayLike | None = None, *, order: Order = "linear", adaptive: bool = False
) -> ControlVariate:
    r"""Minibatches of less noise: each term less its expansion about a snapshot, at which all data were seen.

    A chain's snapshot is where it was at the last multiple of ``refresh`` steps. It travels with the position at swaps
    between rungs of one fidelity with equal estimators; elsewhere it is made anew, by a pass over all data. Snapshots
    are made of what is known before the step that follows, so that at a snapshot itself an energy has no noise, and
    says so. The variances that are stated are those within the batch, as of `minibatch`.

    An estimate costs twice its batch, as it is evaluated at the snapshot too; a snapshot costs all data.

    The published control variate of energies is :math:`l_i(s)` alone, ``order="constant"``, whose noise is proportional
    to the distance from the snapshot; gradients are then those of a plain minibatch. With the gradients that the one
    for gradients needs (SVRG) the linear term is free, and energies and gradients belong to each other.

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
    order : "linear" or "constant"
        How far terms are expanded about the snapshot: "constant" is Algorithm 1 of the source.
    adaptive : bool
        Algorithm 2: :math:`l_i(s)` times a coefficient that follows -Cov/Var of the two energies, estimated from 10
        batches before each renewal, with gain .2. It goes to -1 and gains nothing. Of order "constant" only.

    Raises
    ------
    ValueError
        As `minibatch`, if ``refresh`` is below 1, or the order is unknown or not allowed with ``adaptive``.

    References
    ----------
    Deng, Feng, Karagiannis, Lin and Liang (2021), "Accelerating convergence of replica exchange stochastic gradient
    MCMC via variance reduction", ICLR, Algorithms 1 and 2, where snapshots belong to rungs and stay at swaps, and are
    renewed before the variance is estimated, which is 0 then. Gradients: Johnson and Zhang (2013), NeurIPS.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.estimators.control_variate(size=10, refresh=100)
    ControlVariate(batch=Minibatch(size=10), refresh=100, order='linear', adaptive=False)
    """
    return ControlVariate(minibatch(size, groups), integer("refresh", refresh, least=1), order, adaptive)


@stored_dataclass
class ControlVariate:
    """Minibatches of terms less their expansions about a snapshot. Made by `control_variate`."""

    batch: Minibatch
    refresh: int
    order: Order = "linear"
    adaptive: bool = False

    def __post_init__(self) -> None:
        instance("batch", self.batch, Minibatch, "a minibatch")
        one_of("order", self.order, ORDERS)
        store(self, refresh=integer("refresh", self.refresh, least=1), adaptive=boolean("adaptive", self.adaptive))
        if self.adaptive and self.order != "constant":
            raise ValueError(f"adaptive must be False unless order is 'constant', got order={self.order!r}")

    def __str__(self) -> str:
        kind = "" if self.order == "linear" else ", adaptive coefficient" if self.adaptive else ", energies only"
        return f"control variate ({self.batch}, refreshed every {self.refresh} steps{kind})"

    def bind(self, source: Source, structure: Structure | None) -> BoundEstimator:
        """Join to a fidelity that has data terms."""
        batch = self.batch.bind(source, structure)
        if self.order == "constant":
            return _BoundConstant(batch, self.refresh, self.adaptive)
        return _BoundControlVariate(batch, self.refresh)


class _BoundControlVariate(BoundControl):
    def __init__(self, batch: BoundMinibatch, refresh: int) -> None:
        super().__init__(batch)
        self._refresh = refresh

    def init(self, rng: np.random.Generator, position: Array) -> EvaluationRequests[Memory]:
        """Snapshots (n, d), and the sums of all data terms (n,) and of their gradients (n, d) there."""
        rows, d = position.shape
        solved = yield tuple(
            Request(self.batch.fidelity, position, "apart", block)
            for block in self.batch.blocks(rows, AT_ONCE // (d + 1))
        )
        energy, gradient = np.zeros(rows), np.zeros((rows, d))
        for found in solved:
            with np.errstate(invalid="ignore"):  # of solves that failed
                for total, part in zip((energy, gradient), data_part(found), strict=True):
                    total += part
        energy[~np.isfinite(energy)] = np.inf
        return {"snapshot": position.copy(), "energy": energy, "gradient": gradient}

    def updated(
        self, rng: np.random.Generator, memory: Memory, position: Array, iteration: int
    ) -> EvaluationRequests[Memory]:
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
    ) -> EvaluationRequests[Estimate]:
        snapshot, sum_there, slope_there = memory["snapshot"], memory["energy"], memory["gradient"]
        batch = self.batch.drawn(rng, len(position))._replace(reference=snapshot)
        known = [sum_there, (slope_there * (position - snapshot)).sum(axis=1)]
        return (yield from self.solved(position, gradient, batch, known, slope_there))


class _BoundConstant(_BoundControlVariate):
    """Energies less those of the snapshot; gradients of a plain minibatch."""

    def __init__(self, batch: BoundMinibatch, refresh: int, adaptive: bool) -> None:
        super().__init__(batch, refresh)
        self._adaptive = adaptive

    def init(self, rng: np.random.Generator, position: Array) -> EvaluationRequests[Memory]:
        """Snapshots, sums there, and the coefficient (n,), at first -1."""
        found = yield from super().init(rng, position)
        return found | {"coefficient": np.full(len(position), -1.0)}

    def updated(
        self, rng: np.random.Generator, memory: Memory, position: Array, iteration: int
    ) -> EvaluationRequests[Memory]:
        """New snapshots when they are due; before that, while there is a distance from the old ones, the
        coefficient."""
        if iteration % self._refresh:
            return memory
        coefficient = memory["coefficient"]
        if self._adaptive:
            coefficient = yield from self._followed(rng, memory, position)
        found = yield from super().updated(rng, memory, position, iteration)
        return found | {"coefficient": coefficient}

    def estimate(
        self, rng: np.random.Generator, position: Array, gradient: Gradients, memory: Memory
    ) -> EvaluationRequests[Estimate]:
        coefficient = memory["coefficient"]
        batch = self.batch.drawn(rng, len(position))
        batch = batch._replace(reference=memory["snapshot"], order=0, coefficient=coefficient)
        with np.errstate(invalid="ignore"):
            known = -coefficient * memory["energy"]
        return (yield from self.solved(position, gradient, batch, [known], 0.0))

    def _followed(self, rng: np.random.Generator, memory: Memory, position: Array) -> EvaluationRequests[Array]:
        rows = np.repeat(np.arange(len(position)), COEFFICIENT_BATCHES)
        batch = self.batch.drawn(rng, len(rows))
        here, there = yield (
            Request(self.batch.fidelity, position[rows], "apart", batch),
            Request(self.batch.fidelity, memory["snapshot"][rows], "apart", batch),
        )
        shape = (len(position), COEFFICIENT_BATCHES)
        at_here, at_there = (data_part(found)[0].reshape(shape) for found in (here, there))
        with np.errstate(invalid="ignore", divide="ignore"):  # of solves that failed, and of positions that stayed
            away = at_there - at_there.mean(axis=1, keepdims=True)
            new = -(at_here * away).sum(axis=1) / (away**2).sum(axis=1)
        old = memory["coefficient"]
        return np.where(np.isfinite(new), (1.0 - COEFFICIENT_GAIN) * old + COEFFICIENT_GAIN * new, old)
