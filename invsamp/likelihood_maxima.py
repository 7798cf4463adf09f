"""Maxima of a likelihood: where their descents begin and within which bounds, and what is reported of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Request
from invsamp.modes.descent import Descent
from invsamp.modes.low_rank import LowRankGaussian, evidence
from invsamp.modes.minima import Minima
from invsamp.posing.expressions.variable_names import labels_of
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, Problem

#: Energy that descents of the posterior leave to gain before those of the likelihood begin; and how far two of their
#: ends are apart at most, in scales, to be one point. Ends that are counted as two cost a short descent.
BEFORE, SAME = 1e-3, 0.02
#: Distance from the bounds at which descents of the likelihood begin, over the distance between them; and distance, in
#: scales, at which a maximum is said to lie at a bound.
INSET, AT_BOUND = 1e-6, 1e-5


class Descents(NamedTuple):
    """Where descents have ended: of the posterior's energy, or of the misfit."""

    problem: Problem  # in whose positions they are
    posed: CountedPotential  # of the posterior
    solver: CountedPotential  # of what they minimized
    scale: Array  # (d,)
    end: Descent


def check_apart(problem: Problem, of: str, rank: int | None) -> None:
    """`ValueError` where the likelihood is asked for and cannot be given."""
    if of == "posterior":
        return
    if rank is not None:
        raise ValueError(f"rank must be None with of='likelihood', which has no prior, got {rank}")
    for name in problem.fidelities:
        if not CountedPotential(problem.potential(name), name).split:
            raise ValueError(
                "of must be 'posterior' where a problem does not give its likelihood apart from its prior, got "
                "'likelihood'"
            )


def lowest_alone(end: Descent, scale: Array) -> bool:
    """Whether only one optimization has reached the lowest point."""
    found = merged(end, scale, 10.0 * BEFORE)
    return bool((found == found[0]).all(axis=1).sum() == 1)


def merged(end: Descent, scale: Array, worse: float) -> Array:
    """Where descents stand (k, d) that are at most ``worse`` above the lowest that converged, the lowest first.

    Those at about one point are where the lowest of them is, so that one goes on for all.
    """
    lowest = np.min(end.energy, where=end.converged, initial=np.inf)
    rows = np.flatnonzero(np.isfinite(end.energy) & (end.energy <= lowest + worse))
    rows = rows[np.argsort(end.energy[rows], kind="stable")]
    position, energy = end.position[rows], end.energy[rows]
    units = np.where(scale > 0.0, scale, 1.0)
    for k in range(1, len(rows)):
        near = (np.abs(position[:k] - position[k]) < SAME * units).all(axis=1)
        near &= energy[k] - energy[:k] < 10.0 * BEFORE
        if near.any():
            position[k] = position[np.argmax(near)]
    return position


def within_bounds(posterior: Posterior, theta: Array) -> Array:
    """Positions with bounds in place of logits (n, d), a little inside."""
    bounded = posterior.with_bounds()
    position = bounded.to_position(theta)
    for k, transform in enumerate(bounded.coordinates.transforms):
        if transform != posterior.coordinates.transforms[k]:
            lower, upper = (float(transform.forward(end[k])) for end in posterior.prior.support)
            inside = INSET * (upper - lower)
            position[:, k] = np.clip(position[:, k], lower + inside, upper - inside)
    return position


def log_evidence(of: str, found: Minima, gaussians: tuple[LowRankGaussian | None, ...] | None) -> Array:
    """Log of each mode's share of the evidence (k,); NaN for maxima of the likelihood."""
    if of == "likelihood":
        return np.full(len(found.energies), np.nan)
    return found.log_evidence if gaussians is None else evidence(found.energies, gaussians)


def log_likelihood(led: Descents, found: Minima) -> Array | None:
    """Log-likelihoods (k,); None where a potential does not give them apart."""
    if led.solver is not led.posed:
        return -found.energies
    if not led.solver.split:
        return None
    there = led.solver.answer(Request(led.solver.fidelity, found.position, gradient=False))
    assert there.prior is not None  # it is split
    return there.prior - there.energy


def at_bounds(led: Descents, found: Minima) -> tuple[tuple[str, ...], ...]:
    """Names of the unknowns that lie at bounds, of each mode."""
    names, domain = labels_of(led.problem), led.problem.sampling_domain
    if len(names) != len(led.scale):
        return ((),) * len(found.energies)  # of a vector with a constraint, whose positions are fewer
    steps = AT_BOUND * np.diag(led.scale)
    inside = [domain.contains(at + steps) & domain.contains(at - steps) for at in found.position]
    return tuple(tuple(name for name, free in zip(names, row, strict=True) if not free) for row in inside)
