"""A problem as one run takes it: bound once, at the entry, to the run's potentials, domain, prior and starts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from invsamp.domains import Unbounded
from invsamp.domains.boundary import Ignore, Reflect, as_boundary
from invsamp.engine.rungs.dispatch import Dispatch, Uncounted
from invsamp.estimators.coupled_sums import CoupledSum
from invsamp.evaluate.counted import CountedPotential
from invsamp.kernels import DelayedAcceptance
from invsamp.kernels.contract import Kernel, Whitened
from invsamp.kernels.gaussian_reference import ModeReference, mode_of
from invsamp.kernels.metric import DenseMetric, DiagonalMetric
from invsamp.ladder import Sampler
from invsamp.ladder.automatic import Automatic
from invsamp.ladder.corrected_exchange import CorrectedExchange
from invsamp.posing.expressions.variable_names import check_names, labels_of
from invsamp.posing.posterior.gaussian_reference import reference_of
from invsamp.protocols import Array, Centerable, DrawablePrior, Problem, Reference, SplitPotential
from invsamp.tempering.target_distribution import TargetDistribution


class Recentering(NamedTuple):
    """The form in which a run has chosen to move, for other processes."""

    centered: dict[str, Array]  # which entries of which parameters


class BoundProblem:
    """A problem, and all that the parts of a run ask of it.

    Parameters
    ----------
    problem : Problem
    sampler : Sampler
        What was asked for: its boundary, and its rungs, which need some of the fidelities.
    potentials : mapping of fidelities to CountedPotential, optional
        Those of another run, of which this one is a part. Default: made here.
    dispatch : Dispatch, optional
        The evaluator, if another run of the user's has one already.

    Attributes
    ----------
    sampled : SampledProblem
        The problem as the sampler sees it: without its domain, say.
    domain : Domain
        Of the positions.
    stages : tuple of Sampler
        What may be chosen, of an `Automatic` sampler; otherwise the sampler alone.
    names : tuple of str
        Of the columns of theta.
    has_prior : bool
        Whether its prior can be drawn from.
    potentials : dict of str to CountedPotential
        By fidelity, from the coarsest to the finest: those that the run may solve.
    given : ndarray (chains, d), or (rungs * chains, d), optional
        Where the user lets the chains start.

    Raises
    ------
    ValueError
        If names of parameters cannot be stored, or the sampler needs fidelities that are not there.
    """

    def __init__(
        self,
        problem: Problem,
        sampler: Sampler,
        potentials: dict[str, CountedPotential] | None = None,
        dispatch: Dispatch | None = None,
    ) -> None:
        check_names(problem.shapes)  # of problems that another user wrote, too: the first solve may be expensive
        self.problem, self.boundary = problem, as_boundary(sampler.boundary)
        #: As it was asked for, and whether this is a part of another run.
        self.asked, self.part = problem, potentials is not None
        self.sampled = self.boundary.apply(problem)
        self.domain = self.sampled.sampling_domain
        self.dimension, self.fidelities = problem.dimension, problem.fidelities
        self.names, self.has_prior = labels_of(problem), isinstance(problem, DrawablePrior)
        self.stages: tuple[Sampler, ...] = (sampler,)
        if isinstance(sampler, Automatic):
            bounded = not isinstance(self.domain, Unbounded)
            self.stages = sampler.stages(self.dimension, len(self.fidelities), bounded)
        self.potentials = self._new_potentials(self.stages[-1]) if potentials is None else potentials
        self.dispatch = Dispatch(next(iter(self.potentials.values())).answer_all) if dispatch is None else dispatch
        self.given: Array | None = None
        self._reference: Reference | None = None
        self._whitened: dict[float, Whitened] = {}
        self._about: dict[tuple[float, float, ModeReference], Whitened] = {}

    def fidelity(self, wanted: str | int) -> str:
        """The name of a fidelity, given by it or by its place, 0 for the finest."""
        names = self.fidelities
        if isinstance(wanted, str):
            if wanted not in names:
                raise ValueError(f"fidelity must be one of {names}, got {wanted!r}")
            return wanted
        return names[max(0, len(names) - 1 - wanted)]

    def uncounted(self) -> Mapping[str, Uncounted]:
        """The potentials by fidelity, evaluated by whoever evaluates for the run, and not counted."""
        return {name: Uncounted(potential, self.dispatch.answer) for name, potential in self.potentials.items()}

    def check_drawable(self) -> None:
        """`ValueError` unless problem and boundary let a kernel draw from the prior."""
        if not isinstance(self.boundary, Reflect | Ignore):
            raise ValueError(f"prior_draws() supports only the boundaries 'reflect' and 'ignore', got {self.boundary}")
        if not isinstance(self.sampled, DrawablePrior):
            raise ValueError(
                "prior_draws() needs a problem whose prior can be drawn from (sample_prior), got a "
                f"{type(self.problem).__name__}"
            )
        self.draw_prior(np.random.default_rng(0), 1)  # a domain of hardly any mass is refused here

    def recenter(self, centered: Mapping[str, Array]) -> None:
        """Move in positions in which these entries are centered from now on, in this process."""
        assert isinstance(self.asked, Centerable)  # whoever chose has seen to it
        self.problem = self.asked.with_centering(centered)
        self.sampled = self.boundary.apply(self.problem)
        for name, potential in self.potentials.items():
            potential.renew(self.sampled.potential(name))
        self._reference, self._whitened = None, {}

    @property
    def path_to_prior(self) -> bool:
        """Whether a ladder can reach the prior: prior and misfit are known apart, and the prior can be drawn from."""
        return isinstance(self.sampled.potential(), SplitPotential) and self.drawable

    @property
    def drawable(self) -> bool:
        """Whether a kernel may draw from the prior."""
        try:
            self.check_drawable()
        except ValueError:
            return False
        return True

    def draw_prior(self, rng: np.random.Generator, n: int) -> Array:
        """Positions (n, d) of independent draws from the prior."""
        assert isinstance(self.sampled, DrawablePrior)  # `check_drawable` has seen to it
        return self.problem.to_position(self.sampled.sample_prior(rng, n))

    def reference(self, target: TargetDistribution, kernel: Kernel) -> Whitened:
        """A Gaussian distribution of positions, for a rung: of the prior as often as its target takes it.

        Or that of a mode, where the kernel has one, for a target that takes prior and misfit so often.

        Raises
        ------
        ValueError
            If that is of another number of unknowns.
        """
        if (own := mode_of(kernel)) is not None:
            if own.dimension != self.dimension:
                raise ValueError(
                    f"reference must be of modes of the problem's {self.dimension} unknowns, got some of "
                    f"{own.dimension}"
                )
            prior, misfit = target.factors or (1.0, 1.0)
            if (prior, misfit, own) not in self._about:
                self._about[prior, misfit, own] = own.at(prior, misfit)
            return self._about[prior, misfit, own]
        power = target.factors[0] if target.factors else 1.0
        if power not in self._whitened:
            self._reference = self._reference or reference_of(self.problem)
            mean, factor = self._reference.mean, self._reference.factor / math.sqrt(power)
            metric = DiagonalMetric(factor) if factor.ndim == 1 else DenseMetric(factor)
            self._whitened[power] = Whitened(mean, metric)
        return self._whitened[power]

    def _new_potentials(self, sampler: Sampler) -> dict[str, CountedPotential]:
        """One for each fidelity that a rung or its estimator solves, from the coarsest to the finest."""
        names, used = self.fidelities, set[str]()
        for rung in sampler.rungs:
            own = self.fidelity(rung.fidelity)
            used.add(own)
            if isinstance(rung.estimator, CoupledSum):
                used.update(rung.estimator.levels_below(own, names))
            if isinstance(rung.kernel, DelayedAcceptance):
                used.add(_screening(names, own, rung.kernel.coarse))
        if isinstance(sampler, CorrectedExchange):  # those between may pass on
            used.update(names[names.index(own) :])
        potentials: dict[str, CountedPotential] = {}
        for name in names:
            if name in used:
                potentials[name] = CountedPotential(self.sampled.potential(name), name, potentials)
        return potentials


def _screening(names: Sequence[str], own: str, coarse: str | int) -> str:
    """The fidelity that screens the moves of one; `ValueError` if there is none below it."""
    below = list(names[: names.index(own)])
    if not below or (isinstance(coarse, str) and coarse not in below):
        raise ValueError(
            f"coarse of delayed acceptance must be a fidelity below {own!r}, of which there are {below}, got {coarse!r}"
        )
    return coarse if isinstance(coarse, str) else below[max(0, len(below) - coarse)]
