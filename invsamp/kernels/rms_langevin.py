"""pSGLD: Langevin steps scaled by the mean square of gradients. A baseline."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from invsamp.arguments import real, store
from invsamp.evaluate.requests import EvaluationRequests, Memory
from invsamp.kernels.contract import NOTHING, ActiveRung, Moved, Point, where_solved
from invsamp.kernels.defaults import Baseline
from invsamp.stored import stored_dataclass


@stored_dataclass
class RmsLangevin(Baseline):
    r"""pSGLD as its programs run. Approximate: biased where curvature changes, as the term :math:`\Gamma` is dropped.

    With g the gradient of the energy per datum,

    .. math:: V' = a V + (1 - a) g^2, \quad G = 1 / (\lambda + \sqrt{V'}), \quad
              x' = x - \eta G \nabla v + N(0, 2 \eta G).

    V follows the chain's past, so that the chain is not even one of Markov; the bias is that of the divergence of G,
    and does not fall with the step.

    Parameters
    ----------
    data : float, > 0
        Number of data: g is the gradient over it.
    decay : float in [0, 1)
        a.
    floor : float, > 0
        :math:`\lambda`.

    References
    ----------
    Li, Chen, Carlson and Carin (2016), "Preconditioned stochastic gradient Langevin dynamics for deep neural networks",
    AAAI, Algorithm 1.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.kernels.RmsLangevin(data=1000.0)
    RmsLangevin(data=1000.0, decay=0.999, floor=0.1)
    """

    data: float = 1.0
    decay: float = 0.999
    floor: float = 0.1
    name: ClassVar[str] = "psgld"

    def __post_init__(self) -> None:
        store(
            self,
            data=real("data", self.data, above=0),
            decay=real("decay", self.decay, least=0, below=1),
            floor=real("floor", self.floor, above=0),
        )

    def __str__(self) -> str:
        return "pSGLD without its Gamma (approximate)"

    def init(self, rng: np.random.Generator, shape: tuple[int, int]) -> Memory:
        """V (chains, d), at first 0."""
        return {"square": np.zeros(shape)}

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain once."""
        gradient = rung.gradient(here.estimate)
        square = self.decay * memory["square"] + (1.0 - self.decay) * (gradient / self.data) ** 2
        scaled = rung.step_size / (self.floor + np.sqrt(square))
        end = here.position - scaled * gradient + np.sqrt(2.0 * scaled) * rung.normal()
        there = Point(end, (yield from rung.evaluate(end)))
        return where_solved(rung, there, here)[0], {"square": square}, NOTHING
