"""A run on disk as one unit: what it is, where it stands, and the sampler's own state, in one file with a checksum.

The file holds, one after the other: ``MAGIC``; the lengths of the two parts, 8 bytes each (little-endian); their
CRC-32, 4 bytes; the header as JSON; the payload as `invsamp.engine.driver.serialization.encode` made it. Nothing in it
is executed. The payload says by itself what it is, because who reads a run or lists it takes the header alone.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path

from invsamp.protocols import Plain
from invsamp.storage import layout
from invsamp.storage.files import read_plain, write_whole

NAME = "state.bin"
MAGIC = b"invsamp run, format 2\n"
_LENGTHS = struct.Struct("<QQL")
_FORMAT = re.compile(rb"invsamp run, format (\d+)\n")
_SEGMENT = re.compile(r"segment-[0-9]{6,}\.nc")


@dataclass(frozen=True)
class File:
    """A file beside the state, as the state knows it."""

    name: str
    size: int  # bytes
    crc: int  # CRC-32


@dataclass(frozen=True)
class Entry(File):
    """One segment."""

    first: int  # number of its first draw in the run
    count: int  # draws


@dataclass(frozen=True)
class Header:
    """Description of a run, of its state and of its files, for a reader of the segments.

    Parameters
    ----------
    about : dict
        What the run is: plan, settings, parameters, domain, versions; JSON-able.
    files : tuple of File
        Those that are written once.
    step : int
        Steps made, warm-up included.
    segments : tuple of Entry
        In the order of their draws, the first of which is number 0.
    report : dict
        Counts and figures so far (`Run.report`), JSON-able.
    fingerprint : dict
        ``position`` and ``energies`` of the fidelities there, found at the start: they distinguish forward models.
    written : int
        Segments written so far, those that were replaced included: the number of the next.
    """

    about: Plain = field(default_factory=dict)
    files: tuple[File, ...] = ()
    step: int = 0
    segments: tuple[Entry, ...] = ()
    report: Plain = field(default_factory=dict)
    fingerprint: Plain = field(default_factory=dict)
    written: int = 0

    @property
    def draws(self) -> int:
        """Draws in the segments."""
        return sum(entry.count for entry in self.segments)


class OtherFormatError(ValueError):
    """A run of another version of invsamp, which this one could misread."""


def segment_name(number: int) -> str:
    """Name of a segment."""
    return f"segment-{number:06d}.nc"


def segment_paths(directory: Path) -> list[Path]:
    """All that have the name of a segment, in the order of their numbers."""
    return sorted(path for path in directory.iterdir() if _SEGMENT.fullmatch(path.name))


def write_state(directory: Path, header: Header, payload: bytes) -> None:
    """Replace the state file in one step; `OSError` as `write_whole` raises it."""
    text = layout.to_json(asdict(header)).encode()
    crc = zlib.crc32(payload, zlib.crc32(text))
    write_whole(directory / NAME, [MAGIC, _LENGTHS.pack(len(text), len(payload), crc), text, payload])


def read_state(directory: Path) -> tuple[Header, bytes]:
    """Header and payload.

    Raises
    ------
    FileNotFoundError
        If there is no such folder, or it holds no run.
    ValueError
        If it is missing beside segments, truncated or damaged; `OtherFormatError` if another version wrote it.
    """
    path = directory / NAME
    try:
        content = read_plain(path)
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(directory) from None
    written = _FORMAT.match(content)
    if written and not content.startswith(MAGIC):
        raise OtherFormatError(
            f"{directory} was written by another version of invsamp, in format {int(written[1])}; this one reads "
            f"format {int(_FORMAT.match(MAGIC)[1])}. Read it with the version that wrote it"  # type: ignore[index]
        )
    start = len(MAGIC) + _LENGTHS.size
    if not content.startswith(MAGIC[: len(content)]):
        raise ValueError(f"{path} is damaged")
    if len(content) < start:
        raise ValueError(f"{path} is truncated: it has {len(content)} bytes")
    header, payload, crc = _LENGTHS.unpack(content[len(MAGIC) : start])
    if len(content) < start + header + payload:
        raise ValueError(f"{path} is truncated: it has {len(content)} bytes of {start + header + payload}")
    if len(content) > start + header + payload or zlib.crc32(content[start:]) != crc:
        raise ValueError(f"{path} is damaged: its checksum is wrong")
    try:
        return _header(json.loads(content[start : start + header])), content[start + header :]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _missing(directory: Path) -> Exception:
    if not directory.is_dir():
        why = "it is no folder" if directory.exists() else "the folder does not exist"
        return FileNotFoundError(f"no run at {directory}: {why}")
    if segment_paths(directory):
        return ValueError(f"{directory / NAME} is missing")
    return FileNotFoundError(f"no run at {directory}: it has no {NAME}")


def _header(fields: Plain) -> Header:
    """A header from untrusted JSON: its names and sizes are used to open and to make room."""
    for name in ("about", "report", "fingerprint"):
        if not isinstance(fields[name], dict):
            raise TypeError(f"its {name} is {fields[name]!r:.80}")
    files = tuple(File(**entry) for entry in fields.pop("files"))
    segments = tuple(Entry(**entry) for entry in fields.pop("segments"))
    first = 0
    for entry in segments:
        if not isinstance(entry.name, str) or not _SEGMENT.fullmatch(entry.name):
            raise ValueError(f"it calls a segment {entry.name!r}")
        # a draw takes 8 bytes at least
        if type(entry.count) is not int or type(entry.size) is not int or not 0 < 8 * entry.count <= entry.size:
            raise ValueError(f"it claims {entry.count!r} draws in the {entry.size!r} bytes of {entry.name}")
        if entry.first != first:
            raise ValueError(f"it claims the draws from {entry.first!r} on in {entry.name}, not from {first} on")
        first += entry.count
    return Header(files=files, segments=segments, **fields)
