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
        """Integrals over the triangles, shape (c, k), for fields (n, k)."""
        products = np.empty((len(self.triangles), u.shape[1]))
        u, v = np.ascontiguousarray(u), np.ascontiguousarray(v)
        if u.shape[1] == 1:
            _one(self.triangles, self.weights, u.ravel(), v.ravel(), products.ravel())
        else:
            _block(self.triangles, self.weights, u, v, products)
        return products


@njit(cache=True)
def _one(triangles, weights, u, v, products):  # type: ignore[no-untyped-def]
    for cell in range(len(triangles)):
        a, b, c = triangles[cell, 0], triangles[cell, 1], triangles[cell, 2]
        products[cell] = (
            weights[cell, 0] * (u[a] - u[b]) * (v[a] - v[b])
            + weights[cell, 1] * (u[b] - u[c]) * (v[b] - v[c])
            + weights[cell, 2] * (u[c] - u[a]) * (v[c] - v[a])
        )


@njit(cache=True)
def _block(triangles, weights, u, v, products):  # type: ignore[no-untyped-def]
    for cell in range(len(triangles)):
        a, b, c = triangles[cell, 0], triangles[cell, 1], triangles[cell, 2]
        for k in range(u.shape[1]):
            products[cell, k] = (
                weights[cell, 0] * (u[a, k] - u[b, k]) * (v[a, k] - v[b, k])
                + weights[cell, 1] * (u[b, k] - u[c, k]) * (v[b, k] - v[c, k])
                + weights[cell, 2] * (u[c, k] - u[a, k]) * (v[c, k] - v[a, k])
            )
