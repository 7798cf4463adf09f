r"""The target with 25 modes on four non-convex or polygonal domains, and its exact cell probabilities.

.. math:: U(x) = 0.2 |x|^2 - 2 \sum_i \cos(2 \pi x_i) \; (+ |x|^2 - 20 \text{ where } |x|^2 > 20)

restricted to a flower, a heart, an octagon or a cross. This is the setting of Zheng et al. (2024), "Constrained
exploration via reflected replica exchange SGLD" (r2SGLD), ICML, section 4.2. The radii are such that the domains fit
into [-2.5, 2.5]^2. There energies and gradients carry Gaussian noise of sd 0.05 (`noise`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.arguments import instance, integer, one_of, real
from invsamp.domains import Polygon
from invsamp.estimators import noisy
from invsamp.estimators.injected_noise import Noisy
from invsamp.posing.posterior.target import Target

Array = npt.NDArray[np.float64]

#: Default size of each domain, in the units of x.
RADII = {"flower": 2.0, "heart": 1.4, "octagon": 2.5, "cross": 2.5}
#: Edges by which a curve is replaced.
CURVE_EDGES = 400
#: Standard deviation of the noise on energies and gradients.
NOISE_SD = 0.05
#: Beyond this square of the distance from the origin the energy rises faster.
FAR = 20.0
# of the Gauss rule on a triangle of a cell: the truth is right to rounding with cells of a tenth
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


class TwentyFiveModes:
    """The energy, as a potential (`invsamp.protocols.Potential`) in the plane; compiled, batched over chains."""

    dimension: int = 2

    def energy(self, position: Array) -> Array:
        """Energy (chains,) at positions (chains, 2)."""
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and gradient (chains, 2)."""
        energy, gradient = np.empty(len(position)), np.empty((len(position), 2))
        _evaluate(position, energy, gradient)
        return energy, gradient


def domain(name: str, radius: float | None = None) -> Polygon:
    """One of the four domains.

    Parameters
    ----------
    name : "flower", "heart", "octagon" or "cross"
    radius : float, > 0, optional
        Its size, see `RADII`: of the flower and the heart a scale, of the octagon the circumscribed circle's radius,
        of the cross the half width over 0.951.

    Raises
    ------
    ValueError
        If there is no such domain, or ``radius`` is not positive.
    """
    return Polygon(vertices(name, radius))


def target(name: str, radius: float | None = None) -> Target:
    """The 25 modes on one of the domains (see `domain`); chains start at uniform draws from it."""
    inside = domain(name, radius)
    return Target(TwentyFiveModes(), domain=inside, start=inside.sample_uniform)


def noise() -> Noisy:
    """Estimator with the published noise: independent Gaussians of sd 0.05 on the energy and on each derivative."""
    return noisy(NOISE_SD, NOISE_SD)


def vertices(name: str, radius: float | None = None) -> Array:
    """Corners (k, 2) of a domain, counter-clockwise; the curves of flower and heart have `CURVE_EDGES` of them.

    In the polar angle 2 pi t, t in [0, 1), the flower's radius is r(t) = R (sin(10 pi t) + 3) / 3.5. The heart is
    x = R/10 16 sin^3 s, y = R/10 (13 cos s - 5 cos 2s - 2 cos 3s - cos 4s). The octagon has a corner on each axis. The
    cross is the union of the rectangles of half sides 0.951 R and 0.309 R along either axis.

    Raises
    ------
    ValueError
        If the name is unknown or the radius not positive.
    """
    one_of("name", name, RADII)
    size = RADII[name] if radius is None else real("radius", radius, above=0)
    return size * _UNIT[name]()


def cell_probabilities(
    region: Polygon, bins: int = 50, extent: float = 2.5, temperature: float = 1.0
) -> tuple[Array, Array]:
    """Probabilities of the cells of a grid over [-extent, extent]^2 under exp(-U / temperature) within a polygon.

    Every cell is cut by the polygon, and the density integrated over the piece. The integral is a sum over the signed
    triangles between the cell's center and the sides of the piece. An 8 x 8 Gauss rule is exact to rounding on them, as
    the energy is smooth across the boundary.

    Parameters
    ----------
    region : Polygon
        Inside the grid; holes are left out.
    bins : int
        Cells along each axis.
    extent : float
        Half width of the grid; its corners must stay where the energy is smooth, ``|x|^2 <= 20``.
    temperature : float, > 0

    Returns
    -------
    probabilities : ndarray, shape (bins, bins)
        The first axis is x.
    edges : ndarray, shape (bins + 1,)
        Of either axis.

    Raises
    ------
    ValueError
        If the polygon leaves the grid, or the grid reaches where the energy has a kink.
    """
    instance("region", region, Polygon, "a Polygon")
    bins, extent = integer("bins", bins, least=1), real("extent", extent, above=0, most=math.sqrt(FAR / 2))
    temperature = real("temperature", temperature, above=0, finite=False)
    reach = np.abs(region.vertices).max()
    if reach > extent * (1.0 + 1e-12):
        raise ValueError(f"extent must hold the polygon, whose corners reach {reach:.6g}, got {extent}")
    edges = np.linspace(-extent, extent, bins + 1)
    mass = np.zeros((bins, bins))
    for ring in (region.vertices, *region.holes):  # holes are clockwise: their areas are negative
        for i in range(bins):
            strip = _cut(_cut(ring, 0, edges[i], 1.0), 0, edges[i + 1], -1.0)
            for j in range(bins):
                piece = _cut(_cut(strip, 1, edges[j], 1.0), 1, edges[j + 1], -1.0)
                if len(piece) > 2:
                    mass[i, j] += _integral(piece, temperature)
    mass[mass < 1e-15 * mass.sum()] = 0.0  # slivers of rounding
    return mass / mass.sum(), edges


def _flower() -> Array:
    angle = np.linspace(0.0, 2.0 * np.pi, CURVE_EDGES, endpoint=False)
    reach = (np.sin(5.0 * angle) + 3.0) / 3.5
    return np.column_stack([reach * np.cos(angle), reach * np.sin(angle)])


def _heart() -> Array:
    s = -np.linspace(0.0, 2.0 * np.pi, CURVE_EDGES, endpoint=False)  # backwards, which is counter-clockwise
    height = 13.0 * np.cos(s) - 5.0 * np.cos(2.0 * s) - 2.0 * np.cos(3.0 * s) - np.cos(4.0 * s)
    return 0.1 * np.column_stack([16.0 * np.sin(s) ** 3, height])


def _octagon() -> Array:
    angle = 2.0 * np.pi * np.arange(8) / 8.0
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _cross() -> Array:
    near, far = 0.309, 0.951
    quarter = np.array([[far, -near], [far, near], [near, near]])
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])  # of rows, by a right angle
    return np.concatenate([quarter @ np.linalg.matrix_power(turn, k) for k in range(4)])


_UNIT: dict[str, Callable[[], Array]] = {"flower": _flower, "heart": _heart, "octagon": _octagon, "cross": _cross}


def _cut(polygon: Array, axis: int, level: float, side: float) -> Array:
    """The part of a polygon (k, 2) with ``side * (x[axis] - level) >= 0`` (Sutherland and Hodgman).

    A non-convex polygon may come back with sides run through twice, in opposite directions: integrals over the
    signed area do not see them.
    """
    if not len(polygon):
        return polygon
    gap = side * (polygon[:, axis] - level)
    after, gap_after = np.roll(polygon, -1, axis=0), np.roll(gap, -1)
    crossing = gap * gap_after < 0.0
    share = np.divide(gap, gap - gap_after, out=np.zeros_like(gap), where=crossing)
    points = np.stack([polygon, polygon + share[:, None] * (after - polygon)], axis=1)
    points[crossing, 1, axis] = level
    return points[np.column_stack([gap >= 0.0, crossing])]


def _integral(piece: Array, temperature: float) -> float:
    """Integral of exp(-U / temperature) over a piece (k, 2) of a cell, by signed triangles from its first corner."""
    origin = piece[0]
    a, b = piece[1:-1] - origin, piece[2:] - origin
    area = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]  # twice the signed area
    u, w = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS
    # (u, v) in the unit square goes to u (a + v (b - a)), which scales areas by u times that
    rays = a[:, None] + u[:, None] * (b - a)[:, None]  # (triangles, v, 2)
    points = origin + u[:, None, None] * rays[:, None]  # (triangles, u, v, 2)
    energy, gradient = np.empty(points.size // 2), np.empty((points.size // 2, 2))
    _evaluate(points.reshape(-1, 2), energy, gradient)
    heights = np.exp(-energy / temperature).reshape(len(a), len(u), len(u))
    return float(area @ np.einsum("kij,i,j->k", heights, w * u, w))


@njit(cache=True)
def _evaluate(position: Array, energy: Array, gradient: Array) -> None:
    """Fill energy (n,) and gradient (n, 2) at position (n, 2)."""
    turn = 2.0 * math.pi
    for row in range(position.shape[0]):
        square = 0.0
        waves = 0.0
        for j in range(2):
            x = position[row, j]
            square += x * x
            waves += math.cos(turn * x)
            gradient[row, j] = 0.4 * x + 2.0 * turn * math.sin(turn * x)
        value = 0.2 * square - 2.0 * waves
        if square > FAR:
            value += square - FAR
            for j in range(2):
                gradient[row, j] += 2.0 * position[row, j]
        energy[row] = value
