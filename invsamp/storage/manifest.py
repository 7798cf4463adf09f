"""Settings of a run and fingerprints of its parts, compared on resume; and a file for people to read them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from invsamp.ladder import Sampler
from invsamp.protocols import Array, Described, KnowsAxes, LabelsAxes, Limited, NamesSeries, Plain, Potential, Problem
from invsamp.storage import layout
from invsamp.storage.files import read_plain, write_whole

NAME = "manifest.json"
FORMAT = "invsamp run directory"
#: Largest relative difference of energies that another machine's arithmetic explains.
SAME_ENERGY = 1e-9
#: Entries of an array up to which it is written out.
LONGEST = 10_000
#: What differs between processes, or between versions of NumPy, without meaning anything.
_ADDRESS, _SCALAR = re.compile(r" at 0x[0-9a-fA-F]+"), re.compile(r"np\.(?:float|int|bool)\w*\(([^()]*)\)")


def describe(problem: Problem, sampler: Sampler | None) -> Plain:
    """Describe a problem and a sampler as nested text; others have another text.

    A part is described by its settings, or by what it prints; the data are hashed. A model that prints the same while
    it computes something else is left to `energies_at`.
    """
    found: Plain = {
        "problem": type(problem).__name__,
        "parameters": {name: list(shape) for name, shape in problem.shapes.items()},
        "fidelities": list(problem.fidelities),
    }
    parts = dict(problem.described()) if isinstance(problem, Described) else {}
    data = parts.pop("data", None)
    for name, part in parts.items():
        found[name] = {key: _nested(one) for key, one in part.items()} if isinstance(part, Mapping) else _nested(part)
    found["domain"] = _text(problem.sampling_domain)
    if data is not None:
        found["data"] = _hash(np.asarray(data))
    found["sampler"] = _nested(sampler)
    return found


def posed(problem: Problem) -> Plain:
    """Description of a problem: short texts of prior, noise and models, by name, the data's shape and its columns."""
    parts = dict(problem.described()) if isinstance(problem, Described) else {}
    data = parts.pop("data", None)
    found: Plain = {"kind": type(problem).__name__, "domain": _brief(problem.support)}
    for name, part in parts.items():
        found[name] = (
            {str(key): _brief(one) for key, one in part.items()} if isinstance(part, Mapping) else _brief(part)
        )
    if data is not None:
        found["data"] = list(np.shape(data))
    if isinstance(problem, NamesSeries) and problem.series is not None:
        found["series"] = list(problem.series)
    if isinstance(problem, KnowsAxes) and problem.axes:
        found["axes"] = problem.axes
    if isinstance(problem, Limited):
        ends = problem.limits.items()
        found["limits"] = {k: None if part is None else [np.ravel(end).tolist() for end in part] for k, part in ends}
    if isinstance(problem, LabelsAxes) and problem.axis_labels:
        found["labels"] = {name: dict(labels) for name, labels in problem.axis_labels.items()}
    return found


def energies_at(potentials: Mapping[str, Potential], position: Array) -> dict[str, float]:
    """Energy of each potential at one position (d,): one solve each."""
    with np.errstate(all="ignore"):
        return {name: float(potential.energy(position[None].copy())[0]) for name, potential in potentials.items()}


def compare_energies(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """Differences of the energies at one position, in words; empty if they are the same up to rounding."""
    found = []
    for name, old in before.items():
        new = now[name]
        if new == old or (math.isnan(new) and math.isnan(old)):
            continue
        if not math.isfinite(new - old) or abs(new - old) > SAME_ENERGY * max(1.0, abs(old)):
            found.append(f"the energy of fidelity {name!r} was {old!r}, is {new!r}")
    return found


def differences(before: Any, now: Any, where: str = "") -> list[str]:
    """Lines that name what differs between two descriptions, the old value and the new one."""
    same_kind = isinstance(before, Mapping) and isinstance(now, Mapping) and before.get(_KIND) == now.get(_KIND)
    if same_kind:
        names = dict.fromkeys([*before, *now])
        dot = f"{where}." if where else ""
        return [line for k in names for line in differences(before.get(k, _ABSENT), now.get(k, _ABSENT), f"{dot}{k}")]
    if isinstance(before, list) and isinstance(now, list) and any(isinstance(entry, Mapping) for entry in now):
        pairs = enumerate(zip_longest(before, now, fillvalue=_ABSENT))
        return [line for k, (old, new) in pairs for line in differences(old, new, f"{where}[{k}]")]
    if before == now:
        return []
    old, new = _printed(before), _printed(now)
    return [f"{where} was {_short(old, new)}, is {_short(new, old)}"]


def compare_data(before: Array, now: Array) -> str:
    """Difference of two arrays of data, in words."""
    if before.shape != now.shape:
        return f"data had shape {before.shape}, has {now.shape}"
    places = np.argwhere((before != now) & ~(np.isnan(before) & np.isnan(now)))
    first = tuple(places[0].tolist())
    count = f"{len(places)} of {now.size} entries differ{'s' if len(places) == 1 else ''}"
    return f"data{list(first)} was {before[first].item()!r}, is {now[first].item()!r} ({count})"


def write_manifest(directory: Path, about: Mapping[str, object]) -> None:
    """Write what a run is for people, who may do with the file what they like: nothing is taken from it.

    `OSError` as `write_whole` raises it.
    """
    content = {"format": FORMAT} | dict(about)
    text = json.dumps(json.loads(layout.to_json(content)), indent=1, ensure_ascii=False).encode() + b"\n"
    with contextlib.suppress(OSError, ValueError):
        if read_plain(directory / NAME) == text:
            return
    write_whole(directory / NAME, [text])


_KIND, _ABSENT = "kind", "absent"


def _nested(part: object) -> object:
    """A part as its kind and its settings, as nested text, or as what it prints."""
    if is_dataclass(part) and not isinstance(part, type) and part.__dataclass_params__.repr:  # type: ignore[attr-defined]
        return {_KIND: type(part).__name__} | {f.name: _nested(getattr(part, f.name)) for f in fields(part) if f.repr}
    if isinstance(part, list | tuple) and any(is_dataclass(entry) for entry in part):
        return [_nested(entry) for entry in part]
    if isinstance(part, np.ndarray) and part.size > LONGEST:
        return _hash(part)
    return _text(part)


def _text(part: object) -> str:
    """Printed form of a part, without the addresses in memory, which differ from process to process."""
    with np.printoptions(precision=17, threshold=LONGEST):
        return _SCALAR.sub(r"\1", _ADDRESS.sub("", repr(part)))


def _brief(part: object, most: int = 300) -> str:
    with np.printoptions(precision=4, threshold=8):
        found = _SCALAR.sub(r"\1", _ADDRESS.sub("", repr(part)))
    return found if len(found) <= most else f"{found[:most]}..."


def _printed(nested: object) -> str:
    """Printed form of a part, from its nested text by `_nested`."""
    if isinstance(nested, Mapping):
        settings = ", ".join(f"{name}={_printed(value)}" for name, value in nested.items() if name != _KIND)
        return f"{nested.get(_KIND, '')}({settings})"
    if isinstance(nested, Sequence) and not isinstance(nested, str):
        return f"[{', '.join(map(_printed, nested))}]"
    return str(nested)


def _hash(values: object) -> dict[str, object]:
    content = np.ascontiguousarray(values)
    return {"shape": list(content.shape), "sha256": hashlib.sha256(content.tobytes()).hexdigest()}


def _short(text: str, other: str, limit: int = 160) -> str:
    """A text for a message; of a long one the part that differs from the other."""
    if len(text) <= limit:
        return text
    same = next((k for k, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), 0)
    begin = max(0, same - limit // 2)
    return ("..." if begin else "") + text[begin : begin + limit] + ("..." if begin + limit < len(text) else "")
