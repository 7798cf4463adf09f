"""Langevin kernels: SGLD, and MALA, its Metropolis-adjusted form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from invsamp.arguments import boolean, store
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Memory
from invsamp.kernels.compiled import langevin_loop
from invsamp.kernels.compiled.block import StepBlock, StepsMade
from invsamp.kernels.contract import NOTHING, ActiveRung, Info, Moved, Point, StepSize, decided, where_solved
from invsamp.kernels.defaults import KernelDefaults
from invsamp.kernels.proposals import arrive, propose
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass


@stored_dataclass
class Langevin(KernelDefaults):
    r"""Langevin kernel, Metropolis-adjusted (MALA) or not (SGLD).

    .. math:: w' = w - \eta \nabla v(w) + N(0, 2 \eta I - \eta^2 S),

    S the covariance of the gradient's noise if it is to be taken out, else 0. The adjusted form needs exact energies.
    In a domain its proposal is the specular path, an involution of (position, velocity) that keeps volume, so
    reflection leaves no boundary layer.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.ladder.Rung(kernel=iv.kernels.Langevin(adjusted=True), step_size=0.1).kernel
    Langevin(adjusted=True)
    """

    adjusted: bool = False
    #: Roberts and Rosenthal (1998).
    target_acceptance = 0.574
    short_step = 0.1

    def __post_init__(self) -> None:
        store(self, adjusted=boolean("adjusted", self.adjusted))

    @property
    def name(self) -> str:
        """As reports call it."""
        return "mala" if self.adjusted else "sgld"

    def __str__(self) -> str:
        return "MALA" if self.adjusted else "Langevin"

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain once."""
        return (self._adjusted_step if self.adjusted else self._plain_step)(rung, here, memory)

    @property
    def draws_thresholds(self) -> bool:
        """As `invsamp.kernels.contract.CompilableKernel.draws_thresholds`."""
        return self.adjusted

    def compiled_steps(self, block: StepBlock, kernels: Sequence[Self], memories: Sequence[Memory]) -> StepsMade:
        """As `invsamp.kernels.contract.CompilableKernel.compiled_steps`."""
        return langevin_loop.langevin_steps(block, memories, self.adjusted, None)

    def _plain_step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        gradient, noise, covariance = rung.gradient(here.estimate), rung.normal(), rung.gradient_noise(here)
        if rung.free and covariance is None:
            end, clipped = arrive(here.position, gradient, noise, rung.step_size), 0
        else:
            move, clipped = propose(gradient, noise, rung.step_size, covariance)
            end, _, _ = rung.follow(here.position, move, spent=True)
        there = tuple.__new__(Point, (end, (yield from rung.evaluate(end))))  # by name it takes twice as long
        if there.estimate.failed:
            there, _ = where_solved(rung, there, here)
        return there, memory, Info(clipped=clipped) if clipped else NOTHING

    def _adjusted_step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        step_size = rung.step_size
        there, _, log_ratio = yield from leapfrog(rung, here, rung.normal(), lambda _: step_size)
        accept = rung.log_uniform() < log_ratio
        accepted = int(np.count_nonzero(accept))
        return decided(accept, there, here, accepted), memory, Info(log_ratio, accepted)


def leapfrog(
    rung: ActiveRung, here: Point, noise: Array, step_size: Callable[[Estimate], StepSize]
) -> EvaluationRequests[tuple[Point, Array, Array]]:
    """A Langevin move by standard normal noise (chains, d): its end, the velocity there, and its log Metropolis ratio.

    The step size belongs to where a move begins; the move back has that of the end.
    """
    move, _ = propose(rung.gradient(here.estimate), noise, step_size(here.estimate))
    end, velocity, failed = rung.follow(here.position, move)
    there = tuple.__new__(Point, (end, (yield from rung.evaluate(end))))  # by name it takes twice as long
    energies, gradient = (rung.energy(here.estimate), rung.energy(there.estimate)), rung.gradient(there.estimate)
    log_ratio = log_acceptance(energies, noise, velocity, gradient, step_size(there.estimate))
    if failed is not None:
        log_ratio[failed] = -np.inf
    return there, velocity, log_ratio


def log_acceptance(
    energies: tuple[Array, Array], noise: Array, end_velocity: Array, end_gradient: Array, step_size: StepSize
) -> Array:
    r"""Log Metropolis ratio of a Langevin move along a specular path.

    The velocity u is an auxiliary variable from :math:`N(-\eta g, 2 \eta I)`. The path sends (w, u) to (w', u') and
    back from (w', -u'). So the ratio compares the density of -u' at w' with that of u at w. Without reflection u' = u
    and this is MALA (Roberts and Tweedie 1996).

    Parameters
    ----------
    energies : (before, after), each of shape (chains,)
        Reduced.
    noise : ndarray, shape (chains, d)
        The standard normal draws in the move.
    end_velocity, end_gradient : ndarray, shape (chains, d)
        Velocity and gradient at the end of the path, in whitened coordinates.

    Returns
    -------
    ndarray, shape (chains,)
    """
    if isinstance(step_size, float):
        ratio = np.empty(len(noise))
        langevin_loop.log_ratios(*energies, noise, end_velocity, end_gradient, step_size, ratio)
        return ratio
    with np.errstate(over="ignore", invalid="ignore"):  # a step far out has infinite squares, and is rejected
        change, back = energies[0] - energies[1], step_size * end_gradient - end_velocity
        change += np.add.reduce(0.5 * (noise * noise) - back * back / (4.0 * step_size), axis=1)
    return change
