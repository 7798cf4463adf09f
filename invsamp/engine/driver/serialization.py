"""The state of a run as bytes and back, exact to the bit and without pickle: reading a file can run no code.

A state is a tree of dicts, lists, tuples, strings, numbers, None, arrays, random generators and invsamp's own parts
(`invsamp.stored.PARTS`). As bytes it is a line of magic, the lengths, the tree as JSON, the entries of all arrays one
after the other, and the SHA-256 digest of all that.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from typing import Any

import numpy as np

from invsamp.protocols import AnyArray
from invsamp.stored import PARTS

_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_MAGIC = b"invsamp state 1\n"
_DIGEST = hashlib.sha256().digest_size
#: Kinds of NumPy entries: booleans, integers, floats, complex numbers, text.
_KINDS = "biufcUS"


def encode(state: object) -> bytes:
    """A state as bytes.

    Raises
    ------
    TypeError
        If it holds anything but what is listed at the head of this module; the message says where.
    """
    arrays = _Arrays()
    tree = json.dumps(_pack(state, arrays, "state"), separators=(",", ":")).encode()
    entries = b"".join(arrays.entries)
    body = b"".join([_MAGIC, len(tree).to_bytes(8, "little"), len(entries).to_bytes(8, "little"), tree, entries])
    return body + hashlib.sha256(body).digest()


def decode(data: bytes) -> Any:
    """The state that `encode` was given.

    Raises
    ------
    ValueError
        If the bytes are no state, or are truncated or damaged. They are untrusted: what they claim to hold
        makes no room before it is there, and nothing but `invsamp.stored.PARTS`, with their own fields, comes of them.
    """
    head = len(_MAGIC)
    if data[:head] != _MAGIC:
        raise ValueError(f"no state of a run: it begins with {data[:head]!r}, not with {_MAGIC!r}")
    lengths = [int.from_bytes(data[head + k : head + k + 8], "little") for k in (0, 8)]
    expected = head + 16 + sum(lengths) + _DIGEST
    if len(data) < head + 16 or len(data) != expected:
        raise ValueError(f"the state of the run is truncated or damaged: {len(data)} bytes, not {expected}")
    if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise ValueError("the state of the run is damaged: its digest does not fit its contents")
    middle = head + 16 + lengths[0]
    try:
        return _unpack(json.loads(data[head + 16 : middle]), memoryview(data)[middle:-_DIGEST])
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"the state of the run cannot be read: {error}") from error


class _Arrays:
    """The entries of arrays, one after the other; an array that the state holds twice is written once."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self._end = 0
        # the arrays themselves are kept too, so that no other can take the place of one in memory
        self._known: dict[int, tuple[AnyArray, list[object]]] = {}

    def add(self, array: AnyArray, where: str) -> list[object]:
        """How an array is described: type, shape, order of its axes in memory, and where its entries begin."""
        if id(array) in self._known:
            return self._known[id(array)][1]
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"{where} cannot be saved: it is an array of {array.dtype}")
        # sums and products round by the order of the entries in memory, so that is part of the value
        order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        description = [array.dtype.str, list(array.shape), order, self._end]
        self.entries.append(array.transpose(order).tobytes())
        self._end += array.nbytes
        self._known[id(array)] = array, description
        return description


def _pack(value: object, arrays: _Arrays, where: str) -> object:
    """A JSON tree in which a list is a list and every other compound is an object of one key, its kind."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return {"scalar": arrays.add(np.asarray(value), where)}
    if isinstance(value, np.ndarray):
        return {"array": arrays.add(value, where)}
    if isinstance(value, np.random.Generator):
        return {"generator": _pack(value.bit_generator.state, arrays, where)}
    if PARTS.get(type(value).__name__) is type(value):
        fields = [(name, _pack(getattr(value, name), arrays, f"{where}.{name}")) for name in _fields(type(value))]
        return {"part": [type(value).__name__, dict(fields)]}
    if type(value) is list:
        return [_pack(entry, arrays, f"{where}[{k}]") for k, entry in enumerate(value)]
    if type(value) is tuple:
        return {"tuple": [_pack(entry, arrays, f"{where}[{k}]") for k, entry in enumerate(value)]}
    if type(value) is dict and all(type(key) in (str, int) for key in value):
        return {"dict": [[key, _pack(entry, arrays, f"{where}[{key!r}]")] for key, entry in value.items()]}
    raise TypeError(
        f"{where} cannot be saved: it is a {type(value).__module__}.{type(value).__qualname__}. A state holds plain "
        "values, arrays, random generators and invsamp's own parts"
    )


def _unpack(value: object, entries: memoryview) -> Any:
    if isinstance(value, list):
        return [_unpack(entry, entries) for entry in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind in ("array", "scalar"):
        dtype, shape, order, begin = content
        array = _unpack_array(dtype, shape, order, entries[begin:])
        return array[()] if kind == "scalar" else array
    if kind == "generator":
        return generator(_unpack(content, entries))
    if kind == "tuple":
        return tuple(_unpack(entry, entries) for entry in content)
    if kind == "dict":
        return {key: _unpack(entry, entries) for key, entry in content}
    if kind == "part":
        name, fields = content
        if name not in PARTS or set(fields) != set(_fields(PARTS[name])):
            raise ValueError(
                f"it holds a {name}, which this invsamp does not know: go on with the version that wrote it"
            )
        return _make(PARTS[name], {field: _unpack(entry, entries) for field, entry in fields.items()})
    raise ValueError(f"it holds a {kind!r}, which this invsamp does not know: go on with the version that wrote it")


def _unpack_array(dtype: str, shape: list[int], order: list[int], entries: memoryview) -> AnyArray:
    if np.dtype(dtype).kind not in _KINDS:
        raise ValueError(f"it holds an array of {dtype!r}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"it holds an array of shape {shape}")
    values = np.frombuffer(entries, dtype, math.prod(shape)) if math.prod(shape) else np.empty(0, dtype)
    inverse = sorted(range(len(order)), key=order.__getitem__)
    # a copy: what is read from bytes cannot be written to
    return values.copy().reshape([shape[axis] for axis in order]).transpose(inverse)


def generator(state: dict[str, object]) -> np.random.Generator:
    """A generator that continues from the state of a bit generator."""
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise ValueError(f"bit_generator must be one of {_BIT_GENERATORS}, got {name!r}")
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)


def _fields(part: type[Any]) -> tuple[str, ...]:
    return part._fields if issubclass(part, tuple) else tuple(field.name for field in dataclasses.fields(part))  # type: ignore[attr-defined, no-any-return]


def _make(part: type[object], fields: dict[str, object]) -> object:
    if issubclass(part, tuple):
        return part(**fields)
    # without __init__: what it would compute anew (an inverse, say) could differ in the last bit on another machine
    made = object.__new__(part)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made
