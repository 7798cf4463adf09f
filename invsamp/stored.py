"""Parts that the state of a run may hold: named tuples and frozen dataclasses, registered where they are defined.

`invsamp.engine.driver.serialization` reads back these and no other classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_Part = TypeVar("_Part")
#: The parts by name.
PARTS: dict[str, type[object]] = {}


def stored(part: type[_Part]) -> type[_Part]:
    """Register a named tuple or a frozen dataclass, by its name.

    Raises
    ------
    TypeError
        If another class of that name is registered: what is read back would be either.
    """
    known = PARTS.setdefault(part.__name__, part)
    if (known.__module__, known.__qualname__) != (part.__module__, part.__qualname__):
        raise TypeError(f"stored parts must have names of their own, got {part!r} beside {known!r}")
    PARTS[part.__name__] = part
    return part


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def stored_dataclass(part: type[_Part]) -> type[_Part]:
    """Make a class a frozen dataclass, and register it."""
    return stored(dataclass(frozen=True)(part))
