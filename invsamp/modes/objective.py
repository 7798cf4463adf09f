"""Objective of local optimization: an energy with the scale of its coordinates, within a domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request
from invsamp.protocols import Array, Gradients

#: Positions (k, d) -> energies and gradients.
Evaluate = Callable[[Array], EvaluationRequests[Estimate]]


class Objective(NamedTuple):
    """An energy to minimize."""

    evaluate: Evaluate
    scale: Array  # (d,) of each coordinate; where descents begin also (n, d)
    domain: Domain

    def energies(self, points: Array, outside: float = np.inf) -> EvaluationRequests[Array]:
        """Energies (k,) at points (k, d); those beyond the domain have the energy ``outside``."""
        energies, inside = np.full(len(points), outside), self.domain.contains(points)
        if inside.any():
            energies[inside] = (yield from self.evaluate(points[inside])).energy
        return energies


def of_fidelity(fidelity: str, gradient: Gradients = True) -> Evaluate:
    """Function that evaluates a fidelity."""

    def evaluate(at: Array) -> EvaluationRequests[Estimate]:
        (found,) = yield (Request(fidelity, at, gradient),)
        return found

    return evaluate
