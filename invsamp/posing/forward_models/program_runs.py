"""A program as a forward model at work: a directory for each run, its time limit, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.errors import ModelError, WrongShapeError
from invsamp.posing.expressions.variable_names import labels
from invsamp.posing.forward_models.failure_log import CountsFailures, Failures
from invsamp.posing.forward_models.input_templates import Template
from invsamp.protocols import Array, FinishedRun
from invsamp.simulations.rows import not_finite

#: Files of a run's directory.
PARAMETERS, STDOUT, STDERR = "parameters.json", "stdout.txt", "stderr.txt"
#: Characters of the standard error's end that a message has.
WORDS = 500
#: Seconds in which a program that was killed has to be gone.
GONE = 10.0


class _Failed(NamedTuple):
    kind: str  # of `failure_log.KINDS`
    words: str


class Executable(CountsFailures):
    """A program as a forward model; made by `invsamp.executable`.

    Attributes
    ----------
    parameters : tuple of str
    sizes : tuple of int
        How many entries each has.
    workers : int
    time_limit : float or None
    version : str or None
    n_observations : int or None
        How many outputs a run has; None as long as none has succeeded.
    """

    def __init__(
        self,
        command: tuple[Template, ...],
        outputs: Callable[[Path], npt.ArrayLike],
        sizes: Mapping[str, int],
        *,
        templates: tuple[Template, ...],
        files: tuple[Path, ...],
        workers: int,
        time_limit: float | None,
        directory: Path | None,
        environment: Mapping[str, str],
        version: str | None,
    ) -> None:
        self._command, self._outputs, self._templates, self._files = command, outputs, templates, files
        self._directory, self._environment = directory, dict(environment)
        self.parameters, self.sizes = tuple(sizes), tuple(max(1, size) for size in sizes.values())
        self._labels = labels({name: (size,) if size else () for name, size in sizes.items()})
        self._shapes = dict(sizes)
        self.workers, self.time_limit, self.version = workers, time_limit, version
        self.n_observations: int | None = None
        self._failures = Failures()

    def __repr__(self) -> str:
        words = shlex.join(part.text for part in self._command)
        return f"executable({words!r}, parameters={list(self._labels)}, time_limit={self.time_limit})"

    def __call__(self, theta: Array) -> Array:
        """Outputs (batch, m); NaN in the rows that failed.

        Raises
        ------
        RuntimeError
            If all runs so far have failed, so that it is not known how many outputs there are.
        """
        found = {run.row: run.outputs for run in self.finished(theta)}
        if self.n_observations is None and len(theta):
            raise RuntimeError(self.message)
        y = np.full((len(theta), self.n_observations or 0), np.nan)
        for row, outputs in found.items():
            if outputs is not None:
                y[row] = outputs
        return y

    def finished(self, theta: Array) -> Iterator[FinishedRun]:
        """The runs of all rows of theta (batch, p), in the order in which they are finished.

        Whoever leaves early, as by Ctrl-C, kills the programs that still run.
        """
        if theta.ndim != 2 or theta.shape[1] != len(self._labels):
            raise ModelError(f"theta must have shape (batch, {len(self._labels)}), got {theta.shape}")
        at_work = _AtWork()
        with ThreadPoolExecutor(min(self.workers, max(1, len(theta)))) as pool:
            futures = {pool.submit(self._run, row, at_work): k for k, row in enumerate(theta)}
            try:
                for future in as_completed(futures):
                    yield self._counted(future.result()._replace(row=futures[future]))
            finally:
                for future in futures:
                    future.cancel()
                at_work.end()

    def _counted(self, run: FinishedRun) -> FinishedRun:
        self._failures.timed(run.seconds, 1)
        if run.outputs is not None:
            if self.n_observations not in (None, len(run.outputs)):
                raise WrongShapeError(
                    f"outputs must be as many in every run, {self.n_observations} as before, got {len(run.outputs)}"
                )
            self.n_observations = len(run.outputs)
        return run

    def _run(self, theta: Array, at_work: _AtWork) -> FinishedRun:
        began = time.perf_counter()
        if self._directory is None:
            with tempfile.TemporaryDirectory(prefix="invsamp-run-", ignore_cleanup_errors=True) as name:
                outputs, failed = self._outcome(theta, Path(name), at_work)
        else:
            self._directory.mkdir(parents=True, exist_ok=True)
            place = Path(tempfile.mkdtemp(prefix="run-", dir=self._directory))
            outputs, failed = self._outcome(theta, place, at_work)
            failed = failed and _Failed(failed.kind, f"{failed.words} (in {place})")
        if failed is not None:
            self._failures.note(*failed)
        return FinishedRun(0, outputs, failed and failed.words, time.perf_counter() - began)

    def _outcome(self, theta: Array, place: Path, at_work: _AtWork) -> tuple[Array | None, _Failed | None]:
        """Outputs of a run in its directory, or why it failed."""
        self._prepare(theta, place)
        if (failed := self._execute(theta, place, at_work)) is not None:
            return None, failed
        try:
            y = arguments.numbers("outputs", np.asarray(self._outputs(place), dtype=float))
        except ModelError:
            raise
        except Exception as error:
            return None, _Failed("raised", f"outputs could not be read: {type(error).__name__}: {error}")
        if y.ndim != 1:
            return None, _Failed("raised", f"outputs have shape {y.shape}, not (m,)")
        words = not_finite(y)
        return (y, None) if words is None else (None, _Failed("not_finite", words))

    def _prepare(self, theta: Array, place: Path) -> None:
        values = self._values(theta)
        numbers, at = {}, 0
        for name, size in self._shapes.items():
            entries = theta[at : at + max(1, size)].tolist()
            numbers[name] = entries if size else entries[0]
            at += max(1, size)
        (place / PARAMETERS).write_text(json.dumps(numbers) + "\n")
        for file in self._files:
            (place / file.name).symlink_to(file)
        for template in self._templates:
            target = place / template.origin
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(template.filled(values))

    def _execute(self, theta: Array, place: Path, at_work: _AtWork) -> _Failed | None:
        """Run the program, to its end or that of its time."""
        values = self._values(theta)
        with open(place / STDOUT, "wb") as out, open(place / STDERR, "wb") as err:
            try:
                process = subprocess.Popen(
                    [part.filled(values) for part in self._command],
                    cwd=place,
                    env=os.environ | self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,  # so that all that it starts can be killed with it
                )
            except OSError as error:
                raise ModelError(f"command must name a program that can be run: {error}") from error
            with at_work.holding(process):
                try:
                    status = process.wait(self.time_limit)
                except subprocess.TimeoutExpired:
                    return _Failed("timed_out", f"no result within {self.time_limit:g} s{_said(place)}")
        if status < 0:
            return _Failed("died", f"killed by {_signal_name(-status)}{_said(place)}")
        return _Failed("raised", f"exit status {status}{_said(place)}") if status else None

    def _values(self, theta: Array) -> dict[str, float]:
        return dict(zip(self._labels, theta.tolist(), strict=True))


class _AtWork:
    """Programs that run at the moment, which are killed where no one waits for them any more."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock, self._ended = threading.Lock(), False

    @contextlib.contextmanager
    def holding(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """While a program is waited for. It is gone afterwards."""
        with self._lock:
            self._processes.add(process)
            ended = self._ended
        if ended:
            _kill(process)
        try:
            yield
        finally:
            if process.returncode is None:
                _kill(process)
            with self._lock:
                self._processes.discard(process)

    def end(self) -> None:
        """Kill all."""
        with self._lock:
            self._ended = True
            for process in self._processes:
                _kill(process, wait=False)  # its own thread does


def _kill(process: subprocess.Popen[bytes], wait: bool = True) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if wait:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GONE)


def _said(place: Path) -> str:
    """The end of what a program wrote to its standard error, for a message."""
    with open(place / STDERR, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 4 * WORDS))
        words = " ".join(file.read().decode(errors="replace").split())
    if len(words) > WORDS:
        words = f"...{words[-WORDS:]}"
    return f": {words}" if words else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
