"""Results of a comparison of fidelities, as plain data for tables, advice and a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from invsamp.fidelities.levels import Level
from invsamp.fidelities.pairs import Pair
from invsamp.protocols import Array


class States(NamedTuple):
    """The states at which the levels were compared, those that a level could not solve left out."""

    theta: Array  # (n, d)
    energies: Array  # (levels, n)
    weight: Array  # (n,) of the cold rung
    source: str


@dataclass(frozen=True, eq=False)
class Compared:
    """Results of `invsamp.fidelities.compare`; `FidelityComparison` describes the fields."""

    levels: tuple[Level, ...]
    pairs: tuple[Pair, ...]
    hot_temperatures: dict[str, float]
    rates: dict[str, Array]
    labels: tuple[str, ...]
    states: States
