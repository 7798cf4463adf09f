"""What the examples share: their three arguments, and where figures and summary go."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from invsamp import parallel


@dataclass(frozen=True)
class Options:
    """The arguments that every example takes. Under MPI the first process alone writes and prints."""

    draws: int
    seed: int
    out: Path

    def show(self, result: object) -> None:
        """Print."""
        if parallel.rank() == 0:
            print(result)

    def save(self, name: str, figure: Figure) -> None:
        """Write one figure as PNG."""
        if parallel.rank() == 0:
            figure.savefig(self.out / f"{name}.png", dpi=130)

    def save_summary(self, summary: dict[str, Any]) -> None:
        """Write and print the summary."""
        if parallel.rank() > 0:
            return
        text = json.dumps(summary, indent=2)
        (self.out / "summary.json").write_text(text + "\n")
        print(text)
        print(f"figures and summary.json are in {self.out}/")


def options(name: str, description: str, draws: int, seed: int = 1) -> Options:
    """Parse ``[--draws N] [--seed S] [--out DIR]`` and make the folder."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--draws", type=int, default=draws, help=f"draws per chain (default {draws})")
    parser.add_argument("--seed", type=int, default=seed, help=f"fixes the draws (default {seed})")
    parser.add_argument("--out", type=Path, default=Path("figures") / name, help="folder for figures and summary")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return Options(given.draws, given.seed, given.out)
