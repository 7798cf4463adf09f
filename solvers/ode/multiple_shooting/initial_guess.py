"""A first guess of states that no one observed: the model run along the data, pulled to them at each of their times.

The observed states drive the others. If the rest of the system forgets its initial values, as Lorenz' does when x is
given, it converges to the truth (Pecora and Carroll 1990, "Synchronization in chaotic systems"). Otherwise several
initial values, or parameters, are tried, and those with the smallest errors of prediction are taken.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy  # its stats take a second to import: not before they are wanted

from invsamp.solvers.ode.model.ode_model import OdeModel

Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

#: Beginnings of the unobserved states that are tried, how many with other parameters, and by what factor the states
#: differ from the size of the data.
BEGINNINGS, TRIALS, REACH = 16, 64, 10.0
#: Share of the times by which a beginning is to be forgotten.
FORGOTTEN = 0.25


def synchronized(
    model: OdeModel,
    begins: Array,
    times: Array,
    observed: Array,
    seen: BoolArray,
    columns: list[int],
    p: Array,
    spread: float = 1.0,
    seed: int = 0,
) -> tuple[Array, Array] | None:
    """Parameters (q,) and states (segments, n_states) where segments begin, from data (n_times, n_observed).

    The data are of the states ``columns``, as far as they are ``seen``. Parameters that differ from ``p`` by factors of
    up to ``spread`` are tried. The first state that is had is that at ``times[0]``, which is taken for all that begins
    before. None if nothing that was tried could be followed to the end.
    """
    parameters, states = _tried(model, observed, seen, columns, p, spread, seed)
    many = len(parameters)
    starts, misfit = np.empty((many, len(begins), len(model.states))), np.zeros(many)
    scale = _spread(observed, seen)
    forgotten = times[0] + FORGOTTEN * (times[-1] - times[0])
    for k, time in enumerate(times):
        there = np.flatnonzero(seen[k])
        at = np.asarray(columns)[there]
        if time > forgotten:
            with np.errstate(over="ignore"):
                misfit += np.square((states[:, at] - observed[k, there]) / scale[there]).sum(axis=1)
        states[:, at] = observed[k, there]
        due = np.flatnonzero((begins <= time) if k == 0 else (begins == time))
        starts[:, due] = states[:, None]
        until = times[k + 1] if k + 1 < len(times) else np.inf
        between = np.flatnonzero((begins > time) & (begins < until))
        if k + 1 == len(times):
            break
        path = model.solve(parameters, states, np.append(begins[between], until), t0=float(time)).states
        starts[:, between] = path[:, :-1]
        states = path[:, -1].copy()
    misfit[~np.isfinite(starts).all(axis=(1, 2)) | ~np.isfinite(misfit)] = np.inf
    best = int(np.argmin(misfit))
    return (parameters[best], starts[best]) if np.isfinite(misfit[best]) else None


def _tried(
    model: OdeModel, observed: Array, seen: BoolArray, columns: list[int], p: Array, spread: float, seed: int
) -> tuple[Array, Array]:
    """Parameters (trials, q), and states (trials, n_states) at the first time: those unobserved of the data's size."""
    trials = BEGINNINGS if spread == 1.0 else TRIALS
    powers = 2.0 * scipy.stats.qmc.Halton(len(p) + len(model.states), seed=seed).random(trials) - 1.0
    size = float(np.sqrt(np.mean(np.square(observed[seen])))) or 1.0
    states = size * REACH ** powers[:, len(p) :]
    for column, k in enumerate(columns):
        states[:, k] = observed[seen[:, column], column][0]
    return p * spread ** powers[:, : len(p)], states


def _spread(observed: Array, seen: BoolArray) -> Array:
    """Standard deviation of each observed state's data, (n_observed,)."""
    spread = np.array([observed[seen[:, k], k].std() for k in range(observed.shape[1])])
    return np.where(spread > 0.0, spread, 1.0)
