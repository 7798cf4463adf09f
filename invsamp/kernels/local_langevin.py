"""MALA with steps that are longer where the target is flatter."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from invsamp.evaluate.requests import EvaluationRequests, Memory
from invsamp.kernels.contract import ActiveRung, Info, Moved, Point, decided
from invsamp.kernels.defaults import KernelDefaults
from invsamp.kernels.langevin import leapfrog
from invsamp.stored import stored_dataclass


@stored_dataclass
class LocalLangevin(KernelDefaults):
    r"""Metropolis-adjusted Langevin for a contour target, with the step that suits the temperature where a chain is.

    .. math:: w' = w - \eta(w) \nabla v(w) + N(0, 2 \eta(w) I), \qquad \eta(w) = \eta f(U(w)),

    f the target's `step_factor`: of a contour target :math:`1 / v'(U)` within bounds, so that the drift is that of U
    with one step for all, and the noise that of the local temperature. The ratio of the step sizes at both ends,
    :math:`(\eta(w) / \eta(w'))^{d/2}`, belongs to the Metropolis ratio. At f = 1 it is MALA.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.kernels.LocalLangevin())
    MALA with local steps
    """

    name: ClassVar[str] = "local mala"
    adjusted = True
    target_acceptance = 0.574
    short_step = 0.1

    def __str__(self) -> str:
        return "MALA with local steps"

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain once."""
        noise = rung.normal()
        there, _, log_ratio = yield from leapfrog(
            rung, here, noise, lambda at: rung.step_size * rung.step_factor(at)[:, None]
        )
        ratio = rung.step_factor(here.estimate) / rung.step_factor(there.estimate)
        log_ratio += 0.5 * noise.shape[1] * np.log(ratio)
        accept = rung.log_uniform() < log_ratio
        return decided(accept, there, here), memory, Info(log_ratio, int(np.count_nonzero(accept)))
