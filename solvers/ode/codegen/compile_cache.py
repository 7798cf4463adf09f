"""Generated source in a folder of the user's, named by its content, compiled into functions that have an address.

A second process finds the source and, beside it, the machine code that numba stored: it compiles nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from numba import cfunc, types
from numba.core.errors import NumbaWarning

from invsamp.code_cache import is_usable, temporary_folder, without_collector
from invsamp.solvers.foreign import Jitted, Llvm

_DOUBLES = types.CPointer(types.float64)
#: ``void f(double t, double *y, double *p, double *out)``
SIGNATURE = types.void(types.float64, _DOUBLES, _DOUBLES, _DOUBLES)
#: Raised where stored code of earlier versions must not be run. 2: functions have random numbers.
_EDITION = "2"


class Compiled(NamedTuple):
    """A compiled ``f(t, y, p, out)``."""

    address: int
    function: Jitted  # keeps the machine code alive


def compiled(
    source: str,
    name: str,
    *,
    key: str | None,
    scope: Mapping[str, object] | None = None,
    signature: Llvm = SIGNATURE,
) -> Compiled:
    """Compile the function ``evaluate(t, y, p, out)`` of a piece of source.

    Parameters
    ----------
    source : str
        Python source that defines ``evaluate``, which reads from the pointers ``y`` and ``p`` and writes to ``out``.
    name : str
        Begins the file's name; an identifier.
    key : str or None
        Digest of all that the result depends on: the source and what the names in ``scope`` stand for. None
        compiles in memory, for this process alone.
    scope : mapping, optional
        Values of names that the source reads.
    signature : numba's type of a function, optional
        Of one with other arguments.

    Raises
    ------
    Exception
        Whatever numba raises if the source does not compile: mostly, not always, a NumbaError.
    """
    if key is None:
        return _compiled(source, f"<{name}>", scope, signature, cache=False)
    found = (folder() / _filename(name, key)).exists()
    path = store(_filename(name, key), source)
    try:
        return _compiled(source, str(path), scope, signature, cache=True)
    except Exception:
        path.unlink(missing_ok=True)
        if not found:
            raise
    # what an earlier process stored cannot be loaded here
    return _compiled(source, f"<{name}>", scope, signature, cache=False)


def _compiled(
    source: str, filename: str, scope: Mapping[str, object] | None, signature: Llvm, *, cache: bool
) -> Compiled:
    # numba imports the module of stored code by name
    namespace: dict[str, object] = {"__name__": __name__, **(scope or {})}
    exec(compile(source, filename, "exec"), namespace)
    with warnings.catch_warnings(), without_collector():
        # captured arrays above a megabyte are compiled in by address, which cannot be stored
        warnings.simplefilter("ignore", NumbaWarning)
        function = cfunc(signature, cache=cache, error_model="numpy")(namespace["evaluate"])
    return Compiled(int(function.address or 0), function)


def _filename(name: str, key: str) -> str:
    # stored code knows this module by its name: where that changes, older files must not be found
    return f"{name}_{digest(__name__, _EDITION, key)[:32]}.py"


def store(filename: str, source: str) -> Path:
    """Path of a file of `folder` with this content, written if it is not there.

    Several processes may do so at once: a file appears with all its content, and is never written twice, because
    numba takes a newer file for a changed one.
    """
    path = folder() / filename
    if not path.exists():
        handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(source)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass  # another process came first, with the source of the same key
        except OSError:  # no hard links on this file system
            os.replace(temporary, path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return path


def digest(*parts: str) -> str:
    """Digest of several strings, for use as a key."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def folder() -> Path:
    """Folder of the generated files, to which this user alone can write.

    ``invsamp`` in NUMBA_CACHE_DIR if that is set, or else in the platform's folder for caches; where neither can be, or
    others can write to it, a folder among the temporary files (`invsamp.code_cache`).
    """
    return _folder(os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME"), os.environ.get("HOME"))


@lru_cache(maxsize=8)
def _folder(numba: str | None, xdg: str | None, home: str | None) -> Path:
    for parent in _caches(numba, xdg, home):
        # a relative one stays where it was when the process changes its directory
        if is_usable(path := parent.absolute() / "invsamp"):
            return path
    return temporary_folder()


def _caches(numba: str | None, xdg: str | None, home: str | None) -> list[Path]:
    given = [Path(numba)] if numba else []
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return [*given, Path(local)] if local else given
    if sys.platform != "darwin" and xdg:
        return [*given, Path(xdg)]
    return [*given, Path(home) / ("Library/Caches" if sys.platform == "darwin" else ".cache")] if home else given
