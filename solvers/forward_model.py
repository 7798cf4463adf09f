"""Functions that forward models of several solvers share: checks of a batch, and its cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from invsamp.arguments import numbers

Array = npt.NDArray[np.float64]
#: Cotangents (batch, m) of observations -> gradients (batch, p).
Product = Callable[[Array], Array]
#: Observations (batch, m), and both products of the Jacobian with k vectors at each row: directions (batch, k, p) ->
#: (batch, k, m), and cotangents (batch, k, m) -> (batch, k, p). What a row was solved by is kept for the products.
Tangent = tuple[Array, Product, Product]


class Linearized(Protocol):
    """A forward model with derivatives."""

    def linearize(self, theta: Array) -> tuple[Array, Product]:
        """Observations (batch, m) and the vector-Jacobian product."""


def checked_theta(theta: object, width: int) -> Array:
    """Theta as an array (batch, width); ValueError for another shape."""
    values = numbers("theta", theta)
    if values.ndim != 2 or values.shape[1] != width:
        raise ValueError(f"theta must have shape (batch, {width}), got {values.shape}")
    return values


def checked_product(product: Product, shape: tuple[int, ...]) -> Product:
    """A vector-Jacobian product that refuses cotangents of another shape."""

    def checked(cotangent: Array) -> Array:
        cotangent = np.asarray(cotangent, dtype=float)
        if cotangent.shape != shape:
            raise ValueError(f"cotangent must have shape {shape}, got {cotangent.shape}")
        return product(cotangent)

    return checked


def checked_tangent(tangent: Tangent, shape: tuple[int, int]) -> Tangent:
    """A tangent whose products refuse other shapes; ``shape`` is that of theta (batch, p)."""
    y, jvp, vjp = tangent

    def checked(product: Product, what: str, width: int) -> Product:
        def of(vectors: Array) -> Array:
            vectors = np.asarray(vectors, dtype=float)
            if vectors.ndim != 3 or (len(vectors), vectors.shape[2]) != (shape[0], width):
                raise ValueError(f"{what} must have shape ({shape[0]}, k, {width}), got {vectors.shape}")
            return product(vectors)

        return of

    return y, checked(jvp, "directions", shape[1]), checked(vjp, "cotangents", y.shape[1])


def tangent_of(y: Array, jacobian: Array) -> Tangent:
    """The products of given Jacobians (batch, m, p)."""
    return y, lambda directions: directions @ jacobian.transpose(0, 2, 1), lambda cotangents: cotangents @ jacobian


def seconds_per_evaluation(model: Linearized, theta: Array) -> float:
    """Seconds that observations and one gradient take, the least of three."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        y, vjp = model.linearize(theta)
        vjp(np.ones_like(y))
        seconds.append(time.perf_counter() - began)
    return min(seconds)
