"""Draws in a row, as the rungs of a run recorded them."""

from __future__ import annotations

from typing import NamedTuple

from invsamp.protocols import AnyArray, Array


class Segment(NamedTuple):
    """Draws in a row of some rungs, as these recorded them."""

    positions: Array | None  # (rungs, chains, draws, d); None where not all parameters are kept
    statistics: dict[str, AnyArray]  # by name, each (rungs, chains, draws)
    recorded: dict[str, AnyArray]  # of the cold rung, by name, each (chains, draws, *shape)
    between: Array | None = None  # (steps, chains, draws, d) of the second rung, on the way to each draw
