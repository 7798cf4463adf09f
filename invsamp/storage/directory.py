"""The directory of a run: what it is, its draws so far, where it stands; one process at a time.

================  ==================================================================================
`state.bin`       what the run is and where it stands, with the checksums of all files below
                  (`invsamp.storage.state`); a folder without it holds no run
`segment-*.nc`    its draws (`invsamp.storage.segments`); those that `state.bin` names are the run's
`problem.nc`      the data and draws from the prior, where the problem has them
`posterior.pickle` the problem and the sampler, where they could be pickled; read by `invsamp.resume` only, and only
                  where no posterior is given
`manifest.json`   what the run is, for people (`invsamp.storage.manifest`); never read
`lock`            who writes to it, while a user does
================  ==================================================================================

Every file is written under another name and renamed, a segment before the state that names it. So a kill at any
moment leaves the run as it was at the last checkpoint, and at most files that no one names, which the next writer
removes. A directory may be another user's: what is opened there are plain files of these names, never a link.
"""

from __future__ import annotations

import contextlib
import pickle
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from invsamp import arguments
from invsamp.storage import manifest as manifests
from invsamp.storage import segments
from invsamp.storage.files import explained, new_folder, read_plain, remove_parts, write_whole
from invsamp.storage.lock import Lock, check_unlocked
from invsamp.storage.state import NAME as STATE
from invsamp.storage.state import File, Header, read_state, segment_paths, write_state
from invsamp.storage.stored import CONSTANTS
from invsamp.warning_codes import code_of, coded

PICKLE = "posterior.pickle"


class RunDirectory:
    """A directory that this process writes to, from `create` or `open` until `close`.

    Attributes
    ----------
    path : Path
        Absolute.
    header : Header
        Of the last checkpoint.
    payload : bytes
        State of the last checkpoint; forgotten at the next.
    """

    def __init__(self, path: Path, lock: Lock, new: bool = False) -> None:
        self.path, self._lock, self._new = path, lock, new
        self.header, self.payload = Header(), b""

    @classmethod
    def create(
        cls,
        path: Path,
        about: Mapping[str, object],
        constants: segments.Groups,
        payload: bytes,
        parts: tuple[object, object, object] | None = None,
    ) -> RunDirectory:
        """Begin a run in a new or empty folder.

        Parameters
        ----------
        path : Path
        about : mapping
            What the run is, JSON-able.
        constants : mapping of mappings
            Groups that do not grow.
        payload : bytes
            The state before the first step.
        parts : tuple, optional
            The problem, the sampler, and what is recorded, to be pickled if they can be.

        Raises
        ------
        ValueError
            If the folder holds a run, or anything else.
        DirectoryInUseError
            If another process writes to it.
        OSError
            If it cannot be written to.
        """
        with explained(path):
            check_unlocked(path)
            _check_free(path)
            new = not path.exists()
            new_folder(path)
        directory = cls(path, Lock(path), new)
        try:
            _check_free(path)  # again, now that no one else can write
        except BaseException:
            directory.close()
            raise
        try:
            remove_parts(path)
            files = [segments.write_constants(path / CONSTANTS, constants)] if constants else []
            pickled: File | str = "they were not wanted" if parts is None else directory._pickle(parts)
            if isinstance(pickled, File):
                files.append(pickled)
            kept = "pickled" if isinstance(pickled, File) else f"could not be pickled: {pickled}"
            # it makes the folder a run: of one that is killed before, all files are known by their names
            directory._write(Header(dict(about) | {"posterior": kept}, tuple(files)), payload)
            manifests.write_manifest(path, directory.header.about)
        except BaseException:
            directory.withdraw()
            raise
        return directory

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Go on with a run: lock it, check all of its files, remove what a crash left over.

        Raises
        ------
        FileNotFoundError
            If there is no run.
        ValueError
            If a file of it is missing, truncated or damaged; all of these are named.
        DirectoryInUseError
            If another process writes to it.
        OSError
            If it cannot be written to.
        """
        read_state(path)
        directory = cls(path, Lock(path))
        try:
            directory.header, directory.payload = read_state(path)
            check_segments(path, directory.header)
            with explained(path):
                directory._clean()
            manifests.write_manifest(path, directory.header.about)
        except BaseException:
            directory.close()
            raise
        return directory

    def describe(self, about: Mapping[str, object]) -> None:
        """Say anew what the run is, before the first checkpoint since it was opened."""
        self._write(replace(self.header, about=dict(about)), self.payload)
        manifests.write_manifest(self.path, about)

    def checkpoint(
        self,
        step: int,
        payload: bytes,
        report: Mapping[str, object],
        groups: segments.Groups | None = None,
        largest: int = 0,
        before: int | None = None,
        fingerprint: Mapping[str, object] | None = None,
        every: int = 1,
    ) -> None:
        """Write new draws, then the state that knows them.

        Parameters
        ----------
        step : int
            Steps made.
        payload : bytes
            State after that step.
        report : mapping
            Counts and figures, JSON-able.
        groups : mapping of mappings, optional
            The draws since the last checkpoint, as `segments.groups_of` makes them.
        largest : int
            A last segment that has room for these within ``largest`` draws is replaced by one that holds both.
        before : int, optional
            So many of the draws that were written stand. Default: all; the others were of a trial that failed.
        fingerprint : mapping, optional
            Kept from now on.
        every : int
            The k of the every k-th draw of the group ``thinned``.

        Raises
        ------
        OSError
            If a file cannot be written; the run is then as it was at the last checkpoint.
        """
        kept = [entry for entry in self.header.segments if before is None or entry.first < before]
        superseded, written = list(self.header.segments[len(kept) :]), self.header.written
        try:
            if groups is not None:
                first = kept[-1].first + kept[-1].count if kept else 0
                if kept and kept[-1].count + segments.count(groups) <= largest:
                    superseded.append(kept.pop())
                    groups, first = segments.joined(self.path, superseded[-1], groups), superseded[-1].first
                kept.append(segments.write_segment(self.path, written, first, groups, every))
                written += 1
            found = dict(fingerprint or self.header.fingerprint)
            header = Header(self.header.about, self.header.files, step, tuple(kept), dict(report), found, written)
            self._write(header, payload)
        except BaseException:
            with contextlib.suppress(OSError, ValueError):
                # the file decides what the run is: it may have been renamed before something went wrong
                self.header = read_state(self.path)[0]
                self._clean()
            raise
        self.payload = b""
        for entry in superseded:
            with explained(self.path / entry.name):
                (self.path / entry.name).unlink(missing_ok=True)

    def note(self, stopped: str) -> None:
        """Keep with the last checkpoint why the run ended after it, as the first of its warnings.

        Raises
        ------
        OSError, ValueError
            If the state cannot be read, or cannot be written.
        """
        header, payload = read_state(self.path)
        others = [one for one in header.report.get("warnings", []) if code_of(one) != "IV-STOPPED"]
        warnings = [coded("IV-STOPPED", stopped), *others]
        self._write(replace(header, report=header.report | {"stopped": stopped, "warnings": warnings}), payload)

    def close(self) -> None:
        """Let other processes in."""
        self._lock.release()

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, header: Header, payload: bytes) -> None:
        write_state(self.path, header, payload)
        self.header = header

    def _pickle(self, parts: tuple[object, object, object]) -> File | str:
        """Pickle the parts, if they can be; otherwise why not, in words."""
        try:
            with warnings.catch_warnings():
                # pickle asks every imported module for the name of a function, and some warn of being asked
                warnings.simplefilter("ignore", DeprecationWarning)
                content = pickle.dumps(parts, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # whatever a part's __reduce__ raises
            return f"{type(error).__name__}: {error}"
        return File(PICKLE, len(content), write_whole(self.path / PICKLE, [content]))

    def withdraw(self) -> None:
        """Leave nothing of a run that could not begin."""
        with contextlib.suppress(OSError):
            for name in (STATE, manifests.NAME, CONSTANTS, PICKLE):
                (self.path / name).unlink(missing_ok=True)
        self.close()
        if self._new:
            with contextlib.suppress(OSError):
                self.path.rmdir()

    def _clean(self) -> None:
        """Remove what belongs to no checkpoint."""
        remove_parts(self.path)
        named = {entry.name for entry in self.header.segments}
        for path in segment_paths(self.path):
            if path.name not in named and not path.is_dir():
                path.unlink()


def as_path(directory: object) -> Path:
    """The absolute path of a directory, as a model may change the working directory; `ValueError` if it is no path."""
    return arguments.path("directory", directory).absolute()


def check_segments(path: Path, header: Header) -> None:
    """`ValueError` unless all segments of a run are whole; those that are not are named."""
    if faults := [f for entry in header.segments if (f := segments.fault(path, entry))]:
        raise ValueError(
            f"the run cannot be continued with the same draws: {'; '.join(faults)}. iv.load({str(path)!r}) "
            "reads the draws of the other segments"
        )


def read_problem(path: Path, header: Header) -> tuple[Any, Any, Any]:
    """The problem and the sampler of a run, and what it records, from their pickle; **runs the code that it names**.

    Raises
    ------
    Exception
        Whatever stands in the way; `FileNotFoundError` if there is none.
    """
    entry = next((file for file in header.files if file.name == PICKLE), None)
    if entry is None:  # whatever lies there
        raise FileNotFoundError(f"the run in {path} has no {PICKLE}")
    content = read_plain(path / PICKLE)
    if (len(content), zlib.crc32(content)) != (entry.size, entry.crc):
        raise ValueError(f"{path / PICKLE} is truncated or damaged: its checksum is wrong")
    problem, sampler, record = pickle.loads(content)
    return problem, sampler, record


def _check_free(path: Path) -> None:
    """`ValueError` unless a run may begin in the folder."""
    if not path.exists():
        return
    if not path.is_dir():
        raise ValueError(f"directory must be a new or an empty folder, got the file {path}")
    if (path / STATE).exists():
        raise ValueError(
            f"directory must be a new or an empty folder, got {path}, which holds a run: continue it by "
            f"iv.resume({str(path)!r}), or read it by iv.load({str(path)!r})"
        )
    others = sorted(p.name for p in path.iterdir() if not _ours(p.name))
    if others:
        shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        raise ValueError(f"directory must be a new or an empty folder, got {path}, which holds {shown}")


def _ours(name: str) -> bool:
    """Whether a run that was killed before it had a state may have left this file."""
    return name in (CONSTANTS, PICKLE, "lock") or name.endswith(".part")
