"""A folder of simulations, described as text."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from invsamp.simulations.database import DESCRIPTION, SimulationDatabase

#: Messages of failures that are listed, the most frequent ones, and their characters.
MESSAGES, LENGTH = 5, 100


def databases(folder: str | os.PathLike[str]) -> list[Path]:
    """The folder if it is a database, else those in it that are, as of several fidelities.

    Raises
    ------
    ValueError
        If there is none.
    """
    where = Path(folder)
    found = [where] if (where / DESCRIPTION).exists() else sorted(one.parent for one in where.glob(f"*/{DESCRIPTION}"))
    if not found:
        raise ValueError(f"there are no simulations in {where}")
    return found


def listed(folder: Path, version: str | None = None) -> Iterator[str]:
    """Lines about a database: of each version, or of one."""
    opened = SimulationDatabase.open(folder)
    yield f"{folder}: {', '.join(opened.names)}"
    for label in sorted(opened.versions()) if version is None else [version]:
        table = SimulationDatabase.open(folder, version=label).table()
        failed, seconds = int(table.failed.sum()), table.seconds[np.isfinite(table.seconds)]
        facts = [f"{len(table.theta)} simulations", f"{failed} failed", f"{table.outputs.shape[1]} outputs"]
        if len(seconds):
            facts.append(f"{seconds.sum():.3g} s in all, {np.median(seconds):.3g} s in the median")
        yield f"  version {label!r}: {', '.join(facts)}"
        words = collections.Counter(message for message in table.messages if message)
        for message, count in words.most_common(MESSAGES):
            yield f"    {count} failed: {message if len(message) <= LENGTH else message[:LENGTH] + '...'}"
