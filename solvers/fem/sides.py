"""Products of gradients in each cell, by differences between its corners."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from numba import njit

from invsamp.solvers.fem.contract import Array, Numbers

#: Unsigned numbers are not looked at for being negative.
Ends = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Sides:
    """Integrals of grad u . grad v: weighted sums, over a cell's pairs of corners, of the change of u times that of v.

    A triangle's pairs are its sides; a parallelogram's, its sides and diagonals.
    """

    first: Ends  # (c, pairs), nodes
    second: Ends
    weights: Array  # (c, pairs)

    @classmethod
    def make(cls, cells: Numbers, stiffness: Array) -> Sides:
        """From node numbers (c, corners) and element matrices (c, corners, corners), whose rows add up to zero."""
        first, second = np.array(list(combinations(range(cells.shape[1]), 2))).T
        ends = [np.ascontiguousarray(cells[:, corners], dtype=np.uint32) for corners in (first, second)]
        return cls(ends[0], ends[1], np.ascontiguousarray(-stiffness[:, first, second]))

    def products(self, u: Array, v: Array) -> Array:
        """Integrals over the cells, summed over s, shape (c, k), for u (s, n, k) or (s, n, 1) and v (s, n, k)."""
        products = np.zeros((len(self.weights), v.shape[2]))
        u, v = np.ascontiguousarray(u), np.ascontiguousarray(v)
        if v.shape[2] == 1:
            _one(self.first, self.second, self.weights, u[:, :, 0], v[:, :, 0], products.ravel())
        else:
            _block(self.first, self.second, self.weights, u, v, products)
        return products


@njit(cache=True)
def _one(first, second, weights, u, v, products):  # type: ignore[no-untyped-def]
    for s in range(len(v)):
        for cell in range(len(weights)):
            total = 0.0
            for pair in range(weights.shape[1]):
                a, b = first[cell, pair], second[cell, pair]
                total += weights[cell, pair] * (u[s, a] - u[s, b]) * (v[s, a] - v[s, b])
            products[cell] += total


@njit(cache=True)
def _block(first, second, weights, u, v, products):  # type: ignore[no-untyped-def]
    for s in range(len(v)):
        for cell in range(len(weights)):
            for pair in range(weights.shape[1]):
                a, b, weight = first[cell, pair], second[cell, pair], weights[cell, pair]
                for k in range(v.shape[2]):
                    q = min(k, u.shape[2] - 1)
                    products[cell, k] += weight * (u[s, a, q] - u[s, b, q]) * (v[s, a, k] - v[s, b, k])
