"""Laws, rungs and swaps from the arguments that presets share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from invsamp.arguments import instance, one_of, optional, real, sequence
from invsamp.estimators import exact as exact_energies
from invsamp.estimators.contract import Estimator
from invsamp.kernels import Langevin, Momentum
from invsamp.ladder import Rung, Sampler, Swap
from invsamp.ladder.rung import as_fidelity
from invsamp.ladder.sampler import SWAP_ENERGIES, SWAP_RULE, SwapEnergies
from invsamp.ladder.spacing import AutoLadder, auto_ladder
from invsamp.samplers.options import FixedLadderOptions, Ladder, StepSizes
from invsamp.swaps import rules
from invsamp.swaps.schemes import deo
from invsamp.tempering.checks import as_ladder
from invsamp.tempering.linear_targets import TemperedLikelihood
from invsamp.tempering.target_distribution import TargetDistribution


class Targets(NamedTuple):
    """Of a preset's rungs, and whether warm-up finds others."""

    targets: tuple[TargetDistribution, ...]
    ladder: AutoLadder | None


def plain_kernel(friction: float) -> Langevin | Momentum:
    """An unadjusted kernel: Langevin, or with momentum where the friction is below 1."""
    momentum = Momentum(friction)
    return Langevin() if momentum.friction == 1.0 else momentum


def targets_of(
    temperatures: Sequence[TargetDistribution | float] | None, ladder: Ladder, default: Sequence[float]
) -> Targets:
    """Laws as given, or those of the first round of a ladder that warm-up finds."""
    if ladder is None:
        return Targets(as_ladder(default if temperatures is None else temperatures), None)
    if temperatures is not None:
        raise ValueError(f"temperatures must be None where warm-up finds the ladder (ladder=...), got {temperatures!r}")
    found = auto_ladder() if isinstance(ladder, str) and ladder == "auto" else ladder
    instance("ladder", found, AutoLadder, '"auto", an AutoLadder as auto_ladder() returns it, or None')
    return Targets(tuple(map(TemperedLikelihood, found.start())), found)


def graded(fidelities: Sequence[str | int] | None, targets: Targets) -> Sequence[str | int]:
    """One coarser from rung to rung, or as given: all of them, or where rungs are to be found the first ones."""
    n = len(targets.targets)
    if fidelities is None:
        return range(n)
    given = sequence("fidelities", fidelities)
    if targets.ladder is None or not given:
        return given
    return [*given, *[given[-1]] * (n - len(given))][:n]


def rungs_of(
    targets: Targets,
    step_size: StepSizes,
    fidelities: Sequence[str | int],
    estimator: Estimator | Sequence[Estimator] | None,
    **parts: object,
) -> tuple[Rung, ...]:
    """Rungs of these laws; ``parts`` are the same for all."""
    if targets.ladder is not None:
        for name, column in (("step_size", step_size), ("estimator", estimator)):
            if _is_sequence(column):
                raise ValueError(f"{name} must be one for all rungs where warm-up finds the ladder, got {column!r}")
    by_rung = columns(len(targets.targets), step_size, fidelities, exact_energies() if estimator is None else estimator)
    return tuple(
        Rung(target, f, e, step_size=h, **parts)  # type: ignore[arg-type]
        for target, h, f, e in zip(targets.targets, *by_rung, strict=True)
    )


def columns(
    rungs: int, step_size: StepSizes, fidelities: Sequence[str | int], estimator: Estimator | Sequence[Estimator]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Step sizes, fidelities and estimators of so many rungs."""
    found: dict[str, list[Any]] = {
        "fidelities": list(sequence("fidelities", fidelities)),
        "step_size": list(step_size) if _is_sequence(step_size) else [step_size] * rungs,
        "estimator": list(estimator) if _is_sequence(estimator) else [estimator] * rungs,
    }
    for name, column in found.items():
        if len(column) != rungs:
            raise ValueError(f"{name} must have one entry for each of the {rungs} temperatures, got {len(column)}")
    for k, fidelity in enumerate(found["fidelities"]):
        as_fidelity(f"fidelities[{k}]", fidelity)
    return found["step_size"], found["fidelities"], found["estimator"]


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def exchange(
    rungs: tuple[Rung, ...],
    ladder: AutoLadder | None,
    swap: rules.SwapRule | None,
    options: FixedLadderOptions,
    swap_energies: SwapEnergies = "estimated",
) -> Sampler:
    """The sampler of some rungs that swap."""
    # by the names that they have here; the other arguments have those of the parts
    optional(instance, "swap", swap, rules.SwapRule, SWAP_RULE)
    fraction = optional(real, "swap_fraction", options["swap_fraction"], above=0, most=1)
    one_of("swap_energies", swap_energies, SWAP_ENERGIES)
    meeting = Swap(swap, deo() if options["scheme"] is None else options["scheme"], fraction, swap_energies)
    return Sampler(rungs, meeting, options["preconditioner"], options["boundary"], ladder)
