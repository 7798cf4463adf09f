r"""Gauss-Newton matrices of a posterior's energy, in the coordinates in which a sampler moves.

Of a misfit :math:`\sum_i \ell_i(y_i, \phi)` of observations y and of the noise's own unknowns :math:`\phi`,

.. math:: \nabla^2 \approx \sum_i \frac{\partial^2 \ell_i}{\partial y_i^2} \nabla y_i \nabla y_i^T
          + \sum_i \frac{\partial^2 \ell_i}{\partial \phi^2}

(Nocedal and Wright 2006, "Numerical optimization", section 10.3). Second derivatives of observations are left out, and
so are those by y and the noise's unknowns together, whose expectation is 0 where these are a scale. What is not
positive semidefinite is made so. Second derivatives of the noise are differences of its own slopes: nothing is solved.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.posing.noise.bound_likelihood import BoundNoise
from invsamp.posing.transforms.univariate import Coordinates
from invsamp.protocols import Array

#: Of differences in positions.
STEP = 1e-4


def of_misfit(
    noise: BoundNoise,
    coordinates: Coordinates,
    unknowns: npt.NDArray[np.intp],
    position: Array,
    theta: Array,
    y: Array,
    slopes: Array,
) -> Array:
    """Matrices (n, d, d) of the misfit.

    Parameters
    ----------
    noise : BoundNoise
        Of independent data.
    coordinates : Coordinates
        One for each column.
    unknowns : ndarray of int
        Columns that the noise depends on.
    position, theta : ndarray, shape (n, d)
    y : ndarray, shape (n, m)
        All observations.
    slopes : ndarray, shape (n, m, d)
        Their derivatives with respect to the positions.
    """
    data = np.broadcast_to(np.arange(noise.size), (len(theta), noise.size))
    bends = noise.bends(theta, y[:, noise.places], data)
    bends = np.where(np.isfinite(bends), np.maximum(bends, 0.0), 0.0)
    by_datum = slopes[:, noise.places]
    matrix = np.einsum("nk,nki,nkj->nij", bends, by_datum, by_datum, optimize=True)
    if len(unknowns):
        matrix[:, unknowns[:, None], unknowns] += of_unknowns(noise, coordinates, unknowns, position, y)
    return np.asarray(matrix)


def of_unknowns(
    noise: BoundNoise, coordinates: Coordinates, unknowns: npt.NDArray[np.intp], position: Array, y: Array
) -> Array:
    """The block (n, q, q) of the noise's unknowns, the observations held."""

    def slope(column: int, step: float) -> Array:
        moved = position.copy()
        moved[:, column] += step
        change = coordinates.evaluate(moved)
        value, by_theta = np.zeros(len(y)), np.zeros(position.shape)
        with np.errstate(all="ignore"):
            noise.accumulate(change.theta, y, value, by_theta)
            return -(by_theta * change.derivative)[:, unknowns]

    block = np.stack([slope(k, STEP) - slope(k, -STEP) for k in unknowns], axis=2) / (2.0 * STEP)
    block = np.where(np.isfinite(block), block, 0.0)
    values, vectors = np.linalg.eigh(0.5 * (block + block.transpose(0, 2, 1)))
    return np.asarray((vectors * np.maximum(values, 0.0)[:, None]) @ vectors.transpose(0, 2, 1))
