"""Progress bar of a run, on the process that shows it, and messages about the budget of evaluations."""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import time
import warnings
from typing import Any

from invsamp.engine.driver.engine import Engine
from invsamp.warning_codes import InvsampWarning

#: Seconds between two looks of the bar, where it is drawn over itself and where each one is a line of a file.
LIVE, LOGGED = 0.5, 30.0
_LOG = logging.getLogger("invsamp")


def tqdm(**settings: Any) -> Any:
    """A bar of tqdm, which is imported on first use."""
    from tqdm import TqdmWarning

    with warnings.catch_warnings():  # of notebooks without ipywidgets, in which bars are text
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm import auto
    return auto.tqdm(**settings)


class Bar:
    """Progress bar; touches tqdm when it is time only, because a step may take microseconds, or minutes.

    Where it cannot be shown any more (a terminal that was closed, a log on a full disk) the run goes on without. Shown
    or not, it logs the budget of evaluations, and warns once when half of it is spent.
    """

    def __init__(self, engine: Engine, shown: bool) -> None:
        # a process without a terminal, a daemon, may have no standard error at all
        shown, steps = shown and sys.stderr is not None, engine.steps
        # every call of `update` draws: when, is chosen here
        how = {"mininterval": 0, "miniters": 1, "dynamic_ncols": True, "unit": "step"}
        try:
            self._bar = tqdm(total=steps, initial=engine.done, disable=not shown, **how)
            # in a notebook it is a widget
            live = shown and (hasattr(self._bar, "container") or sys.stderr.isatty())
        except Exception:
            self._bar, live, shown = tqdm(disable=True), False, False
        self._interval = (LIVE if live else LOGGED) if shown else math.inf
        self._engine, self._shown, self._last = engine, engine.done, time.monotonic()
        self._spending = engine.phases.evaluation_budget
        #: Of a run that goes on, the process before has said it.
        self._noticed = self._spending.noticeable
        _LOG.info("budget of %s evaluations for %s steps", f"{self._spending.budget:,}", f"{steps:,}")

    def tick(self) -> None:
        """Look whether it is time, after a step, or some."""
        if not self._noticed and self._spending.noticeable:
            self._noticed = True
            self._notice()
        if (now := time.monotonic()) - self._last >= self._interval:
            self._last = now
            self._show()

    def _notice(self) -> None:
        """Report what is slow: as a warning, where the budget will not do at this rate."""
        engine = self._engine
        message = self._spending.notice(engine.done, engine.steps, warming=engine.warming)
        if self._spending.expected(engine.done, engine.steps) > self._spending.budget:
            _warn(message)
        else:
            _LOG.info(message)

    def close(self) -> None:
        """Take the bar down, with all steps counted."""
        if not self._bar.disable:
            self._show()
        with contextlib.suppress(Exception):
            self._bar.close()

    def _show(self) -> None:
        try:
            self._bar.set_postfix(self._facts(), refresh=False)
            self._bar.total = self._engine.steps
            self._bar.update(self._engine.done - self._shown)
        except Exception:  # of a terminal or a widget that is gone: a bar must not end a run
            self._bar.disable, self._interval = True, math.inf
        self._shown = self._engine.done

    def _facts(self) -> dict[str, str]:
        facts = {name: f"{potential.evaluations} solves" for name, potential in self._engine.potentials.items()}
        facts["budget"] = f"{self._spending.budget}"
        exchange = self._engine.exchange
        if exchange is not None and exchange.attempts.sum():
            facts["swaps"] = f"{exchange.accepts.sum() / exchange.attempts.sum():.0%}"
        return facts


def _warn(message: str) -> None:
    """Warn; where warnings are errors, log: a notice must not end a run."""
    try:
        warnings.warn(message, InvsampWarning, stacklevel=4)
    except Warning:
        _LOG.warning(message)
