"""Whether the code of a simulator is that by which a database's simulations were made."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
import types
import warnings
from pathlib import Path

from invsamp.warning_codes import InvsampWarning

_PREFIX = ".code"


def check_code(model: object, folder: Path, version: str, simulated: bool) -> None:
    """Warn if a folder holds simulations by other code of this version, and note the present code there.

    The code of functions is compared, not comments, data or programs. An empty file has its digest as name, so that
    any number of scripts may do so at once.
    """
    own = code_of(model)
    if own is None:
        return
    # compiled code belongs to a version of Python
    label = hashlib.sha256(version.encode()).hexdigest()[:8]
    begin = f"{_PREFIX}-{label}-{sys.implementation.cache_tag}-"
    known = {entry.name for entry in folder.glob(f"{begin}*")}
    if begin + own in known:
        return
    if known and simulated:
        warnings.warn(
            f"the code of the simulator is not that by which the simulations in {folder} were made. If its results "
            'have changed, give it a label, such as model.version = "2", or another folder: until then the old '
            "results are used",
            InvsampWarning,
            stacklevel=4,
        )
    with contextlib.suppress(OSError):  # a folder that may only be read
        (folder / (begin + own)).touch()


def code_of(model: object) -> str | None:
    """Digest of the code of a function and of the functions of its module that it calls; None if it has none."""
    found: dict[str, types.CodeType] = {}
    for function in _functions(model):
        _gather(function, found)
    if not found:
        return None
    digest = hashlib.sha256()
    for name in sorted(found):
        _update(digest, found[name])
    return digest.hexdigest()[:16]


def _functions(model: object) -> list[types.FunctionType]:
    """Functions that a model consists of: itself, those that it wraps, or the methods of its class."""
    if isinstance(model, functools.partial):
        return _functions(model.func)
    if isinstance(model, types.MethodType):
        return _functions(model.__func__)
    if isinstance(model, types.FunctionType):
        return [model]
    held = [value for value in getattr(model, "__dict__", {}).values() if isinstance(value, types.FunctionType)]
    methods = [value for value in vars(type(model)).values() if isinstance(value, types.FunctionType)]
    return held + ([] if type(model).__module__.startswith("invsamp.") else methods)


def _gather(function: types.FunctionType, found: dict[str, types.CodeType]) -> None:
    key = f"{function.__module__}.{function.__qualname__}"
    if key in found:
        return
    found[key] = function.__code__
    cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    for value in [*cells, *(function.__globals__.get(name) for name in _names(function.__code__))]:
        if isinstance(value, types.FunctionType) and value.__module__ == function.__module__:
            _gather(value, found)


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a function that is not defined yet
        return False


def _names(code: types.CodeType) -> list[str]:
    inner = [name for one in code.co_consts if isinstance(one, types.CodeType) for name in _names(one)]
    return [*code.co_names, *inner]


def _update(digest: hashlib._Hash, code: types.CodeType) -> None:
    digest.update(code.co_code)
    digest.update(repr(code.co_names).encode())
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            _update(digest, one)
        elif not isinstance(one, frozenset):  # whose order changes from process to process
            digest.update(repr(one).encode())
