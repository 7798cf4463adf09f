"""The two examples of the whole composition, as short as they go, and the digests of their draws.

As a script: ``quick_examples.py FOLDER`` makes them on all ranks, which share every solve; rank 0 prints the digests.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Constants of the examples in place of theirs, at 10 draws of every chain.
QUICK: dict[str, dict[str, Any]] = {
    "card_heat": {"CHAINS": 4, "WARMUP": 100, "THIN": 1, "POINTS": 50},
    "card_ode": {"CHAINS": 4, "LSODA_CHAINS": 2, "WARMUP": 100, "THIN": 1, "REFERENCE_POINTS": 1000, "ROUNDS": 1},
}


class NoFigure:
    """A placeholder that is saved in place of a figure."""

    def savefig(self, *_: object, **__: object) -> None:
        """Nothing."""


def quick(name: str, out: Path, draws: int = 10, *, drawn: bool = False) -> dict[str, Any]:
    """What the example's `main` returns."""
    arguments, path = sys.argv, sys.path[:]
    sys.path.insert(0, str(EXAMPLES))
    sys.argv = [name, "--draws", str(draws), "--seed", "1", "--out", str(out)]
    card = probes = None
    try:
        main = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]
        assert QUICK[name].keys() <= main.__globals__.keys()
        main.__globals__.update(QUICK[name])
        card = main.__globals__["card"]
        probes, card.PROBES = card.PROBES, card.PROBES if drawn else 2
        if not drawn:
            nothing = lambda *_: NoFigure()  # noqa: E731
            main.__globals__["figures"] = SimpleNamespace(draw_heat=nothing, draw_ode=nothing)
        found: dict[str, Any] = main()
    finally:
        sys.argv, sys.path[:] = arguments, path
        if card is not None:
            card.PROBES = probes
    return found


def digests(summary: dict[str, Any]) -> dict[str, str]:
    """Of the draws of every sampler in an example's summary."""
    problems = [summary] if "samplers" in summary else [summary[title] for title in ("Lorenz", "Lotka-Volterra")]
    return {f"{k} {name}": row["digest"] for k, each in enumerate(problems) for name, row in each["samplers"].items()}


def main() -> None:
    """All examples on all ranks."""
    import no_arviz  # noqa: F401

    from invsamp import parallel
    from invsamp.parallel import load_balancing
    from invsamp.results.run import Run

    Run.warnings = lambda self: []  # type: ignore[method-assign]  # short as they are, they deserve many
    load_balancing.MESSAGES = -1.0  # cheap as the models are, all processes solve
    found = {name: digests(quick(name, Path(sys.argv[1]))) for name in QUICK}
    if parallel.rank() == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
