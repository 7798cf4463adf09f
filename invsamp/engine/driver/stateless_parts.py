"""Memory that parts of a user's own do not declare, and that a run directory could not restore: it is refused.

A part is settings; what changes belongs into its memory. A part that keeps something all the same would continue from
nothing after a resume, with other draws, in silence.
"""

from __future__ import annotations

import dataclasses
import hashlib
import types
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from invsamp.engine.driver.engine import Engine

#: What has no state of its own, or none that can be seen.
_PLAIN = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, str, int, float, type(None))
WHAT_TO_DO = (
    "State that changes in a run belongs into the part's memory, arrays by name that its methods take and "
    "return (see docs/how-to/extend/extending.md). Then it is saved and resumed. Without directory= it may stay in "
    "the part"
)


def check_settings(engine: Engine) -> None:
    """`ValueError` for a part that may change as it likes: frozen dataclasses, named tuples and functions do not."""
    for what, part in _parts(engine):
        if not _is_settings(part):
            raise ValueError(
                f"directory needs parts that are settings, as frozen dataclasses are, got the {what} {part!r} of "
                f"{type(part).__module__}.{type(part).__qualname__}. {WHAT_TO_DO}"
            )


class Unchanged:
    """Digests of the parts' attributes at the beginning of a run; `check` compares them."""

    def __init__(self, engine: Engine) -> None:
        self._watched = [*_parts(engine), *_bound(engine)]
        self._before = [_contents(part) for _, part in self._watched]

    def check(self) -> None:
        """`ValueError` for a part that has changed."""
        for (what, part), before in zip(self._watched, self._before, strict=True):
            now = _contents(part)
            changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
            if changed:
                raise ValueError(
                    f"directory needs parts that do not change, but the {what} {part!r} has changed its "
                    f"{', '.join(map(repr, changed))}. {WHAT_TO_DO}"
                )


def _parts(engine: Engine) -> Iterator[tuple[str, object]]:
    sampler = engine.sampler
    for rung in sampler.rungs:
        parts = {
            "kernel": rung.kernel,
            "estimator": rung.estimator,
            "target": rung.target,
            "variance model": rung.energy_variance,
            "variance model of gradients": rung.gradient_noise and rung.gradient_noise.variance,
            "step_size": rung.step_size,
        }
        yield from ((what, part) for what, part in parts.items() if _is_own(part))
    swap = sampler.swap
    rest = {"swap rule": swap.rule, "swap scheme": swap.scheme, "boundary": engine.boundary}
    yield from ((what, part) for what, part in rest.items() if _is_own(part))


def _bound(engine: Engine) -> Iterator[tuple[str, object]]:
    for rung in engine.rungs:
        if _is_own(rung.estimator):
            yield f"estimator {rung.settings.estimator!r}, bound as", rung.estimator


def _is_own(part: object) -> bool:
    return not isinstance(part, _PLAIN) and not type(part).__module__.startswith("invsamp.")


def _is_settings(part: object) -> bool:
    if dataclasses.is_dataclass(part):
        return bool(part.__dataclass_params__.frozen)  # type: ignore[union-attr]
    return isinstance(part, tuple) or not (getattr(part, "__dict__", None) or hasattr(type(part), "__slots__"))


def _contents(part: object) -> dict[str, bytes]:
    """Digests of an object's attributes, by name, without values that it caches."""
    kept = getattr(part, "__dict__", {})
    cached = {name for name in kept if isinstance(getattr(type(part), name, None), cached_property)}
    return {name: _digest(value) for name, value in kept.items() if name not in cached}


def _digest(value: object) -> bytes:
    """Of numbers, text, arrays, generators, and what holds these; of other objects, which one it is."""
    content: object = id(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        content = value.dtype.str, value.shape, value.tobytes()
    elif isinstance(value, np.random.Generator):
        content = _digest(value.bit_generator.state)
    elif isinstance(value, dict):
        content = [(repr(key), _digest(entry)) for key, entry in value.items()]
    elif isinstance(value, list | tuple):
        content = [_digest(entry) for entry in value]
    elif isinstance(value, set | frozenset):
        content = sorted(_digest(entry) for entry in value)
    elif isinstance(value, str | bytes | int | float | complex | np.generic | None):
        content = value
    return hashlib.sha256(repr((type(value).__qualname__, content)).encode()).digest()
