"""A noise tied to its data, and to the columns of theta that hold its scale where that is unknown."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance
from invsamp.contract import Array
from invsamp.posing import likelihood
from invsamp.posing.noise import Noise, ScaleFamily
from invsamp.posing.prior import Prior


class BoundNoise:
    """A noise with its data and the columns of theta that hold its scale.

    Parameters
    ----------
    noise : Noise
    data : ndarray of any shape
    prior : Prior

    Attributes
    ----------
    data : ndarray, shape (m,)
        The data, flattened in C order.
    size : int
        Number of data, m.

    Raises
    ------
    ValueError
        If the data are not finite, an unknown scale is no parameter of the prior or may be negative, or
        the scale does not broadcast to the data's shape.
    """

    def __init__(self, noise: Noise, data: Array, prior: Prior) -> None:
        instance("noise", noise, Noise, "a noise such as GaussianNoise(0.1)")
        noise.check_data(data)
        self.noise = noise
        self.shape = data.shape
        self.data = data.reshape(-1).copy()
        self.size = len(self.data)
        if self.size == 0:
            raise ValueError(f"data must hold at least one number, got shape {data.shape}")
        self.parameter = noise.parameter
        scale_shape = np.shape(noise.scale)
        if self.parameter is not None:
            prior.check_names("scale", [self.parameter])
            scale_shape = prior.shapes[self.parameter]
            self.columns = prior.slices[self.parameter]
            if np.any(prior.support[0][self.columns] < 0):
                raise ValueError(
                    f"{self.parameter} is the scale of the noise: its prior must have positive support, "
                    f"got {prior.distributions[self.parameter]!r}"
                )
        try:
            fits = np.broadcast_shapes(scale_shape, data.shape) == data.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"scale must broadcast to the data's shape {data.shape}, got shape {scale_shape}")
        count = math.prod(scale_shape)
        index = np.broadcast_to(np.arange(count).reshape(scale_shape), data.shape).reshape(-1)
        self._known, self.column_of_datum = np.empty(0), np.empty(0, dtype=np.intp)
        if self.parameter is None:
            self._known = np.asarray(noise.scale, dtype=float).reshape(-1)[index]
        else:
            self.column_of_datum = self.columns.start + index
        self._compiled = self._compile()

    def subset(self, indices: npt.NDArray[np.intp]) -> BoundNoise:
        """The same noise with the data ``indices`` (k,) alone."""
        part = copy.copy(self)
        part.data, part.shape, part.size = self.data[indices], (len(indices),), len(indices)
        if self.parameter is None:
            part._known = self._known[indices]  # noqa: SLF001 (its own class)
        else:
            part.column_of_datum = self.column_of_datum[indices]
        part._compiled = part._compile()  # noqa: SLF001
        return part

    def _compile(self) -> tuple[Any, ...] | None:
        """Arguments of the compiled loop; None for a class with its own `evaluate`, which may disagree with it."""
        noise = self.noise
        if not isinstance(noise, ScaleFamily) or type(noise).evaluate is not ScaleFamily.evaluate:
            return None
        return *noise.compiled, self.data, noise.log_data(self.data), self._known, self.column_of_datum

    def scale(self, theta: Array) -> Array:
        """Scale at theta (batch, dimension) of every datum, shape (batch, m) or (1, m)."""
        return self._known[None, :] if self.parameter is None else theta[:, self.column_of_datum]

    def evaluate(self, theta: Array, y: Array) -> tuple[Array, Array, Array]:
        """Log-likelihood per datum and its derivatives with respect to y and scale, each (batch, m)."""
        with np.errstate(all="ignore"):
            return self.noise.evaluate(y, self.data, self.scale(theta))

    def evaluate_at(self, theta: Array, y: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """As `evaluate`, for the data ``indices`` (batch, k) alone; ``y`` and all that is returned (batch, k)."""
        if self.parameter is None:
            scale = self._known.take(indices)
        else:
            scale = np.take_along_axis(theta, self.column_of_datum[indices], axis=1)
        with np.errstate(all="ignore"):
            return self.noise.evaluate(y, self.data.take(indices), scale)

    def accumulate(self, theta: Array, y: Array, value: Array, slope: Array) -> Array:
        """Add the log-likelihood to ``value`` (batch,) and its scale part to ``slope`` (batch, dimension), in place.

        Returns the derivative with respect to y, shape (batch, m), with 0 where it is not finite.
        """
        if self._compiled is not None:
            accumulate: Any = likelihood.accumulate
            return np.asarray(accumulate(*self._compiled, theta, np.ascontiguousarray(y), value, slope))
        log_likelihood, y_slope, scale_slope = self.evaluate(theta, y)
        value += log_likelihood.sum(axis=1)
        if self.parameter is not None:
            for i, column in enumerate(self.column_of_datum):
                slope[:, column] += scale_slope[:, i]
        return np.where(np.isfinite(y_slope), y_slope, 0.0)
