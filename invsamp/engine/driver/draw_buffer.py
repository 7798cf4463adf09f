"""The record of rungs in a run: draws in memory, with named numbers of each, until they are taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from invsamp.engine.driver.engine import Engine
from invsamp.engine.driver.informed_coefficients import informed_coefficients
from invsamp.engine.driver.running_moments import RunningMoments
from invsamp.engine.rungs.compiled_steps import Recorded
from invsamp.engine.rungs.kernel_contract_check import check_statistics
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.kernels.contract import Info
from invsamp.protocols import AnyArray, Array

#: What a rung reports of each draw: name -> type, and how it is read, (chains,) or one number for all chains.
Statistics = dict[str, tuple[type, Callable[[], object]]]


class Segment(NamedTuple):
    """Draws in a row of some rungs, as these recorded them."""

    positions: Array | None  # (rungs, chains, draws, d); None where not all parameters are kept
    statistics: dict[str, AnyArray]  # by name, each (rungs, chains, draws)
    recorded: dict[str, AnyArray]  # of the cold rung, by name, each (chains, draws, *shape)
    thinned: dict[str, AnyArray]  # every k-th draw of large blocks of it, by name, each (chains, draws, *shape)
    between: Array | None = None  # (steps, chains, draws, d) of the second rung, on the way to each draw


class Draws:
    """Room for some draws of an engine's rungs; `append` keeps the present one, `after_step` if it is due.

    Parameters
    ----------
    engine : Engine
        At work: its chains are placed.
    capacity : int
        Number of draws that there is room for.
    """

    def __init__(self, engine: Engine, capacity: int) -> None:
        self._engine, self.capacity = engine, capacity
        self._taken = engine.kept  # draws that were taken before
        self._open()

    def _open(self) -> None:
        """Make room for the rungs that there are."""
        engine, capacity, rungs = self._engine, self.capacity, self._engine.rungs
        self._rungs, self._counts = [(rung, statistics_of(rung, engine)) for rung in rungs], [0] * len(rungs)
        chains, d = rungs[0].position.shape
        whole = engine.record.whole
        self._positions = np.empty((len(rungs), chains, capacity if whole else 0, d))
        # at the places where the chains stand now: what does not fit is refused before the run
        self._recorded = {
            name: np.empty((chains, capacity, *values.shape[1:]), values.dtype)
            for name, values in self._found(rungs[0].position).items()
        }
        self._kept: dict[str, AnyArray] = {
            # where a rung has no weights its draws count alike
            name: np.full((len(rungs), chains, capacity), np.nan if kind is float and name != "log_weight" else 0, kind)
            for name, kind in kinds_of(engine).items()
        }
        shapes = engine.problem.shapes
        self.moments = {name: RunningMoments(math.prod(shapes[name])) for name in engine.record.moments}
        every = engine.record.every
        self.thinned = {
            name: np.empty((chains, -(-capacity // every), *shapes[name]), np.float32)
            for name, moments in self.moments.items()
        }
        shape = None if engine.between is None or not whole else engine.between.shape
        self._between = None if shape is None else np.empty((*shape[:2], capacity, d))

    @property
    def count(self) -> int:
        """Draws that all rungs have made."""
        return min(self._counts)

    def ahead(self) -> int:
        """Steps that may be made before the next look."""
        return self._engine.steps

    def after_step(self) -> None:
        """Keep a draw if one is due after a step; none of those before where draws begin anew."""
        made = self._engine.drawn
        if made == 0:
            self._counts, self._taken = [0] * len(self._counts), 0
            for moments in self.moments.values():
                moments.begin()
        elif made % self._engine.plan.thin == 0:
            self.append()

    def append(self) -> None:
        """Keep what the engine's chains are at now.

        Raises
        ------
        PartError
            If a kernel does not report what it declares.
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
        """The same of one rung, where each makes its steps by itself; `after_step` comes when all have made them."""
        engine = self._engine
        if self._rungs[0][0] is not engine.rungs[0]:  # warm-up has made another ladder
            self._open()
        i, (rung, statistics), kernel = self._counts[k], self._rungs[k], engine.rungs[k].settings.kernel
        if engine.record.whole:
            self._positions[k, :, i] = rung.position
        if kernel.statistics or rung.info.statistics:
            check_statistics(kernel, rung.info, len(rung.position))
        for name, (_, read) in statistics.items():
            self._kept[name][k, :, i] = read()
        if engine.exchange is not None:
            self._kept["replica"][k, :, i] = engine.exchange.replica_indices.replica[k]
        if k == 0:
            self._record(i, engine.rungs[0].position)
        self._counts[k] = i + 1

    def keep_many(self, k: int, recorded: Recorded) -> None:
        """The same of draws that one rung has made in a row."""
        engine, i, n = self._engine, self._counts[k], len(recorded.positions)
        self._positions[k, :, i : i + n] = recorded.positions.swapaxes(0, 1)
        for name in self._rungs[k][1]:
            if name == "energy":
                values: AnyArray = recorded.energies.T
            elif name == "prior":
                assert recorded.priors is not None  # the target separates it
                values = recorded.priors.T
            elif name == "step_size":
                values = recorded.step_sizes
            elif name == "acceptance_rate":
                assert recorded.log_ratios is not None  # the kernel is adjusted
                values = recorded.log_ratios.T
            else:
                values = recorded.statistics[name].T
            self._kept[name][k, :, i : i + n] = values
        if engine.exchange is not None:
            replica = engine.exchange.replica_indices.replica[k][:, None]
            self._kept["replica"][k, :, i : i + n] = replica if recorded.replicas is None else recorded.replicas.T
        if k == 0 and (self._recorded or self.moments):
            for number, position in enumerate(recorded.positions):
                self._record(i + number, position)
        self._counts[k] = i + n

    def _record(self, i: int, position: Array) -> None:
        number = self._thinned(i)

        def seen(name: str, values: Array) -> None:
            self.moments[name].add(values)
            if self._thinned(i + 1) > number:
                self.thinned[name][:, number] = values.reshape(len(values), *self._engine.problem.shapes[name])

        found = self._found(position, seen)
        for name, values in found.items():
            room = self._recorded[name]
            if values.shape[1:] != room.shape[2:]:
                shapes = f"{values.shape[1:]} after {room.shape[2:]}"
                raise ValueError(f"record[{name!r}] must return one shape for all theta, got {shapes}")
            room[:, i] = values

    def _thinned(self, i: int) -> int:
        """How many of the first i draws here are among every k-th one of the run."""
        every = self._engine.record.every
        return -(-(self._taken + i) // every) - -(-self._taken // every)

    def _found(self, position: Array, seen: Callable[[str, Array], None] | None = None) -> dict[str, AnyArray]:
        """The record of the cold rung's positions (chains, d); see `Record.of`."""
        engine = self._engine
        found = engine.record.of(engine.problem, position, seen)
        informed = informed_coefficients(engine.rungs[0], position)
        return {name: values for name, values in informed.items() if name not in engine.problem.shapes} | found

    def take(self) -> Segment:
        """The draws since the last call, counted by the engine; the room is free again.

        Views: they hold until the next `after_step`.
        """
        segment = self.view()
        if segment.positions is not None:
            self._engine.count(segment.positions)
        self._taken += self.count
        self._counts = [0] * len(self._counts)
        return segment

    def view(self) -> Segment:
        """The draws since the last call, with quantities derived from them."""
        kept = {name: values[:, :, : self.count] for name, values in self._kept.items()}
        found: dict[str, AnyArray] = {}
        for name, values in kept.items():
            found[name] = np.exp(np.minimum(values, 0.0)) if name == "acceptance_rate" else values
            if name == "prior":
                found["misfit"] = kept["energy"] - values
        positions = self._positions[:, :, : self.count] if self._engine.record.whole else None
        recorded = {name: values[:, : self.count] for name, values in self._recorded.items()}
        between = None if self._between is None else self._between[:, :, : self.count]
        thinned = {name: values[:, : self._thinned(self.count)] for name, values in self.thinned.items()}
        return Segment(positions, found, recorded, thinned, between)


def kinds_of(engine: Engine) -> dict[str, type]:
    """Names and types of what is kept of each draw beside its position; the chains are placed.

    What not all rungs report is NaN for the others, and so a float.
    """
    rungs = [statistics_of(rung, engine) for rung in engine.rungs]
    found: dict[str, type] = {}
    for name in dict.fromkeys(name for one in rungs for name in one):
        kinds = {one[name][0] if name in one else float for one in rungs}
        found[name] = kinds.pop() if len(kinds) == 1 else float
    return found if engine.exchange is None else found | {"replica": int}


def statistics_of(rung: RungChains, engine: Engine) -> Statistics:
    """The statistics of a rung at each draw; its chains are placed.

    In the place of the acceptance rate stands its log, or the log of the Metropolis ratio (`invsamp.extending.Info`).
    """
    found: Statistics = {"energy": (float, lambda: rung.estimate.energy)}
    if rung.estimate.prior is not None:
        found["prior"] = float, lambda: np.nan if rung.estimate.prior is None else rung.estimate.prior
    if any(other.schedule is not None for other in engine.rungs):
        found["step_size"] = float, lambda: rung.step_size
    if rung.target.log_weight(rung.estimate, rung.target_memory) is not None:
        found["log_weight"] = float, lambda: rung.target.log_weight(rung.estimate, rung.target_memory)
    if rung.settings.kernel.adjusted:
        found["acceptance_rate"] = float, lambda: _log_acceptance(rung.info)
    for name, kind in rung.settings.kernel.statistics.items():
        found[name] = kind, partial(_kernel_statistic, rung, name)
    return found


def _kernel_statistic(rung: RungChains, name: str) -> AnyArray:
    return rung.info.statistics[name]


def _log_acceptance(info: Info) -> Array | float:
    """Logs of acceptance rates (chains,), where these are below 0; NaN of a step that has none."""
    if info.log_ratio is not None:
        return info.log_ratio
    if info.acceptance is None:
        return np.nan
    with np.errstate(divide="ignore"):
        return np.log(info.acceptance)
