"""Stretches of draws in compiled loops: all rungs up to their next swap attempts."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

from invsamp.engine.exchange.compiled_swaps import LadderSwaps
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.rungs.compiled_steps import BlockSwaps, CompiledSteps, Recorded, alike, compile_error, obstacle
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.evaluate.requests import done

#: Seconds of draws by Python before anything is compiled for a run: as long as compiling takes, about, so that a run
#: takes at most the double of what it would have if it had known how long it is.
PATIENCE = 0.5
#: Seconds of a stretch, at most: the signal that ends a run waits for that.
LONGEST = 0.25
#: What is reported of rungs whose steps are made by a loop.
COMPILED = "compiled"


class Recorder(Protocol):
    """Keeps draws of rungs as they are made."""

    def keep(self, rung: int) -> None:
        """A rung has reached a step whose draw is kept."""

    def keep_many(self, rung: int, recorded: Recorded) -> None:
        """A rung has made draws in a row."""


class CompiledBlocks:
    """Steps of rungs in compiled loops, where any of them can make some and it pays. They are those of Python.

    Parameters
    ----------
    rungs : sequence of RungChains
    exchange : Exchange, optional
    """

    def __init__(self, rungs: Sequence[RungChains], exchange: Exchange | None) -> None:
        self._rungs, self._exchange = rungs, exchange
        self._begun = perf_counter()
        self._groups: list[tuple[list[int], CompiledSteps | None]] | None = None
        self._pace = 0.0  # seconds of a step
        self._python = 0
        #: How the steps of each rung are made: `COMPILED`, or by Python and why. None: Python makes them so far.
        self.execution: list[str] | None = None

    def ready(self) -> bool:
        """Whether the next steps are to be made here."""
        if self._groups is None:
            self._python += 1
            spent = perf_counter() - self._begun
            if spent < PATIENCE:
                return False
            self._pace = spent / self._python
            self._groups = self._compiled()
        return bool(self._groups)

    def move(self, most: int, drawn: int, thin: int, recorder: Recorder) -> int:
        """At most so many steps of all rungs, up to the next swap attempts and with these; how many."""
        begin, exchange = perf_counter(), self._exchange
        steps = max(1, min(most, int(LONGEST / self._pace)))
        steps = steps if exchange is None else exchange.ahead(steps)
        assert self._groups is not None  # it is ready

        def record(k: int, found: Recorded | None) -> None:
            if found is None:
                recorder.keep(k)
            elif len(found.positions):
                recorder.keep_many(k, found)

        for group, compiled in self._groups:
            if compiled is not None:
                compiled.make(steps, drawn, thin, record)
                continue
            for made in range(1, steps + 1):  # a rung without attempts after every step
                self._rungs[group[0]].step()
                if made < steps and (drawn + made) % thin == 0:
                    record(group[0], None)
        if exchange is not None:
            done(exchange.attempt_swaps(), self._rungs[0].answer)
        self._pace = (perf_counter() - begin) / steps
        return steps

    def _compiled(self) -> list[tuple[list[int], CompiledSteps | None]]:
        """Rungs that go together, with the loops of those that have one; empty if none has."""
        rungs, exchange = self._rungs, self._exchange
        groups = [[0]] if exchange is None else exchange.groups
        reasons = [
            reason or compile_error(rung) for rung, reason in zip(rungs, obstacles(rungs, exchange), strict=True)
        ]
        swaps = BlockSwaps() if max(map(len, groups)) == 1 or exchange is None else LadderSwaps(exchange)
        if isinstance(swaps, LadderSwaps) and any(reasons):
            reasons = [next(filter(None, reasons))] * len(reasons)
        self.execution = executions(reasons)
        if all(reasons):
            return []
        chosen = [({k: rungs[k] for k in group}, any(reasons[k] for k in group)) for group in groups]
        return [(list(some), None if python else CompiledSteps(some, swaps)) for some, python in chosen]


def obstacles(rungs: Sequence[RungChains], exchange: Exchange | None) -> list[str | None]:
    """Why no loop can make the steps of each rung; None where one can."""
    reasons = [obstacle(rung) for rung in rungs]
    if exchange is not None and (largest := max(exchange.groups, key=len))[1:]:
        together = _together(largest, rungs, reasons)
        reasons = [reason or together for reason in reasons]
    return reasons


def executions(reasons: Sequence[str | None], otherwise: str = COMPILED) -> list[str]:
    """Report on how rungs' steps are made, by the reasons why Python makes them."""
    return [otherwise if reason is None else f"Python: {reason}" for reason in reasons]


def _together(group: Sequence[int], rungs: Sequence[RungChains], reasons: Sequence[str | None]) -> str | None:
    """Why no loop can make the steps of rungs that attempt swaps after each; None if one can."""
    if len(group) < len(rungs):
        return "some rungs attempt swaps after every step, others do not"
    if any(reasons):
        return "a rung with which swaps are attempted after every step has no loop"
    return None if alike(rungs) else "rungs that attempt swaps after every step differ in kernels or metrics"
