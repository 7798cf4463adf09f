"""Draws in a row, as the rungs of a run recorded them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from invsamp.contract import Array


class Segment(NamedTuple):
    """Draws in a row of some rungs, as these recorded them."""

    positions: Array | None  # (rungs, chains, draws, d); None where not all parameters are kept
    statistics: dict[str, npt.NDArray[Any]]  # by name, each (rungs, chains, draws)
    recorded: dict[str, npt.NDArray[Any]]  # of the cold rung, by name, each (chains, draws, *shape)
    between: Array | None = None  # (steps, chains, draws, d) of the second rung, on the way to each draw
