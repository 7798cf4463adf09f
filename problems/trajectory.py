"""Made-up data for the identification of a dynamical system: states along a trajectory, clean and noisy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.solvers.gradient_matching import GradientMatching, Library, match, weak
from invsamp.solvers.ode import OdeModel

Array = npt.NDArray[np.float64]


class Trajectory(NamedTuple):
    """States at given times, observed and true."""

    times: Array  # (T,)
    states: Array  # (T, n), with noise
    clean: Array  # (T, n), without
    derivatives: Array  # (T, n), exact at the clean states
    noise_sd: Array  # (n,), of the noise in `states`


def simulate(
    model: OdeModel,
    parameters: Mapping[str, float],
    initial: Sequence[float],
    times: npt.ArrayLike,
    *,
    noise: float = 0.0,
    noise_sd: npt.ArrayLike | None = None,
    seed: int = 0,
) -> Trajectory:
    """Integrate ``model`` and add Gaussian noise to its states.

    Parameters
    ----------
    model : OdeModel
    parameters : mapping from name to float
        Every parameter of the model.
    initial : sequence of float
        States at the first of ``times``.
    times : array_like, shape (T,)
        Increasing.
    noise : float, >= 0
        Standard deviation of the noise of each state, relative to that state's own over the trajectory.
    noise_sd : float or array_like (n,), >= 0, optional
        Standard deviation in the states' units, instead of ``noise``.
    seed : int
        Of the noise.

    Raises
    ------
    ValueError
        For noise that is negative or given twice, wrong times, or parameters whose trajectory fails.
    """
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise must be finite and not negative, got {noise}")
    values = np.array([[parameters[name] for name in model.parameters]])
    times = np.array(times, dtype=float)
    solution = model.solve(values, np.array(initial, dtype=float), times)
    if solution.status[0] != 0:
        said = model.failure(solution, float(times[-1]))
        raise ValueError(f"parameters must have a trajectory over times, got {dict(parameters)}: {said}")
    clean = solution.states[0]
    derivatives = np.array([model.rhs(t, x, values[0]) for t, x in zip(times.tolist(), clean.tolist(), strict=True)])
    if noise_sd is None:
        sd = noise * clean.std(axis=0)
    else:
        sd = np.broadcast_to(np.asarray(noise_sd, dtype=float), clean.shape[1:])
        if noise or not (np.isfinite(sd) & (sd >= 0)).all():
            raise ValueError(f"noise_sd must be finite, not negative, and without noise, got {noise_sd}, {noise}")
    states = clean + sd * np.random.default_rng(seed).standard_normal(clean.shape)
    return Trajectory(times, states, clean, derivatives, sd)


def segment_begins(times: Array, segment: float) -> Array:
    """Beginnings of the segments of length ``segment`` that cover ``times`` (T,), for multiple shooting.

    Where the length divides the span, the last time belongs to the last segment: it alone would say nothing.

    Raises
    ------
    ValueError
        If the length is not positive.
    """
    if not (np.isfinite(segment) and segment > 0):
        raise ValueError(f"segment must be a positive length of time, got {segment}")
    count = max(math.ceil((times[-1] - times[0]) / segment - 1e-6), 1)
    return np.asarray(times[0] + segment * np.arange(count))


def matched(
    library: Library, observed: Trajectory, derivatives: Any, noise_sd: npt.ArrayLike | None
) -> tuple[GradientMatching, npt.ArrayLike]:
    """Gradient matching of a trajectory, and the sds of what was measured.

    By default the derivatives are the exact ones with sd 1; those of a method have the sds of the states' noise, from
    the trajectory unless they are given.
    """
    if derivatives is None:
        derivatives = observed.derivatives
    method = isinstance(derivatives, str) or hasattr(derivatives, "equations")
    if noise_sd is None:
        noise_sd = observed.noise_sd if method else 1.0
    if isinstance(derivatives, str) and derivatives == "weak":
        derivatives = weak(noise=np.broadcast_to(noise_sd, (len(library.states),)))
    return match(library, observed.times, observed.states, derivatives), noise_sd
