"""Costs of solves of a posterior's fidelities: as stated or counted, never by a clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from invsamp.posing.posterior.posterior import Posterior

#: How many times more expensive than the fidelity before it one is taken for, where costs are unknown.
ASSUMED = 10.0

Source = Literal["stated", "counted", "assumed"]


class Costs(NamedTuple):
    """Cost of a solve of each fidelity, in a unit that they share."""

    of: Mapping[str, float]
    source: Source

    def ratio(self, fidelity: str, finer: str) -> float:
        """How many times cheaper than a finer one a fidelity is."""
        return self.of[finer] / self.of[fidelity]


def costs_of(posterior: Posterior) -> Costs:
    """As the posterior states them, as all its models count them (``work``), or else each ten times the one before.

    The draws of a run depend on them, by how often the fine model decides and by whether it is to: a clock would make
    them others each time.
    """
    if posterior.costs is not None:
        return Costs(posterior.costs, "stated")
    counted = {name: _work(model) for name, model in posterior.forward.items()}
    if all(work is not None for work in counted.values()):
        return Costs({name: work for name, work in counted.items() if work is not None}, "counted")
    return Costs({name: ASSUMED**k for k, name in enumerate(posterior.fidelities)}, "assumed")


def _work(model: object) -> float | None:
    counted = getattr(model, "work", None)
    return float(counted) if counted is not None and math.isfinite(counted) and counted > 0.0 else None
