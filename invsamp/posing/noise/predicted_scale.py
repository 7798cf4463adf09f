"""Noise whose scale is itself an output of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, numbers, shown, store
from invsamp.axis_labels import Axis
from invsamp.posing.noise.base import Noise
from invsamp.posing.noise.continuous import ScaleFamily
from invsamp.protocols import Array


@dataclass(frozen=True, eq=False)
class PredictedScale(Noise):
    """Noise whose scale the model predicts, as one more output for each datum, or for several.

    The scale may then depend on anything that the model knows: on several states of a system, or on time. Where a
    predicted scale is not positive, the likelihood is zero. Minibatches of the data are refused.

    Parameters
    ----------
    noise : GaussianNoise, LogNormalNoise, StudentTNoise, LaplaceNoise or LogLaplaceNoise
        Its distribution. Its scale is a factor of the predicted one, and a number.
    outputs : array_like of int, shape (m,)
        Which output, counted in C order, is the scale of each of the m data of this noise, missing ones included.
        The data there are masked: nothing was observed.

    Raises
    ------
    ValueError
        For another noise, a scale with unknowns, or outputs that are no indices.

    Examples
    --------
    A model that returns two predictions and, in the third place, the standard deviation of both:

    >>> import numpy as np
    >>> import invsamp as iv
    >>> noise = iv.noise.PredictedScale(iv.GaussianNoise(1.0), outputs=[2, 2, 2])
    >>> model = iv.with_jacobian(
    ...     lambda theta: theta @ [[1.0, 2.0, 0.0]] + [[0.0, 0.0, 0.5]],
    ...     lambda theta: np.tile([[1.0], [2.0], [0.0]], (len(theta), 1, 1)),
    ... )
    >>> data = np.ma.array([0.1, 0.3, 0.0], mask=[False, False, True])
    >>> posterior = iv.Posterior(iv.Prior(a=iv.Normal(0, 1)), model, data, noise)
    >>> posterior.log_likelihood([[0.1]]).round(3)
    array([[-0.226, -0.246,  0.   ]])
    """

    noise: ScaleFamily
    outputs: npt.ArrayLike
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        instance("noise", self.noise, ScaleFamily, "a noise with a scale such as GaussianNoise(1.0)")
        if not _known(self.noise.scale) or not self.noise.independent:
            raise ValueError(f"noise must have a number as its scale and independent data, got {self.noise!r}")
        found = numbers("outputs", self.outputs)
        if found.ndim != 1 or not found.size or not (found == np.floor(found)).all() or (found < 0).any():
            raise ValueError(f"outputs must be indices of the model's outputs, one for each datum, got {shown(found)}")
        store(self, outputs=found.astype(np.intp))

    @property
    def wanted(self) -> str:  # type: ignore[override]
        return self.noise.wanted

    @property
    def labeled(self) -> Mapping[str, Sequence[Axis]]:
        """As in `invsamp.extending.Noise`."""
        return self.noise.labeled

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Which of the data can come with this noise."""
        return self.noise.accepts(data)

    @property
    def beside(self) -> npt.NDArray[np.intp]:
        """The outputs that are scales."""
        return np.asarray(self.outputs, dtype=np.intp)

    def bind(self, shape: tuple[int, ...], chosen: npt.NDArray[np.intp]) -> Noise:
        """The noise of the data ``chosen``, indices (m,) in C order, of all those of this shape."""
        if len(self.beside) != (size := math.prod(shape)):
            raise ValueError(f"outputs must have one index for each of the {size} data, got {len(self.beside)}")
        factor = np.broadcast_to(np.asarray(self.noise.scale, dtype=float), shape).reshape(-1)
        return _Bound(self.noise, factor[chosen], self.beside[chosen])

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """As of data of one axis; see `invsamp.extending.Noise`."""
        return self.bind(data.shape[-1:], np.arange(data.shape[-1])).evaluate(y, data)

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """As of data of one axis; see `invsamp.extending.Noise`."""
        size = y.shape[-1] // 2
        return self.bind((size,), np.arange(size)).sample(rng, y)


def _known(scale: object) -> bool:
    entries = scale if isinstance(scale, tuple) else (scale,)
    return not any(isinstance(entry, str) for entry in entries)


@dataclass(frozen=True, eq=False)
class _Bound(Noise):
    """The same for chosen data; ``factor`` (m,) of their scales."""

    noise: ScaleFamily
    factor: Array
    outputs: npt.NDArray[np.intp]
    independent: ClassVar[bool] = False

    @property
    def beside(self) -> npt.NDArray[np.intp]:
        return self.outputs

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihood (batch, m), and its derivatives with respect to the m predictions and the m scales."""
        predicted, scale = np.split(y, 2, axis=-1)
        zero = scale <= 0.0  # NaN goes on, as NaN
        value, by_y, by_scale = self.noise.evaluate(predicted, data, self.factor * np.where(zero, 1.0, scale))
        derivatives = np.concatenate([by_y, self.factor * by_scale], axis=-1)
        return np.where(zero, -np.inf, value), np.where(np.tile(zero, 2), 0.0, derivatives)

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        predicted, scale = np.split(y, 2, axis=-1)
        return self.noise.sample(rng, np.ascontiguousarray(predicted), self.factor * scale)
