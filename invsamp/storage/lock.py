"""One process at a time: a lock that the system releases when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import warnings
from pathlib import Path
from types import TracebackType

from invsamp.storage.files import explained

NAME = "lock"


class DirectoryInUseError(RuntimeError):
    """Another process is writing to the directory."""


class Lock:
    """Exclusive use of a directory, held until `release`, or the death of the process.

    The file ``lock`` in the directory says who holds it. It is removed in the end; one that a killed process left
    behind locks nothing.

    Raises
    ------
    DirectoryInUseError
        If another process holds it: its number and its host are in the message.
    OSError
        If the directory cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._descriptor: int | None = self._acquire()

    def release(self) -> None:
        """Let others in."""
        if self._descriptor is None:
            return
        # before the lock is gone, so that the name never belongs to a process that does not hold it
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
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
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
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
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise DirectoryInUseError(
                    f"{self._path.parent} is in use by {self._holder()}: one process at a time may write to it"
                ) from None
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            warnings.warn(
                f"the file system of {self._path.parent} cannot lock files: take care that no second process "
                "writes to it",
                stacklevel=5,
            )

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _sign(self, descriptor: int) -> None:
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
        with explained(self._path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text, 0)

    def _holder(self) -> str:
        try:
            holder = json.loads(self._path.read_text())
            return f"process {holder['pid']} on host {holder['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"  # which has not signed yet
