"""Products of gradients in each triangle, by differences along its sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.fem.contract import Array, Numbers


@dataclass(frozen=True, eq=False)
class Sides:
    """Integrals of grad u . grad v: weighted sums over a triangle's sides of the change of u times that of v."""

    triangles: npt.NDArray[np.uint32]  # (c, 3); unsigned numbers are not looked at for being negative
    weights: Array  # (c, 3), of the sides 01, 12, 20

    @classmethod
    def make(cls, triangles: Numbers, stiffness: Array) -> Sides:
        """From node numbers (c, 3) and element matrices (c, 3, 3), whose rows add up to zero."""
        weights = -np.stack([stiffness[:, 0, 1], stiffness[:, 1, 2], stiffness[:, 2, 0]], axis=1)
        return cls(triangles.astype(np.uint32), np.ascontiguousarray(weights))

    def products(self, u: Array, v: Array) -> Array:
        """Integrals over the triangles, summed over s, shape (c, k), for u (s, n, k) or (s, n, 1) and v (s, n, k)."""
        products = np.zeros((len(self.triangles), v.shape[2]))
        u, v = np.ascontiguousarray(u), np.ascontiguousarray(v)
        if v.shape[2] == 1:
            _one(self.triangles, self.weights, u[:, :, 0], v[:, :, 0], products.ravel())
        else:
            _block(self.triangles, self.weights, u, v, products)
        return products


@njit(cache=True)
def _one(triangles, weights, u, v, products):  # type: ignore[no-untyped-def]
    for s in range(len(v)):
        for cell in range(len(triangles)):
            a, b, c = triangles[cell, 0], triangles[cell, 1], triangles[cell, 2]
            products[cell] += (
                weights[cell, 0] * (u[s, a] - u[s, b]) * (v[s, a] - v[s, b])
                + weights[cell, 1] * (u[s, b] - u[s, c]) * (v[s, b] - v[s, c])
                + weights[cell, 2] * (u[s, c] - u[s, a]) * (v[s, c] - v[s, a])
            )


@njit(cache=True)
def _block(triangles, weights, u, v, products):  # type: ignore[no-untyped-def]
    for s in range(len(v)):
        for cell in range(len(triangles)):
            a, b, c = triangles[cell, 0], triangles[cell, 1], triangles[cell, 2]
            for k in range(v.shape[2]):
                q = min(k, u.shape[2] - 1)
                products[cell, k] += (
                    weights[cell, 0] * (u[s, a, q] - u[s, b, q]) * (v[s, a, k] - v[s, b, k])
                    + weights[cell, 1] * (u[s, b, q] - u[s, c, q]) * (v[s, b, k] - v[s, c, k])
                    + weights[cell, 2] * (u[s, c, q] - u[s, a, q]) * (v[s, c, k] - v[s, a, k])
                )
