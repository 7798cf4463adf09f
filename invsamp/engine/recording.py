"""The loop of a run that is kept in a directory: steps, checkpoints, and what a signal does."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from invsamp.arguments import integer, optional
from invsamp.contract import Array
from invsamp.engine import state as states
from invsamp.engine.draws import Draws, Segment
from invsamp.engine.engine import Engine
from invsamp.engine.handing_back import announce
from invsamp.engine.interrupts import Interrupts, leave
from invsamp.engine.progress import Bar
from invsamp.results.contents import constants, groups_of, versions
from invsamp.results.stored_run import StoredRun, described
from invsamp.storage import manifest as manifests
from invsamp.storage.directory import RunDirectory

#: Seconds between checkpoints, about: what a kill costs at the most is the double of it.
SECONDS = 30.0
#: Bytes of draws in a segment, at the most; but if draws are large, so many of them all the same.
BYTES, FEWEST = 2 * 2**20, 16
#: The first checkpoints come sooner: the time of a step is not known yet.
FIRST_SECONDS = 1.0
#: What is said when a signal is heard.
NOTICE = "finishing this step and writing a checkpoint; once more leaves at once, back to the last checkpoint"


def begin_run(
    engine: Engine, path: Path, positions: Array | None, segment: int | None, progress: bool
) -> StoredRun | None:
    """Make a whole run in a new directory.

    Parameters
    ----------
    engine : Engine
        Whose chains are not placed yet.
    path : Path
        Of a new or empty directory; absolute.
    positions : ndarray (chains, d), optional
        Where they start.
    segment : int, optional
        Draws of a segment. By default what takes about half a minute, and no more than 2 MiB.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    StoredRun
        None but on the root.

    Raises
    ------
    ValueError, OSError, DirectoryInUseError
        As `RunDirectory.create`, before anything is solved.
    KeyboardInterrupt, SystemExit
        After a checkpoint, on Ctrl-C, SIGTERM and SIGHUP.
    """
    made = engine.ranks.on_root(lambda: _created(engine, path, positions, segment))
    with made or nullcontext() as kept, Interrupts(NOTICE if engine.ranks.root else "") as interrupts:
        try:
            start_run(engine, kept, positions)
        except BaseException:
            if kept is not None and not kept.header.report:
                kept.withdraw()  # nothing is in it, and the next try should not find it taken
            raise
        received = record(engine, kept, interrupts, progress)
    return finished(engine, path, received, stacklevel=5)


def start_run(engine: Engine, directory: RunDirectory | None, positions: Array | None) -> None:
    """Place the chains, and make the first checkpoint: a start may have taken long."""
    engine.begin(positions)
    found = fingerprint(engine, engine.ranks.bcast(engine.local[0].position[0]))
    state, report = engine.state(), engine.report()

    def save() -> None:
        assert directory is not None and report is not None  # this is the root
        start = None if positions is None else positions.copy()
        directory.checkpoint(engine.done, _payload(engine, start, state), report, fingerprint=found)

    engine.ranks.on_root(save)


def record(engine: Engine, directory: RunDirectory | None, interrupts: Interrupts, progress: bool) -> int | None:
    """Make the steps that are left, or those up to a signal, with checkpoints.

    Parameters
    ----------
    engine : Engine
        At work.
    directory : RunDirectory, or None but on the root
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
    plan, ranks = engine.plan, engine.ranks
    checkpoints = _Checkpoints(engine, directory)
    bar = Bar(engine, progress and ranks.root)
    received = None
    try:
        while engine.done < plan.steps and received is None:
            engine.step()
            bar.tick()
            checkpoints.after_step()
            received = ranks.stop(interrupts.received, last=engine.done == plan.steps)
        checkpoints.write()
    except BaseException as error:
        if directory is not None:
            _add_note(error, directory)
        raise
    finally:
        bar.close()
    return received


def finished(engine: Engine, path: Path, received: int | None, stacklevel: int) -> StoredRun | None:
    """The run in a directory, with its warnings to whoever is so many calls away; None but on the root.

    Raises
    ------
    KeyboardInterrupt, SystemExit
        If a signal came, see `leave`.
    """
    if received is not None:
        leave(received, _farewell(received, engine, path) if engine.ranks.root else "")
    if not engine.ranks.root:
        return None
    run = StoredRun(path)
    announce(run, stacklevel)
    return run


def fingerprint(engine: Engine, position: Array) -> dict[str, Any]:
    """Energies of all fidelities at one position (d,), the same on all processes: a solve each."""
    own = {e.fidelity: e.potential for replica in engine.local for e in replica.evaluators}
    energies = manifests.energies_at(own, position)
    everybody = {name: value for part in engine.ranks.everywhere(energies) for name, value in part.items()}
    return {"position": position.tolist(), "energies": everybody}


class _Checkpoints:
    """Collects draws and writes them. When it writes depends on the clock; what it writes does not."""

    def __init__(self, engine: Engine, directory: RunDirectory | None) -> None:
        self._engine, self._directory = engine, directory
        self._segment, self._largest = engine.ranks.bcast(_sizes(engine, directory))
        self._draws = Draws(engine, min(self._largest, engine.plan.draws))
        self._written, self._seconds, self._since = engine.done, FIRST_SECONDS / 2, time.perf_counter()
        self._next, self._room = engine.ranks.bcast((engine.done + 1, self._largest))
        if self._segment is not None:
            self._plan_next()

    def after_step(self) -> None:
        """Keep a draw if one is due, and write if that is due."""
        engine, plan = self._engine, self._engine.plan
        made = engine.done - plan.warmup
        if made > 0 and made % plan.thin == 0:
            self._draws.append()
        if engine.done == self._next or self._draws.count == self._room:
            self.write()

    def write(self) -> None:
        """A checkpoint, unless there was no step since the last one."""
        engine = self._engine
        if engine.done == self._written:
            return
        parts = engine.ranks.gather(self._draws.take()) if self._draws.count else None
        state, report = engine.state(), engine.report()

        def save() -> None:
            assert self._directory is not None and report is not None  # this is the root
            groups = None
            if parts is not None:
                segment = Segment.joined(parts)
                theta = engine.problem.to_theta(segment.positions)
                groups = groups_of(theta, dict(engine.problem.shapes), engine.statistics(segment))
            payload = _payload(engine, None, state)
            self._directory.checkpoint(engine.done, payload, report, groups, self._largest)

        engine.ranks.on_root(save)
        self._plan_next()
        self._written = engine.done

    def _plan_next(self) -> None:
        """Choose the step of the next checkpoint, for all processes: nothing is said about it until then."""
        self._next, self._room = self._engine.ranks.bcast(self._chosen())

    def _chosen(self) -> tuple[int, int]:
        """Step, and number of draws, of the next checkpoint: by draws if the user said how many, else by the clock."""
        done, plan = self._engine.done, self._engine.plan
        if self._segment is not None:
            last = self._directory.header.segments[-1:] if self._directory is not None else ()
            room = self._segment - last[0].count % self._segment if last else self._segment
            return (min(done + self._segment * plan.thin, plan.warmup) if done < plan.warmup else -1), room
        now = time.perf_counter()
        pace = (now - self._since) / max(1, done - self._written)
        self._since, self._seconds = now, min(SECONDS, 2.0 * self._seconds)
        return done + max(1, int(self._seconds / max(pace, 1e-9))), self._largest


def _created(engine: Engine, path: Path, positions: Array | None, segment: int | None) -> RunDirectory:
    """The directory of a new run."""
    problem, plan = engine.problem, engine.plan
    shapes = dict(problem.shapes)
    about = {
        "sampler": str(engine.sampler),
        "settings": manifests.describe(problem, engine.sampler),
        "plan": asdict(plan),
        "segment": segment,
        **described(shapes, problem.support),
        "versions": versions(),
    }
    start = None if positions is None else positions.copy()
    fixed = constants(problem, shapes, plan.seed)
    return RunDirectory.create(path, about, fixed, _payload(engine, start, None), (problem, engine.sampler))


def _sizes(engine: Engine, directory: RunDirectory | None) -> tuple[int | None, int]:
    """Draws of a segment as the user said, and at the most."""
    segment = None if directory is None else directory.header.about["segment"]
    chains, d = engine.local[0].position.shape
    return segment, segment or max(FEWEST, BYTES // (8 * len(engine.replicas) * chains * (d + 2)))


def check_segment(segment: int | None) -> None:
    """`ValueError` unless ``segment`` is a number of draws, or None."""
    optional(integer, "segment", segment, least=1)


def _payload(engine: Engine, start: Array | None, state: Any) -> bytes:
    sampler: Any = engine.sampler
    try:
        states.encode(sampler)
    except TypeError:
        sampler = None  # it has parts of the user's own, which can only be pickled
    return states.encode({"sampler": sampler, "start": start, "engine": state})


def _add_note(error: BaseException, directory: RunDirectory) -> None:
    """Say how to go on with a run that something has ended."""
    draws, again = directory.header.draws, f"invsamp.resume({str(directory.path)!r})"
    note = f"the run is in {directory.path} as of its last checkpoint, with {draws} draws per chain. Go on with {again}"
    error.add_note(note)
    if isinstance(error, SystemExit):  # a model's own: of these Python shows nothing
        with suppress(OSError):
            print(note, file=sys.stderr, flush=True)


def _farewell(received: int, engine: Engine, path: Path) -> str:
    plan, name = engine.plan, signal.Signals(received).name
    if engine.done == plan.steps:
        return f"{name}: the run was over; it is in {path}. Read it by invsamp.load({str(path)!r})"
    where = f"warm-up, step {engine.done} of {plan.warmup}" if engine.warming else f"draw {engine.kept} of {plan.draws}"
    return f"{name}: stopped in {where}; all of it is in {path}. Go on with invsamp.resume({str(path)!r})"
