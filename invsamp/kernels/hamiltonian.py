"""Hamiltonian Monte Carlo with jittered path lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from invsamp.arguments import real, store
from invsamp.contract import Array
from invsamp.evaluate.requests import Asks, Rows
from invsamp.kernels.contract import ActiveRung, Info, Mask, Memory, Moved, Point, decided, number

#: Leapfrog steps of a path at the most: early in warm-up steps are tiny.
LONGEST = 64


@dataclass(frozen=True)
class Hamiltonian:
    r"""Hamiltonian Monte Carlo: paths of several leapfrog steps, each accepted or refused as a whole.

    With fresh momenta r ~ N(0, I) in whitened coordinates w, a leapfrog step of length
    :math:`\epsilon = \sqrt{2 \eta}` is

    .. math:: r \leftarrow r - \tfrac{\epsilon}{2} \nabla v(w), \qquad w \leftarrow w + \epsilon r, \qquad
              r \leftarrow r - \tfrac{\epsilon}{2} \nabla v(w),

    and a path of n of them is accepted with probability :math:`\min(1, e^{v + |r|^2/2 - v' - |r'|^2/2})`. Its length
    :math:`n \epsilon` is spread evenly over (0, 2 ``length``) by a van der Corput sequence with a random shift, the
    same for all chains, so that no direction is left out by resonance. A wall turns r, as in `Momentum`. A path on
    which a solve fails, or which a domain gives up on, is refused. One step of length :math:`\epsilon` is MALA's.

    Parameters
    ----------
    length : float, > 0
        Mean length of a path in whitened coordinates, in which a posterior is about one wide. A quarter of the period
        of a standard normal is :math:`\pi/2`.

    Raises
    ------
    ValueError
        If ``length`` is not positive.

    References
    ----------
    Duane, Kennedy, Pendleton and Roweth (1987), Physics Letters B 195, 216-222; jitter by a low-discrepancy sequence:
    Hoffman, Radul and Sountsov (2021), AISTATS, section 2.
    """

    length: float = 0.8
    name: ClassVar[str] = "hmc"
    adjusted: ClassVar[bool] = True
    friction: ClassVar[float] = 1.0
    target_acceptance: ClassVar[float] = 0.8
    stability_limit: ClassVar[float] = 2.0
    short_steps: ClassVar[bool] = False

    def __post_init__(self) -> None:
        store(self, length=real("length", self.length, above=0))

    def __str__(self) -> str:
        return f"Hamiltonian Monte Carlo (mean path length {self.length:g})"

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """The number of paths so far, and the shift of the sequence that spreads their lengths."""
        return {"paths": np.zeros(()), "shift": np.asarray(rng.random())}

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> Asks[Moved]:
        """Move every chain along one path."""
        paths, step = float(memory["paths"]), np.sqrt(2.0 * rung.step_size)
        share = (van_der_corput(int(paths)) + float(memory["shift"])) % 1.0
        leaps = int(min(max(1.0, np.ceil(2.0 * self.length * share / number(step))), LONGEST))
        momentum = fresh = rung.normal()
        there, gradient = here, rung.gradient(here.estimate)
        broken: Mask = np.zeros(len(fresh), dtype=bool)
        for _ in range(leaps):
            end, velocity, failed = rung.follow(there.position, step * (momentum - 0.5 * step * gradient))
            there = Point(end, (yield from rung.evaluate(end)))
            gradient = rung.gradient(there.estimate)
            momentum = velocity / step - 0.5 * step * gradient
            if failed is not None:
                broken |= failed
            if there.estimate.failed:
                broken |= ~np.isfinite(there.estimate.energy)
        with np.errstate(over="ignore", invalid="ignore"):  # a path may leave all that is finite
            kinetic = 0.5 * (fresh * fresh - momentum * momentum).sum(axis=1)
            log_ratio = rung.energy(here.estimate) - rung.energy(there.estimate) + kinetic
        log_ratio[broken | np.isnan(log_ratio)] = -np.inf
        accept = rung.log_uniform() < log_ratio
        info = Info(log_ratio, int(np.count_nonzero(accept)))
        return decided(accept, there, here), memory | {"paths": np.asarray(paths + 1.0)}, info

    def arrived(self, rung: ActiveRung, memory: Memory, rows: Rows, change: Array) -> Memory:
        """Momenta are fresh at every path."""
        return memory


def van_der_corput(index: int) -> float:
    """The digits of ``index`` in base 2, mirrored at the point: a sequence that fills (0, 1) evenly."""
    share, digit = 0.0, 0.5
    while index:
        share += digit * (index & 1)
        index >>= 1
        digit *= 0.5
    return share
