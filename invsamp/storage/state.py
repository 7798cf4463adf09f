"""Where a run stands, in one file: a header that everybody can read, and the sampler's own state.

The file holds, one after the other: ``MAGIC``; the lengths of the two parts, 8 bytes each (little-endian); their
CRC-32, 4 bytes; the header as JSON; the payload as `invsamp.engine.state.encode` made it. Nothing in it is executed.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from invsamp.results import layout
from invsamp.storage.files import write_whole

NAME = "state.bin"
MAGIC = b"invsamp run, format 1\n"
_LENGTHS = struct.Struct("<QQL")


@dataclass(frozen=True)
class Entry:
    """One segment, as the state file knows it."""

    name: str
    first: int  # number of its first draw in the run
    count: int  # draws
    size: int  # bytes
    crc: int  # CRC-32


@dataclass(frozen=True)
class Header:
    """What a reader needs besides the segments.

    Parameters
    ----------
    step : int
        Steps made, warm-up included.
    segments : tuple of Entry
    report : dict
        Counts and figures so far (`Run.report`), JSON-able.
    fingerprint : dict
        ``position`` and ``energies`` of the fidelities there, found at the start: they tell forward models apart.
    written : int
        Segments written so far, those that were replaced included: the number of the next.
    """

    step: int = 0
    segments: tuple[Entry, ...] = ()
    report: dict[str, Any] = field(default_factory=dict)
    fingerprint: dict[str, Any] = field(default_factory=dict)
    written: int = 0

    @property
    def draws(self) -> int:
        """Draws in the segments."""
        return sum(entry.count for entry in self.segments)


def write_state(directory: Path, header: Header, payload: bytes) -> None:
    """Replace the state file in one step; `OSError` as `write_whole` raises it."""
    text = layout.to_json(asdict(header)).encode()
    crc = zlib.crc32(payload, zlib.crc32(text))
    write_whole(directory / NAME, [MAGIC, _LENGTHS.pack(len(text), len(payload), crc), text, payload])


def read_state(directory: Path) -> tuple[Header, bytes]:
    """Header and payload.

    Raises
    ------
    ValueError
        If it is missing, truncated or damaged, or was written by a newer invsamp.
    """
    path = directory / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path} is missing") from None
    start = len(MAGIC) + _LENGTHS.size
    if not content.startswith(MAGIC[: len(content)]):
        newer = content.startswith(MAGIC[:-2])
        raise ValueError(f"{path} was written by a newer invsamp: upgrade" if newer else f"{path} is damaged")
    if len(content) < start:
        raise ValueError(f"{path} is truncated: it has {len(content)} bytes")
    header, payload, crc = _LENGTHS.unpack(content[len(MAGIC) : start])
    if len(content) < start + header + payload:
        raise ValueError(f"{path} is truncated: it has {len(content)} bytes of {start + header + payload}")
    if len(content) > start + header + payload or zlib.crc32(content[start:]) != crc:
        raise ValueError(f"{path} is damaged: its checksum is wrong")
    fields = json.loads(content[start : start + header])
    fields["segments"] = tuple(Entry(**entry) for entry in fields["segments"])
    return Header(**fields), content[start + header :]
