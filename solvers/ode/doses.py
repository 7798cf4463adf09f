"""Times at which a trajectory is interrupted: breakpoints, and doses that are added to states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, real, shown

Array = npt.NDArray[np.float64]
#: A time, and what is added to which states then.
Dose = tuple[float, Mapping[str, float] | Sequence[tuple[str, float]]]


def check_breakpoints(breakpoints: Any) -> tuple[float, ...]:
    """The times as floats; ValueError unless they are finite."""
    return tuple(array("breakpoints", breakpoints, ("times",), empty=True).tolist())


def check_doses(doses: Any, states: tuple[str, ...]) -> tuple[Dose, ...]:
    """Doses as pairs in place of mappings, so that a model can be hashed.

    Raises
    ------
    ValueError
        Unless they are pairs of a time and finite amounts by the names of states.
    """
    right = "doses must be pairs of a time and amounts by state, such as [(2.0, {'amount': 5.0})]"
    try:
        pairs = [(time, dict(amounts)) for time, amounts in doses]
    except (TypeError, ValueError):
        raise ValueError(f"{right}, got {shown(doses)}") from None
    checked = []
    for index, (time, amounts) in enumerate(pairs):
        when = real(f"doses[{index}]: its time", time)
        if unknown := [state for state in amounts if state not in states]:
            raise ValueError(f"doses must name states out of {states}, got {unknown} at {when}")
        for state, amount in amounts.items():
            if isinstance(amount, str):
                raise ValueError(
                    f"doses must have known amounts, got {amount!r} for {state!r} at {when}: an unknown dose at t0 is "
                    f"an unknown initial value, and a later one a rate, p[k] / duration between two breakpoints"
                )
        given = tuple((state, real(f"doses[{index}]: {state!r}", amount)) for state, amount in amounts.items())
        checked.append((when, given))
    return tuple(checked)


@lru_cache(maxsize=64)
def pauses(
    breakpoints: tuple[float, ...], doses: tuple[Dose, ...], states: tuple[str, ...], width: int
) -> tuple[Array, Array]:
    """Times at which the integration restarts, and what y of the given width gains there."""
    times = np.array(sorted({*breakpoints, *(time for time, _ in doses)}), dtype=float)
    jumps = np.zeros((len(times), width))
    for time, amounts in doses:
        for state, amount in dict(amounts).items():
            jumps[np.searchsorted(times, time), states.index(state)] += amount
    return times, jumps
