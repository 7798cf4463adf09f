"""Observation times as numbers of equal time steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invsamp.arguments import array


def step_numbers(times: Sequence[float] | None, steps: int, end_time: float) -> tuple[int, ...]:
    """Numbers of ``times`` among ``steps`` equal steps from 0 to ``end_time``; that of the end for None.

    Raises
    ------
    ValueError
        If there are none, they do not increase, or one is no time of the scheme.
    """
    if times is None:
        return (steps,)
    wanted = np.atleast_1d(array("times", times)) * steps / end_time
    numbers = np.rint(wanted)
    if wanted.ndim != 1 or (np.diff(numbers) <= 0).any():
        raise ValueError(f"times must be an increasing sequence, got {times}")
    bad = ~(np.abs(wanted - numbers) < 1e-9 * steps) | (numbers < 0) | (numbers > steps)
    if bad.any():
        wrong = float(wanted[bad][0]) * end_time / steps
        raise ValueError(
            f"times must be multiples of the time step {end_time / steps:.6g} up to the end time {end_time:.6g}, "
            f"got {wrong:.6g}"
        )
    return tuple(int(number) for number in numbers)
