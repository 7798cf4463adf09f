"""Targets, rungs and swaps from the arguments that presets share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from invsamp.arguments import instance, one_of, optional, real, sequence
from invsamp.estimators import exact as exact_energies
from invsamp.estimators.contract import Estimator
from invsamp.kernels import Langevin, Momentum
from invsamp.kernels.contract import Kernel
from invsamp.kernels.schedules import Schedule
from invsamp.ladder import Rung, Sampler, Swap
from invsamp.ladder.rung import as_fidelity
from invsamp.ladder.sampler import SWAP_ENERGIES, SWAP_RULE, SwapEnergies
from invsamp.ladder.spacing import AutoLadder, auto_ladder
from invsamp.samplers.options import Ladder, LadderOptions, StepSizes
from invsamp.swaps import rules
from invsamp.swaps.schemes import deo
from invsamp.tempering.checks import as_ladder
from invsamp.tempering.linear_targets import Tempered, TemperedLikelihood
from invsamp.tempering.target_distribution import TargetDistribution

#: Temperatures of a cold and a hot rung, where none are given.
PAIR = (1.0, 4.0)


class Targets(NamedTuple):
    """Of a preset's rungs, and whether warm-up finds others."""

    targets: tuple[TargetDistribution, ...]
    ladder: AutoLadder | None


def plain_kernel(friction: float) -> Langevin | Momentum:
    """An unadjusted kernel: Langevin, or with momentum where the friction is below 1."""
    momentum = Momentum(friction)
    return Langevin() if momentum.friction == 1.0 else momentum


def single(
    kernel: Kernel,
    step_size: float | Schedule | None,
    options: Mapping[str, Any],
    target: TargetDistribution | None = None,
) -> Sampler:
    """The sampler of one rung, of the posterior unless another target is given."""
    estimator = options.get("estimator")
    rung = Rung(
        Tempered() if target is None else target,
        options.get("fidelity", "finest"),
        exact_energies() if estimator is None else estimator,
        kernel=kernel,
        step_size=step_size,
        gradient_noise=options.get("gradient_noise"),
    )
    return Sampler((rung,), preconditioner=options.get("preconditioner"), boundary=options.get("boundary", "reflect"))


def ladder_of(
    temperatures: Sequence[TargetDistribution | float] | None,
    step_size: StepSizes,
    swap: rules.SwapRule | None,
    options: LadderOptions,
    *,
    fidelities: Sequence[str | int] | str | None = None,
    **parts: Any,
) -> Sampler:
    """The sampler of a ladder of rungs that are alike; parts that are not given are those among the options."""
    given = {**options, **parts}
    targets = _targets_of(temperatures, options["ladder"])
    levels = _graded(given.pop("fidelities", None) if fidelities is None else fidelities, targets)
    names = ("kernel", "energy_variance", "gradient_noise", "probes")
    found = {name: given[name] for name in names if name in given}
    rungs = _rungs_of(targets, step_size, levels, given.get("estimator"), found)
    noise = rungs[0].gradient_noise
    if noise is not None and noise.on_noise_overflow == "effective_temperature":  # the cold rung has to be at 1
        rungs = (replace(rungs[0], gradient_noise=replace(noise, on_noise_overflow="shrink")), *rungs[1:])
    return exchange(rungs, targets.ladder, swap, given, given.get("swap_energies", "estimated"))


def _targets_of(temperatures: Sequence[TargetDistribution | float] | None, ladder: Ladder) -> Targets:
    """Targets as given, or those of the first round of a ladder that warm-up finds."""
    if ladder is None:
        return Targets(as_ladder(PAIR if temperatures is None else temperatures), None)
    if temperatures is not None:
        raise ValueError(f"temperatures must be None where warm-up finds the ladder (ladder=...), got {temperatures!r}")
    found = auto_ladder() if isinstance(ladder, str) and ladder == "auto" else ladder
    instance("ladder", found, AutoLadder, '"auto", an AutoLadder as auto_ladder() returns it, or None')
    return Targets(tuple(map(TemperedLikelihood, found.start())), found)


def _graded(fidelities: Sequence[str | int] | str | None, targets: Targets) -> Sequence[str | int]:
    """One coarser from rung to rung, or as given: one for all, all, or where rungs are to be found the first ones."""
    n = len(targets.targets)
    if fidelities is None:
        return range(n)
    if fidelities == "finest":
        return ["finest"] * n
    given = sequence("fidelities", fidelities)
    if targets.ladder is None or not given:
        return given
    return [*given, *[given[-1]] * (n - len(given))][:n]


def _rungs_of(
    targets: Targets,
    step_size: StepSizes,
    fidelities: Sequence[str | int],
    estimator: Estimator | Sequence[Estimator] | None,
    parts: Mapping[str, Any],
) -> tuple[Rung, ...]:
    """Rungs of these targets; ``parts`` are the same for all."""
    if targets.ladder is not None:
        for name, column in (("step_size", step_size), ("estimator", estimator)):
            if _is_sequence(column):
                raise ValueError(f"{name} must be one for all rungs where warm-up finds the ladder, got {column!r}")
    by_rung = columns(len(targets.targets), step_size, fidelities, exact_energies() if estimator is None else estimator)
    return tuple(
        Rung(target, f, e, step_size=h, **parts) for target, h, f, e in zip(targets.targets, *by_rung, strict=True)
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
    options: Mapping[str, Any],
    swap_energies: SwapEnergies = "estimated",
) -> Sampler:
    """The sampler of some rungs that swap."""
    # by the names that they have here; the other arguments have those of the parts
    optional(instance, "swap", swap, rules.SwapRule, SWAP_RULE)
    fraction = optional(real, "swap_fraction", options["swap_fraction"], above=0, most=1)
    one_of("swap_energies", swap_energies, SWAP_ENERGIES)
    meeting = Swap(swap, deo() if options["scheme"] is None else options["scheme"], fraction, swap_energies)
    return Sampler(rungs, meeting, options["preconditioner"], options["boundary"], ladder)
