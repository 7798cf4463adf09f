"""On which side of the sensors did the heat start? A thousand readings of a narrow strip of sensors leave two modes.

The 56 sensors stand in two columns, 0.02 apart. So a center on the right and its mirror image on the left explain the
readings nearly alike; only the width of the strip distinguishes them, barely. The levels are meshes, whose energies
differ by units, not by noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.arguments import boolean, instance, integer, sequence
from invsamp.posing.distributions.univariate import Uniform
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.problems.heat_source import Mode, centers, moments
from invsamp.solvers.heat import GaussianBump, HeatEquation, point_sensors
from invsamp.solvers.heat.manufactured import gaussian_derivatives

Array = npt.NDArray[np.float64]

#: Squares along one side, from coarse to fine.
LEVELS = (8, 16, 64)
STEPS, END_TIME = 30, 0.02
BUMP = GaussianBump(width=0.1)

STRIP, STRIP_WIDTH = 0.45, 0.02
SENSORS = np.stack(
    [np.repeat([STRIP - STRIP_WIDTH / 2, STRIP + STRIP_WIDTH / 2], 28), np.tile(np.linspace(0.1, 0.9, 28), 2)], axis=1
)
READINGS = 1000
#: Sensor of every reading: all are read in turn.
SENSOR_OF_READING = np.arange(READINGS) % len(SENSORS)
TRUE_CENTER = (0.6, 0.55)
#: Of one reading. The largest temperature at a sensor is 0.16: a single reading says next to nothing.
NOISE_SD = 0.115
#: Of the readings' noise. It decides the weights of the modes, between 0.5 and 0.9 for most seeds.
DATA_SEED = 12

#: Part of the weights that the compression of a model may lose.
TOLERANCE = 1e-9


def posterior(levels: Sequence[int] = LEVELS, averaged: bool = True) -> Posterior:
    """Unknown center x, y of the heat, each Uniform(0, 1), seen by 56 sensors.

    Parameters
    ----------
    levels : sequence of int
        Squares along one side of the meshes, from coarse to fine; the fidelities are "8x8" and so on.
    averaged : bool
        Whether the data are the 56 sensors' mean readings, which are sufficient: the energy is that of all 1,000
        readings but for a constant, at a twentieth of the cost. False: all readings, for minibatches.

    Returns
    -------
    Posterior
        Truth by `quadrature`.
    """
    boolean("averaged", averaged)
    meshes = [integer(f"levels[{k}]", cells, least=2) for k, cells in enumerate(sequence("levels", levels))]
    data = _readings()
    scale = np.full(READINGS, NOISE_SD)
    sensor_of_datum = SENSOR_OF_READING
    if averaged:
        counts = np.bincount(SENSOR_OF_READING)
        data, scale = np.bincount(SENSOR_OF_READING, data) / counts, NOISE_SD / np.sqrt(counts)
        sensor_of_datum = np.arange(len(SENSORS))
    forward = {f"{cells}x{cells}": StripModel(cells, sensor_of_datum) for cells in meshes}
    return Posterior(Prior(x=Uniform(0.0, 1.0), y=Uniform(0.0, 1.0)), forward, data, GaussianNoise(scale))


def relative_cost(cells: int) -> float:
    """Unknowns of a mesh over those of 64x64: the cost of a solve in units of the finest one."""
    return (integer("cells", cells, least=2) / 64) ** 2


def on_the_right(theta: Array) -> npt.NDArray[np.bool_]:
    """Whether centers of shape (..., 2) lie to the right of the strip."""
    return np.asarray(centers("theta", theta)[..., 0] > STRIP)


class StripModel:
    """Temperatures at the sensors as a forward model of the center, by a handful of compiled products.

    An adjoint solve per sensor, at construction, gives weights W with which sensor m sees
    :math:`\\sum_{xy} g(x - c_x) W_{mxy}\\, g(y - c_y)`, g the bump's profile on the grid. The profiles of all centers
    span few directions, of which the sensors see fewer still, so W is projected on those.

    Parameters
    ----------
    cells : int
        Squares along one side.
    sensor_of_datum : array of int, shape (n_observations,)

    Notes
    -----
    The projection leaves out singular values below `TOLERANCE` of the largest: the observations change by about as
    little.
    """

    parameters = ("x", "y")

    def __init__(self, cells: int, sensor_of_datum: npt.NDArray[np.intp]) -> None:
        self.equation, self._bases, self._core = _prepared(cells)
        self._grid, self._inverse = np.linspace(0.0, 1.0, cells + 1), float(BUMP.width) ** -2.0
        self.sensor_of_datum = sensor_of_datum
        self.n_observations = len(sensor_of_datum)
        # where every sensor is one datum, in order, nothing has to be copied
        self._plain = np.array_equal(sensor_of_datum, np.arange(len(SENSORS)))

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, n_observations)."""
        return self._of_data(self._at_sensors(theta)[0])

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Observations (batch, n_observations) and their Jacobian (batch, n_observations, 2)."""
        y, slopes = self._at_sensors(theta)
        return self._of_data(y), np.moveaxis(self._of_data(slopes), 0, -1)

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations and the product cotangent (batch, n_observations) -> (batch, 2)."""
        y, slopes = self._at_sensors(theta)

        def vjp(cotangent: Array) -> Array:
            return np.einsum("bm,pbm->bp", cotangent, self._of_data(slopes))

        return self._of_data(y), vjp

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Observations (batch, k) and Jacobian (batch, k, 2) of the data ``indices`` (batch, k)."""
        y, slopes = self._at_sensors(theta)
        sensors = self.sensor_of_datum[indices]
        chosen = [np.take_along_axis(part, sensors, axis=1) for part in (y, *slopes)]
        return chosen[0], np.stack(chosen[1:], axis=-1)

    @property
    def work(self) -> float:
        """Counted: that of a solve where nothing is prepared."""
        return relative_cost(len(self._grid) - 1)

    @cached_property
    def cost(self) -> float:
        """Seconds of a solve and its adjoint where nothing is prepared: what a level costs in earnest."""
        return self.equation.observe(SENSORS, precompute=False).cost

    def _at_sensors(self, theta: Array) -> tuple[Array, Array]:
        """Temperatures (batch, sensors) and their slopes to x and y (2, batch, sensors)."""
        batch, sensors = len(theta), len(SENSORS)
        values = np.empty((3, batch, sensors))
        _observe(np.ascontiguousarray(theta), self._grid, self._inverse, *self._bases, self._core, values)
        return values[0], values[1:]

    def _of_data(self, values: Array) -> Array:
        return values if self._plain else values[..., self.sensor_of_datum]


class Quadrature(NamedTuple):
    """Posterior of the center on a grid of midpoints."""

    points: Array  # (n,), midpoints along each axis
    density: Array  # (n, n), indexed [x, y]; its mean is 1
    left: Mode
    right: Mode


def quadrature(problem: Posterior, fidelity: str | None = None, points: int = 400) -> Quadrature:
    """Normalize a `posterior` by the midpoint rule on ``points x points`` cells.

    The modes' sds are about 0.012, five cells at 400 points: the rule's error is far below 1e-6.

    Parameters
    ----------
    problem : Posterior
    fidelity : str, optional
        The finest by default.
    points : int, >= 2

    Raises
    ------
    ValueError
        If ``points`` is too small.
    """
    instance("problem", problem, Posterior, "a Posterior")
    points = integer("points", points, least=2)
    grid = (np.arange(points) + 0.5) / points
    energy = np.empty((points, points))
    potential = problem.potential(fidelity)
    for row, x in enumerate(grid):
        energy[row] = potential.energy(np.column_stack([np.full(points, x), grid]))
    density = np.exp(energy.min() - energy)
    density /= density.mean()
    right = grid > STRIP
    return Quadrature(grid, density, *(moments(grid, density * side[:, None]) for side in (~right, right)))


@cache
def _prepared(cells: int) -> tuple[HeatEquation, tuple[Array, Array], Array]:
    """The discretization, and what `_compress` makes of its weights."""
    equation = HeatEquation(cells, STEPS, END_TIME, BUMP, "dirichlet", "crank_nicolson")
    model = equation.discretization
    nodal = model.functionals(point_sensors(SENSORS).on(model.space), (STEPS,)).initial
    assert nodal is not None
    # the nodes are in C order of the grid
    return equation, *_compress(cells, nodal.T.reshape(len(SENSORS), cells + 1, cells + 1))


def _compress(cells: int, weights: Array) -> tuple[tuple[Array, Array], Array]:
    """Bases (grid, k) of both axes and core (k_y, k_x * sensors) that stand for ``weights`` (sensors, grid, grid)."""
    away = np.linspace(0.0, 1.0, cells + 1) - np.linspace(0.0, 1.0, 201)[:, None]
    profiles = gaussian_derivatives(away, float(BUMP.width) ** -2.0, 0)[0]
    _, size, directions = np.linalg.svd(profiles, full_matrices=False)
    seen = size > 0.1 * TOLERANCE * size[0]
    size, directions = size[seen], directions[seen]
    # in units in which a direction of the profiles counts as much as it occurs
    core = np.einsum("ax,mxy,by->amb", directions, weights, directions, optimize=True)
    core *= size[:, None, None] * size
    bases = []
    for axis in (0, 2):
        kept, values, _ = np.linalg.svd(np.moveaxis(core, axis, 0).reshape(core.shape[axis], -1), full_matrices=False)
        kept = kept[:, values > TOLERANCE * values[0]]
        bases.append(np.ascontiguousarray((directions.T / size) @ kept))
        core = np.moveaxis(np.tensordot(kept.T, core, axes=(1, axis)), 0, axis)
    core = np.ascontiguousarray(core.transpose(2, 0, 1))
    return (bases[0], bases[1]), core.reshape(len(core), -1)


def _readings() -> Array:
    """The 1,000 readings: the 64x64 model at TRUE_CENTER with noise."""
    clean = StripModel(64, SENSOR_OF_READING)(np.array([TRUE_CENTER]))[0]
    return clean + NOISE_SD * np.random.default_rng(DATA_SEED).standard_normal(READINGS)


@njit(cache=True)
def _observe(theta, grid, inverse, x_basis, y_basis, core, values):  # type: ignore[no-untyped-def]
    """Fill ``values`` (3, batch, sensors) with observations and their slopes to x and y.

    The bases have shapes (grid, k_x) and (grid, k_y), ``core`` (k_y, k_x * sensors).
    """
    x_rank, y_rank, sensors = x_basis.shape[1], y_basis.shape[1], values.shape[2]
    # of x, its slope, of y, its slope
    profile = np.empty((4, max(x_rank, y_rank)))
    half = np.empty((2, x_rank * sensors))
    for row in range(len(theta)):
        profile[:] = 0.0
        _project(profile[:2], grid, theta[row, 0], inverse, x_basis)
        _project(profile[2:], grid, theta[row, 1], inverse, y_basis)
        half[:] = 0.0
        for b in range(y_rank):
            value, slope = profile[2, b], profile[3, b]
            for j in range(x_rank * sensors):
                half[0, j] += value * core[b, j]
                half[1, j] += slope * core[b, j]
        values[:, row] = 0.0
        for a in range(x_rank):
            value, slope = profile[0, a], profile[1, a]
            for m in range(sensors):
                values[0, row, m] += value * half[0, a * sensors + m]
                values[1, row, m] += slope * half[0, a * sensors + m]
                values[2, row, m] += value * half[1, a * sensors + m]


@njit(cache=True)
def _project(profile, grid, center, inverse, basis):  # type: ignore[no-untyped-def]
    """Add the Gaussian around ``center`` and its slope, in a basis, to ``profile`` (2, k)."""
    for i in range(len(grid)):
        away = grid[i] - center
        height = math.exp(-0.5 * inverse * away * away)
        slope = inverse * away * height
        for a in range(basis.shape[1]):
            profile[0, a] += height * basis[i, a]
            profile[1, a] += slope * basis[i, a]
