r"""Local optimization by inexact Newton steps, in coordinates in which the prior is a standard normal distribution.

A step p solves :math:`(I + K) p = -g` by conjugate gradients, K the misfit's Gauss-Newton matrix or Hessian
(`invsamp.modes.products`). In these coordinates the prior preconditions them: their number depends on how many
directions the data inform, and not on the number of unknowns. Near the minimum the gradients of one step precondition
those of the next ones (`invsamp.modes.conjugate_pairs`).

Conjugate gradients have two stopping rules. One is that the last two of j gained at most :math:`\eta / j` of the total
gain in the quadratic model, on average (Nash and Sofer 1990, "Assessing a search direction within a truncated-Newton
method", Oper. Res. Lett. 9). They also stop at a direction of negative curvature (Nocedal and Wright 2006, "Numerical
optimization", Algorithm 7.1). Steps are rough while they are far. Between 0.02 and 1/2, :math:`\eta` is the predicted
gain of the last step over that of the one before. This is the forcing term of Eisenstat and Walker (1996, "Choosing the
forcing terms in an inexact Newton method", SIAM J. Sci. Comput. 17, eq. (2.6)), with energies, which are like squares
of gradients.

An optimization also ends at a known mode (`KnownMode`). What is left to gain is an estimate: quasi-Newton steps from
the mode's Gaussian follow (`invsamp.modes.field_modes`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from invsamp.evaluate.requests import EvaluationRequests
from invsamp.kernels.metric import LowRankMetric
from invsamp.modes.conjugate_pairs import ConjugatePairs
from invsamp.modes.products import Place, Products, Source, solved, times
from invsamp.modes.tolerances import APART
from invsamp.protocols import Array

#: Steps of a descent, halvings of a step, and products in a step, at most.
STEPS, HALVINGS, PRODUCTS = 60, 20, 200
#: Share of the decrease promised that a step has to reach; and the energies' rounding, relative to them.
ENOUGH, ROUNDING = 1e-4, 1e-12
#: The largest forcing term (Nocedal and Wright 2006, Algorithm 7.1), and the least: where data are not met exactly,
#: Gauss-Newton steps converge linearly, and to solve for them any better is in vain.
ROUGH, SMOOTH = 0.5, 0.02
#: Energy that a step promised, at most, where what was learned before may precondition the next one. Farther away
#: rough steps without it optimize faster.
NEAR = 300.0


class KnownMode(NamedTuple):
    r"""A known minimum, and the extent of its mode.

    In coordinates w in which the mode's Gaussian is a standard normal distribution, two conditions define its bulk.
    :math:`|w|^2` is at most the number of informed directions, which is its mean over draws. Energy and slope agree
    with the Gaussian within a factor of two. Beyond a barrier the slope has the other sign.
    """

    place: Place
    metric: LowRankMetric

    def holds(self, place: Place) -> bool:
        """Whether a place is in its bulk."""
        distance = 0.5 * float(np.square(self.metric.uncolor(place.position - self.place.position)).sum())
        above = place.energy - self.place.energy
        along = solved(self.metric.factor, place.position - self.place.position)
        informed = np.count_nonzero(self.metric.values > 1.0)
        agrees = 0.5 * distance <= above <= 2.0 * distance and distance <= float(place.gradient @ along)
        return bool(distance <= 0.5 * informed and agrees)


class NewtonDescent(NamedTuple):
    """The end of a descent."""

    place: Place
    converged: bool
    steps: int
    #: The mode in whose bulk it ended, by its number.
    known: int | None = None


def newton(
    source: Source,
    start: Array,
    tolerance: float,
    like: LowRankMetric | None = None,
    known: Sequence[KnownMode] = (),
) -> EvaluationRequests[NewtonDescent]:
    r"""Descend from a position (d,) until at most ``tolerance`` of energy is left to gain, about.

    Steps that promise less and less leave as much less to the next one, and conjugate gradients leave their forcing
    term. The descent is also over where :math:`|g|^2 / 2` is no more than the tolerance: the Hessian is at least the
    prior's, the identity, where K is positive semidefinite. A Gaussian of low rank that may be ``like`` the one there
    preconditions the conjugate gradients. The descent ends, too, in the bulk of one of the modes that are ``known``.
    """
    here = yield from source.at(start)
    if not math.isfinite(here.energy):
        return NewtonDescent(here, False, 0)
    before = last = 0.0
    learned = ConjugatePairs()
    for steps in range(STEPS):
        if 0.5 * float(here.gradient @ here.gradient) <= tolerance:
            return NewtonDescent(here, True, steps)
        for number, mode in enumerate(known):
            if mode.holds(here):
                return NewtonDescent(here, True, steps, number)
        roughness = min(max(last / before, SMOOTH), ROUGH) if before else ROUGH
        if last > NEAR or not steps:
            learned = ConjugatePairs()
        elif like is not None and learned.like is None:
            learned = ConjugatePairs(like)
        before = last
        step, last, learned = yield from _step(here.products, here.gradient, roughness, learned)
        there = yield from line_search(source, here, step)
        if there is None:
            # rounding of the energies hides what is left to gain
            return NewtonDescent(here, last <= max(tolerance, 100.0 * ROUNDING * abs(here.energy)), steps)
        here = there
        left = max(last / before, roughness) if before else 1.0
        if last * min(left, 1.0) <= tolerance:
            return NewtonDescent(here, True, steps + 1)
    return NewtonDescent(here, False, STEPS)


def same(one: Place, other: Place) -> EvaluationRequests[bool]:
    """Whether two ends are one minimum, by the Gaussian at the first."""
    apart = solved(one.products.factor, one.position - other.position)
    image = yield from one.products.of(apart[:, None])
    return image is not None and float(apart @ (apart + image[:, 0])) < APART**2


def line_search(source: Source, here: Place, step: Array) -> EvaluationRequests[Place | None]:
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
    products: Products, gradient: Array, roughness: float, learned: ConjugatePairs
) -> EvaluationRequests[tuple[Array, float, ConjugatePairs]]:
    """A step by conjugate gradients, the decrease that the quadratic model promises, and what is learned by then."""
    step, left = np.zeros_like(gradient), -gradient
    direction = learned.times(left)
    square, promised = float(left @ direction), 0.0
    directions, images, curvatures = [], [], []
    gain = math.inf
    for count in range(1, PRODUCTS + 1):
        image = yield from products.of(direction[:, None])
        if image is None:
            break
        curved = direction + image[:, 0]
        bend = float(direction @ curved)
        if bend <= 0.0:
            break
        directions.append(direction)
        images.append(curved)
        curvatures.append(bend)
        step = step + square / bend * direction
        left = left - square / bend * curved
        # the mean of two: one alone may be small while the preconditioner's errors are found
        gained, gain = gain, 0.5 * square**2 / bend
        ahead = learned.times(left)
        before, square, promised = square, float(left @ ahead), promised + gain
        if count * 0.5 * (gained + gain) <= roughness * promised or square == 0.0:
            break
        direction = ahead + square / before * direction
    more = learned.then(directions, images, curvatures)
    return (step, promised, more) if promised > 0.0 else (-gradient, math.inf, more)
