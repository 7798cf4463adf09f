"""Affine-invariant ensembles: a chain moves along the line through another one, without gradients."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from invsamp.arguments import integer, store
from invsamp.evaluate.requests import EvaluationRequests, Memory
from invsamp.kernels.contract import ActiveRung, Info, Moved, Point
from invsamp.kernels.defaults import KernelDefaults
from invsamp.kernels.metropolis import proposed
from invsamp.stored import stored_dataclass


@stored_dataclass
class Stretch(KernelDefaults):
    r"""The stretch move of an ensemble of walkers: needs neither gradients nor the posterior's scale.

    A chain x moves along the line through another one of its ensemble, y,

    .. math:: x' = y + z\, (x - y), \qquad g(z) \propto 1 / \sqrt{z} \text{ on } [1 / a, a],

    and takes that with probability :math:`\min(1, z^{d - 1} e^{v - v'})`. Linear maps of the parameters change nothing,
    so that strong correlations do no harm. One half of the walkers moves after the other, each along lines to the half
    that stands still: a step takes one solve for each chain, half of them at the same time.

    The step size is a - 1, by default 1.

    Parameters
    ----------
    walkers : int, even, >= 4
        Chains of an ensemble, at least twice as many as parameters: fewer never leave the space that they span.

    References
    ----------
    Goodman and Weare (2010), "Ensemble samplers with affine invariance", Communications in Applied Mathematics and
    Computational Science 5(1), eq. (7), (9) and (10); halves as of Foreman-Mackey, Hogg, Lang and Goodman (2013), PASP
    125, Algorithm 3.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.kernels.Stretch(walkers=8)
    Stretch(walkers=8)
    """

    walkers: int = 16

    name: ClassVar[str] = "stretch"
    gradient = False
    adjusted = True
    target_acceptance = 0.3

    def __post_init__(self) -> None:
        store(self, walkers=integer("walkers", self.walkers, least=4))
        if self.walkers % 2:
            raise ValueError(f"walkers must be even, as one half moves after the other, got {self.walkers}")

    def __str__(self) -> str:
        return f"stretch move, ensembles of {self.walkers} walkers"

    @property
    def ensemble_size(self) -> int:  # type: ignore[override]
        """All walkers of an ensemble depend on each other."""
        return self.walkers

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """Nothing is kept. `ValueError` where an ensemble is too small for the number of parameters."""
        if self.walkers < 2 * shape[1]:
            raise ValueError(
                f"walkers must be at least twice the {shape[1]} parameters, {2 * shape[1]}, got {self.walkers}"
            )
        return {}

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move one half of every ensemble, then the other."""
        chains, d = here.position.shape
        place, half = np.arange(chains) % self.walkers, self.walkers // 2
        longest = 1.0 + rung.step_size / rung.step_scale
        log_ratio, accepted = np.empty(chains), 0
        for parity in (0, 1):
            rows, x = np.flatnonzero(place % 2 == parity), here.position
            other = np.minimum(half * np.exp(rung.log_uniform()), half - 1).astype(int)
            partner = (np.arange(chains) - place + 2 * other + 1 - parity)[rows]
            # by the inverse of the distribution function of g
            z = ((1.0 + (longest - 1.0) * np.exp(rung.log_uniform()[:, None])) ** 2 / longest)[rows, 0]
            end = x[partner] + z[:, None] * (x[rows] - x[partner])
            here, log_ratio[rows], moved = yield from proposed(rung, here, end, (d - 1) * np.log(z), rows)
            accepted += int(moved.sum())
        return here, memory, Info(log_ratio, accepted)
