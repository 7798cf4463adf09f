"""Maxima of a posterior: descents from many starts, and a Gaussian at the foot of each (Laplace)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import numpy as np

from invsamp.arguments import integer, optional
from invsamp.contract import Array, Gradients, NoisyPotential, Problem
from invsamp.engine.gradients import Uncounted, check_one
from invsamp.engine.starts import check_mistake, failure_message, given_positions, given_theta
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Asks, Estimate, Request, answered
from invsamp.modes import Modes
from invsamp.modes.descent import Descent, descend
from invsamp.modes.gauss_newton import walled
from invsamp.modes.low_rank import LowRankGaussian, evidence, low_rank
from invsamp.modes.minima import distinct
from invsamp.posing.forward import ModelError
from invsamp.posing.names import labels
from invsamp.posing.reference import reference_of
from invsamp.sampler import as_problem

#: Of prior draws, whose spread is the scale of the first steps.
SCALE_DRAWS = 256
#: Coarse fidelities only lead near the finest one's modes.
COARSE_TOLERANCE = 0.1
#: Unknowns up to which Hessians are dense unless directions are given, and directions of the others at the most.
MOST_DENSE, DIRECTIONS = 500, 200
#: Of the finest: so much energy at the most is left to gain.
TOLERANCE = 1e-8
#: Unknowns that are named where no descent ends.
FARTHEST = 4


def maximize(
    problem: Problem,
    starts: int | Array | Mapping[str, Array] = 16,
    *,
    seed: int | None = None,
    most: int = 2000,
    directions: int | None = None,
) -> Modes:
    r"""Maxima of a posterior density, by descents from draws of the prior or given points, coarse fidelities first.

    The density is that of positions, in which samplers move: for a parameter that is sampled as its logarithm, the
    maximum lies elsewhere than that of the parameter's own density. A mode's Laplace approximation is

    .. math:: \log Z \approx -U + \tfrac{d}{2} \log 2 \pi - \tfrac12 \log \det \nabla^2 U.

    Up to 500 unknowns the Hessian is dense, by some 4 d gradients. Of more it is that of the prior's Gaussian law in
    positions (exact for normal and log-normal parameters, or one of the same quartiles) and the directions in which it
    differs from that, which the data inform: `invsamp.modes.low_rank`, some two gradients for each and a hundred more.

    Parameters
    ----------
    problem : Problem
    starts : int, ndarray (n, dimension), or mapping of names to values (n, ...)
        Number of descents from the prior; the more, the surer that no mode is missed. Narrow modes are found least. Or
        natural parameters at which they begin.
    seed : int, optional
        Of the starts.
    most : int
        Evaluations of one descent in one fidelity.
    directions : int, optional
        Let the Hessian be of low rank, with so many directions at the most. Default: 200 above 500 unknowns.

    Returns
    -------
    Modes

    Raises
    ------
    ValueError
        If starts have another shape, no density, or lie outside the domain.
    RuntimeError
        If no start has a finite energy, or none has led to an end.
    ModelError
        If none has, and gradients are not those of the energy; a warning, if some have all the same. If the model has
        raised wherever it was called.
    """
    problem = as_problem(problem)
    integer("most", most, least=10)
    if optional(integer, "directions", directions, least=1) is None and problem.dimension > MOST_DENSE:
        directions = DIRECTIONS
    rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
    begun, scale = _begun(problem, starts, rng)
    position, evaluations, count = begun, dict[str, int](), len(begun)
    for name in problem.fidelities:
        solver = CountedPotential(problem.potential(name), name)
        finest = name == problem.fidelities[-1]
        end = _led(problem, solver, position, scale, TOLERANCE if finest else COARSE_TOLERANCE, most)
        position = end.position
        evaluations[name] = solver.evaluations
    ended, unsolved = np.flatnonzero(end.converged), int(np.count_nonzero(~np.isfinite(end.energy)))
    if not len(ended):
        if (mistake := _mistake(problem, solver, begun, rng)) is not None:
            raise ModelError(mistake)
        away = _away(problem, end.position - begun, scale)
        raise RuntimeError(
            f"none of {count} descents has come to an end within {most} evaluations, the lowest at the energy "
            f"{end.energy.min():.6g}"
            + (f"; what went farthest is {', '.join(away)}" if away else "")
            + ". Either the density grows without end and has no maximum: give what runs away a proper prior, or "
            "walls. Or `most` is too small, as where energies are rough: see posterior.check_gradient()"
        )
    asking = distinct(_evaluating(solver), end, scale, problem.sampling_domain, gaussian=directions is None)
    found = answered(asking, solver.answer_all)
    gaussians = None if directions is None else _low_rank(problem, solver, found.position, directions, rng)
    chi_squared, data, residuals = _fit(solver, found.position)
    if (mistake := _mistake(problem, solver, begun, rng)) is not None:
        warnings.warn(mistake, stacklevel=2)
    return Modes(
        theta=problem.to_theta(found.position),
        position=found.position,
        energies=found.energies,
        covariances=found.covariances,
        log_evidence=found.log_evidence if gaussians is None else evidence(found.energies, gaussians),
        counts=found.counts,
        on_wall=found.on_wall,
        unfinished=count - len(ended) - unsolved,
        unsolved=unsolved,
        evaluations=evaluations | {solver.fidelity: solver.evaluations},
        labels=labels(problem.shapes),
        to_theta=problem.to_theta,
        chi_squared=chi_squared,
        data=data,
        residuals=residuals,
        gaussians=gaussians,
    )


def _begun(
    problem: Problem, starts: int | Array | Mapping[str, Array], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Where descents begin (n, d), and the scale of their first steps (d,)."""
    if isinstance(starts, (bool, int, float, np.generic)):
        count = integer("starts", starts, least=1)
        scale = problem.sample_start(rng, SCALE_DRAWS).std(axis=0)
        return problem.sample_start(rng, count), scale
    theta = given_theta(problem, "starts", starts)
    if theta.ndim != 2 or theta.shape[1] != problem.dimension or not len(theta):
        raise ValueError(f"starts must be a number or have shape (n, {problem.dimension}), got {theta.shape}")
    position = given_positions(problem, problem.sampling_domain, "starts", theta)
    try:
        return position, problem.sample_start(rng, SCALE_DRAWS).std(axis=0)
    except ValueError:  # nothing to draw: that is why they are given
        return position, np.ones(problem.dimension)


def _mistake(problem: Problem, solver: CountedPotential, begun: Array, rng: np.random.Generator) -> str | None:
    """What is wrong with the gradient at the starts (n, d), if it is not that of the energy."""
    potential = Uncounted(solver, solver.answer_all)
    _, mistake = check_one(problem, problem, solver.fidelity, potential, begun, rng)
    if mistake is None:
        return None
    follow = "energies" if mistake.noisy else "gradients"
    return f"{mistake.words}. Descents follow {follow}, and are not to be believed"


def _away(problem: Problem, moved: Array, scale: Array) -> list[str]:
    """Names of the unknowns by which descents have moved the farthest (n, d), in spreads of the starts."""
    names, far = labels(problem.shapes), np.median(np.abs(moved), axis=0) / np.where(scale > 0.0, scale, 1.0)
    if len(names) != len(far):
        return []  # of a vector with a constraint, whose positions are fewer
    return [names[k] for k in np.argsort(-far, kind="stable")[:FARTHEST] if far[k] > 0.1 * far.max()]


def _low_rank(
    problem: Problem, solver: CountedPotential, position: Array, directions: int, rng: np.random.Generator
) -> tuple[LowRankGaussian | None, ...]:
    """The Gaussians of low rank at minima (k, d)."""
    evaluate, reference = _evaluating(solver), reference_of(problem)
    domain = problem.sampling_domain
    askings = [low_rank(evaluate, at, reference, domain, directions, rng) for at in position]
    return tuple(answered(asking, solver.answer_all) for asking in askings)


def _fit(solver: CountedPotential, position: Array) -> tuple[Array | None, int, Array | None]:
    """Chi-squared of modes (k,) and how many data that is of, None where noise adapts; and residuals (k, m)."""
    potential = solver.potential
    if not isinstance(potential, NoisyPotential):
        return None, 0, None
    residuals = potential.residuals(position)
    if (known := potential.expected_misfit()) is None:
        return None, 0, residuals
    parts = potential.parts(position, False)
    return 2.0 * (parts.energy - parts.prior - known.least), known.data, residuals


def _led(
    problem: Problem, solver: CountedPotential, position: Array, scale: Array, tolerance: float, most: int
) -> Descent:
    domain = problem.sampling_domain
    curved = (walled(domain) or solver.bounded) and solver.curved and problem.dimension <= MOST_DENSE
    evaluate = _evaluating(solver, "curved" if curved else True)
    asking = descend(evaluate, position, scale, domain, tolerance=tolerance, most=most)
    end = answered(asking, solver.answer_all)
    if not np.isfinite(end.energy).any():
        check_mistake(problem, solver.fidelity)
        message = failure_message(problem, solver)
        without = solver.answer(Request(solver.fidelity, position, gradient=False))
        slopes = np.isfinite(without.energy).any()
        raise RuntimeError(
            f"the {'gradient' if slopes else 'energy'} of fidelity {solver.fidelity!r} is not finite at any of "
            f"{len(position)} starts{', though the energy is' if slopes else ''}"
            + (f": {message}" if message else "")
            + ". Give starts= points that can be solved, or narrow the prior or the domain to where the model works"
        )
    return end


def _evaluating(solver: CountedPotential, gradient: Gradients = True) -> Callable[[Array], Asks[Estimate]]:
    def evaluate(at: Array) -> Asks[Estimate]:
        (found,) = yield (Request(solver.fidelity, at, gradient),)
        return found

    return evaluate
