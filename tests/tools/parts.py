"""The slow tests in parts: some at each commit, so that a few commits see them all."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterable

import pytest


def read(text: str) -> tuple[int, int]:
    """K and N of ``"K/N"``, 1 <= K <= N."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"must be K/N with 1 <= K <= N, got {text!r}")
    return int(found[1]), int(found[2])


def cases(names: Iterable[object], quick: Collection[object]) -> list[object]:
    """Cases of a test of which only some belong to the first tier; the others are slow."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


def unit(node: str) -> str:
    """What is not divided: the cases of a test, and a file of tests/slow, whose tests share their runs."""
    return node.partition("::")[0] if node.startswith("tests/slow/") else node.partition("[")[0]


def within(nodes: list[str], part: tuple[int, int]) -> list[str]:
    """Of the node ids those in the K-th of N parts, dealt out in turns."""
    k, n = part
    units = {name: number for number, name in enumerate(sorted({unit(node) for node in nodes}))}
    return [node for node in nodes if units[unit(node)] % n == k - 1]
