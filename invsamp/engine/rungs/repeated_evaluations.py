r"""Whether energies are functions of the position: evaluated again alone, in a batch, and in another order.

A model that depends on the rows beside a position, or on what it was called with before, has no posterior. Where
energies differ by :math:`\delta` from one evaluation to another, the mean of a quantity q is off by
:math:`-Cov(q, \delta)` to first order: in standard deviations of q, by the standard deviation of :math:`\delta` over
the posterior at the most. A difference that is the same everywhere does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from invsamp.diagnostics.report import Repeated
from invsamp.engine.rungs.dispatch import Uncounted
from invsamp.engine.rungs.gradient_check import COARSE
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.evaluate.requests import Request, Rows
from invsamp.protocols import Array

#: Positions of each of the two times.
POSITIONS = 4
#: Standard deviations by which means may be off: the Monte Carlo error of the 400 effective draws that are wanted.
LIMIT = 400.0**-0.5
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
    "Look for counters, caches, random numbers, and iterations that begin at the last solution and stop too early: a "
    "model has to be a function of theta alone",
)


def repeated(
    potential: Uncounted, fidelity: str, gradient: bool, position: Array, known: Array | None = None
) -> Repeated:
    """What energies at distinct positions (n, d) differ by, and from ``known`` ones (n,): some 2n solves, or 4n.

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
    since, tolerance, cause = _effect(pairs[1:]), max(LIMIT, COARSE * _largest(alone)), ""
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


def in_words(found: Mapping[str, Repeated], finest: str, *, start: bool = False) -> dict[str, str]:
    """What is wrong, by fidelity."""
    wrong = {name: one for name, one in found.items() if one["cause"] and not (start and one["relative"] < GROSS)}
    return {name: _told(name, one, finest, start) for name, one in wrong.items()}


def _told(name: str, one: Repeated, finest: str, start: bool) -> str:
    what, advice = ROWS if one["cause"] == "batch" else CALLS
    told = f"energies of fidelity {name!r} {what}: at one position they differ by up to {one['difference']:.3g}"
    if one["failed"]:
        told += f", and {one['failed']} of {one['positions']} positions can be evaluated one time and not the other"
    if start:
        return f"{told}, {one['relative']:.0%} of what they vary by among the starting points. {advice}"
    whose = "" if name == finest else f", as far as moves by {name!r} decide on them"
    size = f"{one['effect']:.2g} posterior standard deviations" if one["effect"] < 1.0 else "more than a posterior sd"
    effect = f"Means of the draws may be off by {size}{whose}"
    return f"{told}. {effect}. {advice}"


def placed(rung: RungChains) -> tuple[Array, Array]:
    """Positions (n, d) of some chains, and the energies (n,) that they have there."""
    return rung.position[:POSITIONS].copy(), rung.estimate.energy[:POSITIONS].copy()


def exact_fidelities(rungs: Sequence[RungChains]) -> dict[str, bool]:
    """Fidelities whose energies are taken for exact, and whether they are evaluated with gradients."""
    found: dict[str, bool] = {}
    for rung in rungs:
        if rung.estimator.exact_energy:
            found.setdefault(rung.fidelity, bool(rung.gradients))
    return found


def _finite(pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    both = [np.isfinite(one) & np.isfinite(other) for one, other in pairs]
    return [(one[mask], other[mask]) for (one, other), mask in zip(pairs, both, strict=True)]


def _failed(pairs: Sequence[tuple[Array, Array]]) -> int:
    """Positions with an energy one time and none the other, at the most."""
    return max(int((np.isfinite(one) != np.isfinite(other)).sum()) for one, other in pairs)


def _effect(pairs: Sequence[tuple[Array, Array]]) -> float:
    """Largest sd of the differences of two evaluations."""
    return max((_sd(one - other) for one, other in _finite(pairs)), default=0.0)


def _sd(values: Array) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _largest(values: Array) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
