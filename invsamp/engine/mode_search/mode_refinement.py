"""Where a kernel jumps to once the target is another: the modes that it knows, optimized again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.engine.mode_search.multistart import PATIENCE
from invsamp.evaluate.requests import EvaluationRequests
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.ladder import Sampler
from invsamp.modes.descent import descend
from invsamp.modes.minima import distinct
from invsamp.modes.objective import Objective, of_fidelity
from invsamp.modes.tolerances import TOLERANCE
from invsamp.protocols import Array

#: Centers (k, d) of the modes, and factors (k, d, d) of their covariances.
Jumps = tuple[Array, Array]


def refined_modes(sampler: Sampler, fidelity: str, domain: Domain) -> EvaluationRequests[Jumps | None]:
    """Modes of a fidelity near those that the sampler's kernels jump between; None where there are no two of them.

    A corrected model has its modes elsewhere, if only by some sds, and jumps to where they were are refused.
    """
    kernel = next((rung.kernel for rung in sampler.rungs if isinstance(rung.kernel, ModeJumps)), None)
    if kernel is None:
        return None

    scale = np.sqrt(np.square(kernel.factors).sum(axis=2)).max(axis=0)
    objective = Objective(of_fidelity(fidelity), scale, domain)
    end = yield from descend(objective, kernel.centers, tolerance=TOLERANCE, most=PATIENCE)
    minima = yield from distinct(objective, end)
    heavy = minima.heavy if minima.measured else np.arange(0)
    if len(heavy) < 2:
        return None
    return minima.position[heavy], np.asarray(np.linalg.cholesky(minima.extents[heavy]))


def jumping(sampler: Sampler, jumps: Jumps | None) -> Sampler:
    """The sampler with its kernels jumping there; as it is for None."""
    if jumps is None:
        return sampler
    rungs = [
        replace(rung, kernel=ModeJumps(rung.kernel.kernel, *jumps)) if isinstance(rung.kernel, ModeJumps) else rung
        for rung in sampler.rungs
    ]
    return replace(sampler, rungs=rungs)
