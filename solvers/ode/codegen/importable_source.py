"""Functions made of source text, which pickles find again in any process: their qualified names hold the text."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

#: Functions of numpy that may be called by their own names.
ELEMENTARY = ("exp", "log", "sqrt", "abs", "sin", "cos", "tanh")
_PREFIX = "of_source_"


@cache
def of_source(source: str) -> Callable[..., object]:
    """The function ``formula`` of a source, which may use ``numpy`` and `ELEMENTARY`; one for each source."""
    scope: dict[str, Any] = {each: getattr(np, each) for each in ELEMENTARY}
    scope |= {"numpy": np, "__name__": __name__}
    exec(compile(source, "<formula>", "exec"), scope)
    made: Callable[..., object] = scope["formula"]
    made.__doc__ = source
    made.__qualname__ = _PREFIX + base64.urlsafe_b64encode(zlib.compress(source.encode())).decode()
    return made


def __getattr__(name: str) -> Callable[..., object]:
    """The function of a qualified name."""
    if not name.startswith(_PREFIX):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return of_source(zlib.decompress(base64.urlsafe_b64decode(name.removeprefix(_PREFIX))).decode())
