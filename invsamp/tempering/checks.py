"""Checks of the targets that a user gives for a rung or a ladder, and the noise of gradients that a target allows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from invsamp.arguments import array, real, sequence
from invsamp.tempering.linear_targets import Tempered
from invsamp.tempering.target_distribution import TargetDistribution


def as_target(name: str, value: TargetDistribution | float) -> TargetDistribution:
    """A target, or the one that a temperature stands for."""
    if isinstance(value, TargetDistribution):
        return value
    return Tempered(real(name, value, least=1, also=", or a target such as tempered_likelihood(0.3)"))


def as_ladder(temperatures: Sequence[TargetDistribution | float]) -> tuple[TargetDistribution, ...]:
    """Targets from cold to hot; `ValueError` unless the first is the posterior's and each next one is flatter."""
    given = sequence("temperatures", temperatures, "a sequence of temperatures or targets")
    if any(isinstance(entry, TargetDistribution) for entry in given):
        targets = tuple(as_target(f"temperatures[{k}]", entry) for k, entry in enumerate(given))
        check_ladder(targets)
        return targets
    return tuple(map(Tempered, check_temperatures(given)))


def check_ladder(targets: Sequence[TargetDistribution]) -> None:
    """`ValueError` unless the first target is the posterior and each next one that is linear takes less of the misfit.

    A first target that is not linear may be another one, and so may a cold posterior.
    """
    if all(isinstance(target, Tempered) for target in targets):
        check_temperatures([target.temperature for target in targets if isinstance(target, Tempered)])
        return
    first = targets[0].factors
    if first is not None and not first[0] == first[1] >= 1.0:  # of others the engine asks for weights
        raise ValueError(
            f"the first target must be the posterior, tempered(1) or tempered_likelihood(1), got {targets[0]!r}: the "
            "draws are those of the first rung"
        )
    for k, (colder, hotter) in enumerate(itertools.pairwise(targets), start=1):
        if colder.factors and hotter.factors and not colder.factors[1] > hotter.factors[1]:
            raise ValueError(
                f"targets must take less of the misfit from rung to rung, got {colder} before {hotter} at index {k}"
            )


def check_temperatures(temperatures: Sequence[float]) -> tuple[float, ...]:
    """Temperatures as numbers; `ValueError` unless they start at 1 and increase."""
    checked: tuple[float, ...] = tuple(array("temperatures", temperatures, ("rungs",)).tolist())
    if checked[0] != 1.0:
        raise ValueError(f"temperatures must start at 1 (the posterior), got {checked[0]}")
    for k, (colder, hotter) in enumerate(itertools.pairwise(checked), start=1):
        if not colder < hotter:
            raise ValueError(f"temperatures must increase, got {colder} before {hotter} at index {k}")
    return checked


def temperatures_of(targets: Sequence[TargetDistribution]) -> list[float] | None:
    """Their temperatures; None where a target has none."""
    found = [target.temperature for target in targets if isinstance(target, Tempered)]
    return found if len(found) == len(targets) else None


def noise_room(target: TargetDistribution) -> float:
    r"""Temperature that counts for the noise of gradients: a tempered target's own, and its like for any linear target.

    A step :math:`\eta`, as given, injects noise of variance :math:`2 \eta s` into the coordinates, s the step scale,
    and gradients of noise variance V bring :math:`(\eta s b)^2 V` along: room for :math:`\eta V < 2 / (s b^2)`.
    """
    assert target.factors is not None  # others have exact energies
    taken = target.step_scale * target.factors[1] ** 2
    return 1.0 / taken if taken else float("inf")
