"""State that a class names once is saved, kept apart from the part, and put back, nested parts in place."""

from __future__ import annotations

import numpy as np
import pytest

from invsamp.engine.driver import serialization
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.stored import PARTS


class Walk(Lasting, lasting=("_rng", "_sums", "seen", "names")):
    def __init__(self) -> None:
        self._rng, self._sums, self.seen, self.names = np.random.default_rng(0), np.zeros(2), [], {}

    def step(self) -> None:
        self._sums += self._rng.standard_normal(2)  # written to in place
        self.seen.append(self._sums.copy())
        self.names[str(len(self.seen))] = 1.0


class Walks(Lasting, lasting=("steps", "walks", "first")):
    def __init__(self) -> None:
        self.steps, self.walks, self.first = 0, [Walk(), Walk()], Walk()

    def step(self) -> None:
        self.steps += 1
        for walk in (*self.walks, self.first):
            walk.step()


def test_a_restored_part_continues_alike_and_its_state_does_not_change_with_it() -> None:
    whole, again = Walks(), Walks()
    whole.step()
    state = whole.state()
    data = serialization.encode(state)
    parts = again.walks[0], again.first
    again.restore(serialization.decode(data))
    assert (again.walks[0], again.first) == parts
    for _ in range(3):
        whole.step()
        again.step()
    assert serialization.encode(state) == data
    assert serialization.encode(whole.state()) == serialization.encode(again.state()) != data


def test_a_state_is_registered_and_its_fields_must_be_those_of_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PARTS["WalkState"]._fields == ("rng", "sums", "seen", "names")  # type: ignore[attr-defined]
    data = serialization.encode(Walk().state())

    class Other(Lasting, lasting=("_rng",)):
        _rng = None

    monkeypatch.setitem(PARTS, "WalkState", PARTS["OtherState"])
    with pytest.raises(ValueError, match="holds a WalkState, which this invsamp does not know"):
        serialization.decode(data)


class Sometimes(Lasting, lasting=("streams", "walk", "missing")):
    """Has a walk from its first step on, and random generators by name."""

    def __init__(self) -> None:
        self.streams = {"one": np.random.default_rng(1)}
        self.walk: Walk | None = None

    def step(self) -> float:
        self.walk = self.walk or self._renewed("walk")
        self.walk.step()
        return float(self.streams["one"].random())

    def _renewed(self, name: str) -> Walk:
        return Walk()


def test_parts_that_are_made_on_the_way_are_made_for_their_states() -> None:
    whole, again, before = Sometimes(), Sometimes(), Sometimes()
    empty = whole.state()
    whole.step()
    state = whole.state()
    expected = [whole.step() for _ in range(3)]  # which leaves the generator of the state alone
    again.restore(serialization.decode(serialization.encode(state)))
    assert [again.step() for _ in range(3)] == expected
    np.testing.assert_array_equal(again.walk.seen, whole.walk.seen)  # type: ignore[union-attr]
    before.restore(empty)
    assert before.walk is None and empty.missing is None
    again.restore(empty)
    assert again.walk is None
