"""Where did the heat start? A hidden Gaussian bump on the unit square, seen by one or two sensors at a later time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, instance, integer, numbers, real
from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import Normal, Uniform
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.solvers.fem.sensors import PointSensors
from invsamp.solvers.heat import DecayingGaussian, GaussianBump, HeatEquation, HeatObservation

Array = npt.NDArray[np.float64]

#: Fidelity -> (squares along one side, time steps), from coarse to fine.
MESHES = {"coarse": (16, 8), "fine": (64, 64)}
END_TIME = 0.03

RING_SENSOR = (0.5, 0.5)
RING_DATUM = 9.368  # published; the manufactured solution at distance 0.1

SENSOR_LINE = 0.4  # the sensors' common y: the two modes are near mirror images about it
SENSORS = ((0.33, SENSOR_LINE), (0.64, SENSOR_LINE))
TRUE_CENTER = (0.57, 0.56)
#: Temperatures of the fine model for TRUE_CENTER, rounded and without noise, so that one mode sits at a known place.
TEMPERATURES = (1.464, 2.219)


def ring(noise_sd: float = 5.0) -> Posterior:
    """One sensor in the middle: every center at distance 0.1 explains its value, so the posterior is a ring.

    Parameters
    ----------
    noise_sd : float, > 0
        At the published 5 the ring stands on a plateau: far from the sensor the energy is only
        RING_DATUM^2 / (2 * 25) = 1.75 above the ring's. Below about 1.5 hardly any mass is off the ring.

    Returns
    -------
    Posterior
        Unknown center x, y, each Uniform(0, 1); fidelities "coarse" and "fine".

    References
    ----------
    Li, Lin, Zhang and Zhou (2023), "Fast replica exchange stochastic gradient Langevin dynamics", section 5.2.
    """
    noise_sd = real("noise_sd", noise_sd, above=0)
    forward = {
        name: HeatEquation(cells, steps, END_TIME, DecayingGaussian(0.1), "exact").observe([RING_SENSOR])
        for name, (cells, steps) in MESHES.items()
    }
    prior = Prior(x=Uniform(0.0, 1.0), y=Uniform(0.0, 1.0))
    return Posterior(prior, forward, [RING_DATUM], GaussianNoise(noise_sd))


def two_modes(noise_sd: float = 0.1) -> Posterior:
    """Two sensors on a horizontal line: a center above it and one below explain both values.

    Their images would be exact, and equally probable, on an infinite plate under a flat prior. The cold boundary is
    nearer to the lower one, and the prior of y, Normal(0.6, 0.25) between 0 and 1, prefers the upper one.

    Parameters
    ----------
    noise_sd : float, > 0
        Of both temperatures. Smaller is sharper: the barrier between the modes grows as 1 / noise_sd^2, and so does
        the energy by which the coarse model differs from the fine one.

    Returns
    -------
    Posterior
        Unknown center x, y; fidelities "coarse" and "fine". Truth by `quadrature`.
    """
    noise_sd = real("noise_sd", noise_sd, above=0)
    forward = {
        name: HeatEquation(cells, steps, END_TIME, GaussianBump(0.06, height=50.0), "dirichlet").observe(SENSORS)
        for name, (cells, steps) in MESHES.items()
    }
    prior = Prior(x=Uniform(0.0, 1.0), y=truncated(Normal(0.6, 0.25), lower=0.0, upper=1.0))
    return Posterior(prior, forward, TEMPERATURES, GaussianNoise(noise_sd))


class Mode(NamedTuple):
    """Weight, mean and sd of the posterior's part on one side of the sensors' line."""

    weight: float
    mean: Array  # (2,)
    sd: Array  # (2,)


class Quadrature(NamedTuple):
    """Posterior of the center on a grid of midpoints."""

    points: Array  # (n,), midpoints along each axis
    density: Array  # (n, n), indexed [x, y]; its mean is 1
    modes: tuple[Mode, ...]  # below the sensors' line, then above; one for a single sensor


def quadrature(posterior: Posterior, fidelity: str | None = None, points: int = 400) -> Quadrature:
    """Normalize the posterior of `ring` or `two_modes` by the midpoint rule on ``points x points`` cells.

    The modes' sds are about 0.015, six cells at 400 points: the rule's error is far below 1e-6.

    Parameters
    ----------
    posterior : Posterior
        Of a center (x, y) in the unit square, with `HeatObservation` models.
    fidelity : str, optional
        The finest by default.
    points : int, >= 2

    Raises
    ------
    ValueError
        If ``points`` is too small or the posterior is of something else.
    """
    instance("posterior", posterior, Posterior, "a Posterior")
    model = posterior.forward[posterior.fidelities[-1]]
    sensors = model.sensors if isinstance(model, HeatObservation) else None
    if not isinstance(sensors, PointSensors) or posterior.names != ("x", "y"):
        raise ValueError(f"posterior must be of a heat source's center (x, y), got {posterior!r}")
    points = integer("points", points, least=2)
    grid = (np.arange(points) + 0.5) / points
    log_density = np.empty((points, points))
    for row, x in enumerate(grid):
        theta = np.column_stack([np.full(points, x), grid])
        likelihood = posterior.log_likelihood(theta, fidelity).sum(axis=1)
        log_density[row] = likelihood + posterior.log_prior(theta)
    density = np.exp(log_density - log_density.max())
    density /= density.mean()
    heights = np.unique(sensors.points[:, 1])
    if len(sensors.points) < 2 or len(heights) > 1:
        return Quadrature(grid, density, (moments(grid, density),))
    upper = np.broadcast_to(grid > heights[0], density.shape)
    return Quadrature(grid, density, tuple(moments(grid, density * side) for side in (~upper, upper)))


def is_upper(theta: Array) -> npt.NDArray[np.bool_]:
    """Whether centers of shape (..., 2) lie above the sensors' line of `two_modes`."""
    return np.asarray(centers("theta", theta)[..., 1] > SENSOR_LINE)


def centers(name: str, theta: Array) -> Array:
    """Centers (..., 2) as numbers; `ValueError` if they have another number of coordinates."""
    points = numbers(name, theta)
    if points.shape[-1:] != (2,):
        raise ValueError(f"{name} must have shape (..., 2), got {points.shape}")
    return points


def moments(grid: Array, density: Array) -> Mode:
    """Weight, mean and sd of a density (n, n), indexed [x, y], at the midpoints ``grid`` (n,) along each axis."""
    grid = array("grid", grid, ("n",))
    density = array("density", density, (len(grid), len(grid)), least=0)
    total = density.sum()
    marginals = np.stack([density.sum(axis=1), density.sum(axis=0)]) / total
    mean = marginals @ grid
    sd = np.sqrt((marginals * (grid - mean[:, None]) ** 2).sum(axis=1))
    return Mode(float(total) / density.size, mean, sd)
