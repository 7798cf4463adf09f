"""Parts of a state are registered where they are defined, and wherever a run is read."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import NamedTuple

import pytest

from invsamp.stored import PARTS, stored, stored_dataclass

LISTED = "import sys; from {} import *; from invsamp.stored import PARTS; print(*sorted(PARTS))"


def test_reading_a_state_registers_all_parts_of_the_package() -> None:
    read = subprocess.run(
        [sys.executable, "-c", LISTED.format("invsamp.resuming")],
        capture_output=True,
        text=True,
        check=True,
    )
    of_package = {name for name, part in PARTS.items() if part.__module__.startswith("invsamp.")}
    assert set(read.stdout.split()) == of_package and len(of_package) >= 75


def test_parts_are_named_tuples_and_frozen_dataclasses() -> None:
    for part in PARTS.values():
        assert hasattr(part, "_fields") or part.__dataclass_params__.frozen, part  # type: ignore[attr-defined]


def test_a_part_is_registered_and_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(PARTS, "Mine", raising=False)

    @stored_dataclass
    class Mine:
        value: int
        others: list[int] = dataclasses.field(default_factory=list)

    assert PARTS["Mine"] is Mine and Mine(2).value == 2 and Mine(2) == Mine(2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Mine(2).value = 3  # type: ignore[misc]
    del PARTS["Mine"]


def test_two_parts_of_one_name_are_refused() -> None:
    with pytest.raises(TypeError, match=r"stored parts must have names of their own, got .*Point"):

        @stored
        class Point(NamedTuple):
            x: float

    assert PARTS["Point"].__module__ == "invsamp.kernels.contract"
