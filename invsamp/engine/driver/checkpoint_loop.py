"""The loop of a run that is kept in a directory: steps, checkpoints, and what a signal does."""

from __future__ import annotations

import math
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from invsamp.engine.driver import serialization as states
from invsamp.engine.driver.draw_buffer import Draws, kinds_of
from invsamp.engine.driver.engine import Engine
from invsamp.engine.driver.loop import advance
from invsamp.engine.driver.signals import Interrupts, leave, reason
from invsamp.engine.driver.stateless_parts import Unchanged, check_settings
from invsamp.engine.rungs.kernel_contract_check import FIRST_STEPS
from invsamp.protocols import Array, Plain
from invsamp.storage import manifest as manifests
from invsamp.storage.contents import constants, described, groups_of, versions
from invsamp.storage.directory import RunDirectory
from invsamp.storage.segments import read_sums

#: Seconds between checkpoints, about: what a kill costs at most is the double of it.
SECONDS = 30.0
#: Bytes of draws in a segment, at most; but if draws are large, so many of them all the same.
BYTES, FEWEST = 2 * 2**20, 16
#: The first checkpoints come sooner: the time of a step is not known yet.
FIRST_SECONDS = 1.0
#: What is said when a signal is heard.
NOTICE = "finishing this step and writing a checkpoint; another signal stops at once, at the last checkpoint"


def begin_run(engine: Engine, path: Path, segment: int | None, progress: bool) -> None:
    """Make a whole run in a new directory.

    Parameters
    ----------
    engine : Engine
        Whose chains are not placed yet.
    path : Path
        Of a new or empty directory; absolute.
    segment : int, optional
        Draws of a segment. By default what takes about half a minute, and no more than 2 MiB.
    progress : bool
        Whether to show a bar.

    Raises
    ------
    ValueError, OSError, DirectoryInUseError
        As `RunDirectory.create`, before anything is solved.
    KeyboardInterrupt, SystemExit
        After a checkpoint, on Ctrl-C, SIGTERM and SIGHUP.
    """
    check_settings(engine)
    with _created(engine, path, segment) as kept, Interrupts(NOTICE) as interrupts:
        try:
            start_run(engine, kept)
        except BaseException:
            if not kept.header.report:
                kept.withdraw()  # nothing is in it, and the next try should not find it taken
            raise
        received = record(engine, kept, interrupts, progress)
    obey(received, engine, path)


def start_run(engine: Engine, directory: RunDirectory) -> None:
    """Place the chains, and make the first checkpoint: a start may have taken long."""
    engine.begin(engine.given)
    found = fingerprint(engine, engine.rungs[0].position[0])
    directory.checkpoint(engine.done, _payload(engine, engine.state()), engine.report(), fingerprint=found)


def record(engine: Engine, directory: RunDirectory, interrupts: Interrupts, progress: bool) -> int | None:
    """Make the steps that are left, or those up to a signal, with checkpoints.

    Parameters
    ----------
    engine : Engine
        At work.
    directory : RunDirectory
    interrupts : Interrupts
        Entered.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    int or None
        The signal that came.

    Raises
    ------
    OSError
        If a checkpoint cannot be written; the one before it is whole.
    """
    checkpoints = _Checkpoints(engine, directory)
    try:
        received = advance(engine, progress, checkpoints, interrupts)
        checkpoints.write()
    except BaseException as error:
        with suppress(OSError, ValueError):  # the disk may be what failed
            directory.note(_stopped(error, engine, directory))
        _add_note(error, directory)
        raise
    return received


def obey(received: int | None, engine: Engine, path: Path) -> None:
    """Leave, if a signal came, and say where the run is and how to go on with it.

    Raises
    ------
    KeyboardInterrupt, SystemExit
        See `leave`.
    """
    if received is not None:
        leave(received, _farewell(received, engine, path))


def fingerprint(engine: Engine, position: Array) -> Plain:
    """Energies of all fidelities at one position (d,): a solve each, which is not counted."""
    energies = manifests.energies_at(engine.uncounted(), position)
    return {"position": position.tolist(), "energies": energies}


class _Checkpoints(Draws):
    """Draws that are written. When they are depends on the clock; what is written does not."""

    def __init__(self, engine: Engine, directory: RunDirectory) -> None:
        self._segment, self._largest = _sizes(engine, directory)
        super().__init__(engine, min(self._largest, engine.plan.draws))
        self._directory, self._unchanged = directory, Unchanged(engine)
        if self.moments and engine.kept:
            for name, sums in read_sums(directory.path, directory.header.segments[-1]).items():
                self.moments[name].restore(sums.reshape(2, -1), engine.kept * len(engine.rungs[0].position))
        self._begun = engine.done
        self._written, self._seconds, self._since = engine.done, FIRST_SECONDS / 2, time.perf_counter()
        self._next, self._room = engine.done + 1, self._largest
        if self._segment is not None:
            self._next, self._room = self._chosen()

    def ahead(self) -> int:
        """Steps that may be made before the next look."""
        engine, thin = self._engine, self._engine.plan.thin
        if engine.done - self._begun < FIRST_STEPS:
            return 1
        room = (self._room - self.count) * thin - engine.drawn % thin
        return room if self._next < engine.done else min(room, self._next - engine.done)

    def after_step(self) -> None:
        """Keep a draw if one is due, and write if that is due."""
        engine = self._engine
        if engine.done - self._begun <= FIRST_STEPS:
            self._unchanged.check()
        super().after_step()
        if engine.done == self._next or self.count == self._room:
            self.write()

    def write(self) -> None:
        """A checkpoint, unless there was no step since the last one."""
        engine = self._engine
        if engine.done == self._written:
            return
        self._unchanged.check()
        # draws that are not kept whole are counted as they are made
        groups, before = None, engine.kept - (0 if engine.record.whole else self.count)
        if self.count:
            segment = self.take()
            theta = None if segment.positions is None else engine.problem.to_theta(segment.positions)
            between = None if segment.between is None else engine.problem.to_theta(segment.between)
            shapes = dict(engine.problem.shapes)
            groups = groups_of(theta, shapes, segment.statistics, segment.recorded, between)
            if self.moments:
                sums = {name: own.sums.reshape(2, *shapes[name]) for name, own in self.moments.items()}
                groups |= {"thinned": segment.thinned, "sums": sums}
        payload = _payload(engine, engine.state())
        every = engine.record.every
        self._directory.checkpoint(engine.done, payload, engine.report(), groups, self._largest, before, every=every)
        self._next, self._room = self._chosen()
        self._written = engine.done

    def _chosen(self) -> tuple[int, int]:
        """Step, and number of draws, of the next checkpoint: by draws if the user said how many, else by the clock."""
        done, plan = self._engine.done, self._engine.plan
        if self._segment is not None:
            last = self._directory.header.segments[-1:]
            room = self._segment - last[0].count % self._segment if last else self._segment
            return (min(done + self._segment * plan.thin, plan.warmup) if self._engine.warming else -1), room
        now = time.perf_counter()
        pace = (now - self._since) / max(1, done - self._written)
        self._since, self._seconds = now, min(SECONDS, 2.0 * self._seconds)
        return done + max(1, int(self._seconds / max(pace, 1e-9))), self._largest


def _created(engine: Engine, path: Path, segment: int | None) -> RunDirectory:
    """The directory of a new run."""
    problem, plan = engine.problem, engine.plan
    shapes, kept = dict(problem.shapes), engine.record.kept(problem)
    about = {
        "sampler": str(engine.sampler),
        "settings": manifests.describe(problem, engine.sampler),
        "plan": asdict(plan),
        "segment": segment,
        **engine.record.settings(),
        **described(kept, problem.support),
        "versions": versions(),
    }
    fixed = constants(problem, shapes, plan.seed, {*kept, *engine.record.moments})
    parts = problem, engine.sampler, engine.record
    return RunDirectory.create(path, about, fixed, _payload(engine, None), parts)


def _sizes(engine: Engine, directory: RunDirectory) -> tuple[int | None, int]:
    """Draws of a segment as the user said, and at most."""
    segment = directory.header.about["segment"]
    chains, d = engine.rungs[0].position.shape
    rungs = engine.sampler.ladder.max_rungs if engine.sampler.ladder else len(engine.rungs)
    recorded = engine.record.of(engine.problem, engine.rungs[0].position)
    numbers = chains * rungs * ((d if engine.record.whole else 0) + len(kinds_of(engine)))
    numbers += sum(values.size for values in recorded.values())
    large = sum(math.prod(engine.problem.shapes[name]) for name in engine.record.moments)
    size = 8 * numbers + 4 * chains * large // engine.record.every
    return segment, segment or max(FEWEST, BYTES // size)


def _payload(engine: Engine, state: object) -> bytes:
    sampler: object = engine.sampler
    try:
        states.encode(sampler)
    except TypeError:
        sampler = None  # it has parts of the user's own, which can only be pickled
    # a trial that fails lets the chains begin there again
    start = engine.given if engine.warmed is None or engine.warming else None
    return states.encode({"sampler": sampler, "start": start, "engine": state})


def _stopped(error: BaseException, engine: Engine, directory: RunDirectory) -> str:
    kept, planned = directory.header.draws, engine.plan.draws
    return f"{reason(error)}: the run holds the {kept} draws of its last checkpoint, of {planned}"


def _add_note(error: BaseException, directory: RunDirectory) -> None:
    """Say how to go on with a run that something has ended."""
    draws, again = directory.header.draws, f"invsamp.resume({str(directory.path)!r})"
    note = (
        f"the run is in {directory.path} as of its last checkpoint, with {draws} draws per chain. Continue it "
        f"with {again}"
    )
    error.add_note(note)
    if isinstance(error, SystemExit):  # a model's own: of these Python shows nothing
        with suppress(OSError):
            print(note, file=sys.stderr, flush=True)


def _farewell(received: int, engine: Engine, path: Path) -> str:
    plan, name = engine.plan, signal.Signals(received).name
    if engine.done == engine.steps:
        return f"{name}: the run was complete; it is in {path}. Read it by invsamp.load({str(path)!r})"
    step = f"warm-up, step {engine.done} of {plan.warmup}"
    where = step if engine.warmed is None else f"draw {engine.kept} of {plan.draws}"
    return f"{name}: stopped in {where}; the run is saved in {path}. Continue it with invsamp.resume({str(path)!r})"
