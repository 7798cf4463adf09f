"""The whole potential, without noise."""

from __future__ import annotations

import numpy as np

from invsamp.estimators.contract import BoundEstimator, Source
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request, Structure
from invsamp.protocols import Array, Gradients
from invsamp.stored import stored_dataclass


def exact() -> Exact:
    """Estimator without noise: the whole potential.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.ladder.Rung(estimator=iv.estimators.exact()).estimator
    Exact()
    """
    return Exact()


@stored_dataclass
class Exact:
    """The potential itself."""

    def bind(self, source: Source, structure: Structure | None) -> BoundEstimator:
        """Join to a fidelity."""
        return _BoundExact(source.fidelity)


class _BoundExact:
    exact = exact_energy = True
    degrees_of_freedom: int | None = None

    def __init__(self, fidelity: str) -> None:
        self._fidelity = fidelity

    def estimate(
        self, rng: np.random.Generator, position: Array, gradient: Gradients = True
    ) -> EvaluationRequests[Estimate]:
        (found,) = yield (Request(self._fidelity, position, gradient),)
        return found
