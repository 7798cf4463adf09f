"""Draws in a row, as the rungs of a run recorded them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy.typing as npt

from invsamp.contract import Array


class Segment(NamedTuple):
    """Draws in a row of some rungs, as these recorded them."""

    positions: Array  # (rungs, chains, draws, d)
    statistics: dict[str, npt.NDArray[Any]]  # by name, each (rungs, chains, draws)
