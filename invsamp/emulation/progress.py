"""Progress of an emulation: a bar that counts simulations, and what it says before the first one."""

from __future__ import annotations

import logging
import sys

from invsamp.emulation.runs.simulation_runs import Simulations
from invsamp.engine.driver.progress_bar import tqdm

_LOG = logging.getLogger("invsamp")


class Bar:
    """A bar of simulations; the time that is left is that of a budget that is spent.

    Parameters
    ----------
    simulations : Simulations
    batch : int
    shown : bool
    """

    def __init__(self, simulations: Simulations, batch: int, shown: bool) -> None:
        shown = shown and sys.stderr is not None
        self._bar = tqdm(total=simulations.budget, disable=not shown, unit="sim", dynamic_ncols=True)
        self._done = 0
        simulations.watch = self._update
        _LOG.info(
            "at most %d simulations in waves of %d: some %d times as long as a wave takes",
            simulations.budget,
            batch,
            -(-simulations.budget // batch),
        )
        if shown:
            self._bar.set_postfix_str(f"at most {-(-simulations.budget // batch)} waves of {batch}")

    def say(self, line: str) -> None:
        """Progress of the emulation."""
        _LOG.info("emulation: %s", line)
        self._bar.set_postfix_str(line)

    def close(self) -> None:
        """Take the bar down."""
        self._bar.close()

    def _update(self, simulations: Simulations) -> None:
        self._bar.update(simulations.made - self._done)
        self._done = simulations.made
