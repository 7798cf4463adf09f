"""A folder of finished simulations that outlives scripts, runs and crashes."""

from __future__ import annotations

import collections
import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, instance, optional, path, real, text, wrong
from invsamp.arguments import names as distinct_names
from invsamp.errors import WrongShapeError
from invsamp.protocols import Array, Plain
from invsamp.simulations.record_file import RecordReader, RecordWriter, write_once
from invsamp.simulations.rows import key_of, not_finite
from invsamp.simulations.tables import DataFrame, SimulationTable, runs_of

#: What says whose simulations a folder holds.
DESCRIPTION = "database.json"
FORMAT = 1


class Found(NamedTuple):
    """The entries of a database for some theta (batch, p).

    Attributes
    ----------
    known : ndarray of bool, shape (batch,)
        Whether the simulation is there, failed or not.
    outputs : ndarray, shape (batch, m)
        NaN where it is not, or has failed. No column as long as no simulation has succeeded.
    messages : tuple of str or None
        Why those failed that have.
    """

    known: npt.NDArray[np.bool_]
    outputs: Array
    messages: tuple[str | None, ...]


class _Finished(NamedTuple):
    theta: Array
    outputs: Array | None
    failure: str | None
    seconds: float
    time: float


class SimulationDatabase:
    """Finished simulations in a folder; made by `SimulationDatabase.open`.

    Several processes may use a folder at the same time. Each appends to a file of its own, a line of JSON for each
    simulation, and a record is on the disk when `record` returns: ``kill -9`` loses nothing that was recorded.

    Attributes
    ----------
    folder : Path
    names : tuple of str
        Of the columns of theta.
    version : str
        Label of the model's version. Simulations of other versions in the folder are not looked at.

    Examples
    --------
    >>> import tempfile
    >>> import invsamp as iv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = iv.simulations.SimulationDatabase.open(folder, ["a", "b"])
    ...     database.record(outputs=[3.0], theta=[1.0, 2.0], seconds=0.5)
    ...     print(database.table().outputs)
    ...
    [[3.]]
    """

    def __init__(self, folder: Path, names: tuple[str, ...], version: str) -> None:
        self.folder, self.names, self.version = folder, names, version
        self._start()

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], names: Sequence[str] | None = None, version: str = ""
    ) -> SimulationDatabase:
        """The database of a folder, which is made if it does not exist.

        Parameters
        ----------
        folder : path
        names : sequence of str, optional
            Names of the columns of theta, p of them. They can be left out for a folder that has some.
        version : str
            Label of the model's version: change it when the simulator changes, so that old results are not used.

        Raises
        ------
        ValueError
            If the folder holds simulations of other parameters, or something else; or is new and there are no names.

        Examples
        --------
        >>> import tempfile
        >>> from invsamp.simulations import SimulationDatabase
        >>> database = SimulationDatabase.open(tempfile.mkdtemp(), names=["a", "b"])
        >>> database.record([1.0, 2.0], outputs=[3.0], seconds=0.5)
        >>> database.lookup([[1.0, 2.0], [1.0, 3.0]]).known.tolist()
        [True, False]
        """
        where = path("folder", folder)
        label = instance("version", version, str, "a string")
        given: tuple[str, ...] | None = optional(distinct_names, "names", names)
        if where.exists() and not where.is_dir():
            raise ValueError(f"folder must be a directory of simulations, got the file {where}")
        description = where / DESCRIPTION
        if given is not None and not description.exists():
            where.mkdir(parents=True, exist_ok=True)
            others = [entry.name for entry in where.iterdir() if not entry.name.startswith(".")]
            if others and DESCRIPTION not in others:  # which another script may have made by now
                raise ValueError(f"folder must be new, or one of simulations, got {where}, which holds {others[0]}")
            write_once(description, json.dumps({"format": FORMAT, "names": list(given)}).encode())
        if not description.exists():
            raise ValueError(f"folder must hold simulations, as names are not given, got {where}")
        known = _described(description)
        if given is not None and given != known:
            raise ValueError(f"names must be those of the simulations in {where}, {list(known)}, got {list(given)}")
        return cls(where, known, label)

    def __repr__(self) -> str:
        return f"SimulationDatabase({str(self.folder)!r}, {len(self)} simulations of {list(self.names)})"

    def __len__(self) -> int:
        """How many simulations of this version there are."""
        self.refresh()
        return len(self._runs)

    @property
    def n_outputs(self) -> int | None:
        """How many outputs a simulation has; None as long as none has succeeded."""
        return self._width

    def lookup(self, theta: npt.ArrayLike) -> Found:
        """Entries for theta (batch, p), equal to the bit; for repeated simulations the first that succeeded."""
        points = self._points(theta)
        keys = [key_of(row) for row in points]
        if any(key not in self._first for key in keys):
            self.refresh()
        with self._lock:
            runs = [self._runs[self._first[key]] if key in self._first else None for key in keys]
            width = self._width or 0
        outputs = np.full((len(points), width), np.nan)
        for row, run in enumerate(runs):
            if run is not None and run.outputs is not None:
                outputs[row] = run.outputs
        known = np.array([run is not None for run in runs], dtype=bool)
        return Found(known, outputs, tuple(None if run is None else run.failure for run in runs))

    def record(
        self,
        theta: npt.ArrayLike,
        outputs: npt.ArrayLike | None = None,
        failure: str | None = None,
        seconds: float | None = None,
    ) -> None:
        """Write one finished simulation, and wait until it is on the disk.

        Parameters
        ----------
        theta : array_like (p,)
        outputs : array_like (m,), optional
            Those that are not finite make it a failed one.
        failure : str, optional
            In place of outputs: why it failed.
        seconds : float, optional
            What it took.

        Raises
        ------
        WrongShapeError
            If there are more or fewer outputs than of the simulations before.
        """
        point = array("theta", theta, (len(self.names),))
        if (outputs is None) == (failure is None):
            raise ValueError(f"either outputs or failure must be given, got {'neither' if failure is None else 'both'}")
        y = None if outputs is None else array("outputs", outputs, ("m",), finite=False, nan=True)
        words = optional(text, "failure", failure)
        if y is not None:
            self._check_width(len(y), point)
            words = not_finite(y)
        self._writer.append(self._recorded(point, y, words, optional(real, "seconds", seconds, least=0.0)))
        self.refresh()

    def import_dataframe(self, frame: DataFrame, outputs: Sequence[str], seconds: str | None = None) -> int:
        """Take over earlier simulations from a pandas DataFrame; those that are there already are passed over.

        Parameters
        ----------
        frame : pandas.DataFrame
            A row for each simulation, with a column for each of `names`.
        outputs : sequence of str
            Columns of the outputs, in their order. A row with NaN in them is a failed simulation.
        seconds : str, optional
            Column of what each took.

        Returns
        -------
        int
            How many were new.

        Raises
        ------
        ValueError
            If a column is missing or holds no numbers; as `WrongShapeError`, if there are more or fewer outputs than of
            the simulations before.
        """
        records: dict[bytes, Plain] = {}
        for theta, y, took in runs_of(frame, self.names, outputs, optional(text, "seconds", seconds)):
            self._check_width(len(y), theta)
            if not self.lookup(theta[None]).known[0]:
                records.setdefault(key_of(theta), self._recorded(theta, y, not_finite(y), took))
        self._writer.append(*records.values())
        self.refresh()
        return len(records)

    def table(self) -> SimulationTable:
        """All simulations of this version."""
        self.refresh()
        with self._lock:
            runs = sorted(self._runs, key=lambda run: run.time)
            width = self._width or 0
        outputs = np.full((len(runs), width), np.nan)
        for row, run in enumerate(runs):
            if run.outputs is not None:
                outputs[row] = run.outputs
        return SimulationTable(
            self.names,
            np.array([run.theta for run in runs]).reshape(len(runs), len(self.names)),
            outputs,
            np.array([run.failure is not None for run in runs], dtype=bool),
            tuple(run.failure for run in runs),
            np.array([run.seconds for run in runs], dtype=float),
            self.version,
        )

    def versions(self) -> dict[str, int]:
        """How many simulations there are of each version, this one and others."""
        self.refresh()
        return dict(self._versions)

    def forget_failures(self) -> None:
        """Let failed simulations of this version be run again when they are needed, as after a full disk."""
        self._writer.append({"forget_failures": time.time(), "version": self.version})
        self.refresh()

    def _check_width(self, outputs: int, theta: Array) -> None:
        """`WrongShapeError` unless a simulation has as many outputs as those before."""
        if self._width is not None and outputs != self._width:
            raise WrongShapeError(
                f"a simulation must have as many outputs as those before in {self.folder}, {self._width}, got "
                f"{outputs} at theta {theta.tolist()}. If the simulator has changed, give it another version label"
            )

    def refresh(self) -> None:
        """Read what other processes have recorded in the meantime."""
        with self._lock:
            for record in self._reader.new():
                self._take(record)

    def __getstate__(self) -> Plain:
        return {"folder": self.folder, "names": self.names, "version": self.version}

    def __setstate__(self, state: Plain) -> None:
        vars(self).update(state)
        self._start()

    def _start(self) -> None:
        self._reader, self._writer = RecordReader(self.folder), RecordWriter(self.folder)
        self._lock = threading.RLock()
        self._runs: list[_Finished] = []
        self._first: dict[bytes, int] = {}  # by theta, into runs
        self._width: int | None = None
        self._forgotten = -np.inf  # failures before this time do not count
        self._versions: collections.Counter[str] = collections.Counter()
        self.refresh()

    def _take(self, record: Plain) -> None:
        if "forget_failures" in record:
            if record["version"] == self.version and record["forget_failures"] > self._forgotten:
                self._forget(record["forget_failures"])
            return
        self._versions[record["version"]] += 1
        if record["version"] != self.version:
            return
        outputs = None if record["outputs"] is None else np.array(record["outputs"], dtype=float)
        seconds = np.nan if record["seconds"] is None else record["seconds"]
        run = _Finished(np.array(record["theta"], dtype=float), outputs, record["failure"], seconds, record["time"])
        if outputs is None and run.time <= self._forgotten:
            return
        if outputs is not None:
            self._check_width(len(outputs), run.theta)
            self._width = len(outputs)
        key = key_of(run.theta)
        before = self._first.get(key)
        if before is None or (self._runs[before].outputs is None and outputs is not None):
            self._first[key] = len(self._runs)
        self._runs.append(run)

    def _forget(self, until: float) -> None:
        self._forgotten = until
        kept = [run for run in self._runs if run.outputs is not None or run.time > until]
        self._runs, self._first = kept, {}
        for index, run in sorted(enumerate(kept), key=lambda pair: pair[1].outputs is None):
            self._first.setdefault(key_of(run.theta), index)

    def _recorded(self, theta: Array, outputs: Array | None, failure: str | None, seconds: float | None) -> Plain:
        return {
            "theta": theta.tolist(),
            "outputs": None if outputs is None or failure is not None else outputs.tolist(),
            "failure": failure,
            "seconds": seconds,
            "version": self.version,
            "time": time.time(),
        }

    def _points(self, theta: npt.ArrayLike) -> Array:
        return array("theta", theta, ("batch", len(self.names)), empty=True)


def _described(description: Path) -> tuple[str, ...]:
    try:
        held = json.loads(description.read_bytes())
        version, known = held["format"], tuple(map(str, held["names"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{description} is damaged: {type(error).__name__}: {error}") from None
    if version != FORMAT:
        raise wrong(f"format of {description.parent}", f"{FORMAT}, which this version of invsamp reads", version)
    return known
