"""The package's own expensive models, as the comparison with other toolkits poses them (`peers/_problems.py`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "peers"))

from _battery_case import Case
from _problems import CASES, references

from invsamp.posing.expressions.variable_names import labels


def own(name: str, alone: bool = False) -> Case:
    """The posterior of this name, or its finest fidelity alone, with reference moments from a run of other code."""
    posed, problem = CASES[name], CASES[name].make()
    reference = references()[name]
    known = dict(
        zip(
            labels(problem.shapes),
            zip(reference["mean"], reference["sd"], reference["error"], strict=True),
            strict=True,
        )
    )
    if alone:
        return Case(f"{name}_fine", problem.alone(problem.fidelities[-1]), known)
    return Case(name, problem, known, weights=posed.weights)


#: Hare and lynx are among the published posteriors.
NAMES = ("fitzhugh_nagumo", "conductivity", "poisson64")
BUILDERS: dict[str, Callable[[], Case]] = {name: partial(own, name) for name in NAMES} | {
    f"{name}_fine": partial(own, name, True) for name in NAMES
}
