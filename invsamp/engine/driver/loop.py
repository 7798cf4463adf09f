"""The loop that makes all steps of a run, and a run whose draws stay in memory."""

from __future__ import annotations

from contextlib import nullcontext

from invsamp.engine.driver.draw_buffer import Draws
from invsamp.engine.driver.engine import Engine
from invsamp.engine.driver.progress_bar import Bar
from invsamp.engine.driver.signals import Interrupts, leave, reason


def advance(engine: Engine, progress: bool, draws: Draws, interrupts: Interrupts | None) -> int | None:
    """Make the steps that are left, or those up to a signal, which is returned; without ``interrupts`` none is heard.

    ``progress``: whether to show a bar.
    """
    bar = Bar(engine, progress)
    try:
        while engine.done < engine.steps and not engine.exhausted:
            engine.step(draws.ahead(), draws)
            bar.tick()
            if engine.done == engine.steps or engine.exhausted:
                engine.finish()
            draws.after_step()
            if interrupts is not None and (signal := interrupts.received or engine.signaled()):
                return signal
    finally:
        bar.close()
    return None


def in_memory(engine: Engine, progress: bool) -> Draws:
    """All draws, in memory; those that were made so far if the user interrupts them, or something fails."""
    kept, planned = Draws(engine, engine.plan.draws), engine.plan.draws
    # alone, a step that hangs can be left; several processes end after one
    together = Interrupts() if engine.processes()["count"] != 1 else None
    signal = None
    try:
        with together or nullcontext():
            if (signal := advance(engine, progress, kept, together)) is not None:
                leave(signal, f"stopped after {engine.done} of {engine.steps} steps")
    except (KeyboardInterrupt, Exception) as error:
        # several processes that stopped in the middle of a step cannot go on
        if not kept.count or (isinstance(error, KeyboardInterrupt) and together and signal is None):
            raise
        engine.stopped = f"{reason(error)}: the run holds the {kept.count} draws that were made, of {planned}"
    return kept
