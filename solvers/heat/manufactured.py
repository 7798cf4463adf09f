"""A solution of the heat equation in closed form, with the source that makes it one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import real, store
from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.field_contract import FieldValues, InRegion, ScalarUnknowns, Unknown, checked_pair

#: Orders of differentiation to the center (in x, in y) of a Gaussian -> coefficient.
Expansion = Mapping[tuple[int, int], float]


@dataclass(frozen=True)
class DecayingGaussian:
    r"""Manufactured solution of the f-reSGLD paper, around an unknown center c.

    .. math:: u^*(x, t) = \frac{e^{-t}}{2\pi s^2} \exp\Bigl(-\frac{|x-c|^2}{2 s^2}\Bigr), \qquad
              f = u^*_t - \kappa \Delta u^*,

    with :math:`u^*` as boundary values: use it with ``boundary="exact"``.

    Parameters
    ----------
    width : float, > 0
        The standard deviation s.
    center : pair of float or str

    Raises
    ------
    ValueError
        If the width is not positive, or the center is no pair.

    Notes
    -----
    For the setting of Li, Lin, Zhang and Zhou (2023), section 5.2. The closed form is inferred from their datum: with
    s = 0.1, at distance 0.1 and time 0.03, it is 9.368, as published.
    """

    width: float = 0.1
    center: tuple[Unknown, Unknown] = ("x", "y")

    def __post_init__(self) -> None:
        store(self, width=real("width", self.width, above=0), center=checked_pair("center", self.center))

    def value(self, distance: npt.ArrayLike, when: npt.ArrayLike) -> Array:
        """The solution at a distance from the center and a time."""
        s2 = self.width**2
        return np.exp(-np.asarray(when) - np.square(distance) / (2 * s2)) / (2 * math.pi * s2)

    def initial(self) -> GaussianDerivatives:
        """The solution at time 0."""
        return GaussianDerivatives(self.width, self.center, {(0, 0): self._height})

    def source(self, conductivity: float) -> GaussianDerivatives:
        """The source at time 0."""
        curvature = -conductivity * self._height
        return GaussianDerivatives(
            self.width, self.center, {(0, 0): -self._height, (2, 0): curvature, (0, 2): curvature}
        )

    @staticmethod
    def profile(times: Array) -> Array:
        """Factor of solution and source at ``times``."""
        return np.exp(-times)

    @property
    def _height(self) -> float:
        return 1 / (2 * math.pi * self.width**2)


@dataclass(frozen=True)
class GaussianDerivatives(ScalarUnknowns):
    """Sum of derivatives to the center of exp(-|x - c|^2 / (2 width^2)): a `invsamp.solvers.fem.fields.Field`."""

    width: float
    center: tuple[Unknown, Unknown]
    expansion: Expansion

    @property
    def _slots(self) -> tuple[Unknown, Unknown]:
        return self.center

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """The field at points (n, 2)."""
        return _Derivatives(self, np.asarray(points, dtype=float))


@dataclass(frozen=True, eq=False)
class _Derivatives:
    field: GaussianDerivatives
    points: Array

    def values(self, theta: Array) -> Array:
        hx, hy = self._profiles(theta, 0)
        return np.sum([c * hx[i] * hy[j] for (i, j), c in self.field.expansion.items()], axis=0)

    def pullback(self, theta: Array, cotangents: Array) -> Array:
        hx, hy = self._profiles(theta, 1)
        pulled = np.zeros((len(theta), len(self.field.parameters)))
        for axis, name in enumerate(self.field.center):
            if isinstance(name, str):
                terms = [c * hx[i + (axis == 0)] * hy[j + (axis == 1)] for (i, j), c in self.field.expansion.items()]
                pulled[:, self.field.parameters.index(name)] += np.sum(cotangents * np.sum(terms, axis=0), axis=1)
        return pulled

    def _profiles(self, theta: Array, more: int) -> Array:
        names = self.field.parameters
        center = [theta[:, names.index(c)] if isinstance(c, str) else np.full(len(theta), c) for c in self.field.center]
        order = max(map(max, self.field.expansion)) + more
        away = self.points.T[:, None, :] - np.array(center)[:, :, None]
        return np.swapaxes(gaussian_derivatives(away, self.field.width**-2.0, order), 0, 1)


def gaussian_derivatives(away: Array, inverse: Array | float, order: int) -> Array:
    r"""Derivatives to the center c of the one-dimensional :math:`g = \exp(-(x-c)^2/(2w^2))`.

    Parameters
    ----------
    away : array
        x - c.
    inverse : float or array that broadcasts
        1 / w^2.
    order : int

    Returns
    -------
    array, shape (order + 1, *away.shape)
        :math:`h_k = \partial^k g/\partial c^k` by the Hermite recursion
        :math:`h_{k+1} = ((x - c) h_k - k h_{k-1})/w^2`.
    """
    h = np.empty((order + 1, *away.shape))
    slope = inverse * away
    np.exp(-0.5 * slope * away, out=h[0])
    for k in range(order):
        np.multiply(slope, h[k], out=h[k + 1])
        if k:
            h[k + 1] -= k * (inverse * h[k - 1])
    return h
