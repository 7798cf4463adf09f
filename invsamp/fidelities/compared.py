"""What a comparison of fidelities has found out, as plain data: tables, advice and a figure are made of it."""

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
    """What `invsamp.fidelities.compare` found out; `FidelityComparison` says what these are."""

    levels: tuple[Level, ...]
    pairs: tuple[Pair, ...]
    hot_temperatures: dict[str, float]
    rates: dict[str, Array]
    labels: tuple[str, ...]
    states: States
