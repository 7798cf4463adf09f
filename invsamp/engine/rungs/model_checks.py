"""Checks of the models of a run, before its first step and after its last: gradients, and energies evaluated again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from invsamp.diagnostics.report import Repeated, Report
from invsamp.engine.rungs import gradient_check
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.repeated_evaluations import POSITIONS, exact_fidelities, in_words, placed, repeated
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.protocols import Array


class ModelChecks(Lasting, lasting=("_solves", "_mistakes", "_repeated", "_unequal", "_known")):
    """What was found, and where draws began: there energies are evaluated again after the last step."""

    def __init__(self, bound: BoundProblem) -> None:
        self._bound, self._finest = bound, bound.fidelities[-1]
        self._solves: dict[str, int] = {}  # of the gradient check, by fidelity
        self._mistakes: list[str] = []  # in gradients, in words
        self._repeated: dict[str, Repeated] = {}  # by fidelity, after the last step
        self._unequal: dict[str, str] = {}  # by fidelity, in words
        self._known: tuple[Array, Array] | None = None  # positions and energies of some chains when draws began

    @property
    def warnings(self) -> list[str]:
        """What is wrong."""
        return [*self._mistakes, *self._unequal.values()]

    def begin(self, rungs: Sequence[RungChains], seed: int, *, chosen: bool) -> None:
        """Refuse gradients that would bias the draws; warn of others, and of energies that differ by far the next time.

        ``chosen``: whether the sampler follows from what gradients lead to, with all fidelities.
        """
        others = list(self._bound.potentials) if chosen else []
        checked = gradient_check.check(self._bound, rungs, seed, others)
        self._solves, self._mistakes = checked.solves, checked.warnings
        gradient_check.tell(checked.mistakes, rungs, chosen=chosen)
        start, potentials = np.unique(rungs[0].position, axis=0)[:POSITIONS], self._bound.uncounted()
        slopes = exact_fidelities(rungs).items()
        found = {name: repeated(potentials[name], name, slope, start) for name, slope in slopes}
        self._unequal = in_words(found, self._finest, start=True)
        for message in self._unequal.values():
            warnings.warn(message, stacklevel=7)

    def draw(self, rung: RungChains | None) -> None:
        """Draws begin: keep what is known of some chains of the cold rung. None: they do not, after all."""
        self._known = None if rung is None or not rung.estimator.exact_energy else placed(rung)

    def end(self, rungs: Sequence[RungChains]) -> None:
        """After the last step: hold energies against what they were when draws began, and are now.

        Whatever that raises, the draws are there.
        """
        if self._known is None:
            return
        position, energy = map(np.concatenate, zip(self._known, placed(rungs[0]), strict=True))
        position, first = np.unique(position, axis=0, return_index=True)
        cold, potentials = rungs[0].fidelity, self._bound.uncounted()
        try:
            self._repeated = {
                name: repeated(potentials[name], name, slope, position, energy[first] if name == cold else None)
                for name, slope in exact_fidelities(rungs).items()
            }
        except Exception as error:
            self._unequal[cold] = (
                f"after the last step positions could not be evaluated again ({type(error).__name__}: {error})"
            )
            return
        self._unequal |= in_words(self._repeated, self._finest)

    def report(self) -> Report:
        """In plain types."""
        return {"gradient_check_evaluations": dict(self._solves), "repeated": dict(self._repeated)}
