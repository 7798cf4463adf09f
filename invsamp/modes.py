"""Modes of a posterior: descents from many starts, and a Gaussian at the foot of each (Laplace)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invsamp.arguments import integer, optional
from invsamp.contract import Array, Problem
from invsamp.curvature import covariance_of, hessian
from invsamp.descent import Descent, descend
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Asks, Estimate, Request, answered
from invsamp.names import labels
from invsamp.sampler import as_problem

#: Of prior draws, whose spread is the scale of the first steps.
SCALE_DRAWS = 256
#: Coarse fidelities only lead near the finest one's modes.
COARSE_TOLERANCE = 0.1
#: Of the finest: so much energy at the most is left to gain.
TOLERANCE = 1e-8
#: Two ends are one mode if each lies this many sds (Mahalanobis, per the square root of d) from the other, at most.
APART = 0.5


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
    found = _distinct(problem, solver, end, ended[np.argsort(end.energy[ended])], scale)
    position = end.position[[mode.end for mode in found]]
    d, energies = problem.dimension, end.energy[[mode.end for mode in found]]
    with np.errstate(invalid="ignore"):  # where there is none
        volumes = np.array([0.5 * np.linalg.slogdet(mode.covariance)[1] for mode in found])
    return Modes(
        theta=problem.to_theta(position),
        position=position,
        energies=energies,
        covariances=np.stack([mode.covariance for mode in found]),
        log_evidence=0.5 * d * math.log(2.0 * math.pi) + volumes - energies,
        counts=np.array([mode.count for mode in found]),
        on_wall=np.array([mode.on_wall for mode in found]),
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


@dataclass
class _Mode:
    end: int  # index of the descent
    covariance: Array
    on_wall: bool
    count: int = 1


def _distinct(
    problem: Problem, solver: CountedPotential, end: Descent, order: npt.NDArray[np.intp], scale: Array
) -> list[_Mode]:
    """One for all ends that lie where another one's Gaussian is, in the order of their energies."""
    found: list[_Mode] = []
    precisions: list[Array] = []
    for k in order:
        apart = [end.position[k] - end.position[mode.end] for mode in found]
        near = [float(a @ h @ a) < APART**2 * len(a) for a, h in zip(apart, precisions, strict=True)]
        if any(near):
            found[near.index(True)].count += 1
            continue
        asking = hessian(_evaluating(solver), end.position[k], end.gradient[k], scale, problem.sampling_domain)
        precision, on_wall = answered(asking, solver.answer_all)
        precisions.append(precision)
        found.append(_Mode(int(k), np.full_like(precision, np.nan) if on_wall else covariance_of(precision), on_wall))
    return found
