"""The default sampler where the prior is Gaussian in many unknowns, as that of a field on a mesh is.

One mode and its Gaussian of low rank are found by Newton descents. The kernel rotates about a Gaussian that is fitted
to the posterior from there (`invsamp.modes.variational`). Its step size alone is left to warm-up, and
what all this takes does not depend on the number of unknowns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.evaluate.requests import EvaluationRequests
from invsamp.kernels import InfinityHamiltonian
from invsamp.kernels.gaussian_reference import ModeReference
from invsamp.ladder import Rung, Sampler
from invsamp.modes.field_modes import FieldModes, field_reference, search_field, starts_of_field
from invsamp.modes.low_rank import LowRankGaussian
from invsamp.modes.products import source_of
from invsamp.modes.tolerances import TOLERANCE
from invsamp.modes.variational import PAIRS, fitted

#: Descents at most.
STARTS = 8
#: Directions of a Gaussian at most, and of the unknowns: where data inform more, nothing is of low rank.
DIRECTIONS, SHARE = 400, 0.5
#: Evaluations of a warm-up, and steps of it at least: all chains together find one step size.
WARM_UP, LEAST = 800, 25
#: Mean angle of a path where the posterior is about as wide as the reference; and steps of such a path, about.
LENGTH, PATH = 2.0, 7
#: Width of the posterior, in sds of the reference, from which on velocities are kept; mean angle and friction then.
#: Of 1,089 unknowns at 1% noise, with widths of 5 to 6, both the least and the median effective draws grow. At 5%, with
#: widths of about 2, medians would fall from 150 to 95 in 1,000 solves: steps are shorter, so that few are refused.
WIDE, LENGTH_KEPT, FRICTION = 3.0, 1.6, 0.1


@dataclass(frozen=True)
class FieldSelection:
    """The result of the search: the kernel about the reference that was found, or none; and why, in words."""

    kernel: InfinityHamiltonian | None
    decision: str


def select_field(bound: BoundProblem, rng: np.random.Generator) -> EvaluationRequests[FieldSelection | None]:
    """Look for a mode of low rank; None where the prior is another one."""
    prior = field_reference(bound.problem, bound.domain)
    if prior is None:
        return None
    d, potentials = bound.dimension, list(bound.potentials.values())
    before = sum(potential.evaluations for potential in potentials)
    most = min(DIRECTIONS, d)
    starts = starts_of_field(bound.problem, prior, STARTS, rng)
    found = yield from search_field(potentials, prior, bound.domain, starts, most, rng, 0.01 * TOLERANCE)
    gaussian, why = _judged(found, d, min(most, int(SHARE * d)))
    width = 1.0
    if gaussian is not None and potentials[-1].tangents:
        gaussian, width = yield from fitted(source_of(potentials[-1], prior, bound.domain), gaussian, most, rng)
    spent = sum(potential.evaluations for potential in potentials) - before
    products = sum(potential.products for potential in potentials)
    said = f"{spent:,} evaluations" + (f" and {products:,} products by tangents" if products else "")
    if not potentials[-1].tangents:
        said += ", as the model has no tangents: two gradients for each product"
    descents = f"Newton optimizations from the prior ({said}) {why}"
    if gaussian is None:
        return FieldSelection(None, f"{descents}: the general search follows")
    reference = ModeReference(gaussian.mean, prior.mean, gaussian.metric)
    if width < WIDE:  # the widest directions gain by longer paths, and the others lose: the geometric mean of both
        kernel = InfinityHamiltonian(math.sqrt(LENGTH * max(LENGTH, width)), reference)
    else:
        kernel = InfinityHamiltonian(LENGTH_KEPT, reference, FRICTION)
    of = f", fitted to the posterior at {2 * PAIRS} of its draws" if potentials[-1].tangents else ""
    return FieldSelection(kernel, f"{descents}: one kernel, {kernel}{of}")


def field_sampler(kernel: InfinityHamiltonian) -> Sampler:
    """One rung with that kernel."""
    return Sampler((Rung(kernel=kernel),), preconditioner=None)


def warm_up_steps(chains: int) -> int:
    """Of a warm-up that finds the step size alone."""
    return max(LEAST, WARM_UP // (PATH * chains))


def _judged(found: FieldModes, d: int, most: int) -> tuple[LowRankGaussian | None, str]:
    """The Gaussian of the one mode that was found, if it has few directions; and what was found, in words."""
    if len(found.modes) != 1 or found.unfinished or found.unsolved:
        return None, (
            f"found {len(found.modes)} modes of a Gaussian prior; {found.unfinished} did not converge, and "
            f"{found.unsolved} could not be solved"
        )
    gaussian = found.modes[0].gaussian
    if gaussian is None or gaussian.informed >= most:
        informed = "no Gaussian" if gaussian is None else f"at least {most} of {d} directions informed"
        return None, f"found one mode with {informed}"
    return gaussian, (
        f"found one mode of a Gaussian prior of {d:,} unknowns, of which the data inform "
        f"{gaussian.informed} directions more than the prior does"
    )
