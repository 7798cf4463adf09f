"""Stretches of draws in compiled loops: all rungs up to their next swap attempts."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.rungs.compiled_steps import CompiledSteps, Recorded, obstacle
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
        """A rung stands where a draw is due."""

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
        self._steps: list[CompiledSteps | None] | None = None
        self._pace = 0.0  # seconds of a step
        self._python = 0
        #: How the steps of each rung are made: `COMPILED`, or by Python and why.
        self.execution = [f"Python: less than {PATIENCE:g} s of draws so far"] * len(rungs)

    def ready(self) -> bool:
        """Whether the next steps are to be made here."""
        if self._steps is None:
            self._python += 1
            spent = perf_counter() - self._begun
            if spent < PATIENCE:
                return False
            self._pace = spent / self._python
            self._steps = self._compiled()
        return bool(self._steps)

    def move(self, most: int, drawn: int, thin: int, recorder: Recorder) -> int:
        """At most so many steps of all rungs, as many as come before they meet, and that meeting; how many."""
        begin, exchange = perf_counter(), self._exchange
        steps = max(1, min(most, int(LONGEST / self._pace)))
        steps = steps if exchange is None else exchange.ahead(steps)
        assert self._steps is not None  # it is ready
        for k, (rung, compiled) in enumerate(zip(self._rungs, self._steps, strict=True)):

            def record(found: Recorded | None, k: int = k) -> None:
                if found is None:
                    recorder.keep(k)
                elif len(found.positions):
                    recorder.keep_many(k, found)

            if compiled is not None:
                compiled.make(steps, drawn, thin, record)
                continue
            for made in range(1, steps + 1):
                rung.step()
                if made < steps and (drawn + made) % thin == 0:
                    record(None)
        if exchange is not None:
            done(exchange.meet(), self._rungs[0].answer)
        self._pace = (perf_counter() - begin) / steps
        return steps

    def _compiled(self) -> list[CompiledSteps | None]:
        """The loops of the rungs that have one; empty if none has."""
        reasons = [obstacle(rung) for rung in self._rungs]
        if self._exchange is not None and any(len(group) > 1 for group in self._exchange.groups):
            reasons = ["rungs attempt swaps after every step"] * len(reasons)
        self.execution = [COMPILED if reason is None else f"Python: {reason}" for reason in reasons]
        found = [None if reason else CompiledSteps(rung) for rung, reason in zip(self._rungs, reasons, strict=True)]
        return found if any(found) else []
