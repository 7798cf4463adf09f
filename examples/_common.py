"""Common parts of the examples: arguments, folders of figures and summary, and statistics over several seeds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from invsamp import parallel


@dataclass(frozen=True)
class Options:
    """The arguments that every example takes. Under MPI the first process alone writes and prints."""

    draws: int
    seed: int
    out: Path
    seeds: int = 1
    more: Mapping[str, Any] = field(default_factory=dict)

    def show(self, result: object) -> None:
        """Print."""
        if parallel.rank() == 0:
            print(result)

    def save(self, name: str, figure: Figure) -> None:
        """Write one figure as PNG."""
        if parallel.rank() == 0:
            figure.savefig(self.out / f"{name}.png", dpi=130)

    def save_summary(self, summary: dict[str, Any], printed: bool = True) -> None:
        """Write the summary, and print it."""
        if parallel.rank() > 0:
            return
        text = json.dumps(summary, indent=2)
        (self.out / "summary.json").write_text(text + "\n")
        if printed:
            print(text)
        print(f"figures and summary.json are in {self.out}/")

    def over_seeds(self, measure: Callable[[int], tuple[dict[str, Any], dict[str, Figure]]]) -> dict[str, Any]:
        """Measure with each seed, and write a summary, with means and sds over them if there are several.

        ``measure(seed)`` returns a summary and figures by name; those of the first seed are saved.
        """
        found: dict[str, dict[str, Any]] = {}
        for seed in range(self.seed, self.seed + self.seeds):
            summary, figures = measure(seed)
            for name, figure in figures.items():
                if not found:
                    self.save(name, figure)
                plt.close(figure)
            found[f"seed {seed}"] = summary
        if self.seeds > 1:
            all_of_them = list(found.values())
            summary = found | {"mean": over(all_of_them, np.mean), "sd": over(all_of_them, lambda x: np.std(x, ddof=1))}
        self.save_summary(summary)
        return summary


def over(found: list[Any], statistic: Callable[[list[float]], Any]) -> Any:
    """A statistic of each number in summaries of one make."""
    first = found[0]
    if isinstance(first, dict):
        return {key: over([each[key] for each in found], statistic) for key in first}
    if isinstance(first, list | tuple):
        return [over(list(each), statistic) for each in zip(*found, strict=True)]
    return float(statistic(found)) if isinstance(first, float | int) and not isinstance(first, bool) else first


def options(
    name: str,
    description: str,
    draws: int,
    seed: int = 1,
    *,
    seeds: bool = False,
    more: Mapping[str, dict[str, Any]] | None = None,
) -> Options:
    """Parse ``[--draws N] [--seed S] [--out DIR]``, ``[--seeds N]`` if asked for and what is ``more``, by name the
    settings of argparse; and make the folder."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--draws", type=int, default=draws, help=f"draws per chain (default {draws})")
    parser.add_argument("--seed", type=int, default=seed, help=f"fixes the draws (default {seed})")
    parser.add_argument("--out", type=Path, default=Path("figures") / name, help="folder for figures and summary")
    if seeds:
        parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from that one on (default 1)")
    for option, settings in (more or {}).items():
        parser.add_argument(f"--{option}", **settings)
    given = vars(parser.parse_args())
    given["out"].mkdir(parents=True, exist_ok=True)
    first = {option: given.pop(option) for option in ("draws", "seed", "out")}
    return Options(**first, seeds=given.pop("seeds", 1), more=given)
