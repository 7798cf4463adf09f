"""Preconditioned Crank-Nicolson: proposals that leave a Gaussian distribution as it is, without gradients."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

import numpy as np

from invsamp.arguments import integer, optional, store
from invsamp.evaluate.requests import EvaluationRequests, Memory, Rows
from invsamp.kernels.contract import RESTED, ActiveRung, Info, Moved, Point, decided
from invsamp.kernels.defaults import KernelDefaults
from invsamp.kernels.gaussian_reference import ModeReference, as_reference
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass


@stored_dataclass
class CrankNicolson(KernelDefaults):
    r"""Preconditioned Crank-Nicolson: needs no gradients, and mixes as well in any number of dimensions.

    With a Gaussian reference N(m, C),

    .. math:: x' = m + \sqrt{1 - s^2}\, (x - m) + s\, \xi, \qquad \xi \sim N(0, C),

    which leaves the reference as it is, and is accepted with probability :math:`\min(1, e^{v - r - v' + r'})`,
    :math:`r = (x - m)^T C^{-1} (x - m) / 2`. That is exact for every target. Where the prior is that Gaussian, v - r is
    the misfit alone, and the acceptance does not depend on how finely a field is resolved; that of a random walk goes
    to 0. The reference is the prior's Gaussian distribution in the coordinates that the sampler moves in, else one with
    its medians and quartiles; a problem may give its own (`invsamp.protocols.GaussianReference`). For a target that
    takes the prior a times, C is divided by a.

    A proposal outside the domain is refused without a solve: it does not move straight, and bounds reflect nothing.
    Neither the preconditioner nor the target's step scale matters to it.

    Of noisy energies both are drawn afresh, and the log ratio pays half of the sum of their variances: exact for
    Gaussian noise of variances that are known, functions of the position too.

    Parameters
    ----------
    every : int
        It moves at one step in so many, and rests at the others, which take no solve. This is for a rung that depends
        on swaps, so that no chain gets stuck.
    reference : ModeReference, optional
        A mode's Gaussian of low rank, ``modes.reference``, in the place of the prior's: generalized pCN. For a target
        that takes the prior and the misfit a and b times it is adapted, see `invsamp.kernels.gaussian_reference`.

    References
    ----------
    Cotter, Roberts, Stuart and White (2013), "MCMC methods for functions", Statistical Science 28(3), eq. (4.4), (4.9),
    where s is called beta; with a reference other than the prior, section 4.2 for the ratio. Generalized: Rudolf and
    Sprungk (2018), "On a generalization of the preconditioned Crank-Nicolson Metropolis algorithm", Foundations of
    Computational Mathematics 18, section 3. What noise costs: Ceperley
    and Dewing (1999), "The penalty method for random walks with uncertain energies", J. Chem. Phys. 110, 9812.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.ladder.Rung(kernel=iv.kernels.CrankNicolson(), step_size=0.2).kernel
    CrankNicolson(every=1)
    """

    every: int = 1
    reference: ModeReference | None = field(default=None, repr=False)

    name: ClassVar[str] = "pcn"
    gradient = False
    adjusted = True
    target_acceptance = 0.3
    longest_step = 1.0

    def __post_init__(self) -> None:
        store(self, every=integer("every", self.every, least=1))
        store(self, reference=optional(as_reference, "reference", self.reference))

    def __str__(self) -> str:
        rests = "" if self.every == 1 else f" at one step in {self.every}"
        about = "" if self.reference is None else f" about {self.reference}"
        return f"preconditioned Crank-Nicolson{about}{rests}"

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """Steps that were made, where it rests at some."""
        return {} if self.every == 1 else {"steps": np.zeros(shape[0], dtype=int)}

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain once, or rest."""
        if self.every > 1:
            memory = {"steps": memory["steps"] + 1}
            if memory["steps"][0] % self.every:
                return here, memory, RESTED
        length = np.minimum(rung.step_size / rung.step_scale, 1.0)
        reference = rung.reference
        start = reference.metric.uncolor(here.position - reference.mean)
        moved = np.sqrt(1.0 - length * length) * start + length * rung.normal()
        there, outside = yield from inside(rung, reference.mean + reference.metric.color(moved), here)
        change = reference_energy(moved) - reference_energy(start)
        penalty: float | Array = 0.0
        if (noise := rung.energy_noise(there)) is not None:
            here = Point(here.position, (yield from rung.evaluate(here.position)))
            before = rung.energy_noise(here)
            assert before is not None  # as at the other end
            penalty = 0.5 * (noise + before)
        with np.errstate(invalid="ignore"):  # where the solve here failed this time, as the one there did
            log_ratio = rung.energy(here.estimate) - rung.energy(there.estimate) + change
        log_ratio[outside] = -np.inf
        log_ratio[np.isnan(log_ratio)] = -np.inf
        accept = rung.log_uniform() < log_ratio - penalty
        # without the penalty, which no shorter step would lower: warm-up would shorten it indefinitely
        return decided(accept, there, here), memory, Info(log_ratio, int(np.count_nonzero(accept)))


def reference_energy(standard: Array) -> Array:
    """Energies (chains,) of the reference, at positions in the coordinates in which it is standard normal."""
    return 0.5 * np.square(standard).sum(axis=1)


def inside(rung: ActiveRung, end: Array, here: Point) -> EvaluationRequests[tuple[Point, Rows]]:
    """There, evaluated where that lies in the domain, and the rows where it does not, which stay here."""
    outside = np.flatnonzero(~rung.contains(end))
    if not len(outside):
        return Point(end, (yield from rung.evaluate(end))), outside
    within, estimate = np.delete(np.arange(len(end)), outside), here.estimate
    if len(within):
        estimate = estimate.replaced(within, (yield from rung.evaluate(end[within], within)))
    end[outside] = here.position[outside]
    return Point(end, estimate), outside
