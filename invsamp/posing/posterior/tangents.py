r"""A posterior's energy at one position, with products of the misfit's Gauss-Newton matrix by tangents of the model.

Let y be the observations, J their derivatives by the positions, and W the second derivatives of the misfit by y. A
product with a vector v is :math:`J^T W J v`: one tangent and one adjoint solve, with the factors of the solve for y.
Unknown parameters of the noise add a small block. See `invsamp.posing.posterior.gauss_newton`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.posing.compiled import density_loops
from invsamp.posing.compiled.density_loops import Posed
from invsamp.posing.forward_models.guarded_model import GuardedModel
from invsamp.posing.noise.bound_likelihood import BoundNoise
from invsamp.posing.posterior import gauss_newton
from invsamp.posing.transforms.univariate import Coordinates
from invsamp.protocols import Array, Linearized

#: Of central differences of theta along a direction, where parameters depend on others; nothing is solved for them.
STEP = 1e-5


class Chain(NamedTuple):
    """How theta depends on the positions, at one of them."""

    position: Array  # (d,)
    derivative: Array  # (1, d) of theta, each by its own position
    theta: Callable[[Array], Array] | None  # at positions (k, d), where it is more than these derivatives
    back: Callable[[Array], Array]  # slopes by theta (1, k, width) -> slopes before the derivative (1, k, d)
    columns: slice | npt.NDArray[np.intp]  # of theta that the model gets

    def along(self, vectors: Array) -> Array:
        """Changes of what the model gets (1, k, p) along directions of the positions (k, d)."""
        if self.theta is None:
            return (vectors * self.derivative)[None, :, self.columns]
        step = STEP / np.maximum(np.abs(vectors).max(axis=1, initial=0.0, keepdims=True), 1e-300)
        ends = self.theta(np.concatenate([self.position + step * vectors, self.position - step * vectors]))
        change = (ends[: len(vectors)] - ends[len(vectors) :]) / (2.0 * step)
        return change[None, :, self.columns]

    def pulled(self, slopes: Array, width: int) -> Array:
        """Slopes by the positions (k, d) from slopes by what the model gets (1, k, p)."""
        whole = np.zeros((*slopes.shape[:2], width))
        whole[..., self.columns] = slopes
        return np.asarray(self.back(whole)[0] * self.derivative)


def beyond(dimension: int) -> Linearized:
    """Where there is no energy."""
    return Linearized(np.inf, np.zeros(dimension), np.zeros_like, lambda: np.zeros((0, dimension)))


def linearized(
    noise: BoundNoise,
    coordinates: Coordinates,
    unknowns: npt.NDArray[np.intp],
    model: GuardedModel,
    chain: Chain,
    posed: Posed,
) -> Linearized:
    """At one position inside the domain; ``posed`` is written over.

    ``unknowns`` are the columns that the noise depends on.
    """
    theta, derivative, value, slope, jacobian_slope, _, _ = posed
    width = theta.shape[1]
    y, jvp, vjp = model.tangent(np.ascontiguousarray(theta[:, chain.columns]))
    if not np.isfinite(y).all():
        return beyond(len(chain.position))
    with np.errstate(all="ignore"):
        by_data = np.zeros(theta.shape)
        by_y = noise.accumulate(theta, y, value, by_data)
        by_data[:, chain.columns] += vjp(by_y[:, None])[:, 0]
        slope += chain.back(by_data[:, None])[:, 0]
    density_loops.finish(value, slope, derivative, jacobian_slope)
    if not np.isfinite(value[0]):
        return beyond(len(chain.position))
    every = np.arange(noise.size)[None]
    bends = noise.bends(theta, y[:, noise.places], every)
    weights = np.zeros(y.shape[1])
    weights[noise.places] = np.where(np.isfinite(bends), np.maximum(bends, 0.0), 0.0)[0]
    block = np.zeros((0, 0))
    if len(unknowns):
        block = gauss_newton.of_unknowns(noise, coordinates, unknowns, chain.position[None], y)[0]

    def product(vectors: Array) -> Array:
        found = chain.pulled(vjp(jvp(chain.along(vectors)) * weights), width)
        if len(unknowns):
            found[:, unknowns] += vectors[:, unknowns] @ block
        return found

    def rows() -> Array:
        units = np.zeros((1, noise.size, y.shape[1]))
        units[0, np.arange(noise.size), noise.places] = np.sqrt(weights[noise.places])
        found = chain.pulled(vjp(units), width)
        if not len(unknowns):
            return found
        values, vectors = np.linalg.eigh(block)
        more = np.zeros((len(unknowns), found.shape[1]))
        more[:, unknowns] = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        return np.concatenate([found, more])

    return Linearized(float(value[0]), slope[0], product, rows)
