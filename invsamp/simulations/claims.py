"""Claims on simulations: each locks one byte of a file, and the system releases it when its holder dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from invsamp.warning_codes import InvsampWarning

NAME = "claims"
_TAKEN = (errno.EACCES, errno.EAGAIN)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
#: Seconds between two polls of a claim that another user holds: the first, and the longest.
PATIENCE = 0.01, 0.5


class Claims:
    """Claims of one folder, for all threads of a process.

    Locks of this kind are a process's own: closing any descriptor of the file would drop them all. So there is one
    `Claims` for a folder and process, made by `claims_of`, and its file is never closed.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._folder = folder
        self._held: set[int] = set()
        self._lock = threading.Lock()
        self._can_lock = True

    def take(self, number: int) -> bool:
        """Claim a simulation by its number (63 bits); whether no one else holds it."""
        with self._lock:
            if number in self._held:
                return False
            if self._can_lock and not self._locked(number):
                return False
            self._held.add(number)
            return True

    def release(self, number: int) -> None:
        """Give a claim back."""
        with self._lock:
            self._held.discard(number)
            if self._can_lock:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, number)

    @contextlib.contextmanager
    def waited_for(self, number: int) -> Iterator[None]:
        """Claim a simulation as soon as whoever holds it is done."""
        pause, longest = PATIENCE
        while not self.take(number):
            time.sleep(pause)
            pause = min(2.0 * pause, longest)
        try:
            yield
        finally:
            self.release(number)

    def _locked(self, number: int) -> bool:
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            if error.errno not in _NO_LOCKS:
                raise
            self._can_lock = False
            warnings.warn(
                f"the file system of {self._folder} cannot lock files: scripts that share it at the same time may run "
                "a simulation twice",
                InvsampWarning,
                stacklevel=4,
            )
        return True


_CLAIMS: dict[str, Claims] = {}
_OPENING = threading.Lock()


def claims_of(folder: Path) -> Claims:
    """The claims of a folder in this process."""
    with _OPENING:
        key = os.path.realpath(folder)
        if key not in _CLAIMS:
            _CLAIMS[key] = Claims(folder)
        return _CLAIMS[key]


def _after_fork() -> None:
    global _OPENING
    _CLAIMS.clear()  # the parent's: a fork has none of its locks
    _OPENING = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
