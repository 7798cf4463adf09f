"""A preconditioner that is known before a run: the Gaussian of a mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invsamp.kernels.gaussian_reference import ModeReference
from invsamp.kernels.metric import DenseMetric, LowRankMetric
from invsamp.modes import Modes
from invsamp.stored import stored


@stored
@dataclass(frozen=True, eq=False)
class Given:
    """It is in place before the first step, for all rungs, and stays: warm-up finds step sizes alone.

    Parameters
    ----------
    metric : DenseMetric or LowRankMetric
        That of the energy, as of a posterior's.
    """

    metric: DenseMetric | LowRankMetric

    @property
    def dimension(self) -> int:
        """Unknowns."""
        return len(self.metric.factor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Given) and type(self.metric) is type(other.metric) and self._same(other.metric)

    def __hash__(self) -> int:
        return hash((type(self.metric), self.dimension))

    def _same(self, other: DenseMetric | LowRankMetric) -> bool:
        probe = np.cos(np.arange(self.dimension))[None]
        return len(other.factor) == self.dimension and np.array_equal(self.metric.color(probe), other.color(probe))

    def __repr__(self) -> str:
        rank = f", {len(self.metric.values)} directions" if isinstance(self.metric, LowRankMetric) else ""
        return f"Given({self.dimension} unknowns{rank})"

    def __str__(self) -> str:
        return "given (a mode's Gaussian)"


def given(modes: Modes) -> Given:
    """The Gaussian of that mode which has the most mass.

    Raises
    ------
    ValueError
        If none has a Gaussian, or they are maxima of the likelihood.
    """
    best = _heaviest("preconditioner", modes)
    if modes.gaussians is None:
        return Given(DenseMetric(np.linalg.cholesky(modes.covariances[best])))
    found = modes.gaussians[best]
    assert found is not None  # it has a share of the evidence
    return Given(found.metric)


def reference_of(modes: Modes) -> ModeReference:
    """The Gaussian of that mode which has the most mass, as the reference of kernels.

    Raises
    ------
    ValueError
        If it is not of low rank about a Gaussian prior, or there is none.
    """
    best = _heaviest("reference", modes)
    found = None if modes.gaussians is None else modes.gaussians[best]
    if found is None or modes.prior is None:
        raise ValueError(
            "reference must be modes with Hessians of low rank about a Gaussian prior, got dense ones: let "
            "invsamp.maximize(problem, rank=...) say how many directions to keep"
        )
    return ModeReference(found.mean, modes.prior.mean, found.metric)


def _heaviest(argument: str, modes: Modes) -> int:
    if modes.of != "posterior":
        raise ValueError(f"{argument} must be modes of the posterior, got maxima of the {modes.of}")
    known = np.isfinite(modes.log_evidence)
    if not known.any():
        raise ValueError(
            f"{argument} must be modes of which one has a Gaussian, got none: they lie against walls, or are flat"
        )
    return int(np.argmax(np.where(known, modes.log_evidence, -np.inf)))
