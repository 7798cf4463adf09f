"""Observation times as numbers of equal time steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def step_numbers(times: Sequence[float] | None, steps: int, end_time: float) -> tuple[int, ...]:
    """Numbers of ``times`` among ``steps`` equal steps from 0 to ``end_time``; that of the end for None.

    Raises
    ------
    ValueError
        If there are none, they do not increase, or one is no time of the scheme.
    """
    if times is None:
        return (steps,)
    try:
        wanted = np.atleast_1d(np.asarray(times, dtype=float)) * steps / end_time
    except (TypeError, ValueError) as error:
        raise ValueError(f"times must be a non-empty, increasing sequence of numbers, got {times!r}") from error
    numbers = np.rint(wanted)
    if wanted.ndim != 1 or not wanted.size or (np.diff(numbers) <= 0).any():
        raise ValueError(f"times must be a non-empty, increasing sequence, got {times}")
    bad = ~(np.abs(wanted - numbers) < 1e-9 * steps) | (numbers < 0) | (numbers > steps)
    if bad.any():
        wrong = float(wanted[bad][0]) * end_time / steps
        raise ValueError(
            f"times must be multiples of the time step {end_time / steps:.6g} up to the end time {end_time:.6g}, "
            f"got {wrong:.6g}"
        )
    return tuple(int(number) for number in numbers)
