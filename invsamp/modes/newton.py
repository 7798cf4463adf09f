r"""Descents by inexact Newton steps, in coordinates in which the prior is a standard normal distribution.

A step p solves :math:`(I + K) p = -g` by conjugate gradients, K the misfit's Gauss-Newton matrix or Hessian
(`invsamp.modes.products`). In these coordinates the prior preconditions them: their number depends on how many
directions the data inform, and not on the number of unknowns. They stop where the last one of j gained at most
:math:`\eta / j` of what all promise by the quadratic model (Nash and Sofer 1990, "Assessing a search direction within a
truncated-Newton method", Oper. Res. Lett. 9), and at a direction of negative curvature (Nocedal and Wright 2006,
"Numerical optimization", Algorithm 7.1). Steps are rough while they are far: between 0.02 and 1/2 :math:`\eta` is the
root of what the last step promised over what the first one did, a forcing term as of Eisenstat and Walker (1996,
"Choosing the forcing terms in an inexact Newton method", SIAM J. Sci. Comput. 17) in energies, where they have
gradients.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from invsamp.evaluate.requests import EvaluationRequests
from invsamp.kernels.metric import LowRankMetric
from invsamp.modes.products import Place, Products, Source, solved, times
from invsamp.protocols import Array

#: Steps of a descent, halvings of a step, and products in a step, at most.
STEPS, HALVINGS, PRODUCTS = 60, 20, 200
#: Share of the decrease promised that a step has to reach; and the energies' rounding, relative to them.
ENOUGH, ROUNDING = 1e-4, 1e-12
#: The largest forcing term, and the least: where data are not met exactly, Gauss-Newton steps converge linearly, and
#: to solve for them any better is in vain.
ROUGH, SMOOTH = 0.5, 0.02
#: Energy that a step promised, at most, where another Gaussian may precondition the next one. Farther away rough
#: steps without it optimize faster.
NEAR = 1.0
#: Two ends are one minimum if one lies this many sds from the other at most, by the Gaussian there.
APART = 0.5


class NewtonDescent(NamedTuple):
    """The end of a descent."""

    place: Place
    converged: bool
    steps: int


def newton(
    source: Source, start: Array, tolerance: float, like: LowRankMetric | None = None
) -> EvaluationRequests[NewtonDescent]:
    r"""Descend from a position (d,) until at most ``tolerance`` of energy is left to gain, about.

    That is so after a step that promised no more, or where :math:`|g|^2 / 2` is no more: the Hessian is at least the
    prior's, the identity, where K is positive semidefinite. A Gaussian of low rank that may be ``like`` the one there
    preconditions the conjugate gradients.
    """
    here = yield from source.at(start)
    if not math.isfinite(here.energy):
        return NewtonDescent(here, False, 0)
    first = last = 0.0
    for steps in range(STEPS):
        if 0.5 * float(here.gradient @ here.gradient) <= tolerance:
            return NewtonDescent(here, True, steps)
        roughness = min(max(math.sqrt(last / first), SMOOTH), ROUGH) if steps else ROUGH
        near = like if steps and last <= NEAR else None
        step, last = yield from _step(here.products, here.gradient, roughness, near)
        first = first or last
        there = yield from _search(source, here, step)
        if there is None:
            # rounding of the energies hides what is left to gain
            return NewtonDescent(here, last <= max(tolerance, 100.0 * ROUNDING * abs(here.energy)), steps)
        here = there
        if last <= tolerance:
            return NewtonDescent(here, True, steps + 1)
    return NewtonDescent(here, False, STEPS)


def same(one: Place, other: Place) -> EvaluationRequests[bool]:
    """Whether two ends are one minimum, by the Gaussian at the first."""
    apart = solved(one.products.factor, one.position - other.position)
    image = yield from one.products.of(apart[:, None])
    return image is not None and float(apart @ (apart + image[:, 0])) < APART**2


def _search(source: Source, here: Place, step: Array) -> EvaluationRequests[Place | None]:
    """The end of the step, or of a shorter one that decreases the energy by enough; None if there is none."""
    slope, share = float(here.gradient @ step), 1.0
    move = times(source.reference.factor, step)
    for _ in range(HALVINGS):
        there = yield from source.at(here.position + share * move)
        if there.energy <= here.energy + ENOUGH * share * slope + ROUNDING * abs(here.energy):
            return there
        share *= 0.5
    return None


def _step(
    products: Products, gradient: Array, roughness: float, like: LowRankMetric | None
) -> EvaluationRequests[tuple[Array, float]]:
    """A step by conjugate gradients, and the decrease that the quadratic model promises."""
    step, left = np.zeros_like(gradient), -gradient
    direction = left if like is None else like.covariance_times(left)
    square, promised = float(left @ direction), 0.0
    for count in range(1, PRODUCTS + 1):
        image = yield from products.of(direction[:, None])
        if image is None:
            break
        curved = direction + image[:, 0]
        bend = float(direction @ curved)
        if bend <= 0.0:
            break
        step = step + square / bend * direction
        left = left - square / bend * curved
        gain = 0.5 * square**2 / bend
        ahead = left if like is None else like.covariance_times(left)
        before, square, promised = square, float(left @ ahead), promised + gain
        if count * gain <= roughness * promised or square == 0.0:
            break
        direction = ahead + square / before * direction
    return (step, promised) if promised > 0.0 else (-gradient, math.inf)
