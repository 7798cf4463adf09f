"""Does the fine model have a mode where a coarse one has no draws? Some optimizations of the fine one look for it."""

from __future__ import annotations

import numpy as np

from invsamp.engine.mode_search.mode_occupancy import nearest
from invsamp.engine.mode_search.multistart import MOST_GAUSSIAN, search_modes, starts_of
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.evaluate.requests import EvaluationRequests
from invsamp.modes.gauss_newton import has_bounds
from invsamp.posing.expressions.variable_names import labels_of
from invsamp.protocols import Array

#: Optimizations from the prior. They miss a basin with half of the prior's mass once in 256 times.
STARTS = 8
#: Coarse draws that a mode of the fine model should have by its weight, for none to be no accident: once in 150 times.
EXPECTED = 5.0


def missed_mode(
    bound: BoundProblem, coarse: str, states: Array, rng: np.random.Generator
) -> EvaluationRequests[str | None]:
    """Look for a mode of the finest fidelity in which none of the draws (n, d) of a coarse one lies; what it is.

    Optimizations begin at draws of the prior, and at some of the coarse draws, so that their own modes are known, too.
    Of more than 200 unknowns no mode is looked for.
    """
    if states.shape[1] > MOST_GAUSSIAN:  # weights would not be known
        return None
    problem, fine, domain = bound.problem, bound.fidelities[-1], bound.domain
    starts, scale = starts_of(problem, rng, states, STARTS)
    own = states[rng.integers(len(states), size=2)]
    potential = bound.potentials[fine]
    curved = potential.curved and (has_bounds(domain) or potential.bounded)
    found = yield from search_modes((fine,), starts, scale, domain, first=len(starts), curved=curved, known=own)
    minima = found.minima
    if len(minima.gaussian) < 2:
        return None
    visits = np.bincount(nearest(minima, scale, states), minlength=len(minima.energies))
    weights = minima.weights
    missed = [k for k in minima.gaussian if not visits[k] and weights[k] * len(states) >= EXPECTED]
    if not missed:
        return None
    theta, names = problem.to_theta(minima.position[missed[:1]])[0], labels_of(problem)
    named = zip(names, theta, strict=True) if len(names) == len(theta) else []
    where = ", ".join(f"{name} = {value:.3g}" for name, value in [*named][:4])
    return (
        f"{fine!r} has a mode of weight {weights[missed[0]]:.2g}{f' at {where}' if where else ''}, where none of "
        f"{len(states)} draws of {coarse!r} lies"
    )
