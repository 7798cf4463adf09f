"""What kernels are told of a problem's prior: a Gaussian law to hold proposals against, and draws."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from invsamp.domains.boundary import Boundary, Ignore, Reflect
from invsamp.kernels.contract import Whitened
from invsamp.kernels.metric import DenseMetric, DiagonalMetric
from invsamp.kernels.prior_sampler import PriorDraws
from invsamp.ladder import Rung
from invsamp.posing.posterior.gaussian_reference import reference_of
from invsamp.protocols import Array, DrawablePrior, Problem, Reference, SampledProblem
from invsamp.tempering.target_distribution import TargetDistribution


class Priors:
    """What is known of a problem's prior; nothing is computed before it is asked for.

    Parameters
    ----------
    problem, sampled : Problem
        As posed, and as the sampler sees it.
    boundary : Boundary
        That makes the one of the other.
    """

    def __init__(self, problem: Problem, sampled: SampledProblem, boundary: Boundary) -> None:
        self._problem, self._sampled, self._boundary = problem, sampled, boundary
        self._reference: Reference | None = None
        self._whitened: dict[float, Whitened] = {}

    def check(self, rungs: Sequence[Rung]) -> None:
        """`ValueError` if a kernel draws from the prior, and the problem or the boundary does not let it."""
        if any(isinstance(rung.kernel, PriorDraws) for rung in rungs):
            self._check_drawable()

    def _check_drawable(self) -> None:
        if not isinstance(self._boundary, Reflect | Ignore):
            raise ValueError(f"prior_draws() knows no boundary but 'reflect' and 'ignore', got {self._boundary}")
        if not isinstance(self._sampled, DrawablePrior):
            raise ValueError(
                "prior_draws() needs a problem whose prior can be drawn from (sample_prior), got a "
                f"{type(self._problem).__name__}"
            )
        self.draw(np.random.default_rng(0), 1)  # a domain of hardly any mass is refused here

    @property
    def drawable(self) -> bool:
        """Whether a kernel may draw from it."""
        try:
            self._check_drawable()
        except ValueError:
            return False
        return True

    def reference(self, target: TargetDistribution) -> Whitened:
        """A Gaussian law of positions, for a rung: of the prior as often as its law takes it."""
        power = target.factors[0] if target.factors else 1.0
        if power not in self._whitened:
            if self._reference is None:
                self._reference = reference_of(self._problem)
            mean, factor = self._reference.mean, self._reference.factor / math.sqrt(power)
            metric = DiagonalMetric(factor) if factor.ndim == 1 else DenseMetric(factor)
            self._whitened[power] = Whitened(mean, metric)
        return self._whitened[power]

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Positions (n, d) of independent draws from the prior."""
        assert isinstance(self._sampled, DrawablePrior)  # `check` has seen to it
        return self._problem.to_position(self._sampled.sample_prior(rng, n))
