"""Right-hand sides that jump where a state or parameter crosses a threshold: their sensitivities leave something out.

They take the time of the jump for fixed. What they leave out is the shift of that time, and no tolerance shows it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from invsamp.solvers.ode.codegen.numpy_substitutes import Rhs

Array = npt.NDArray[np.float64]

#: Trajectories of a right-hand side that are checked, of one batch and in all.
_OF_A_BATCH, _IN_ALL = 4, 16
#: Points on a trajectory, the intervals between them that are looked into, and how often each is halved.
POINTS, _INTERVALS, _HALVINGS = 257, 8, 60
#: A jump, in units of how much the right-hand side changes along the trajectory.
_LEAST = 1e-3
#: A move of a state or parameter, in units of its size or 1, that crosses a threshold which has been met to rounding.
_MOVE = 1e-9

_looked_at: WeakKeyDictionary[Rhs, int] = WeakKeyDictionary()


class Jump(NamedTuple):
    """Where a right-hand side jumps."""

    time: float
    state: Array  # (n,)
    crossed: tuple[str, ...]  # names of the states and parameters a small move of which makes it jump


def set_jumps(
    rhs: Rhs,
    names: tuple[str, ...],
    deciding: tuple[str, ...],
    p: Array,
    x0: Array,
    times: Array,
    start: Array,
    solve: Callable[[Array, Array, Array, Array], Array],
) -> None:
    """Warn, once for a right-hand side, if it jumps along some trajectories of a batch.

    Parameters
    ----------
    rhs : callable
    names : tuple of str
        Of the states, then of the parameters.
    deciding : tuple of str
        Those whose thresholds count, if others have the same: all, or the states.
    p, x0, times, start : arrays
        Parameters (batch, q), initial values (batch, n), output times (1 or batch, n_times), initial times (batch,).
    solve : callable
        ``(p, x0, times, start)`` -> states (batch, n_times, n).
    """
    before = _looked_at.get(rhs, 0)
    if before >= _IN_ALL or not len(p):
        return
    rows = np.unique(np.linspace(0, len(p) - 1, min(_OF_A_BATCH, _IN_ALL - before)).astype(int))
    _looked_at[rhs] = before + len(rows)
    end = np.broadcast_to(times[:, -1], len(p))[rows]
    grid = np.linspace(start[rows], end, POINTS, axis=1)
    states = solve(p[rows], x0[rows], grid, start[rows])
    for row, t, x in zip(rows, grid, states, strict=True):
        if (
            np.isfinite(x).all()
            and t[-1] > t[0]
            and (jump := find_jump(rhs, names, deciding, p[row], t, x)) is not None
        ):
            _looked_at[rhs] = _IN_ALL
            warnings.warn(
                f"rhs jumps at t = {jump.time:.4g}, x = {np.array2string(jump.state, precision=4)}, where "
                f"{' or '.join(jump.crossed)} crosses a threshold. Sensitivities leave out that the time of the jump "
                "depends on parameters: they are wrong after it. Declare the threshold, "
                "OdeModel(events=[Event(when=...)]), or make it steep (tanh)",
                stacklevel=2,
            )
            return


def find_jump(
    rhs: Rhs, names: tuple[str, ...], deciding: tuple[str, ...], p: Array, times: Array, states: Array
) -> Jump | None:
    """The first jump found along one trajectory, states (n_times, n), that one of ``deciding`` makes; None if none.

    Intervals in which the right-hand side changes most are halved, on the straight line between their ends, until only
    a jump is left. A jump that comes at its time whatever states and parameters are does no harm.
    """

    def f(t: float, x: Array, q: Array) -> Array:
        return np.asarray(rhs(t, x, q), dtype=float)

    values = np.array([f(t, x, p) for t, x in zip(times, states, strict=True)])
    size = np.ptp(values, axis=0)
    size[size == 0.0] = np.inf
    change = np.abs(np.diff(values, axis=0)) / size
    # what changes more than its neighbors do
    others = np.maximum(np.roll(change, 1, axis=0), np.roll(change, -1, axis=0))
    n = states.shape[1]
    for k in np.sort(np.argsort((change - others).max(axis=1))[-_INTERVALS:]):
        low, high = np.append(times[k], states[k]), np.append(times[k + 1], states[k + 1])
        at_low, at_high = values[k], values[k + 1]
        for _ in range(_HALVINGS):
            middle = low + 0.5 * (high - low)
            value = f(middle[0], middle[1:], p)
            if np.abs((value - at_low) / size).max() > np.abs((at_high - value) / size).max():
                high, at_high = middle, value
            else:
                low, at_low = middle, value
        height = float((np.abs(at_high - at_low) / size).max())
        if not height > _LEAST:
            continue
        here = np.concatenate([low[1:], p])
        crossed = []
        for j, name in enumerate(names):
            moved = np.stack([here, here])
            moved[:, j] += np.array([-1.0, 1.0]) * _MOVE * max(1.0, abs(here[j]))
            away = [np.abs(f(low[0], at[:n], at[n:]) - at_low) / size for at in moved]
            if np.max(away) > 0.5 * height:
                crossed.append(name)
        if set(crossed) & set(deciding):
            return Jump(float(low[0]), low[1:], tuple(crossed))
    return None
