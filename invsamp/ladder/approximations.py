"""Why a sampler's draws are not exactly those of its targets: the description in its print and its report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from invsamp.domains.boundary import Boundary, Reflect
from invsamp.estimators.control_variates import ControlVariate
from invsamp.kernels.defaults import Baseline
from invsamp.ladder.rung import Rung, gives_energies
from invsamp.swaps.rules import MultiVariance, OwnEnergies, SwapRule
from invsamp.swaps.schemes import SwapScheme
from invsamp.tempering.contours import Contour
from invsamp.variances.models import RunningAverage


def approximations(
    rungs: Sequence[Rung], rule: SwapRule | None, scheme: SwapScheme, energies: str, boundary: Boundary | str
) -> tuple[str, ...]:
    """Reasons, each once; none of a sampler that is exact.

    ``energies``: those of swaps, as of `invsamp.ladder.Swap`. Baselines of the literature have their own description. A
    bias on a hot rung reaches the cold one, with which it swaps.
    """
    found = [reason for rung in rungs for reason in _of_rung(rung)]
    if len(rungs) > 1:
        found += _of_swaps(rungs, rule, scheme, energies)
    if boundary != Reflect():
        found.append("moves at bounds that are not reflected")
    return tuple(dict.fromkeys(found))


def _of_rung(rung: Rung) -> Iterator[str]:
    if not rung.kernel.adjusted and not isinstance(rung.kernel, Baseline):
        yield "steps without an acceptance step"
    target = rung.target
    if isinstance(target, Contour):
        if target.learning is not None and target.learning.forever:
            yield "a target that is adapted during sampling"
        if target.weighting == "published":
            yield "the published weights"


def _of_swaps(rungs: Sequence[Rung], rule: SwapRule | None, scheme: SwapScheme, energies: str) -> Iterator[str]:
    noisy = [rung for rung in rungs if energies != "exact" and not gives_energies(rung.estimator)]
    if rule is not None and rule.factor != 1.0 and noisy:
        factor = rule.factor
        yield "swaps that ignore noise" if math.isinf(factor) else f"swaps with the correction factor {factor:g}"
    if isinstance(rule, OwnEnergies | MultiVariance) and rule.assume_unbiased:
        yield "swaps that treat fidelities as equal"
    running = [rung.estimator for rung in noisy if isinstance(rung.energy_variance, RunningAverage)]
    if any(isinstance(estimator, ControlVariate) and estimator.order == "constant" for estimator in running):
        yield "one variance of a noise that grows with the distance from its snapshot"
    if scheme.window > 1:
        yield "gates of windows"
