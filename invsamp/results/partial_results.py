"""After the last step: the draws are returned, whatever fails on the way, with messages that say what did."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from invsamp.diagnostics.report import Report
from invsamp.engine.driver.draw_buffer import Draws, Segment
from invsamp.engine.driver.engine import Engine
from invsamp.protocols import Array, Problem
from invsamp.results.arrays import Arrays
from invsamp.results.run import Run
from invsamp.storage.contents import attributes_of, constants, groups_of, mean_and_sd
from invsamp.warning_codes import InvsampWarning, coded

Item = TypeVar("Item")
#: What an impatient user or a mistake in a user's part may raise; the end of the process is none of them.
_FAILURES = (Exception, KeyboardInterrupt)


def completed_run(engine: Engine, kept: Draws) -> Run:
    """The run in memory, from what was kept of it.

    A part of it that cannot be made is left out, and named in ``run.report["warnings"]``.
    """
    problem, faults = engine.problem, _Faults()
    draws = faults.tried("the count of the draws outside of the domain", kept.take, kept.view)
    report = faults.tried("the report", engine.report, lambda: _planned(engine))
    positions = draws.positions
    if positions is None:
        moments = {name: mean_and_sd(own.sums, own.count) for name, own in kept.moments.items()}
        return _recorded(engine, draws, faults.added_to(report), moments)
    theta = faults.tried("the conversion to natural parameters", lambda: _natural(problem, positions), lambda: None)
    if theta is None:
        faults.messages[-1] += ". The draws are in the sampler's own coordinates, as the parameter 'position'"
        return _plain("position", positions, draws.statistics, report, faults)

    def whole() -> Run:
        complete = faults.added_to(report)
        shapes, support = dict(problem.shapes), problem.support
        between = None if draws.between is None else _natural(problem, draws.between)
        return Run.from_arrays(
            problem, shapes, theta, draws.statistics, complete, support, recorded=draws.recorded, between=between
        )

    run = faults.tried("the record of the run", whole, lambda: None)
    if run is None:
        faults.messages[-1] += ". The draws are complete, as the parameter 'theta'"
        return _plain("theta", theta, {}, _planned(engine), faults)
    return run


def announce(run: Run, stacklevel: int) -> None:
    """Warn whoever is so many calls away, counted from the caller of this, of all that is wrong with a run."""
    faults = _Faults()
    messages = faults.tried("the diagnostics", run.warnings, lambda: list(run.report.get("warnings", [])))
    for fault in faults.messages:
        messages.append(f"{fault}. No checks were made: run.warnings() tries again")
    for message in messages:
        warn(message, stacklevel + 1)


def warn(message: str, stacklevel: int) -> None:
    """Warn, counted as in `announce`; where warnings are errors, print: an error would take the draws along."""
    try:
        warnings.warn(message, InvsampWarning, stacklevel=stacklevel + 1)
    except _FAILURES:
        with contextlib.suppress(Exception):  # a terminal that is gone
            print(f"warning: {message}", file=sys.stderr)


def _recorded(engine: Engine, draws: Segment, report: Report, moments: dict[str, Array]) -> Run:
    """The run of which not all parameters are kept: those that are stand among what was recorded."""
    problem, kept = engine.problem, engine.record.kept(engine.problem)
    groups = groups_of(None, {}, draws.statistics, draws.recorded)
    groups |= constants(problem, dict(problem.shapes), report.get("seed"), {*kept, *moments})
    if moments:
        groups["moments"] = {name: own.reshape(2, *problem.shapes[name]) for name, own in moments.items()}
    if draws.thinned:
        groups["thinned"] = draws.thinned
    shapes = {name: values.shape[2:] for name, values in draws.recorded.items() if name not in kept}
    return Run(Arrays(groups, attributes_of(kept, report, None, shapes, engine.record.every)))


class _Faults:
    """Messages of failures after the last step."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def tried(self, what: str, make: Callable[[], Item], instead: Callable[[], Item]) -> Item:
        """Result of ``make``, or of ``instead`` if it fails."""
        try:
            return make()
        except _FAILURES as error:
            what_failed = f"after the last step {what} failed ({type(error).__name__}: {error})"
            self.messages.append(coded("IV-INCOMPLETE", what_failed))
        return instead()

    def added_to(self, report: Report) -> Report:
        """A report that says so."""
        return report | {"warnings": [*report.get("warnings", []), *self.messages]}


def _planned(engine: Engine) -> Report:
    """Report of the settings of a run, which are known whatever fails."""
    plan, stopped = engine.plan, engine.stopped
    found: Report = {
        "draws": plan.draws,
        "warmup": plan.warmup,
        "thin": plan.thin,
        "chains": plan.chains,
        "seed": plan.seed,
    }
    return found if stopped is None else found | {"stopped": stopped, "warnings": [coded("IV-STOPPED", stopped)]}


def _natural(problem: Problem, positions: Array) -> Array | None:
    theta = np.asarray(problem.to_theta(positions), dtype=float)
    if theta.ndim != 4 or theta.shape[:3] != positions.shape[:3]:
        raise ValueError(f"to_theta gave the shape {theta.shape} for positions of shape {positions.shape}")
    return theta


def _plain(name: str, values: Any, statistics: Any, report: Report, faults: _Faults) -> Run:
    return Run.from_arrays(None, {name: values.shape[3:]}, values, statistics, faults.added_to(report))
