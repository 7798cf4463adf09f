"""The form in which a run samples parameters that depend on others: centered or not, each entry by itself.

The choice is made by the curvature at the minimum of largest weight, in positions in which nothing is centered. There
optimizations converge, while in centered positions the density may be unbounded where a scale goes to 0. Positions,
minima and their Gaussians are then transformed to the chosen form.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invsamp.diagnostics.report import CenteringReport
from invsamp.engine.adaptation.initial_descent import MOST
from invsamp.engine.adaptation.metric_estimation import far
from invsamp.engine.adaptation.metric_from_curvature import metric_of
from invsamp.engine.mode_search.multistart import MOST_GAUSSIAN, ModeSearchResult
from invsamp.engine.rungs.bound_problem import BoundProblem, Recentering
from invsamp.engine.rungs.lasting_state import Lasting, LastingState
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.evaluate.requests import EvaluationRequests, Request, watched
from invsamp.kernels.metric import Metric
from invsamp.modes.curvature import hessian
from invsamp.modes.descent import descend
from invsamp.modes.minima import Minima
from invsamp.modes.objective import Objective, of_fidelity
from invsamp.modes.tolerances import TOLERANCE
from invsamp.posing.posterior.gaussian_reference import reference_of
from invsamp.protocols import Array, Centerable

#: Length of a difference in positions, in standard deviations, by which Gaussians are taken over.
STEP = 1e-4
#: Why parameters are in the form that they are in.
CHOSEN, GIVEN = "chosen: centered where data inform an entry more than its prior", "given"
PART = "not chosen: the run is a part of another one"
NOT_LED = "not chosen: the sampler has several rungs, or finds no step size and metric from exact gradients"


class Parameterization(Lasting, lasting=("centered", "evaluations", "reason", "_curvature")):
    """The form of a run, and what it was chosen by.

    Parameters
    ----------
    bound : BoundProblem

    Attributes
    ----------
    open : bool
        Whether a form is to be chosen, and none was yet.
    centered : dict of str to ndarray
        Which entries of which parameters are centered, of those whose form the run chooses.
    evaluations : int
        That the choice took beside those of the search for modes.
    reason : str
        Why nothing was chosen, where that is so.
    """

    def __init__(self, bound: BoundProblem) -> None:
        self._bound, problem = bound, bound.problem
        self._asked = problem.centering if isinstance(problem, Centerable) and not bound.part else {}
        self.centered: dict[str, Array] = {}
        self.evaluations, self.reason = 0, ""
        self._curvature: Array | None = None  # at the minimum that the form was chosen by, in the positions of it
        if self._asked and bound.dimension > MOST_GAUSSIAN:
            self.reason = f"not chosen: there are more than {MOST_GAUSSIAN} unknowns"

    @property
    def open(self) -> bool:
        """Whether a form is to be chosen, and none was yet."""
        return bool(self._asked) and not (self.centered or self.reason)

    @property
    def moved(self) -> bool:
        """Whether something is centered by choice."""
        return any(entries.any() for entries in self.centered.values())

    def metric(self, *, diagonal: bool) -> Metric | None:
        """That of the curvature at the minimum by which the form was chosen; None where nothing has changed."""
        if self._curvature is None:
            return None
        return metric_of(np.diag(self._curvature) if diagonal else self._curvature, self._spread())

    def choose_by(self, found: ModeSearchResult, scale: Array) -> EvaluationRequests[tuple[ModeSearchResult, Array]]:
        """Choose by what a search for modes has found; that and the scale of positions (d,) in the form chosen."""
        minima = found.minima
        if not len(minima.energies):
            self.reason = "not chosen: no optimization reached a minimum"
            return found, scale
        k = int(np.argmax(minima.weights))
        precision = np.linalg.inv(minima.covariances[k]) if np.isfinite(minima.covariances[k]).all() else None
        yield from self._choose(minima.position[k], scale, precision)
        if not self.moved:
            return found, scale
        return found._replace(minima=self._taken_over(minima)), self._spread()

    def choose_from(self, rung: RungChains, scale: Array) -> EvaluationRequests[Array]:
        """Choose by descents from where the chains of a rung stand; where they have come to (chains, d), in that form.

        Those that end far above the lowest are where that is.
        """
        objective = Objective(of_fidelity(rung.fidelity), scale, self._bound.domain)
        end = yield from descend(objective, rung.position, tolerance=TOLERANCE, most=MOST)
        self.evaluations += int(end.evaluations.sum())
        if not end.converged.any():
            self.reason = "not chosen: no optimization reached a minimum"
            return rung.position
        energies = np.where(end.converged, end.energy, np.inf)
        lowest = int(np.argmin(energies))
        near = energies <= energies[lowest] + far(self._bound.dimension)
        position = np.where(near[:, None], end.position, end.position[lowest])
        yield from self._choose(end.position[lowest], scale, None)
        return self.taken(position) if self.moved else position

    def taken(self, position: Array) -> Array:
        """Positions (n, d) in which nothing is centered in those of the form chosen."""
        problem = self._bound.problem
        return problem.to_position(self._bound.asked.to_theta(position))

    def restore(self, state: LastingState) -> None:
        """Continue from a state, in the positions that it is in."""
        super().restore(state)
        if self.moved:
            self._take()

    def report(self) -> dict[str, CenteringReport]:
        """In plain types."""
        problem, reason = self._bound.problem, self.reason or (CHOSEN if self.centered else NOT_LED)
        if not isinstance(problem, Centerable):
            return {}
        return {
            name: {"centered": entries.tolist(), "reason": why, "evaluations": evaluations}
            for why, evaluations, found in (
                (reason if self._asked else PART, self.evaluations, problem.centering),
                (GIVEN, 0, problem.given_centering),
            )
            for name, entries in found.items()
        }

    def _choose(self, at: Array, scale: Array, precision: Array | None) -> EvaluationRequests[None]:
        problem, name = self._bound.problem, self._bound.fidelities[-1]
        assert isinstance(problem, Centerable)
        (found,) = yield (Request(name, at[None], "apart"),)
        self.evaluations += 1
        if precision is None:
            objective = Objective(of_fidelity(name), scale, self._bound.domain)
            asking = hessian(objective, at, float(found.energy[0]), found.gradient[0])
            precision, _ = yield from watched(asking, self._count)
        assert found.prior_gradient is not None  # it was asked for
        self.centered = dict(problem.centering_at(at, (found.gradient - found.prior_gradient)[0], precision))
        if self.moved:
            self._take()
            back = np.linalg.inv(self._jacobian(at, np.square(scale)))
            self._curvature = back.T @ precision @ back

    def _take(self) -> None:
        """Let the run move in the positions of the form, wherever it is evaluated."""
        self._bound.recenter(self.centered)
        self._bound.dispatch.corrected(Recentering(self.centered))

    def _jacobian(self, at: Array, variances: Array) -> Array:
        """Derivatives (d, d) of the positions of the form by those in which nothing is centered."""
        moves = STEP * np.diag(np.sqrt(variances))
        ends = self.taken(np.concatenate([at + moves, at - moves]))
        return np.asarray(((ends[: len(at)] - ends[len(at) :]) / (2.0 * np.diag(moves))[:, None]).T)

    def _taken_over(self, minima: Minima) -> Minima:
        """Minima in the positions of the form: where densities of theta are those of before."""
        variances = np.diagonal(minima.extents, axis1=1, axis2=2)
        jacobians = [self._jacobian(*each) for each in zip(minima.position, variances, strict=True)]
        volumes = np.array([np.linalg.slogdet(jacobian)[1] for jacobian in jacobians])
        covariances, extents = (
            np.stack([j @ matrix @ j.T for j, matrix in zip(jacobians, matrices, strict=True)])
            for matrices in (minima.covariances, minima.extents)
        )
        return minima._replace(
            position=self.taken(minima.position),
            energies=minima.energies + volumes,
            covariances=covariances,
            extents=extents,
        )

    def _count(self, requests: Sequence[Request]) -> None:
        self.evaluations += sum(len(request.position) for request in requests)

    def _spread(self) -> Array:
        """Standard deviation of every position (d,) by the prior."""
        factor = reference_of(self._bound.problem).factor
        return factor if factor.ndim == 1 else np.sqrt(np.square(factor).sum(axis=1))
