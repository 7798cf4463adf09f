"""What a comparison of fidelities has found out, as plain data: tables, advice and a figure are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from invsamp.contract import Array
from invsamp.fidelities.levels import Level
from invsamp.fidelities.pairs import Pair


class States(NamedTuple):
    """The states at which the levels were compared, those that a level could not solve left out."""

    theta: Array  # (n, d)
    energies: Array  # (levels, n)
    weight: Array  # (n,) of the cold rung
    source: str


@dataclass(frozen=True, eq=False)
class Compared:
    """What `invsamp.compare_fidelities` found out.

    Attributes
    ----------
    levels : tuple of Level
        From the coarsest to the finest.
    pairs : tuple of Pair
        Neighbours on the proposed ladder, from the coldest.
    hot_temperatures : dict of str to float
        Hottest temperature that the states tell about at which a level still swaps with the cold rung at an expected
        rate of 0.2; NaN where there is none.
    rates : dict of str to ndarray
        Expected swap rate of every level with the cold rung at `invsamp.fidelities.pairs.TEMPERATURES`.
    labels : tuple of str
        Names of theta's columns.
    states : States
    """

    levels: tuple[Level, ...]
    pairs: tuple[Pair, ...]
    hot_temperatures: dict[str, float]
    rates: dict[str, Array]
    labels: tuple[str, ...]
    states: States
