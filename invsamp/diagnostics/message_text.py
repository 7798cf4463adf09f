"""Pieces of the messages of checks: lists of names, rungs with their temperatures, and numbers of draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from invsamp.diagnostics.ladders import target_labels
from invsamp.diagnostics.report import Report

if TYPE_CHECKING:
    import pandas as pd

Entry = TypeVar("Entry")


def listed(names: Sequence[object], limit: int = 3) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(str(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def with_values(values: pd.Series[float], form: str) -> str:
    """Names with their values, the first few."""
    return listed([f"{name} {value:{form}}" for name, value in values.items()])


def more_draws(report: Report, factor: float) -> str:
    """So many times the draws, as a number of draws too where it is known, of two figures: 21,384 would sound exact."""
    if not report.get("draws"):
        return f"about {factor:.2g} times the draws"
    draws = max(factor * report["draws"], 1.0)
    unit = 10 ** max(int(np.floor(np.log10(draws))) - 1, 0)
    return f"about {factor:.2g} times the draws (draws={int(np.ceil(draws / unit)) * unit})"


def by_rung(report: Report, entries: Sequence[Entry | None] | None) -> Iterator[tuple[int, str, Entry]]:
    """The rungs that have an entry: their numbers, what messages call them, and the entry."""
    for rung, value in enumerate(entries or []):
        if value is not None:
            yield rung, f"rung {rung}{_temperatures(report, rung)}", value


def pair_of(report: Report, pair: int) -> str:
    """The name of two neighboring rungs in messages."""
    return f"rungs {pair} and {pair + 1}{_temperatures(report, pair, pair + 1)}"


def _temperatures(report: Report, *rungs: int) -> str:
    values, targets = report.get("temperatures") or [], target_labels(report)
    if max(rungs) >= len(targets):
        return ""
    if not values:
        return " (" + " and ".join(targets[rung] for rung in rungs) + ")"
    label = "temperature" if len(rungs) == 1 else "temperatures"
    return f" ({label} " + " and ".join(f"{values[rung]:g}" for rung in rungs) + ")"
