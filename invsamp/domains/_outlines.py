"""Curves to draw: closed, and counter-clockwise around what they bound."""

from __future__ import annotations

import contourpy
import numpy as np
import numpy.typing as npt

from invsamp.domains import _members
from invsamp.domains._edge_grid import edge_grid
from invsamp.domains._reflecting import Member, PackedFaces
from invsamp.domains.contract import Array

#: Points along each side of a view.
RESOLUTION = 800


def view_points(view: tuple[npt.ArrayLike, npt.ArrayLike], resolution: int) -> tuple[Array, Array, Array]:
    """Coordinates (k,) along both sides of a view, and all points (k^2, 2), the first coordinate varying fastest."""
    (left, bottom), (right, top) = (np.asarray(corner, dtype=float) for corner in view)
    x, y = np.linspace(left, right, resolution), np.linspace(bottom, top, resolution)
    return x, y, np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def level_curves(x: Array, y: Array, depth: Array) -> list[Array]:
    """Closed curves (k, 2) around where `depth` (len(y), len(x)) is positive."""
    # a margin outside closes the curves at the edge of the view
    z = np.pad(depth, 1, constant_values=-np.abs(depth).max() - 1e-300)
    dx, dy = 1e-9 * (x[-1] - x[0]), 1e-9 * (y[-1] - y[0])
    x, y = np.concatenate([[x[0] - dx], x, [x[-1] + dx]]), np.concatenate([[y[0] - dy], y, [y[-1] + dy]])
    curves = contourpy.contour_generator(x, y, z).lines(0.0)
    return [np.asarray(curve)[:-1] for curve in curves if len(curve) > 3]


def shared_outline(outlines: list[list[Array]], view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
    """Curves around what several lists of curves all enclose, to the resolution of a figure."""
    if not outlines:
        return []
    x, y, points = view_points(view, RESOLUTION)
    members = [Member(_members.EDGES, (0, 1), 0, numbers, indices) for indices, numbers in map(edge_grid, outlines)]
    inside = PackedFaces(members).contains(points).reshape(len(y), len(x))
    return level_curves(x, y, np.where(inside, 0.5, -0.5))
