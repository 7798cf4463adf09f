"""Draws in a row, as the rungs of a run recorded them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array


class Segment(NamedTuple):
    """Draws in a row of some rungs, as these recorded them."""

    positions: Array  # (rungs, chains, draws, d)
    energies: Array  # (rungs, chains, draws)
    step_sizes: Array  # (rungs, draws): of the step that led to the draw
    walkers: npt.NDArray[np.intp]  # (rungs, chains, draws): which walker is at each rung
