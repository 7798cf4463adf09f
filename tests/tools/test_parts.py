from __future__ import annotations

import argparse

import parts
import pytest

NODES = [
    *("tests/slow/test_ring.py::test_a", "tests/slow/test_ring.py::test_b", "tests/test_examples.py::test_one"),
    *(f"tests/test_presets.py::TestAll::test_{name}[{case}]" for name in ("cold", "hot", "bounds") for case in "xyz"),
]


@pytest.mark.parametrize("n", [1, 2, 5, 50])
def test_make_up_the_whole_and_divide_nothing_that_shares_its_runs(n):
    found = [parts.within(NODES, (k, n)) for k in range(1, n + 1)]
    assert sorted(node for part in found for node in part) == sorted(NODES)
    units = [{parts.unit(node) for node in part} for part in found]
    assert sum(map(len, units)) == 5 and max(map(len, units)) <= -(-5 // n)
    assert {parts.unit(node) for node in NODES[:2]} == {"tests/slow/test_ring.py"}


@pytest.mark.parametrize("wrong", ["0/3", "4/3", "1", "1/0", "-1/3", "a/b", ""])
def test_wrong_parts_are_reported(wrong):
    with pytest.raises(argparse.ArgumentTypeError, match="must be K/N"):
        parts.read(wrong)


def test_parts_are_read():
    assert parts.read("2/8") == (2, 8)
