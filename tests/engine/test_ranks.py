"""What processes hold, as one of them would."""

from __future__ import annotations

import pytest

from invsamp.engine.ranks import Alone, joined


def test_lists_are_strung_together_and_counts_are_added():
    parts = [
        {"rungs": ["cold"], "solves": {"fine": 3, "coarse": 1}, "trips": 2, "pairs": [0.5]},
        {"rungs": ["warm", "hot"], "solves": {"coarse": 4, "medium": 5}, "trips": 1, "pairs": []},
    ]
    assert joined(parts) == {
        "rungs": ["cold", "warm", "hot"],
        "solves": {"fine": 3, "coarse": 5, "medium": 5},
        "trips": 3,
        "pairs": [0.5],
    }
    assert joined(parts[:1]) == parts[0]


def test_alone_holds_everything_and_hears_itself():
    alone, potential = Alone(3), object()
    assert alone.rungs == range(3) and alone.root
    assert alone.gather("a") == alone.everywhere("a") == ["a"] and alone.bcast("a") == "a"
    assert alone.stop(None, last=False) is None and alone.stop(15, last=False) == 15
    assert alone.potential("fine", potential) is potential
    alone.close()
    with pytest.raises(LookupError, match="pair 1"):
        alone.link(1)
