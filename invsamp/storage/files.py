"""Files that appear whole or not at all, and errors that say what went wrong with a disk."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Files under way are called ``.<name>.<random>.part``; one that is found was left over by a crash.
_PART = ".part"
_BLOCK = 1 << 20

_CAUSES = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "there is no permission to write there",
    errno.EPERM: "there is no permission to write there",
    errno.EIO: "the disk reports an input/output error",
    errno.ENOENT: "there is no such folder",
}
#: What file systems that cannot flush a folder answer.
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.ENOSYS, errno.EACCES, errno.EPERM, errno.EISDIR)


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> int:
    """Write a file under another name in its folder, wait until it is on the disk, and rename it.

    A crash leaves the old file or the new one under ``path``, never half of one.

    Returns
    -------
    int
        CRC-32 of what was written.

    Raises
    ------
    OSError
        Of the same kind and with the same ``errno`` as the system's, saying the cause in words; nothing is left over.
        The old file is still there, unless it is the folder that could not be flushed, after the renaming.
    """
    with explained(path):
        if not path.name:  # "." and "/"
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{_PART}")
    crc = 0
    try:
        with explained(path), open(aside, "xb") as file:
            for piece in pieces:
                file.write(piece)
                crc = zlib.crc32(piece, crc)
            file.flush()
            os.fsync(file.fileno())
        with explained(path):
            aside.replace(path)
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
    with explained(path):
        flush_folder(path.parent)
    return crc


def new_folder(path: Path) -> None:
    """Make a folder that may exist, and those above it, and wait until their names are on the disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        flush_folder(folder.parent)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an `OSError` while ``path`` is written into one that says what is wrong and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # by a library that lost it, with words of its own
            raise
        cause = _CAUSES.get(error.errno, (error.strerror or str(error)).lower())
        raise type(error)(error.errno, f"cannot write {path}: {cause}") from error


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the file system can do that."""
    try:
        flush(folder)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise


def flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Descriptor of a plain file, as `os.open` gives it, in a folder that another user may have made.

    A link may lead to any file of the reader's own, and a pipe or a device may never end.

    Raises
    ------
    ValueError
        If it is anything else: a link, a folder, a pipe, a device.
    OSError
        As the system's.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ENXIO) or path.is_symlink():
            raise ValueError(_no_file(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(_no_file(path))
    return descriptor


def read_plain(path: Path) -> bytes:
    """Content of a plain file; errors as of `open_plain`."""
    with open(open_plain(path), "rb") as file:
        return file.read()


def checksum(path: Path) -> tuple[int, int]:
    """Size and CRC-32 of a plain file; errors as of `open_plain`."""
    size = crc = 0
    with open(open_plain(path), "rb") as file:
        while block := file.read(_BLOCK):
            size, crc = size + len(block), zlib.crc32(block, crc)
    return size, crc


def remove_parts(folder: Path) -> None:
    """Remove what a crash left half written."""
    for part in folder.glob(f".*{_PART}"):
        if not part.is_dir():
            part.unlink(missing_ok=True)


def _no_file(path: Path) -> str:
    kind = "a link" if path.is_symlink() else "a folder" if path.is_dir() else "a pipe or a device"
    return f"{path} is {kind}; a run has plain files alone, and this one is not opened"
