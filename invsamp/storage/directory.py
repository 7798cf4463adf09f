"""The directory of a run: what it is, its draws so far, where it stands; one process at a time.

================  ==================================================================================
`manifest.json`   what the run is (`invsamp.storage.manifest`); a folder without it holds no run
`state.bin`       where it stands, with the checksums of the segments (`invsamp.storage.state`)
`segment-*.nc`    its draws (`invsamp.storage.segments`); those that `state.bin` names are the run's
`problem.nc`      the data and draws from the prior, where the problem has them
`posterior.pickle` the problem and the sampler, where they could be pickled; read by `invsamp.resume` only
`lock`            who writes to it, while somebody does
================  ==================================================================================

Every file is written under another name and renamed, a segment before the state that names it. So a kill at any
moment leaves the run as it was at the last checkpoint, and at most files that nobody names, which the next writer
removes.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from invsamp.storage import manifest as manifests
from invsamp.storage import segments
from invsamp.storage.files import explained, new_folder, remove_parts, write_whole
from invsamp.storage.lock import Lock, check_unlocked
from invsamp.storage.state import NAME as STATE
from invsamp.storage.state import Entry, Header, read_state, write_state
from invsamp.storage.stored import CONSTANTS

PICKLE = "posterior.pickle"


class RunDirectory:
    """A directory that this process writes to, from `create` or `open` until `close`.

    Attributes
    ----------
    path : Path
        Absolute.
    manifest : dict
    header : Header
        Of the last checkpoint.
    payload : bytes
        State of the last checkpoint; forgotten at the next.
    """

    def __init__(self, path: Path, lock: Lock, new: bool = False) -> None:
        self.path, self._lock, self._new = path, lock, new
        self.manifest: dict[str, Any] = {}
        self.header, self.payload = Header(), b""

    @classmethod
    def create(
        cls,
        path: Path,
        manifest: Mapping[str, Any],
        constants: segments.Groups,
        payload: bytes,
        parts: tuple[Any, Any] | None = None,
    ) -> RunDirectory:
        """Begin a run in a new or empty folder.

        Parameters
        ----------
        path : Path
        manifest : mapping
            What the run is, JSON-able.
        constants : mapping of mappings
            Groups that do not grow.
        payload : bytes
            The state before the first step.
        parts : tuple, optional
            The problem and the sampler, to be pickled if they can be.

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
            _check_free(path)  # again, now that nobody else can write
        except BaseException:
            directory.close()
            raise
        try:
            remove_parts(path)
            if constants:
                segments.write_constants(path / CONSTANTS, constants)
            directory._write(Header(), payload)
            why_not = "they were not wanted" if parts is None else directory._pickle(parts)
            pickled = "pickled" if why_not is None else f"could not be pickled: {why_not}"
            # last: it is what makes the folder a run
            directory.describe(dict(manifest) | {"posterior": pickled})
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
        manifests.read_manifest(path)
        directory = cls(path, Lock(path))
        try:
            directory.manifest = manifests.read_manifest(path)
            directory.header, directory.payload = read_state(path)
            faults = [f for entry in directory.header.segments if (f := segments.fault(path, entry))]
            if faults:
                raise ValueError(
                    f"the run cannot go on to the same draws: {'; '.join(faults)}. "
                    f"iv.load({str(path)!r}) reads the draws of the other segments"
                )
            with explained(path):
                directory._clean()
        except BaseException:
            directory.close()
            raise
        return directory

    def describe(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest, in place of an earlier one."""
        self.manifest = dict(manifest)
        manifests.write_manifest(self.path, manifest)

    def checkpoint(
        self,
        step: int,
        payload: bytes,
        report: Mapping[str, Any],
        groups: segments.Groups | None = None,
        largest: int = 0,
        fingerprint: Mapping[str, Any] | None = None,
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
        fingerprint : mapping, optional
            Kept from now on.

        Raises
        ------
        OSError
            If a file cannot be written; the run is then as it was at the last checkpoint.
        """
        try:
            replaced = self._append(step, payload, report, groups, largest, fingerprint)
        except BaseException:
            with contextlib.suppress(OSError, ValueError):
                # the file decides what the run is: it may have been renamed before something went wrong
                self.header = read_state(self.path)[0]
                self._clean()
            raise
        self.payload = b""
        if replaced is not None:
            with explained(self.path / replaced.name):
                (self.path / replaced.name).unlink(missing_ok=True)

    def close(self) -> None:
        """Let other processes in."""
        self._lock.release()

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(
        self,
        step: int,
        payload: bytes,
        report: Mapping[str, Any],
        groups: segments.Groups | None,
        largest: int,
        fingerprint: Mapping[str, Any] | None,
    ) -> Entry | None:
        """Write a checkpoint; the segment whose place was taken by a longer one, if any."""
        kept, written = list(self.header.segments), self.header.written
        replaced: Entry | None = None
        if groups is not None:
            count = segments.count(groups)
            first = kept[-1].first + kept[-1].count if kept else 0
            if kept and kept[-1].count + count <= largest:
                replaced = kept.pop()
                groups, first = segments.joined(self.path, replaced, groups), replaced.first
            kept.append(segments.write_segment(self.path, written, first, groups))
            written += 1
        self._write(
            Header(step, tuple(kept), dict(report), dict(fingerprint or self.header.fingerprint), written), payload
        )
        return replaced

    def _write(self, header: Header, payload: bytes) -> None:
        write_state(self.path, header, payload)
        self.header = header

    def _pickle(self, parts: tuple[Any, Any]) -> str | None:
        """Pickle the parts, if they can be; otherwise why not, in words."""
        try:
            content = pickle.dumps(parts, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # whatever a part's __reduce__ raises
            return f"{type(error).__name__}: {error}"
        write_whole(self.path / PICKLE, [content])
        return None

    def withdraw(self) -> None:
        """Leave nothing of a run that could not begin."""
        with contextlib.suppress(OSError):
            for name in (manifests.NAME, STATE, CONSTANTS, PICKLE):
                (self.path / name).unlink(missing_ok=True)
        self.close()
        if self._new:
            with contextlib.suppress(OSError):
                self.path.rmdir()

    def _clean(self) -> None:
        """Remove what belongs to no checkpoint."""
        remove_parts(self.path)
        named = {entry.name for entry in self.header.segments}
        for path in self.path.glob(segments.PATTERN):
            if path.name not in named:
                path.unlink()


def as_path(directory: Any) -> Path:
    """The absolute path of a directory, as a model may change the working directory; `ValueError` if it is no path."""
    if not isinstance(directory, str | os.PathLike) or not isinstance(os.fspath(directory), str):
        raise ValueError(f"directory must be a path, got {directory!r}")
    return Path(directory).absolute()


def read_problem(path: Path) -> tuple[Any, Any]:
    """The problem and the sampler of a run, from their pickle; **runs the code that it names**.

    Raises
    ------
    Exception
        Whatever stands in the way; `FileNotFoundError` if there is none.
    """
    with open(path / PICKLE, "rb") as file:
        problem, sampler = pickle.load(file)
    return problem, sampler


def _check_free(path: Path) -> None:
    """`ValueError` unless a run may begin in the folder."""
    if not path.exists():
        return
    if not path.is_dir():
        raise ValueError(f"directory must be a new or an empty folder, got the file {path}")
    if (path / manifests.NAME).exists():
        raise ValueError(
            f"directory must be a new or an empty folder, got {path}, which holds a run: "
            f"go on with it by iv.resume({str(path)!r}), or read it by iv.load({str(path)!r})"
        )
    others = sorted(p.name for p in path.iterdir() if not _ours(p.name))
    if others:
        shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
        raise ValueError(f"directory must be a new or an empty folder, got {path}, which holds {shown}")


def _ours(name: str) -> bool:
    """Whether a run that was killed before it had a manifest may have left this file."""
    return name in (STATE, CONSTANTS, PICKLE, "lock") or name.endswith(".part")
