"""Files of records, one JSON object a line: each process appends to a file of its own, all read those of the others."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import uuid
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

from invsamp.protocols import Facts, Plain
from invsamp.warning_codes import InvsampWarning

SUFFIX = ".jsonl"
#: The end of a line: the CRC-32 of all before it.
_END = re.compile(rb',"crc":"([0-9a-f]{8})"\}')
_END_LENGTH = len(b',"crc":"00000000"}')


class RecordWriter:
    """Appends records to a new file, each on the disk when `append` returns.

    A process writes to no file of another one, so that neither a lock nor a torn last line of a killed process
    disturbs it. A fork opens a file of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._process, self._descriptor = 0, -1

    def append(self, *records: Facts) -> None:
        """Write records and wait until they are on the disk.

        Raises
        ------
        OSError
            If it cannot be written, as on a full disk. The file is not used again.
        """
        if not records:
            return
        with self._lock:
            descriptor = self._open()
            try:
                rest = memoryview(b"".join(map(as_line, records)))
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            except BaseException:
                self._close()  # what is half written stays the torn end of a file that no one appends to
                raise

    def _open(self) -> int:
        if self._process != os.getpid():  # the first record, or a fork: that file is the parent's
            path = self._folder / f"{uuid.uuid4().hex[:16]}{SUFFIX}"
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._process = os.getpid()
            with contextlib.suppress(OSError):  # where a file system cannot flush folders
                _flush(self._folder)
        return self._descriptor

    def _close(self) -> None:
        os.close(self._descriptor)
        self._process = 0

    def __del__(self) -> None:
        if self._process == os.getpid():
            self._close()


class RecordReader:
    """Reads the records of all files in a folder: at first all, then what has been added."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}  # bytes of each file

    def new(self) -> Iterator[Plain]:
        """Records since the last call. A line without its end is left for later, when it may have one."""
        with os.scandir(self._folder) as found:
            files = sorted((entry.name, entry.stat().st_size) for entry in found if entry.name.endswith(SUFFIX))
        for name, size in files:
            begin = self._read.get(name, 0)
            if size > begin:
                yield from self._lines(name, begin)

    def _lines(self, name: str, begin: int) -> Iterator[Plain]:
        with open(self._folder / name, "rb") as file:
            file.seek(begin)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                begin += len(line)
                record = from_line(line)
                if record is None:
                    warnings.warn(
                        f"{self._folder / name} is damaged before byte {begin}: one simulation there is left "
                        "out, and is repeated if it is needed",
                        InvsampWarning,
                        stacklevel=2,
                    )
                    continue
                self._read[name] = begin
                yield record
        self._read[name] = begin


def as_line(record: Facts) -> bytes:
    """A record as a line that ends in its checksum."""
    text = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return text + b',"crc":"%08x"}\n' % zlib.crc32(text)


def from_line(line: bytes) -> Plain | None:
    """The record of a whole line; None where it is damaged."""
    text, end = line[:-1][:-_END_LENGTH], _END.fullmatch(line[:-1][-_END_LENGTH:])
    if end is None or int(end[1], 16) != zlib.crc32(text):
        return None
    record: Plain = json.loads(text + b"}")
    return record


def write_once(path: Path, content: bytes) -> None:
    """Make a file that is whole as soon as it has its name; one that another process has made is left as it is."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        with open(aside, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
