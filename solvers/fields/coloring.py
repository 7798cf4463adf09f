r"""A field given its range and sd, as what makes it of white noise: :math:`u = m + D\, C^{-1/2} S^{-\alpha/2} z`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fields.operator import Power


class Settings(Protocol):
    """Properties of a field that its coloring needs."""

    @property
    def mean(self) -> Array:
        """At the nodes, (n,)."""

    @property
    def smoothness(self) -> float:
        """Of Matern's covariance."""


class MaternColoring:
    """From white coordinates (batch, n), standard normal, to the field's values at the nodes, and back.

    Parameters
    ----------
    power : Power
        S^(-alpha/2).
    scale : array, shape (n,)
        D, without an unknown sd.
    field : MaternField
    given : mapping from "range" and "sd" to float
        Of what is unknown.
    """

    def __init__(self, power: Power, scale: Array, field: Settings, given: Mapping[str, float]) -> None:
        self.power, self.given, self.mean = power, given, field.mean
        self.scale = scale * given.get("sd", 1.0)
        self.root = power.assembled.root
        self._per_range = 1.0 / math.sqrt(8.0 * field.smoothness)
        self._exponent = 0.5 * power.assembled.dimension

    def color(self, white: Array) -> Array:
        """Values (batch, n) of white coordinates (batch, n)."""
        return self.mean + (self.scale / self.root) * self.power.apply(white.T).T

    def whiten(self, values: Array) -> Array:
        """White coordinates (batch, n) of values (batch, n)."""
        return np.ascontiguousarray(self.power.inverse(((values - self.mean) * (self.root / self.scale)).T).T)

    def pullback(self, white: Array, cotangents: Array) -> tuple[Array, Array]:
        """Derivatives of each cotangent's product with the values, at white (batch, n).

        Parameters
        ----------
        white : array, shape (batch, n)
        cotangents : array, shape (batch, q, n)

        Returns
        -------
        array, shape (batch, q, n)
            In the white coordinates.
        array, shape (batch, q, k)
            In what is unknown of range and sd, in this order.
        """
        batch, q, n = cotangents.shape
        flat = (cotangents * (self.scale / self.root)).reshape(batch * q, n).T
        back = self.power.apply(flat)
        slopes = np.empty((batch * q, len(self.given)))
        if self.given:
            columns = np.repeat(white, q, axis=0).T
            value = (back * columns).sum(axis=0)
            for k, key in enumerate(self.given):
                if key == "sd":
                    slopes[:, k] = value / self.given["sd"]
                else:
                    slopes[:, k] = self.power.slope(columns, flat) * self._per_range
                    slopes[:, k] += self._exponent * value / self.given["range"]
        return back.T.reshape(batch, q, n), slopes.reshape(batch, q, len(self.given))

    def log_density(self, values: Array) -> tuple[Array, Array, Array]:
        """Log density (batch,) of values (batch, n), and its derivatives, in these and in what is unknown (batch, k).

        Minus infinity where the precision matrix is not positive definite.
        """
        batch, n = values.shape
        if not self.power.good:
            return np.full(batch, -np.inf), np.zeros((batch, n)), np.zeros((batch, len(self.given)))
        white = self.whiten(values)
        constant = -0.5 * n * math.log(2.0 * math.pi) - self.log_determinant
        by_values = -(self.root / self.scale) * self.power.inverse(white.T).T
        by_unknown = np.empty((batch, len(self.given)))
        if self.given:
            # the white coordinates of given values move by -T^-1 dT white
            pulled = self.pullback(white, -by_values[:, None])[1][:, 0]
            by_unknown[:] = pulled - np.array([self._log_determinant_slope(key) for key in self.given])
        return constant - 0.5 * (white**2).sum(axis=1), by_values, by_unknown

    @property
    def log_determinant(self) -> float:
        """Of the map from white coordinates to values."""
        return float(np.log(self.scale / self.root).sum()) + self.power.log_determinant()

    def _log_determinant_slope(self, key: str) -> float:
        size = len(self.root)
        if key == "sd":
            return size / self.given["sd"]
        through = self.power.log_determinant_slope() * self._per_range
        return through + size * self._exponent / self.given["range"]
