"""What a run is: its settings and fingerprints of its parts, written once and compared on resume."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from invsamp.contract import Array, Potential, Problem
from invsamp.results import layout
from invsamp.storage.files import write_whole

NAME = "manifest.json"
FORMAT, FORMAT_VERSION = "invsamp run directory", 1
#: Largest relative difference of energies that another machine's arithmetic explains.
SAME_ENERGY = 1e-9
#: What differs between processes, or between versions of NumPy, without meaning anything.
_ADDRESS, _SCALAR = re.compile(r" at 0x[0-9a-fA-F]+"), re.compile(r"np\.(?:float|int|bool)\w*\(([^()]*)\)")


def describe(problem: Problem, sampler: Any) -> dict[str, Any]:
    """What tells one problem and sampler from others, as nested text and numbers.

    What a part prints stands for it; the data are hashed. A model that prints as the same while it computes something
    else is left to `energies_at`.
    """
    found: dict[str, Any] = {
        "problem": type(problem).__name__,
        "parameters": {name: list(shape) for name, shape in problem.shapes.items()},
        "fidelities": list(problem.fidelities),
        "domain": _text(problem.sampling_domain),
    }
    for name in ("prior", "noise"):
        if hasattr(problem, name):
            found[name] = _text(getattr(problem, name))
    forward = getattr(problem, "forward", None)
    models = forward if isinstance(forward, Mapping) else getattr(problem, "_levels", {})
    found["forward"] = {name: _text(model) for name, model in models.items()}
    data = getattr(problem, "data", None)
    if data is not None:
        found["data"] = _hash(np.asarray(data))
    found["sampler"] = _text(sampler)
    return found


def energies_at(potentials: Mapping[str, Potential], position: Array) -> dict[str, float]:
    """Energy of each potential at one position (d,): one solve each."""
    with np.errstate(all="ignore"):
        return {name: float(potential.energy(position[None].copy())[0]) for name, potential in potentials.items()}


def compare_energies(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """What differs between the energies at one position, in words; empty if they are the same up to rounding."""
    found = []
    for name, old in before.items():
        new = now[name]
        if new == old or (math.isnan(new) and math.isnan(old)):
            continue
        if not math.isfinite(new - old) or abs(new - old) > SAME_ENERGY * max(1.0, abs(old)):
            found.append(f"the energy of fidelity {name!r} was {old!r}, is {new!r}")
    return found


def differences(before: Mapping[str, Any], now: Mapping[str, Any], where: str = "") -> list[str]:
    """Lines that name what differs between two descriptions, the old value and the new one."""
    found = []
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        name = f"{where}{key}"
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{name}.")
        elif old != new:
            found.append(f"{name} was {_short(old, new)}, is {_short(new, old)}")
    return found


def write_manifest(directory: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest in one step; `OSError` as `write_whole` raises it."""
    content = {"format": FORMAT, "format_version": FORMAT_VERSION} | dict(manifest)
    text = json.dumps(json.loads(layout.to_json(content)), indent=1, ensure_ascii=False)
    write_whole(directory / NAME, [text.encode() + b"\n"])


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a run.

    Raises
    ------
    FileNotFoundError
        If there is no such folder, or it holds no run.
    ValueError
        If the manifest is damaged or of a newer invsamp.
    """
    if not directory.exists():
        raise FileNotFoundError(f"no run at {directory}: the folder does not exist")
    path = directory / NAME
    if not path.exists():
        raise FileNotFoundError(f"no run at {directory}: it has no {NAME}")
    try:
        manifest = json.loads(path.read_text())
        if manifest["format"] != FORMAT:
            raise ValueError(f"its format is {manifest['format']!r}")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if manifest["format_version"] > FORMAT_VERSION:
        raise ValueError(
            f"{directory} was written by a newer invsamp, in format {manifest['format_version']}; this one reads "
            f"formats up to {FORMAT_VERSION}. Upgrade invsamp"
        )
    return dict(manifest)


def _text(part: Any) -> str:
    """What a part prints, without the addresses in memory, which differ from process to process."""
    with np.printoptions(precision=17, threshold=1000):
        return _SCALAR.sub(r"\1", _ADDRESS.sub("", repr(part)))


def _hash(values: Any) -> dict[str, Any]:
    content = np.ascontiguousarray(values)
    return {"shape": list(content.shape), "sha256": hashlib.sha256(content.tobytes()).hexdigest()}


def _short(value: Any, other: Any, limit: int = 160) -> str:
    """A value for a message; of long ones the part that differs."""
    text, rest = (v if isinstance(v, str) else repr(v) for v in (value, other))
    if len(text) <= limit:
        return text
    same = next((k for k, (a, b) in enumerate(zip(text, rest, strict=False)) if a != b), 0)
    begin = max(0, same - limit // 2)
    return ("..." if begin else "") + text[begin : begin + limit] + ("..." if begin + limit < len(text) else "")
