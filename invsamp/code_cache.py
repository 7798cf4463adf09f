"""Folders for machine code. Whoever can write to one decides what is run: it has to be the user's own.

numba stores code in NUMBA_CACHE_DIR, beside each source file, or in the user's folder for caches. It raises where it
can write to none of these; then a private folder among the temporary files is used. A NUMBA_CACHE_DIR or a folder for
caches to which others can write is not used. Importing this module ensures that, before anything is compiled.

It also ensures that one process does not use another's stored code of the same name. numba distinguishes functions of
one name by a number that it counts up in each process. Two processes give the same number to different functions. A
third one that loads both finds one symbol twice and calls the first function in both places
(https://github.com/numba/numba/issues/10486). Random numbers do not come twice, in forks neither.

And Python's garbage collector pauses while numba compiles: it took a tenth of that time, and found next to nothing.
"""

from __future__ import annotations

import gc
import os
import secrets
import stat
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

# if colorama is installed, numba colors its errors, and leaves an escape sequence at the end of a terminal's output,
# which is that of `mpiexec` too
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")

import numba
from numba.core import event
from numba.core.bytecode import FunctionIdentity

_CONFIG: Any = numba.config
_IDENTITY: Any = FunctionIdentity
_LISTENER: Any = event.Listener


def is_usable(path: Path) -> bool:
    """Whether code may be stored in a folder, which is made if need be: this user can write to it, and no one else."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_own(path):
            return False
        with tempfile.TemporaryFile(dir=path):
            return True
    except OSError:
        return False


@cache
def temporary_folder() -> Path:
    """A private folder among the temporary files, the same for every process, unless its name is taken."""
    user = getattr(os, "getuid", lambda: "user")()
    path = Path(tempfile.gettempdir()).absolute() / f"invsamp-{user}"
    if not is_usable(path):
        path = Path(tempfile.mkdtemp(prefix="invsamp-"))
    warnings.warn(
        f"compiled code is stored in {path}: there is no other folder that this user, and no one else, can write to. "
        "Set NUMBA_CACHE_DIR to one to keep it",
        stacklevel=2,
    )
    return path


@contextmanager
def without_collector() -> Iterator[None]:
    """Python's garbage collector pauses, unless it does so already; reference counts go on."""
    _PAUSE.begin()
    try:
        yield
    finally:
        _PAUSE.end()


class _Pause:
    """Pauses of the collector that may overlap, in this thread and in others: the last to end lets it go on."""

    def __init__(self) -> None:
        self._lock, self._depth, self._was_on = threading.Lock(), 0, False

    def begin(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._depth += 1

    def end(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._was_on:
                gc.enable()


_PAUSE = _Pause()


class _Compiling(_LISTENER):  # type: ignore[misc, valid-type]
    def on_start(self, event: object) -> None:
        _PAUSE.begin()

    def on_end(self, event: object) -> None:
        _PAUSE.end()


def _is_own(path: Path) -> bool:
    if not hasattr(os, "getuid"):
        return True
    status = path.lstat()  # a link may be turned
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _see_to_numba() -> None:
    event.register("numba:compile", _Compiling())
    _IDENTITY._unique_ids = iter(lambda: secrets.randbits(64), None)  # noqa: SLF001
    given = _CONFIG.CACHE_DIR
    if given and not is_usable(Path(given)):
        warnings.warn(
            f"NUMBA_CACHE_DIR={given} is not used: it has to be a folder that this user, and no one else, can write "
            "to, as the code in it is run",
            stacklevel=2,
        )
        _set("")
    if not _CONFIG.CACHE_DIR and not _finds_a_place():
        _set(str(temporary_folder() / "numba"))


def _set(folder: str) -> None:
    # the variable too: numba reads it again, and processes that this one starts inherit it
    _CONFIG.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = folder


def _finds_a_place() -> bool:
    """Whether numba finds a folder by itself that no one else can write to."""
    try:
        compiled: Any = numba.njit(cache=True)(_is_own)  # which compiles nothing yet
    except RuntimeError:  # "no locator available"
        return False
    chosen = Path(compiled.stats.cache_path)
    if chosen == Path(__file__).parent / "__pycache__":  # where who can write could as well change the source
        return True
    return is_usable(chosen.parent) and is_usable(chosen)


_see_to_numba()
