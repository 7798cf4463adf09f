"""What rungs record of a run: draws in memory, until they are handed over."""

from __future__ import annotations

import numpy as np

from invsamp.engine.engine import Engine
from invsamp.engine.segment import Segment


class Draws:
    """Room for some draws of an engine's rungs; `append` keeps the present one.

    Parameters
    ----------
    engine : Engine
        At work: its chains are placed.
    capacity : int
        Number of draws that there is room for.
    """

    def __init__(self, engine: Engine, capacity: int) -> None:
        self._engine, self.capacity = engine, capacity
        rungs, (chains, d) = len(engine.rungs), engine.rungs[0].position.shape
        self._room = Segment(
            np.empty((rungs, chains, capacity, d)),
            np.empty((rungs, chains, capacity)),
            np.empty((rungs, capacity)),
            np.zeros((rungs, chains, capacity), dtype=np.intp),
        )
        self._rows = list(zip(engine.rungs, *self._room[:3], strict=True))
        self.count = 0

    def append(self) -> None:
        """Keep what the engine's chains are at now."""
        i = self.count
        for rung, positions, energies, step_sizes in self._rows:
            positions[:, i] = rung.position
            energies[:, i] = rung.estimate.energy
            step_sizes[i] = rung.step_size
        if self._engine.exchange is not None:
            for row, walkers in zip(self._room.walkers, self._engine.exchange.walkers, strict=True):
                row[:, i] = walkers.replica
        self.count = i + 1

    def take(self) -> Segment:
        """What was kept since the last time, counted by the engine; the room is free again.

        Views: they hold until the next `append`.
        """
        segment = self.view()
        self._engine.count(segment)
        self.count = 0
        return segment

    def view(self) -> Segment:
        """What was kept since the last time."""
        n = self.count
        positions, energies, step_sizes, walkers = self._room
        return Segment(positions[:, :, :n], energies[:, :, :n], step_sizes[:, :n], walkers[:, :, :n])
