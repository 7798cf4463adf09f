"""Where the chains begin: as the user says, or drawn from the problem until the energy is finite."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from invsamp.arguments import numbers
from invsamp.domains.contract import Domain
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Request, Rows, answered
from invsamp.kernels.gaussian_reference import mode_of
from invsamp.posing.expressions.variable_names import labels_of
from invsamp.posing.priors.joint_prior import by_name, packed
from invsamp.protocols import Array, ExplainsFailures, KnownPrior, Problem

#: How often chains whose start cannot be solved are started elsewhere, how often where some other can, and of how many
#: of these an error shows.
START_TRIES, FEW_TRIES, STARTS_SHOWN = 100, 50, 2
#: Errors that occur at any parameters.
_MISTAKES = TypeError, NameError, AttributeError, ImportError


def given_start(bound: BoundProblem, start: Array | Mapping[str, Array], chains: int, rungs: int = 1) -> Array:
    """Positions of what a user gave; `ValueError` unless it is possible, inside the domain.

    They are (chains, dimension), for every rung, or (rungs * chains, dimension), those of one rung after the other.
    """
    theta, d = given_theta(bound.problem, "start", start), bound.dimension
    if theta.shape == (rungs, chains, d):
        chains = rungs * chains
        theta = theta.reshape(chains, d)
    elif theta.shape not in ((1, d), (chains, d)):
        each = f", or ({rungs}, {chains}, {d}) for each rung" if rungs > 1 else ""
        raise ValueError(f"start must have shape ({d},) or ({chains}, {d}){each}, got {theta.shape}")
    position = given_positions(bound.problem, bound.domain, "start", theta)
    return np.broadcast_to(position, (chains, d)).copy()


def given_theta(problem: Problem, word: str, given: Array | Mapping[str, Array]) -> Array:
    """Natural parameters (n, dimension), if the shape is right, of what a user gave as the argument ``word``."""
    if (named := by_name(given)) is None:
        return np.atleast_2d(numbers(word, given))
    if isinstance(problem, KnownPrior):
        return np.atleast_2d(problem.packed(word, named))
    return np.atleast_2d(packed(problem.shapes, word, named))


def given_positions(problem: Problem, domain: Domain, word: str, theta: Array) -> Array:
    """Positions of theta (n, dimension), which have to be possible, and inside."""
    possible = np.isfinite(theta).all(axis=1)
    if isinstance(problem, KnownPrior):
        possible &= np.isfinite(problem.log_prior(theta))
    if not possible.all():
        raise ValueError(f"{word} must have positive prior density, got {theta[np.argmin(possible)].tolist()}")
    position = problem.to_position(theta)
    endless = np.isinf(position)
    if endless.any():
        chain, column = map(int, np.argwhere(endless)[0])
        raise ValueError(
            f"{word} must lie within the bounds of supports that are transformed to infinity, as by a logit, "
            f"got {labels_of(problem)[column]}={float(theta[chain, column])!r}, which is a bound"
        )
    inside = domain.contains(position)
    if not inside.all():
        chain = int(np.argmin(inside))
        which = f" for chain {chain}" if len(theta) > 1 else ""
        raise ValueError(
            f"{word} must lie inside the domain {domain}, got {problem.to_theta(position)[chain].tolist()}{which}"
        )
    return position


def place(bound: BoundProblem, rung: RungChains, positions: Array | None, chains: int) -> None:
    """Place the chains where the energy is finite; a given start is taken as it is.

    Other starts lie inside the domain even where the sampler may leave it. Where next to no start can be solved, chains
    for which none was found begin with those for which one was.

    Raises
    ------
    ModelError
        If the model raised at every start.
    RuntimeError
        If the energy is not finite at any.
    """
    problem = bound.problem
    rung.start(_starts(bound, rung, chains) if positions is None else positions.copy())
    for attempt in range(START_TRIES):
        failed = np.flatnonzero(~np.isfinite(rung.estimate.energy))
        if not len(failed):
            return
        check_mistake(problem, rung.fidelity, *_MISTAKES)
        if positions is not None or (attempt >= FEW_TRIES and len(failed) < chains):
            break
        rung.position[failed] = _starts(bound, rung, len(failed))
        answered(rung.reevaluate(failed), rung.answer)
    failed = np.flatnonzero(~np.isfinite(rung.estimate.energy))
    if positions is None and 0 < len(failed) < chains:
        _join(rung, failed)
        return
    if not len(failed):
        return
    if len(failed) == chains:
        check_mistake(problem, rung.fidelity)
    message = failure_message(problem, rung.potential)
    points = problem.to_theta(rung.position[failed]).tolist()
    more = f" and {len(points) - STARTS_SHOWN} more" if len(points) > STARTS_SHOWN else ""
    tried = "" if positions is not None else f", nor at {START_TRIES} others of each chain"
    (without,) = rung.answer((Request(rung.fidelity, rung.position[failed[:STARTS_SHOWN]], gradient=False),))
    what = "gradient" if (slopes := bool(np.isfinite(without.energy).all())) else "energy"
    raise RuntimeError(
        f"the {what} of fidelity {rung.fidelity!r} is not finite at the starting points "
        f"{points[:STARTS_SHOWN]}{more}{tried}{', though the energy is' if slopes else ''}"
        + (f": {message}" if message else "")
        + (". Give start= points at which the model can be solved, or narrow the prior or the domain to where it works")
    )


def _starts(bound: BoundProblem, rung: RungChains, n: int) -> Array:
    """Starts of the problem (n, d), or draws of the reference that the kernel keeps, of those inside the domain."""
    rng, kernel = rung.streams["start"], rung.settings.kernel
    starts = bound.problem.sample_start(rng, n)
    if mode_of(kernel) is not None:
        reference = bound.reference(rung.target, kernel)
        drawn = reference.mean + reference.metric.color(rng.standard_normal(starts.shape))
        return np.where(bound.domain.contains(drawn)[:, None], drawn, starts)
    return starts


def place_again(bound: BoundProblem, rung: RungChains, positions: Array) -> None:
    """Place the chains where others were, and those for which that cannot be solved here where another one can.

    The rung of the prior may stand where nothing can be solved.
    """
    rung.start(positions)
    if rung.target.factors == (1.0, 0.0):
        return
    good = np.isfinite(rung.estimate.energy)
    failed = np.flatnonzero(~good)
    if not len(failed):
        return
    if not good.any():
        place(bound, rung, None, len(positions))
        return
    _join(rung, failed)


def _join(rung: RungChains, failed: Rows) -> None:
    """Let chains without a place begin where others do."""
    good = np.flatnonzero(np.isfinite(rung.estimate.energy))
    rung.position[failed] = rung.position[good[np.arange(len(failed)) % len(good)]]
    answered(rung.reevaluate(failed), rung.answer)


def check_mistake(problem: Problem, fidelity: str, *kinds: type[Exception]) -> None:
    """Raise what a model has raised whenever it was called, if it has, and this is of one of some kinds; default: any.

    Known in the process that called it.
    """
    mistake = problem.model_mistake(fidelity) if isinstance(problem, ExplainsFailures) else None
    if mistake is not None and isinstance(mistake.__cause__, kinds or Exception):
        raise mistake


def failure_message(problem: Problem, potential: CountedPotential) -> str | None:
    """Message of the last failed solve of a fidelity, where the problem knows; of this process if one failed here."""
    message = problem.failure_message(potential.fidelity) if isinstance(problem, ExplainsFailures) else None
    return message or potential.message
