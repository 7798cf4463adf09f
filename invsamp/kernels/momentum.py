"""Langevin kernels with momentum: SGHMC, and generalized Hamiltonian Monte Carlo, its Metropolis-adjusted form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from invsamp.arguments import boolean, real, store
from invsamp.evaluate.requests import EvaluationRequests, Memory, Rows
from invsamp.kernels.compiled import langevin_loop
from invsamp.kernels.compiled.block import StepBlock, StepsMade
from invsamp.kernels.contract import NOTHING, ActiveRung, Info, Mask, Moved, Point, StepSize, decided, where_solved
from invsamp.kernels.defaults import KernelDefaults
from invsamp.kernels.langevin import leapfrog
from invsamp.kernels.proposals import propose
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass


@stored_dataclass
class Momentum(KernelDefaults):
    r"""Langevin kernel with momentum: SGHMC or, Metropolis-adjusted, generalized Hamiltonian Monte Carlo.

    Unadjusted, in whitened coordinates w, with the unit masses that these stand for, the move u keeps a share of the
    last one:

    .. math:: u' = (1 - \alpha) u - \eta \nabla v(w) + N(0, 2 \alpha \eta I - \eta^2 S), \qquad w' = w + u',

    S the covariance of the gradient's noise if it is to be taken out, else 0. Kick, friction and noise enter at one
    place, so that the budget is exact: with it, noisy Gaussian gradients give the distribution of exact ones. On a
    Gaussian of curvature :math:`\lambda` that distribution has variance

    .. math:: \frac{1}{\lambda} \Bigl(1 - \frac{\eta \lambda}{2 (2 - \alpha)}\Bigr)^{-1},

    and it is stable for :math:`\eta \lambda < 2 (2 - \alpha)`. At :math:`\alpha = 1` it is SGLD.

    A bound reflects u. Where a move is refused (no path was found, or the solve at its end failed), the chain stays and
    u is reversed: staying with u unchanged would not keep volume.

    The stored momentum is :math:`r = u / \sqrt{\eta}`, whose distribution N(0, I) depends neither on the step size nor
    on the preconditioner. At a swap positions move and momenta stay with their rungs. The joint distribution is the
    product of the rungs' densities and of each rung's N(0, I), so exchanging positions leaves the second factor as it
    is. That holds for the momentum at the position, :math:`r - \sqrt{\eta} \nabla v(w) / 2`. The u above belongs half a
    kick earlier, and its correlation with w, of the order of :math:`\sqrt{\eta \lambda}`, would spoil the target at
    every swap.

    Adjusted, the momentum r belongs at the position. It is refreshed in part, then a leapfrog step of length
    :math:`\sqrt{2 \eta}` is accepted or refused, and turned back if refused:

    .. math:: r' = (1 - \alpha) r + \sqrt{1 - (1 - \alpha)^2}\, \xi, \qquad
              w' = w - \eta \nabla v(w) + \sqrt{2 \eta}\, r'.

    That is MALA's move, with its step size, whose noise remembers the last one. The target is exact at any step size.
    Long paths survive only if refusals are rare and come close together, hence `persistent_acceptance`.

    Parameters
    ----------
    friction : float in (0, 1]
        :math:`\alpha`, the share of the momentum that is lost in a step.
    adjusted : bool
        Whether steps are accepted or refused. Needs exact energies.

    Raises
    ------
    ValueError
        If the friction is out of range.

    References
    ----------
    Chen, Fox and Guestrin (2014), "Stochastic gradient Hamiltonian Monte Carlo", ICML, eq. (13)-(15), where S enters
    as :math:`\hat\beta = \eta S / 2`. The kick comes before the drift here.
    Adjusted: Horowitz (1991), Physics Letters B 268, 247-252.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.kernels.Momentum(friction=0.2)
    Momentum(friction=0.2, adjusted=False)
    """

    friction: float = 0.1
    adjusted: bool = False
    #: Each refusal undoes the path so far: best in trials on a posterior of 64 unknowns, by a flat maximum.
    target_acceptance = 0.93
    short_step = 0.1

    def __post_init__(self) -> None:
        store(
            self, friction=real("friction", self.friction, above=0, most=1), adjusted=boolean("adjusted", self.adjusted)
        )

    @property
    def name(self) -> str:
        """As reports call it."""
        return "ghmc" if self.adjusted else "sghmc"

    @property
    def stability_limit(self) -> float:  # type: ignore[override]
        """Largest step size times curvature at which the unadjusted kernel is stable."""
        return 2.0 * (2.0 - self.friction)

    def __str__(self) -> str:
        adjusted = "Metropolis-adjusted " if self.adjusted else ""
        return f"{adjusted}Langevin with momentum (friction {self.friction:g})"

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """Momenta r (chains, d) and, if adjusted, thresholds (chains,)."""
        memory = {"momentum": rng.standard_normal(shape)}
        return memory | {"threshold": rng.uniform(-1.0, 1.0, shape[0])} if self.adjusted else memory

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain once."""
        return (self._adjusted_step if self.adjusted else self._plain_step)(rung, here, memory)

    def arrived(self, rung: ActiveRung, memory: Memory, rows: Rows, change: Array) -> Memory:
        """Unadjusted, the momentum at the position itself stays: what is stored, half a kick behind, is moved."""
        if self.adjusted:
            return memory
        step_size, momentum = rung.step_size, memory["momentum"].copy()
        momentum[rows] += 0.5 * np.sqrt(step_size[rows] if isinstance(step_size, np.ndarray) else step_size) * change
        return memory | {"momentum": momentum}

    @property
    def draws_thresholds(self) -> bool:
        """As `invsamp.kernels.contract.CompilableKernel.draws_thresholds`."""
        return False

    def compiled_steps(self, block: StepBlock, kernels: Sequence[Self], memories: Sequence[Memory]) -> StepsMade:
        """As `invsamp.kernels.contract.CompilableKernel.compiled_steps`."""
        return langevin_loop.langevin_steps(block, memories, self.adjusted, [kernel.friction for kernel in kernels])

    def _plain_step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        step_size, last, noise = rung.step_size, memory["momentum"], rung.normal()
        gradient, covariance = rung.gradient(here.estimate), rung.gradient_noise(here)
        failed, clipped = None, 0
        if rung.free and covariance is None and isinstance(step_size, float):
            end, momentum = np.empty(last.shape), np.empty(last.shape)
            carried_move = langevin_loop.carried_move
            carried_move(here.position, gradient, noise, last, step_size, self.friction, end, momentum)
        else:
            kick, clipped = propose(gradient, noise, step_size, covariance, self.friction)
            kick += (1.0 - self.friction) * np.sqrt(step_size) * last
            end, velocity, failed = rung.follow(here.position, kick)
            momentum = velocity / np.sqrt(step_size)
        point, refused = Point(end, (yield from rung.evaluate(end))), None
        if point.estimate.failed:
            point, refused = where_solved(rung, point, here)
        for stayed in (failed, refused):
            if stayed is not None:
                momentum[stayed] = -momentum[stayed]
        return point, memory | {"momentum": momentum}, Info(clipped=clipped) if clipped else NOTHING

    def _adjusted_step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        step_size, kept = rung.step_size, 1.0 - self.friction
        momentum = np.empty(here.position.shape)
        langevin_loop.refresh(memory["momentum"], rung.normal(), kept, momentum)
        there, velocity, log_ratio = yield from leapfrog(rung, here, momentum, lambda _: step_size)
        accept, threshold = persistent_acceptance(memory["threshold"], log_ratio)
        at_end = end_momentum(velocity, rung.gradient(there.estimate), step_size)
        kept_on = {"momentum": np.where(accept[:, None], at_end, -momentum), "threshold": threshold}
        accepted = int(np.count_nonzero(accept))
        return decided(accept, there, here, accepted), kept_on, Info(log_ratio, accepted)


def end_momentum(velocity: Array, gradient: Array, step_size: StepSize) -> Array:
    """Momenta r at the end of a leapfrog step, from the velocity and the gradient there."""
    if isinstance(step_size, float):
        momentum = np.empty(velocity.shape)
        langevin_loop.end_momenta(velocity, gradient, step_size, momentum)
        return momentum
    return np.asarray((velocity - step_size * gradient) / np.sqrt(2.0 * step_size))


def persistent_acceptance(threshold: Array, log_ratio: Array) -> tuple[Mask, Array]:
    r"""Which chains accept, and the next thresholds, both (chains,): Metropolis with persistent thresholds.

    The threshold :math:`|s|` is uniform on (0, 1) at any step, but s is not drawn anew. It moves on a little, through
    the ring (-1, 1). Where the chain moves, it is divided by the ratio of the densities, which keeps it uniform given
    the new state. Rejections, which reverse momenta, come in clusters then, with long paths between them.

    Parameters
    ----------
    threshold : ndarray, shape (chains,)
        s, in (-1, 1); uniform at the start of a run.
    log_ratio : ndarray, shape (chains,)
        Log Metropolis ratio of a move that is a function of the state; NaN is refused.

    References
    ----------
    Neal (2020), "Non-reversibly updating a uniform [0,1] value for Metropolis accept/reject decisions",
    arXiv:2001.11950, Section 3.
    """
    threshold, accept = threshold.copy(), np.empty(len(threshold), dtype=bool)
    langevin_loop.accept_by_thresholds(threshold, log_ratio, accept)
    return accept, threshold
