"""What rungs record of a run: draws in memory, until they are handed over."""

from __future__ import annotations

import numpy as np

from invsamp.engine.driver.engine import Engine
from invsamp.engine.driver.sample_stats import declared, derived, joined, recorded
from invsamp.engine.driver.segment import Segment
from invsamp.protocols import AnyArray


class Draws:
    """Room for some draws of an engine's rungs; `append` keeps the present one, `follow` if it is due.

    Parameters
    ----------
    engine : Engine
        At work: its chains are placed.
    capacity : int
        Number of draws that there is room for.
    """

    def __init__(self, engine: Engine, capacity: int) -> None:
        self._engine, self.capacity = engine, capacity
        self._open()

    def _open(self) -> None:
        """Make room for the rungs that there are."""
        engine, capacity = self._engine, self.capacity
        self._counts = [0] * len(engine.rungs)
        rungs, (chains, d) = len(engine.rungs), engine.rungs[0].position.shape
        whole = engine.record.whole
        self._positions = np.empty((rungs, chains, capacity if whole else 0, d))
        # at the places where the chains stand now: what does not fit is told before the run
        self._recorded = {
            name: np.empty((chains, capacity, *values.shape[1:]), values.dtype)
            for name, values in engine.record.of(engine.problem, engine.rungs[0].position).items()
        }
        self._kept: dict[str, AnyArray] = {
            # where a rung has no weights its draws count alike
            name: np.full((rungs, chains, capacity), np.nan if kind is float and name != "log_weight" else 0, kind)
            for name, kind in told(engine).items()
        }
        shape = None if engine.between is None or not whole else engine.between.shape
        self._between = None if shape is None else np.empty((*shape[:2], capacity, d))
        self._rungs = [
            (rung, names, self._positions[k], {name: self._kept[name][k] for name in names})
            for k, (rung, names) in enumerate(zip(engine.rungs, _by_rung(engine), strict=True))
        ]

    @property
    def count(self) -> int:
        """Draws that all rungs have made."""
        return min(self._counts)

    def follow(self) -> None:
        """Keep a draw if one is due after a step; none of those before where draws begin anew."""
        made = self._engine.drawn
        if made == 0:
            self._counts = [0] * len(self._counts)
        elif made % self._engine.plan.thin == 0:
            self.append()

    def append(self) -> None:
        """Keep what the engine's chains are at now.

        Raises
        ------
        PartError
            If a kernel does not tell what it declares.
        """
        i, engine = self.count, self._engine
        if engine.record.whole and self._between is None and engine.between is not None:
            self._open()
        for k in range(len(engine.rungs)):
            self.keep(k)
        if not engine.record.whole:
            engine.count(np.stack([rung.position for rung in engine.rungs])[:, :, None])
        if self._between is not None:
            self._between[:, :, i] = engine.between

    def keep(self, k: int) -> None:
        """The same of one rung, where each makes its steps by itself; `follow` comes when all have made them."""
        engine = self._engine
        if self._rungs[0][0] is not engine.rungs[0]:  # warm-up has made another ladder
            self._open()
        i, (rung, names, positions, kept) = self._counts[k], self._rungs[k]
        if engine.record.whole:
            positions[:, i] = rung.position
        for name, values in recorded(rung, names).items():
            kept[name][:, i] = values
        if engine.exchange is not None:
            self._kept["replica"][k, :, i] = engine.exchange.replica_indices.replica[k]
        if k == 0:
            self._record(i)
        self._counts[k] = i + 1

    def _record(self, i: int) -> None:
        engine = self._engine
        for name, values in engine.record.of(engine.problem, engine.rungs[0].position).items():
            room = self._recorded[name]
            if values.shape[1:] != room.shape[2:]:
                told = f"{values.shape[1:]} after {room.shape[2:]}"
                raise ValueError(f"record[{name!r}] must return one shape for all theta, got {told}")
            room[:, i] = values

    def take(self) -> Segment:
        """What was kept since the last time, counted by the engine; the room is free again.

        Views: they hold until the next `follow`.
        """
        segment = self.view()
        if segment.positions is not None:
            self._engine.count(segment.positions)
        self._counts = [0] * len(self._counts)
        return segment

    def view(self) -> Segment:
        """What was kept since the last time."""
        kept = {name: values[:, :, : self.count] for name, values in self._kept.items()}
        positions = self._positions[:, :, : self.count] if self._engine.record.whole else None
        recorded = {name: values[:, : self.count] for name, values in self._recorded.items()}
        between = None if self._between is None else self._between[:, :, : self.count]
        return Segment(positions, derived(kept), recorded, between)


def told(engine: Engine) -> dict[str, type]:
    """Names and types of what is kept of each draw beside its position; the chains are placed."""
    found = joined(_by_rung(engine))
    return found if engine.exchange is None else found | {"replica": int}


def _by_rung(engine: Engine) -> list[dict[str, type]]:
    scheduled = any(rung.schedule is not None for rung in engine.rungs)
    return [declared(rung, scheduled) for rung in engine.rungs]
