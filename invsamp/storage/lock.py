"""One process at a time: a lock that the system releases when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import warnings
import weakref
from pathlib import Path
from types import TracebackType

from invsamp.storage.files import explained, open_plain
from invsamp.warning_codes import InvsampWarning

NAME = "lock"
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)


class DirectoryInUseError(RuntimeError):
    """Another process is writing to the directory."""


# Not by the package filelock, which truncates the file before it has the lock, so that the holder is not known,
# would write through a second name of a user's file, and fails where a file system has no locks.


class Lock:
    """Exclusive use of a directory, held until `release`, or the death of the process.

    The file ``lock`` in the directory says who holds it. It is removed in the end; one that a killed process left
    behind locks nothing.

    Raises
    ------
    DirectoryInUseError
        If another process holds it: its number and its host are in the message.
    ValueError
        If ``lock`` is no plain file of its own: what it leads to would be written over.
    OSError
        If the directory cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._descriptor: int | None = self._acquire()
        _HELD.add(self)

    def release(self) -> None:
        """Let others in."""
        if self._descriptor is None:
            return
        # before the lock is gone, so that the name never belongs to a process that does not hold it
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = None

    def forget(self) -> None:
        """Close the lock in a fork of the process that holds it: the fork may outlive that process."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _acquire(self) -> int:
        while True:
            with explained(self._path):
                descriptor = open_plain(self._path, os.O_RDWR | os.O_CREAT)
            try:
                if os.fstat(descriptor).st_nlink > 1:
                    raise ValueError(f"{self._path} is a hard link to another file, which would be overwritten")
                self._lock(descriptor)
                if self._is_current(descriptor):
                    self._sign(descriptor)
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # its holder removed it between our two calls: there is a new one, or none

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _TAKEN:
                raise _in_use(self._path, descriptor) from None
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            warnings.warn(
                f"the file system of {self._path.parent} cannot lock files: take care that no second process "
                "writes to it",
                InvsampWarning,
                stacklevel=5,
            )

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self._path))
        except FileNotFoundError:
            return False

    def _sign(self, descriptor: int) -> None:
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        with explained(self._path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text, 0)


def check_unlocked(directory: Path) -> None:
    """`DirectoryInUseError` if another process, or another part of this one, holds the lock of a directory.

    `ValueError` if the lock is no plain file.
    """
    try:
        descriptor = open_plain(directory / NAME)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            raise _in_use(directory / NAME, descriptor) from None
    finally:
        os.close(descriptor)


def _in_use(path: Path, descriptor: int) -> DirectoryInUseError:
    try:
        signed = json.loads(os.pread(descriptor, 4096, 0))
        holder = f"process {signed['pid']} on host {signed['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        holder = "another process"  # which has not signed yet
    return DirectoryInUseError(f"{path.parent} is in use by {holder}: one process at a time may write to it")


_HELD: weakref.WeakSet[Lock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in _HELD:
        lock.forget()


os.register_at_fork(after_in_child=_forget_all)
