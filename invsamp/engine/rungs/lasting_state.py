"""Parts of a run that last: what changes in them is named once, and saved and restored here."""

from __future__ import annotations

import copy
from collections import namedtuple
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from invsamp.stored import stored

#: The state of a part: a registered named tuple, for `invsamp.engine.driver.serialization.encode`.
LastingState = Any


class Lasting:
    """A part whose state is some of its attributes, in a registered named tuple.

    A class names them as ``class Part(Lasting, lasting=("_done", "tuners"))``. Attributes that have a state of their
    own, and lists of such, are restored in place, in that order; all others are assigned. A state that was taken does
    not change with the part: lists, dicts, arrays and generators are copied; what these hold is never written to.
    """

    _lasting: ClassVar[tuple[str, ...]]
    _state: ClassVar[Any]

    def __init_subclass__(cls, lasting: Sequence[str] = (), **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if lasting:
            fields = [name.lstrip("_") for name in lasting]
            cls._lasting = tuple(lasting)
            state = namedtuple(f"{cls.__name__}State", fields, module=cls.__module__)  # type: ignore[misc]
            state.__qualname__ = f"{cls.__qualname__}._state"  # where it is found: states are pickled, too
            state.part = cls  # type: ignore[attr-defined]
            cls._state = stored(state)

    def state(self) -> LastingState:
        """All that lasts, for `restore`."""
        return self._state(*(_taken(getattr(self, name, None)) for name in self._lasting))

    def restore(self, state: LastingState) -> None:
        """Continue from a state."""
        for name, value in zip(self._lasting, state, strict=True):
            now: Any = getattr(self, name, None)
            if now is None and hasattr(value, "part"):
                now = self._renewed(name)
                setattr(self, name, now)
            if _has_state(now) and value is not None:
                now.restore(value)
            elif isinstance(now, list) and any(map(_has_state, now)):
                for part, own in zip(now, value, strict=True):
                    part.restore(own)
            else:
                setattr(self, name, _taken(value))

    def _renewed(self, name: str) -> Lasting:
        """The part of that name, which did not exist when the state was restored."""
        raise NotImplementedError(f"{type(self).__name__} makes no {name!r}")


def _has_state(value: object) -> Any:
    return hasattr(value, "restore")


def _taken(value: Any) -> Any:
    if _has_state(value):
        return value.state()
    if isinstance(value, np.random.Generator):
        return _copied(value)
    if isinstance(value, list):
        return [part.state() if _has_state(part) else part for part in value]
    if isinstance(value, dict):
        return {name: _taken(part) if isinstance(part, np.random.Generator) else part for name, part in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def _copied(rng: np.random.Generator) -> np.random.Generator:
    seed: Any = copy.deepcopy(rng.bit_generator.seed_seq)  # what is spawned later is the same
    bits = type(rng.bit_generator)(seed)
    bits.state = rng.bit_generator.state
    return np.random.Generator(bits)
