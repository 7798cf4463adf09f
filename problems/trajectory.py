"""Made-up data for the identification of a dynamical system: states along a trajectory, clean and noisy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, increasing, instance, integer, mapping, real
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
    instance("model", model, OdeModel, "an OdeModel")
    noise = real("noise", noise, least=0)
    rng = np.random.default_rng(integer("seed", seed, least=0))
    if missing := [name for name in model.parameters if name not in mapping("parameters", parameters)]:
        raise ValueError(f"parameters must hold every parameter, got none for {missing}")
    values = np.array([[real(f"parameters[{name!r}]", parameters[name]) for name in model.parameters]])
    times = np.array(increasing("times", times))
    solution = model.solve(values, array("initial", initial, (len(model.states),)), times)
    if solution.status[0] != 0:
        said = model.failure(solution, float(times[-1]))
        raise ValueError(f"parameters must have a solution at all times, got {dict(parameters)}: {said}")
    clean = solution.states[0]
    derivatives = np.array([model.rhs(t, x, values[0]) for t, x in zip(times.tolist(), clean.tolist(), strict=True)])
    if noise_sd is None:
        sd = noise * clean.std(axis=0)
    else:
        given = array("noise_sd", noise_sd, least=0)
        if noise or given.shape not in ((), clean.shape[1:]):
            raise ValueError(f"noise_sd must be a number or one per state, and without noise, got {noise_sd}, {noise}")
        sd = np.broadcast_to(given, clean.shape[1:])
    states = clean + sd * rng.standard_normal(clean.shape)
    return Trajectory(times, states, clean, derivatives, sd)


def as_trajectory(observed: Trajectory) -> Trajectory:
    """The argument as a `Trajectory` to fit; `ValueError` if it is none."""
    found: Trajectory = instance("observed", observed, Trajectory, "a Trajectory, as data() makes it")
    return found


def check_tolerances(rtol: float, coarse_rtol: float) -> None:
    """`ValueError` unless both are relative tolerances of an integrator."""
    for name, value in (("rtol", rtol), ("coarse_rtol", coarse_rtol)):
        real(name, value, least=1e-13, below=1)


def segment_begins(times: Array, segment: float) -> Array:
    """Beginnings of the segments of length ``segment`` that cover ``times`` (T,), for multiple shooting.

    Where the length divides the span, the last time belongs to the last segment: it alone would say nothing.

    Raises
    ------
    ValueError
        If the length is not positive.
    """
    times, segment = increasing("times", times), real("segment", segment, above=0)
    count = max(math.ceil((times[-1] - times[0]) / segment - 1e-6), 1)
    return np.asarray(times[0] + segment * np.arange(count))


def matched(
    library: Library, observed: Trajectory, derivatives: object, noise_sd: npt.ArrayLike | None
) -> tuple[GradientMatching, npt.ArrayLike]:
    """Gradient matching of a trajectory, and the sds of what was measured.

    By default the derivatives are the exact ones with sd 1; those of a method have the sds of the states' noise, from
    the trajectory unless they are given. `ValueError` for what is no library, trajectory or sd.
    """
    instance("library", library, Library, "a Library")
    as_trajectory(observed)
    if derivatives is None:
        derivatives = observed.derivatives
    method = isinstance(derivatives, str) or hasattr(derivatives, "equations")
    if noise_sd is None:
        noise_sd = observed.noise_sd if method else 1.0
    elif array("noise_sd", noise_sd, above=0).shape not in ((), (len(library.states),)):
        raise ValueError(f"noise_sd must be a number or one per state, got {noise_sd!r}")
    if isinstance(derivatives, str) and derivatives == "weak":
        derivatives = weak(noise=np.broadcast_to(noise_sd, (len(library.states),)))
    return match(library, observed.times, observed.states, derivatives), noise_sd
