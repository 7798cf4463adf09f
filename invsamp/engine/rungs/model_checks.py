r"""Checks of a run's models, before its first step and after its last: gradients, and energies evaluated again.

The energies are evaluated again alone, in a batch, and in another order, to see whether they are functions of the
position. A model that depends on the other rows of a batch, or on earlier calls, has no posterior. Suppose that
energies differ by :math:`\delta` from one evaluation to another. Then the mean of a quantity q is off by :math:`-Cov(q,
\delta)` to first order. In standard deviations of q, that is at most the standard deviation of :math:`\delta` over the
posterior. A difference that is the same everywhere has no effect.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from invsamp.diagnostics.limits import ERROR
from invsamp.diagnostics.report import Repeated, Report
from invsamp.engine.rungs import gradient_check
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.dispatch import Uncounted
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.engine.rungs.step_stability import StepStabilityCheck
from invsamp.evaluate.requests import Request, Rows
from invsamp.protocols import Array
from invsamp.warning_codes import InvsampWarning, coded

#: Positions of each of the two times.
POSITIONS = 4
#: Sd of the differences, over that of the energies, from which on something is said before the first step: starts are
#: far from the posterior, and small differences mean nothing there.
GROSS = 0.1
#: Differences from energies of before that are not so many times as large are those that a batch of another size makes.
STRONGER = 4.0
ROWS = (
    "depend on the positions that are evaluated with them, in one batch",
    "Look for sums, means, shapes or steps that the rows of theta share: each row has to be evaluated by itself",
)
CALLS = (
    "depend on earlier evaluations",
    "Look for counters, caches, random numbers, and iterations that begin at the last solution and stop too "
    "early. A model has to be a function of theta alone",
)


class ModelChecks(Lasting, lasting=("_solves", "_mistakes", "_repeated", "_unequal", "_known", "stability")):
    """The result of the checks, and the first positions of draws: there energies are evaluated again at the end.

    Attributes
    ----------
    stability : StepStabilityCheck
        Of the steps of rungs that accept every move.
    """

    def __init__(self, bound: BoundProblem) -> None:
        self._bound, self._finest = bound, bound.fidelities[-1]
        self._solves: dict[str, int] = {}  # of the gradient check, by fidelity
        self._mistakes: list[str] = []  # in gradients, in words
        self._repeated: dict[str, Repeated] = {}  # by fidelity, after the last step
        self._unequal: dict[str, str] = {}  # by fidelity, in words
        self._known: tuple[Array, Array] | None = None  # positions and energies of some chains when draws began
        self.stability = StepStabilityCheck()

    @property
    def warnings(self) -> list[str]:
        """Messages about what is wrong."""
        return [*self._mistakes, *self._unequal.values()]

    def begin(self, rungs: Sequence[RungChains], seed: int, *, chosen: bool) -> None:
        """Refuse gradients that would bias the draws; warn of others, and of energies that differ by far the next time.

        ``chosen``: whether the sampler follows from what gradients lead to, with all fidelities.
        """
        others = list(self._bound.potentials) if chosen else []
        self._solves, mistakes = gradient_check.check(self._bound, rungs, seed, others)
        self._mistakes = [mistake.warning for mistake in mistakes.values()]
        gradient_check.report_mistakes(mistakes, rungs, chosen=chosen)
        start, potentials = np.unique(rungs[0].position, axis=0)[:POSITIONS], self._bound.uncounted()
        slopes = _exact_fidelities(rungs).items()
        found = {name: repeated(potentials[name], name, slope, start) for name, slope in slopes}
        self._unequal = _in_words(found, self._finest, start=True)
        for message in self._unequal.values():
            warnings.warn(message, InvsampWarning, stacklevel=7)

    def draw(self, rung: RungChains | None) -> None:
        """Draws begin: keep what is known of some chains of the cold rung. None: they do not, after all."""
        self._known = None if rung is None or not rung.estimator.exact_energy else _placed(rung)

    def end(self, rungs: Sequence[RungChains]) -> None:
        """After the last step: hold energies against what they were when draws began, and are now.

        Whatever that raises, the draws are there.
        """
        self.stability.after(rungs)
        if self._known is None:
            return
        position, energy = map(np.concatenate, zip(self._known, _placed(rungs[0]), strict=True))
        position, first = np.unique(position, axis=0, return_index=True)
        cold, potentials = rungs[0].fidelity, self._bound.uncounted()
        try:
            self._repeated = {
                name: repeated(potentials[name], name, slope, position, energy[first] if name == cold else None)
                for name, slope in _exact_fidelities(rungs).items()
            }
        except Exception as error:
            self._unequal[cold] = coded(
                "IV-REPEAT",
                f"after the last step positions could not be evaluated again ({type(error).__name__}: {error})",
            )
            return
        self._unequal |= _in_words(self._repeated, self._finest)

    def report(self) -> Report:
        """In plain types."""
        return {
            "gradient_check_evaluations": dict(self._solves),
            "repeated": dict(self._repeated),
            "step_stability": list(self.stability.found),
        }


def repeated(
    potential: Uncounted, fidelity: str, gradient: bool, position: Array, known: Array | None = None
) -> Repeated:
    """Differences of energies at distinct positions (n, d), and from ``known`` ones (n,): some 2n solves, or 4n.

    With or without gradients, as the run evaluates them.
    """
    n = len(position)

    def energies(*groups: Rows) -> Array:
        """Those of groups of positions, one request after the other."""
        found = np.empty(n)
        for rows in groups:
            (estimate,) = potential.answer((Request(fidelity, position[rows], gradient),))
            found[rows] = estimate.energy
        return found

    alone = energies(*np.arange(n)[:, None])
    # in another order than the chains have them, too
    together = energies(np.arange(n)[::-1])
    pairs = [(alone, together)] if known is None else [(alone, together), (alone, known)]
    since, tolerance, cause = _effect(pairs[1:]), max(ERROR, gradient_check.COARSE * _largest(alone)), ""
    if _failed(pairs) or _effect(pairs) > tolerance:
        twice = [(alone, energies(*np.arange(n)[::-1, None]))]
        pairs += twice
        # evaluated alone twice: what differs then is nothing that other rows have done
        history = _failed(twice) > 0 or _effect(twice) > tolerance or since > STRONGER * _effect(pairs[:1])
        cause = "calls" if history else "batch"
    effect, spread = _effect(pairs), _sd(alone[np.isfinite(alone)])
    return Repeated(
        positions=n,
        cause=cause,
        difference=max(_largest(one - other) for one, other in _finite(pairs)),
        effect=effect,
        relative=effect / spread if spread > 0.0 else 0.0,
        failed=_failed(pairs),
    )


def _in_words(found: Mapping[str, Repeated], finest: str, *, start: bool = False) -> dict[str, str]:
    """Messages, by fidelity."""
    wrong = {name: one for name, one in found.items() if one["cause"] and not (start and one["relative"] < GROSS)}
    return {name: coded("IV-REPEAT", _words(name, one, finest, start)) for name, one in wrong.items()}


def _words(name: str, one: Repeated, finest: str, start: bool) -> str:
    what, advice = ROWS if one["cause"] == "batch" else CALLS
    words = f"energies of fidelity {name!r} {what}: at one position they differ by up to {one['difference']:.3g}"
    if one["failed"]:
        words += f", and {one['failed']} of {one['positions']} positions can be evaluated only sometimes"
    if start:
        return f"{words}, {one['relative']:.0%} of their variation among the starting points. {advice}"
    whose = "" if name == finest else f", as far as moves by {name!r} decide on them"
    size = f"{one['effect']:.2g} posterior standard deviations" if one["effect"] < 1.0 else "more than a posterior sd"
    effect = f"Means of the draws may be off by {size}{whose}"
    return f"{words}. {effect}. {advice}"


def _placed(rung: RungChains) -> tuple[Array, Array]:
    """Positions (n, d) of some chains, and the energies (n,) that they have there."""
    return rung.position[:POSITIONS].copy(), rung.estimate.energy[:POSITIONS].copy()


def _exact_fidelities(rungs: Sequence[RungChains]) -> dict[str, bool]:
    """Fidelities whose energies are treated as exact, and whether they are evaluated with gradients."""
    found: dict[str, bool] = {}
    for rung in rungs:
        if rung.estimator.exact_energy:
            found.setdefault(rung.fidelity, bool(rung.gradients))
    return found


def _finite(pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    both = [np.isfinite(one) & np.isfinite(other) for one, other in pairs]
    return [(one[mask], other[mask]) for (one, other), mask in zip(pairs, both, strict=True)]


def _failed(pairs: Sequence[tuple[Array, Array]]) -> int:
    """Positions with an energy one time and none the other, at most."""
    return max(int((np.isfinite(one) != np.isfinite(other)).sum()) for one, other in pairs)


def _effect(pairs: Sequence[tuple[Array, Array]]) -> float:
    """Largest sd of the differences of two evaluations."""
    return max((_sd(one - other) for one, other in _finite(pairs)), default=0.0)


def _sd(values: Array) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _largest(values: Array) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
