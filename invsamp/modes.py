"""Modes of a posterior: descents from many starts, and a Gaussian at the foot of each (Laplace)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invsamp.arguments import integer, optional
from invsamp.contract import Array, Problem
from invsamp.descent import Descent, descend
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Asks, Estimate, Request, answered
from invsamp.minima import distinct
from invsamp.names import labels
from invsamp.sampler import as_problem

#: Of prior draws, whose spread is the scale of the first steps.
SCALE_DRAWS = 256
#: Coarse fidelities only lead near the finest one's modes.
COARSE_TOLERANCE = 0.1
#: Of the finest: so much energy at the most is left to gain.
TOLERANCE = 1e-8


@dataclass(frozen=True)
class Modes:
    """What `maximize` found; prints as a table. The modes are sorted, the highest density first.

    Attributes
    ----------
    theta, position : ndarray, shape (k, d)
        Natural parameters, and the coordinates in which densities are maximised.
    energies : ndarray, shape (k,)
        Minus the log posterior density of positions.
    covariances : ndarray, shape (k, d, d)
        Of positions: the inverse of the energy's Hessian. NaN where it is not positive definite.
    log_evidence : ndarray, shape (k,)
        Log of each mode's share of the evidence by Laplace; NaN where there is no covariance.
    counts : ndarray, shape (k,)
        Starts that were led there.
    on_wall : ndarray, shape (k,)
        Whether the gradient pushes a mode against the domain's walls, where Laplace's Gaussian is not what is there.
    unfinished : int
        Starts whose descents did not end.
    evaluations : dict of str to int
        By fidelity, Hessians included.
    labels : tuple of str
    to_theta : callable
        Positions to natural parameters.
    """

    theta: Array
    position: Array
    energies: Array
    covariances: Array
    log_evidence: Array
    counts: npt.NDArray[np.int64]
    on_wall: npt.NDArray[np.bool_]
    unfinished: int
    evaluations: dict[str, int]
    labels: tuple[str, ...]
    to_theta: Callable[[Array], Array] = field(repr=False)

    def __len__(self) -> int:
        return len(self.energies)

    @property
    def weights(self) -> Array:
        """Share of the mass of all modes that Laplace tells, by it (k,); NaN where it does not."""
        shares = np.exp(self.log_evidence - np.nanmax(self.log_evidence, initial=-np.inf))
        return np.asarray(shares / np.nansum(shares))

    def draws(self, n: int, seed: int | None = None) -> Array:
        """Natural parameters (n, d) from the modes' Gaussians by their weights: starts for `sample`.

        Raises
        ------
        ValueError
            If no mode has a Gaussian.
        """
        integer("n", n, least=1)
        rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
        weights = np.nan_to_num(self.weights)
        if not weights.any():
            raise ValueError("draws needs a mode with a covariance, got none: they lie against walls, or are flat")
        factors = np.linalg.cholesky(self.covariances[weights > 0.0])
        which = rng.choice(len(factors), n, p=weights[weights > 0.0])
        noise = np.einsum("nij,nj->ni", factors[which], rng.standard_normal((n, self.position.shape[1])))
        return self.to_theta(self.position[weights > 0.0][which] + noise)

    def __str__(self) -> str:
        starts, solves = int(self.counts.sum()), ", ".join(f"{n} of {name}" for name, n in self.evaluations.items())
        lines = [f"{len(self)} mode{'s' * (len(self) != 1)} from {starts} starts; evaluations: {solves}"]
        for k in range(len(self)):
            values = ", ".join(f"{name} {value:.4g}" for name, value in zip(self.labels, self.theta[k], strict=True))
            wall = ", against a wall" if self.on_wall[k] else ""
            which = f"weight {self.weights[k]:.3g}, from {self.counts[k]} starts{wall}"
            lines.append(f"energy {self.energies[k]:.6g}, {which}: {values}")
        if self.unfinished:
            lines.append(
                f"{self.unfinished} descents did not end: more evaluations, or a density that grows without end"
            )
        return "\n".join(lines)


def maximize(problem: Problem, starts: int = 16, *, seed: int | None = None, most: int = 2000) -> Modes:
    r"""Maxima of a posterior density, by descents from draws of the prior, coarse fidelities first.

    The density is that of positions, in which samplers move: for a parameter that is sampled as its logarithm, the
    maximum lies elsewhere than that of the parameter's own density. A mode's Laplace approximation is

    .. math:: \log Z \approx -U + \tfrac{d}{2} \log 2 \pi - \tfrac12 \log \det \nabla^2 U.

    Parameters
    ----------
    problem : Problem
    starts : int
        Number of descents; the more, the surer that no mode is missed. Narrow modes are found least.
    seed : int, optional
        Of the starts.
    most : int
        Evaluations of one descent in one fidelity.

    Returns
    -------
    Modes

    Raises
    ------
    RuntimeError
        If no start has a finite energy, or none has led to an end.
    """
    problem = as_problem(problem)
    integer("starts", starts, least=1), integer("most", most, least=10)
    rng = np.random.default_rng(optional(integer, "seed", seed, least=0))
    scale = problem.sample_start(rng, SCALE_DRAWS).std(axis=0)
    position, evaluations = problem.sample_start(rng, starts), {}
    for name in problem.fidelities:
        solver = CountedPotential(problem.potential(name), name)
        finest = name == problem.fidelities[-1]
        end = _led(problem, solver, position, scale, TOLERANCE if finest else COARSE_TOLERANCE, most)
        position = end.position
        evaluations[name] = solver.evaluations
    ended = np.flatnonzero(end.converged)
    if not len(ended):
        raise RuntimeError(
            f"none of {starts} descents has come to an end within {most} evaluations, the lowest at the energy "
            f"{end.energy.min():.6g}: the density grows without end, or `most` is too small"
        )
    asking = distinct(_evaluating(solver), end, scale, problem.sampling_domain)
    found = answered(asking, solver.answer_all)
    return Modes(
        theta=problem.to_theta(found.position),
        position=found.position,
        energies=found.energies,
        covariances=found.covariances,
        log_evidence=found.log_evidence,
        counts=found.counts,
        on_wall=found.on_wall,
        unfinished=starts - len(ended),
        evaluations=evaluations | {solver.fidelity: solver.evaluations},
        labels=labels(problem.shapes),
        to_theta=problem.to_theta,
    )


def _led(
    problem: Problem, solver: CountedPotential, position: Array, scale: Array, tolerance: float, most: int
) -> Descent:
    asking = descend(_evaluating(solver), position, scale, problem.sampling_domain, tolerance=tolerance, most=most)
    end = answered(asking, solver.answer_all)
    if not np.isfinite(end.energy).any():
        raise RuntimeError(f"the energy of fidelity {solver.fidelity!r} is not finite at any of {len(position)} starts")
    return end


def _evaluating(solver: CountedPotential) -> Callable[[Array], Asks[Estimate]]:
    def evaluate(at: Array) -> Asks[Estimate]:
        (found,) = yield (Request(solver.fidelity, at),)
        return found

    return evaluate
