"""Maxima of a posterior or of a likelihood: descents from many starts, and the Gaussian at each maximum (Laplace)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from invsamp.arguments import integer, one_of, optional
from invsamp.engine.adaptation.metric_estimation import far
from invsamp.engine.rungs.dispatch import Uncounted
from invsamp.engine.rungs.gradient_check import check_one
from invsamp.engine.rungs.initial_points import check_mistake, failure_message, given_positions, given_theta
from invsamp.errors import ModelError
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Request, answered
from invsamp.likelihood_maxima import (
    BEFORE,
    Descents,
    at_bounds,
    check_apart,
    log_evidence,
    log_likelihood,
    lowest_alone,
    merged,
    within_bounds,
)
from invsamp.modes import Modes
from invsamp.modes.descent import Descent, descend, joined
from invsamp.modes.field_modes import AGREED, field_reference, minima_of, search_field, starts_of_field
from invsamp.modes.gauss_newton import has_bounds
from invsamp.modes.low_rank import LowRankGaussian, low_rank
from invsamp.modes.minima import Minima, distinct
from invsamp.modes.objective import Objective, of_fidelity
from invsamp.modes.products import DifferenceProducts
from invsamp.posing.expressions.variable_names import labels_of
from invsamp.posing.posterior.gaussian_reference import reference_of
from invsamp.posing.posterior.misfit_potential import MisfitPotential
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, ExpectedMisfit, NoisyPotential, Problem, Reference, SplitPotential
from invsamp.sampling import as_problem
from invsamp.warning_codes import InvsampWarning

#: Of prior draws, whose spread is the scale of the first steps.
SCALE_DRAWS = 256
#: Coarse fidelities only lead near the finest one's modes.
COARSE_TOLERANCE = 0.1
#: Unknowns up to which Hessians are dense unless directions are given, and directions of the others at most.
MOST_DENSE, DIRECTIONS = 500, 200
#: Of the finest: so much energy at most is left to gain.
TOLERANCE = 1e-8
#: The same of Newton descents, whose Gaussians show by how many sds that is: a hundredth.
FIELD_TOLERANCE = 1e-4
#: Maxima of the likelihood: starts at most, for each that was asked for, where only one leads to the best; and
#: energy above the posterior's lowest mode, beside what modes of one problem differ by, from which on modes are left.
MOST_STARTS, WORSE = 16, 10.0
#: Values of `of`.
DENSITIES = ("posterior", "likelihood")
#: Unknowns that are named where no descent ends.
FARTHEST = 4


def maximize(
    problem: Problem,
    starts: int | Array | Mapping[str, Array] = 16,
    *,
    of: str = "posterior",
    seed: int | None = None,
    max_evaluations: int = 2000,
    rank: int | None = None,
) -> Modes:
    r"""Maxima of a posterior density or of a likelihood, by descents from many starts, coarse fidelities first.

    The posterior density is that of positions, in which samplers move: for a parameter that is sampled as its
    logarithm, the maximum lies elsewhere than that of the parameter's own density. A mode's Laplace approximation is

    .. math:: \log Z \approx -U + \tfrac{d}{2} \log 2 \pi - \tfrac12 \log \det \nabla^2 U.

    Maxima of the likelihood do not depend on coordinates, and may lie at bounds. Descents minimize the
    posterior's energy first. That keeps parameters that are sampled by logits away from their bounds, as the barrier
    of an interior-point method does. Then they minimize the misfit alone, from each of these minima, within the bounds.

    A prior that is Gaussian in 80 unknowns or more, without bounds, is that of a field on a mesh. Then descents take
    Newton steps with conjugate gradients (`invsamp.modes.newton`), whose number does not grow with that of the
    unknowns. The first begins at the prior's mean, the second at a draw, and others follow only where these two differ.
    With a forward model that has a ``tangent`` or a ``jacobian``, the Hessian is that of Gauss and Newton, and a
    product takes two solves by factors that are kept; otherwise it takes two gradients. The Hessian is of low rank
    then.

    Up to 500 unknowns the Hessian is dense, by some 4 d gradients. Of more it is that of the prior's Gaussian
    distribution in positions, plus the directions that the data inform (`invsamp.modes.low_rank`). That Gaussian is
    exact for normal and log-normal parameters, and has the same quartiles otherwise. Each direction takes some two
    gradients, and all of them a hundred more.

    Parameters
    ----------
    problem : Problem
    starts : int, ndarray (n, dimension), or mapping of names to values (n, ...)
        Number of descents from the prior; the more, the surer that no mode is missed. Narrow modes are found least. Or
        natural parameters at which they begin. For the likelihood as many again are drawn, up to 16 times, until two
        have reached the same lowest point: an optimum that only one start found is seldom the best one.
    of : "posterior" or "likelihood"
        What is maximized. The likelihood is maximized within the prior's support and the domain, where logits become
        bounds (`Posterior.with_bounds`). These are the optima that are published for problems in the PEtab format.
    seed : int, optional
        Of the starts.
    max_evaluations : int
        Evaluations of one descent in one fidelity.
    rank : int, optional
        Let the Hessian be of low rank, with so many directions at most. Default: 200 above 500 unknowns.

    Returns
    -------
    Modes

    Raises
    ------
    ValueError
        If starts have another shape, no density, or lie outside the domain. If the likelihood is asked for and the
        problem does not give it apart from the prior, or together with ``rank``.
    RuntimeError
        If no start has a finite energy, or none has led to an end.
    ModelError
        If none has, and gradients are not those of the energy; a warning, if some have all the same. If the model has
        raised wherever it was called.

    References
    ----------
    Nocedal and Wright (2006), "Numerical optimization", section 19.6, for the barrier.

    Examples
    --------
    >>> import invsamp as iv
    >>> rates = iv.Prior(rate=iv.Uniform(0.0, 2.0))
    >>> line = iv.with_jacobian(lambda t: t, lambda t: t[:, :, None] ** 0)
    >>> found = iv.maximize(iv.Posterior(rates, line, [2.5], iv.GaussianNoise(1.0)), of="likelihood", seed=1)
    >>> found.theta.round(3)
    array([[2.]])
    """
    problem = as_problem(problem)
    integer("max_evaluations", max_evaluations, least=10), one_of("of", of, DENSITIES)
    check_apart(problem, of, rank)
    dense = optional(integer, "rank", rank, least=1) is None and problem.dimension <= MOST_DENSE
    rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
    solvers = [CountedPotential(problem.potential(name), name) for name in problem.fidelities]
    field = field_reference(problem, problem.sampling_domain) if of == "posterior" else None
    if rank is None and of == "posterior" and (field is not None or not dense):
        rank = DIRECTIONS
    if field is not None:
        return _of_field(problem, solvers, field, starts, rank or DIRECTIONS, rng)
    begun, scale = _begun(problem, starts, rng)
    end, solver = (
        _through(problem, solvers, begun, scale, TOLERANCE if of == "posterior" else BEFORE, max_evaluations),
        solvers[-1],
    )
    if of == "likelihood" and np.isscalar(starts) and len(begun) > 1:
        begun, end = _more(problem, solvers, begun, end, scale, max_evaluations, rng)
    unsolved = int(np.count_nonzero(~np.isfinite(end.energy)))
    if not end.converged.any():
        if (mistake := _mistake(problem, solver, begun, rng)) is not None:
            raise ModelError(mistake)
        raise RuntimeError(_divergence(problem, end, begun, scale, max_evaluations))
    led, left_out = Descents(problem, solver, solver, scale, end), 0
    if of == "likelihood":
        led = _to_likelihood(led, max_evaluations, rng)
        left_out = len(begun) - unsolved - len(led.end.converged)
    found = _distinguished(led, gaussian=dense)
    gaussians = None if rank is None else _low_rank(problem, solver, found.position, rank, rng)
    unfinished = len(begun) - unsolved - left_out - int(found.counts.sum())
    return _modes(led, solvers, found, gaussians, begun, rng, of, (unfinished, unsolved, left_out))


def _of_field(
    problem: Problem,
    solvers: Sequence[CountedPotential],
    reference: Reference,
    starts: int | Array | Mapping[str, Array],
    rank: int,
    rng: np.random.Generator,
) -> Modes:
    """Modes where the prior is Gaussian in many unknowns."""
    begun: Iterator[Array]
    checked, agreed = reference.mean[None], AGREED
    if isinstance(starts, (bool, int, float, np.generic)):
        begun = starts_of_field(problem, reference, integer("starts", starts, least=1), rng)
    else:
        checked = _given(problem, starts)
        begun, agreed = iter(checked), len(checked)
    asking = search_field(solvers, reference, problem.sampling_domain, begun, rank, rng, FIELD_TOLERANCE, agreed)
    found = answered(asking, solvers[-1].answer_all)
    if not found.modes:
        if (mistake := _mistake(problem, solvers[-1], checked, rng)) is not None:
            raise ModelError(mistake)
        check_mistake(problem, solvers[-1].fidelity)
        message = failure_message(problem, solvers[-1])
        raise RuntimeError(
            f"none of {found.unfinished + found.unsolved} Newton optimizations converged ({found.unsolved} could "
            f"not be solved{f': {message}' if message else ''}). Give starts= points that can be solved; see "
            "posterior.check_gradient()"
        )
    minima, k = minima_of(found), len(found.modes)
    end = Descent(*minima[:2], np.zeros_like(minima.position), np.ones(k, dtype=np.int64), np.ones(k, dtype=bool))
    led = Descents(problem, solvers[-1], solvers[-1], np.ones(problem.dimension), end)
    gaussians, left = tuple(mode.gaussian for mode in found.modes), (found.unfinished, found.unsolved, 0)
    return _modes(led, solvers, minima, gaussians, checked, rng, "posterior", left, reference)


def _given(problem: Problem, starts: Array | Mapping[str, Array]) -> Array:
    """Positions (n, d) of starts that are given."""
    theta = given_theta(problem, "starts", starts)
    if theta.ndim != 2 or theta.shape[1] != problem.dimension or not len(theta):
        raise ValueError(f"starts must be a number or have shape (n, {problem.dimension}), got {theta.shape}")
    return given_positions(problem, problem.sampling_domain, "starts", theta)


def _modes(
    led: Descents,
    solvers: Sequence[CountedPotential],
    found: Minima,
    gaussians: tuple[LowRankGaussian | None, ...] | None,
    begun: Array,
    rng: np.random.Generator,
    of: str,
    left: tuple[int, int, int],
    prior: Reference | None = None,
) -> Modes:
    """The result; ``left`` counts starts that did not converge, those that were not solved, and those left out."""
    problem, solver = led.problem, solvers[-1]
    chi_squared, expected, residuals = _fit(led.posed, found.position)
    if (mistake := _mistake(problem, solver, begun, rng)) is not None:
        warnings.warn(mistake, InvsampWarning, stacklevel=2)
    likelihoods, to_theta = log_likelihood(led, found), problem.to_theta
    evaluations, calls = ({one.fidelity: getattr(one, name) for one in solvers} for name in ("evaluations", "calls"))
    if led.solver is not solver:
        evaluations[solver.fidelity] += led.solver.evaluations
        calls[solver.fidelity] += led.solver.calls
    return Modes(
        theta=to_theta(found.position),
        position=found.position,
        energies=found.energies,
        covariances=found.covariances,
        log_evidence=log_evidence(of, found, gaussians),
        counts=found.counts,
        on_wall=found.on_wall,
        unfinished=left[0],
        unsolved=left[1],
        evaluations=evaluations,
        function_calls=calls,
        labels=labels_of(problem),
        to_theta=to_theta,
        chi_squared=chi_squared,
        data=0 if expected is None else expected.data,
        expected=expected,
        residuals=residuals,
        gaussians=gaussians,
        of=of,
        log_likelihood=likelihoods,
        at_bounds=at_bounds(led, found),
        left_out=left[2],
        products={one.fidelity: one.products for one in solvers if one.products},
        prior=prior,
    )


def _distinguished(led: Descents, gaussian: bool) -> Minima:
    objective = Objective(of_fidelity(led.solver.fidelity), led.scale, led.problem.sampling_domain)
    asking = distinct(objective, led.end, gaussian=gaussian)
    return answered(asking, led.solver.answer_all)


def _through(
    problem: Problem, solvers: Sequence[CountedPotential], begun: Array, scale: Array, tolerance: float, most: int
) -> Descent:
    """Descents through all fidelities, the coarsest first, to a tolerance in the finest."""
    for solver in solvers:
        end = _led(problem, solver, begun, scale, tolerance if solver is solvers[-1] else COARSE_TOLERANCE, most)
        begun = end.position
    return end


def _more(
    problem: Problem,
    solvers: Sequence[CountedPotential],
    begun: Array,
    end: Descent,
    scale: Array,
    most: int,
    rng: np.random.Generator,
) -> tuple[Array, Descent]:
    """As many starts again, until two of them lead to the same lowest point; and all descents."""
    first = len(begun)
    while end.converged.any() and lowest_alone(end, scale) and len(begun) < MOST_STARTS * first:
        more = problem.sample_start(rng, len(begun))
        end = joined(end, _through(problem, solvers, more, scale, BEFORE, most))
        begun = np.concatenate([begun, more])
    return begun, end


def _to_likelihood(led: Descents, most: int, rng: np.random.Generator) -> Descents:
    """On from each minimum of the posterior's energy down the misfit alone, with bounds in place of logits."""
    problem, name, scale = led.problem, led.solver.fidelity, led.scale
    begun = merged(led.end, scale, far(problem.dimension) + WORSE)
    if isinstance(problem, Posterior) and problem.with_bounds().coordinates != problem.coordinates:
        begun = within_bounds(problem, problem.to_theta(begun))
        problem = problem.with_bounds()
        scale = problem.sample_start(rng, SCALE_DRAWS).std(axis=0)
    posed = CountedPotential(problem.potential(name), name)
    assert isinstance(posed.potential, SplitPotential)  # as was checked
    misfit = CountedPotential(MisfitPotential(posed.potential), name)
    end = _led(problem, misfit, begun.copy(), scale, TOLERANCE, most)
    if not end.converged.any():
        raise RuntimeError(_divergence(problem, end, begun, scale, most))
    return Descents(problem, posed, misfit, scale, end)


def _divergence(problem: Problem, end: Descent, begun: Array, scale: Array, most: int) -> str:
    """Message where no optimization has converged."""
    away = _away(problem, end.position - begun, scale)
    return (
        f"none of {len(begun)} optimizations converged within {most} evaluations, the lowest at the energy "
        f"{end.energy.min():.6g}"
        + (f"; the parameters that went farthest are {', '.join(away)}" if away else "")
        + ". Either the density is unbounded and has no maximum: give the diverging parameters a proper prior, "
        "or bounds. Or `max_evaluations` is too small, as where energies are rough: see "
        "posterior.check_gradient()"
    )


def _begun(
    problem: Problem, starts: int | Array | Mapping[str, Array], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Where descents begin (n, d), and the scale of their first steps (d,)."""
    if isinstance(starts, (bool, int, float, np.generic)):
        count = integer("starts", starts, least=1)
        scale = problem.sample_start(rng, SCALE_DRAWS).std(axis=0)
        return problem.sample_start(rng, count), scale
    position = _given(problem, starts)
    try:
        return position, problem.sample_start(rng, SCALE_DRAWS).std(axis=0)
    except ValueError:  # nothing to draw: that is why they are given
        return position, np.ones(problem.dimension)


def _mistake(problem: Problem, solver: CountedPotential, begun: Array, rng: np.random.Generator) -> str | None:
    """Message about the gradient at the starts (n, d) where it is not that of the energy; None where it is."""
    potential = Uncounted(solver, solver.answer_all)
    _, mistake = check_one(problem, problem, solver.fidelity, potential, begun, rng)
    if mistake is None:
        return None
    follow = "energies" if mistake.noisy else "gradients"
    return f"{mistake.words}. Optimizations follow {follow}, so their results are unreliable"


def _away(problem: Problem, moved: Array, scale: Array) -> list[str]:
    """Names of the unknowns by which descents have moved the farthest (n, d), in spreads of the starts."""
    names, far = labels_of(problem), np.median(np.abs(moved), axis=0) / np.where(scale > 0.0, scale, 1.0)
    if len(names) != len(far):
        return []  # of a vector with a constraint, whose positions are fewer
    return [names[k] for k in np.argsort(-far, kind="stable")[:FARTHEST] if far[k] > 0.1 * far.max()]


def _low_rank(
    problem: Problem, solver: CountedPotential, position: Array, directions: int, rng: np.random.Generator
) -> tuple[LowRankGaussian | None, ...]:
    """The Gaussians of low rank at minima (k, d)."""
    evaluate, reference = of_fidelity(solver.fidelity), reference_of(problem)
    domain = problem.sampling_domain
    askings = [
        low_rank(DifferenceProducts(evaluate, at, reference.factor, domain), at, reference, directions, rng)
        for at in position
    ]
    return tuple(answered(asking, solver.answer_all) for asking in askings)


def _fit(solver: CountedPotential, position: Array) -> tuple[Array | None, ExpectedMisfit | None, Array | None]:
    """Chi-squared of modes (k,) and what it should be, None where noise adapts; and residuals (k, m)."""
    potential = solver.potential
    if not isinstance(potential, NoisyPotential):
        return None, None, None
    residuals = potential.residuals(position)
    if (known := potential.expected_misfit()) is None:
        return None, None, residuals
    parts = potential.parts(position, False)
    return 2.0 * (parts.energy - parts.prior - known.least), known, residuals


def _led(
    problem: Problem, solver: CountedPotential, position: Array, scale: Array, tolerance: float, most: int
) -> Descent:
    domain = problem.sampling_domain
    curved = (has_bounds(domain) or solver.bounded) and solver.curved and problem.dimension <= MOST_DENSE
    objective = Objective(of_fidelity(solver.fidelity, "curved" if curved else True), scale, domain)
    asking = descend(objective, position, tolerance=tolerance, most=most)
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
            + (
                ". Give starts= points at which the model can be solved, or narrow the prior or the domain to "
                "where it works"
            )
        )
    return end
