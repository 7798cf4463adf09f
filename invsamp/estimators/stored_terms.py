r"""SAGA: minibatches of terms less what they were when they were last seen.

.. math:: \hat U(\theta) = U_0(\theta) + \sum_i t_i + \frac{G}{n} \sum_{i \in B} [l_i(\theta) - t_i],

:math:`t_i` the value of term i where a chain was when it was last drawn to be remembered; gradients likewise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance
from invsamp.estimators.contract import BoundEstimator, Source
from invsamp.estimators.minibatches import BoundControl, Minibatch, data_part, minibatch
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Memory, Structure
from invsamp.protocols import Array, Gradients
from invsamp.stored import stored_dataclass


def saga(size: int, groups: npt.ArrayLike | None = None) -> Saga:
    """Minibatches less a table of the last value of each term: no pass over all data after the first.

    A baseline. After each step one more batch is evaluated and stored, so an estimate costs two batches. On inverse
    problems its noise is about that of `control_variate`'s gradients and half that of its published energies. The
    table, G (d + 1) numbers for each chain, moves with the position. The noise depends on where a chain has been, so
    swaps are exact only as far as it is small.

    Parameters
    ----------
    size : int, >= 2
        Terms or groups in a batch, n.
    groups : array_like of int, optional
        As of `minibatch`.

    Raises
    ------
    ValueError
        As `minibatch`.

    References
    ----------
    Defazio, Bach and Lacoste-Julien (2014), NeurIPS; for Langevin: Dubey et al. (2016), NeurIPS, Algorithm 1.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.samplers.sgld(0.01, estimator=iv.estimators.saga(10)).rungs[0].estimator
    Saga(batch=Minibatch(size=10))
    """
    return Saga(minibatch(size, groups))


@stored_dataclass
class Saga:
    """Minibatches less a table. Made by `saga`."""

    batch: Minibatch

    def __post_init__(self) -> None:
        instance("batch", self.batch, Minibatch, "a minibatch")

    def bind(self, source: Source, structure: Structure | None) -> BoundEstimator:
        """Join to a fidelity that has data terms."""
        return _BoundSaga(self.batch.bind(source, structure))


class _BoundSaga(BoundControl):
    def init(self, rng: np.random.Generator, position: Array) -> EvaluationRequests[Memory]:
        """The terms (n, G, 1 + d) where chains begin."""
        members = np.tile(np.arange(self.batch.total), (len(position), 1))
        return {"terms": (yield from self._terms(position, members))}

    def updated(
        self, rng: np.random.Generator, memory: Memory, position: Array, iteration: int
    ) -> EvaluationRequests[Memory]:
        """Some terms as they are now, of the chains for which all of these can be solved."""
        members = self.batch.drawn_members(rng, len(position))
        new = yield from self._terms(position, members)
        rows = np.flatnonzero(np.isfinite(new).all(axis=(1, 2)))
        terms = memory["terms"].copy()
        terms[rows[:, None], members[rows]] = new[rows]
        return {"terms": terms}

    def estimate(
        self, rng: np.random.Generator, position: Array, gradient: Gradients, memory: Memory
    ) -> EvaluationRequests[Estimate]:
        members, terms = self.batch.drawn_members(rng, len(position)), memory["terms"]
        known, whole = terms[np.arange(len(position))[:, None], members], terms.sum(axis=1)
        batch = self.batch.of(members)._replace(known=known)
        return (yield from self.solved(position, gradient, batch, [whole[:, 0]], whole[:, 1:]))

    def _terms(self, position: Array, members: npt.NDArray[np.intp]) -> EvaluationRequests[Array]:
        (found,) = yield (self.batch.each(position, members),)
        energies, gradients = data_part(found)
        return np.concatenate([energies[:, None], gradients], axis=1).reshape(*members.shape, -1)
