r"""Contract of a kernel, and the view of a rung that it is given.

A step is a generator: it yields what it wants evaluated (through `ActiveRung.evaluate`), as often as it likes, and
returns where the chains are then. It is vectorized over the chains of a rung. It sees whitened coordinates w and
reduced energies, whose density is :math:`e^{-v(w)}` whatever the rung's target, and step sizes to match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from invsamp.evaluate.requests import Estimate, EvaluationRequests, Memory, Rows
from invsamp.kernels.compiled.block import StepBlock, StepsMade
from invsamp.kernels.metric import Metric
from invsamp.protocols import AnyArray, Array
from invsamp.stored import stored

StepSize = float | Array
Mask = npt.NDArray[np.bool_]


@stored
class Point(NamedTuple):
    """Positions (chains, d), and what is known of the energy there."""

    position: Array
    estimate: Estimate


#: Where straight moves end within the domain: positions (chains, d); the moves in whitened coordinates (chains, d), as
#: the bounds turned them; and the chains whose path was given up, which stay where they were (None: no chain's).
Path = tuple[Array, Array, Mask | None]


_NONE: Mapping[str, AnyArray] = MappingProxyType({})


class Info(NamedTuple):
    r"""Report of one step.

    Attributes
    ----------
    log_ratio : ndarray, shape (chains,), optional
        Log Metropolis ratios r, before a penalty for noise, of a step that ends in one decision: a chain moves with
        probability :math:`\min(1, e^r)`. -inf: it could not have moved. None: nothing was decided so.
    accepted : int
        Number of chains that took what was proposed; of a kernel that never rejects, those that moved.
    clipped : int
        Entries of the noise for which the gradient's own left no room.
    statistics : mapping of str to ndarray, shape (chains,)
        What `Kernel.statistics` declares, by name.
    acceptance : ndarray, shape (chains,), optional
        Acceptance statistics in [0, 1]. Warm-up adapts the step size of an adjusted kernel until their mean is
        `Kernel.target_acceptance`. None: :math:`\min(1, e^r)`. A kernel that never rejects gives this alone, such as
        NUTS: the mean of :math:`\min(1, e^{H - H'})` over the states H' of its trajectory, with H that of its start
        (Hoffman and Gelman 2014, section 3.2). A kernel gives both where the decision shows too little about the step
        size, as of paths that end at a cliff.
    cliffs : int
        Paths that met a cliff: a jump of the energy that no step size would follow.

    Notes
    -----
    Draws record ``acceptance_rate``: :math:`\min(1, e^r)` of a step that decided, else ``acceptance``.
    """

    log_ratio: Array | None = None
    accepted: int = 0
    clipped: int = 0
    statistics: Mapping[str, AnyArray] = _NONE
    acceptance: Array | None = None
    cliffs: int = 0


#: What a step that has nothing to report returns.
NOTHING = Info()
#: What a kernel returns that did not try to move in this step.
RESTED = Info()
#: What a step returns: plain tuples cost a tenth of named ones, and this is made at every step.
Moved = tuple[Point, Memory, Info]


class Whitened(NamedTuple):
    """A Gaussian distribution of positions, as its mean (d,) and the metric in which it is a standard normal one."""

    mean: Array
    metric: Metric


class ActiveRung(Protocol):
    """A rung at work, as its kernel sees it."""

    @property
    def step_scale(self) -> float:
        """How many times the step size as given `step_size` is."""

    @property
    def reference(self) -> Whitened:
        """The Gaussian that proposals leave as it is: the prior's part in the rung's target, where that is Gaussian."""

    @property
    def free(self) -> bool:
        """Whether moves are straight, and of the positions themselves: no bounds, no preconditioner."""

    def contains(self, position: Array) -> Mask:
        """Which positions (rows, d) lie in the domain."""

    def prior_draws(self) -> Array:
        """Fresh positions (chains, d) of the prior restricted to the domain."""

    #: A number, or (chains, 1) while warm-up adapts it for each chain.
    @property
    def step_size(self) -> StepSize:
        """Step size for reduced energies in whitened coordinates."""

    def evaluate(self, position: Array, rows: Rows | None = None) -> EvaluationRequests[Estimate]:
        """Energy and gradient at positions (n, d), as the rung's estimator gives them.

        ``rows`` (n,): the chains that they are of, for an estimator that remembers each. Default: all.
        """

    #: Whether this is a step of warm-up.
    @property
    def warming(self) -> bool: ...

    def solve(self, position: Array, fidelity: str | int, *, gradient: bool) -> EvaluationRequests[Estimate]:
        """Energies at positions (n, d) of a fidelity, 0 for the rung's own, without what an estimator adds.

        For exact energies, of fidelities that the run solves.
        """

    def energy(self, estimate: Estimate) -> Array:
        """Reduced energies v (chains,)."""

    def position_energy(self, estimate: Estimate) -> Array:
        """The same with respect to positions (chains,): another one where a transport map is between them and w."""

    def gradient(self, estimate: Estimate) -> Array:
        """Gradients of v with respect to w (chains, d)."""

    def step_factor(self, estimate: Estimate) -> Array:
        """How much longer steps may be where each chain is (chains,), if the rung's target is locally scaled.

        See `invsamp.tempering.target_distribution.LocallyScaledTarget`.
        """

    def gradient_noise(self, point: Point) -> Array | None:
        """Covariance of that gradient's noise, where it is to be taken out of what is injected; else None.

        Isotropic (chains,), diagonal (chains, d) or full (chains, d, d).
        """

    def energy_noise(self, point: Point) -> Array | None:
        """Variances (chains,) of reduced energies that are drawn afresh at each call of `evaluate`; None: exact ones.

        None, too, as long as warm-up does not know them.
        """

    def follow(self, position: Array, straight: Array, spent: bool = False) -> Path:
        """Go along moves of w (chains, d), by the specular path at bounds.

        ``spent``: no one needs the moves any more, and their memory may be that of the positions at the end.
        """

    def normal(self) -> Array:
        """Fresh standard normal numbers (chains, d)."""

    def log_uniform(self) -> Array:
        """Logs of fresh uniform numbers (chains,)."""


@runtime_checkable
class Kernel(Protocol):
    """How a rung moves: a frozen dataclass of settings, which prints, compares and pickles.

    ``gradient``: whether it wants gradients; one that does not gets energies alone, and no preconditioner, which
    warm-up makes of gradients. ``adjusted``: draws are exact at any step size; needs exact energies. ``friction``: the
    share of the momentum that is lost in a step, 1 where there is none. ``target_acceptance``: the mean acceptance
    statistic (`Info.acceptance`) to which warm-up adapts the step size of an adjusted kernel; ``longest_step``: the
    longest that it takes.
    ``stability_limit``: the largest step size times curvature at which an unadjusted one is stable. ``short_step``:
    the share of the step size that every eighth step of an adjusted kernel has, to leave spots of high curvature, and
    its square that of every 64th step; 1 where it needs none.

    ``ensemble_size``: how many chains depend on each other, as those of an affine-invariant ensemble do. 1: chains are
    independent. n: chains 0 to n - 1 are an ensemble, n to 2n - 1 the next, and ensembles are independent; the number
    of chains must be a multiple of it. None: all chains are one ensemble. Diagnostics take each ensemble for one chain,
    whose draws are the averages over its chains (`invsamp.diagnostics.convergence`).
    """

    @property
    def name(self) -> str:
        """As reports call it, such as "mala"."""

    @property
    def gradient(self) -> bool: ...

    @property
    def statistics(self) -> Mapping[str, type]:
        """Statistics of `Info.statistics` that are stored for each draw: names, and float, int or bool."""

    @property
    def adjusted(self) -> bool: ...

    @property
    def friction(self) -> float: ...

    @property
    def target_acceptance(self) -> float: ...

    @property
    def stability_limit(self) -> float: ...

    @property
    def longest_step(self) -> float: ...

    @property
    def short_step(self) -> float: ...

    @property
    def ensemble_size(self) -> int | None: ...

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """Memory of (chains, d) at the start of a run."""

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain once."""

    def arrived(self, rung: ActiveRung, memory: Memory, rows: Rows, change: Array) -> Memory:
        """Memory after the chains ``rows`` got other positions by a swap.

        ``change`` (k, d) is that of their gradients, 0 for a kernel that wants none.
        """


@runtime_checkable
class CompilableKernel(Kernel, Protocol):
    """A kernel whose steps a compiled loop can make, too, where nothing but energies is asked of the rung.

    Energies are exact and compiled, all of them finite; the domain has no bounds, the target is the posterior at a
    temperature, and all chains have one step size. Steps are those of `step` to the bit.
    """

    @property
    def draws_thresholds(self) -> bool:
        """Whether each step takes `ActiveRung.log_uniform` once; each takes `ActiveRung.normal` once."""

    def compiled_steps(self, block: StepBlock, kernels: Sequence[Self], memories: Sequence[Memory]) -> StepsMade:
        """Make the steps of a block, or those before the first at which an energy is not finite.

        ``kernels``: of each of its rungs, all of this class and adjusted or not as this one; with their memories.
        """


def decided(accept: Mask, there: Point, here: Point, accepted: int | None = None) -> Point:
    """There for the chains that accept, here for the others; gradients are exact, and come without variances.

    ``accepted`` is how many do, if that is known.
    """
    if accepted is None:
        accepted = int(np.count_nonzero(accept))
    if accepted == len(accept):
        return there
    if not accepted:
        return here
    by_row, old, new = accept[:, None], here.estimate, there.estimate
    return Point(
        np.where(by_row, there.position, here.position),
        Estimate(
            np.where(accept, new.energy, old.energy),
            _chosen(by_row, new.gradient, old.gradient),  # type: ignore[arg-type]
            _chosen(accept, new.energy_variance, old.energy_variance),
            prior=_chosen(accept, new.prior, old.prior),
            prior_gradient=_chosen(by_row, new.prior_gradient, old.prior_gradient),
            mapped=_chosen(by_row, new.mapped, old.mapped),
        ),
    )


def _chosen(accept: Mask, new: Array | None, old: Array | None) -> Array | None:
    return None if new is None or old is None else np.where(accept, new, old)


def where_solved(rung: ActiveRung, there: Point, here: Point) -> tuple[Point, Mask | None]:
    """There, or here for those chains whose target is unknown there, as a solve failed, and which; None: no chain's."""
    if not there.estimate.failed:
        return there, None
    refused = ~np.isfinite(rung.energy(there.estimate))
    rows = np.flatnonzero(refused)
    position = there.position.copy()
    position[rows] = here.position[rows]
    return Point(position, there.estimate.replaced(rows, here.estimate.take(rows))), refused


def acceptance_statistics(info: Info) -> Array | None:
    """Acceptance statistics (chains,) by which warm-up adapts the step size; None for a step without them."""
    if info.acceptance is not None or info.log_ratio is None:
        return info.acceptance
    return np.exp(np.minimum(info.log_ratio, 0.0))


def number(value: StepSize) -> float:
    """A step size for each chain as one for all: their geometric mean."""
    return float(np.exp(np.mean(np.log(value)))) if isinstance(value, np.ndarray) else float(value)
