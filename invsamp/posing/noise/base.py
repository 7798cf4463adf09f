"""Contract of a noise model: the log-likelihood of every datum, its derivatives, and draws.

Extending: subclass `Noise`, and give `evaluate` and `sample`; docs/how-to/extend/extending.md has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, real
from invsamp.axis_labels import Axis, frozen, stated_axes
from invsamp.expression import Expression, Value
from invsamp.posing.compiled import likelihood_loops
from invsamp.protocols import Array

_NONE = np.empty(0, dtype=np.intp)

Link = Literal["identity", "log", "root", "arcsine"]


class Noise(ABC):
    """Distribution of data around noise-free values ``y``. A subclass has to define `evaluate` and `sample` alone.

    Both get the values of `quantities` after their other arguments, in their order. ``y`` has shape (batch, m); the
    data and the values have shapes that broadcast to it: (m,) and (1, m), or as ``y`` where each row has its own
    minibatch or its own value. What is missing or does not count is never among them.
    """

    #: What data must be, for the message where one is not what `accepts` takes.
    wanted: ClassVar[str] = "finite"
    #: Whether each datum's term depends on its own y alone. Minibatches need that.
    independent: ClassVar[bool] = True

    @property
    def quantities(self) -> Mapping[str, object]:
        """By name what may be unknown: numbers that broadcast to the data's shape, or a parameter of the prior."""
        return {}

    @property
    def labeled(self) -> Mapping[str, Sequence[Axis]]:
        """By name what came with labels, which have to be those of the data: its axes."""
        axes = {name: stated_axes(value, 0) for name, value in self.quantities.items()}
        return {name: found for name, found in axes.items() if found}

    @property
    def limits(self) -> Mapping[str, tuple[float, float]]:
        """Where a quantity may lie, for those that are not just positive."""
        return {}

    @property
    def link(self) -> Link:
        """Function of y that an emulator learns: where y may lie, the noise is about as large in it everywhere.

        "log" and "root" of y that have to be positive, "arcsine" of the root of a probability.
        """
        return "identity"

    @property
    def beside(self) -> npt.NDArray[np.intp]:
        """Outputs, counted in C order, that the noise uses beside those of its data.

        Where there are some, ``y`` has them after those of the data, in their order, and so has the derivative. Such a
        noise is not `independent`.
        """
        return _NONE

    @abstractmethod
    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihood of every datum, and the derivatives of their sum, each (batch, m).

        With respect to y, and to the value of each quantity at each datum. The log-likelihoods add up to that of all
        data, with all constants. What cannot be is NaN or minus infinity, without an exception.
        """

    @abstractmethod
    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Which of the data, an array in their own shape, can come with this noise."""
        return np.isfinite(data)

    def saturated(self, data: Array, *values: Array) -> Array:
        """The y that predict the data exactly, in the data's shape."""
        return data

    def log_likelihood(self, y: Array, data: Array, *values: Array) -> Array:
        """Log-likelihood of each datum given all others, (batch, m), for cross-validation."""
        return self.evaluate(y, data, *values)[0]

    def replicate(self, rng: np.random.Generator, y: Array, data: Array, *values: Array) -> Array:
        """Data that might have been observed instead, (batch, m): as `sample` unless the data inform about the noise.

        NaN among the data is missing.
        """
        return self.sample(rng, y, *values)

    def cumulant(self, rate: Array) -> Array | None:
        r"""Cumulant generating function of a datum's misfit, for data that come with this noise.

        :math:`\log E\, e^{r D}` at rates r (n,), +inf where there is no such mean. D is the datum's log-likelihood at a
        ``y`` that equals it, less that at the noise-free y. None where the distribution of D depends on y or on
        `quantities`, or is not known: then no one can say whether a model fits its data. That of m data is m times it;
        of data that depend on each other, it has to be.
        """
        return None

    def bind(self, shape: tuple[int, ...], chosen: npt.NDArray[np.intp]) -> Noise:
        """The noise of the data ``chosen``, indices (m,) in C order, of all those of this shape."""
        return self


class CompiledNoise(Noise):
    """Base of noises whose formulas are in `invsamp.posing.compiled.likelihood_loops`, with one quantity or none."""

    #: Number of the family there.
    family: ClassVar[int]

    @property
    def compiled(self) -> tuple[int, float, float]:
        """Family, shape parameter, and constant of one datum's log-likelihood, for the compiled loop."""
        return self.family, 0.0, 0.0

    def auxiliary(self, data: Array, value: Array) -> Array:
        """Values that the formulas need, computed once from the data, and from the quantity if it is known."""
        return data

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihood per datum and its derivatives with respect to y and the quantity, each (batch, m)."""
        value = np.asarray(values[0] if values else 1.0, dtype=float)
        shape = np.broadcast_shapes(np.shape(y), np.shape(data), value.shape)
        arrays = (y, data, self.auxiliary(np.asarray(data, dtype=float), value), value)
        full = [np.broadcast_to(np.asarray(array, dtype=float), shape).copy() for array in arrays]
        found: tuple[Array, ...] = likelihood_loops.evaluate(*self.compiled, *full)
        return found[: 2 + len(values)]


def quantity(name: str, value: object, above: float = 0.0, below: float | None = None) -> Value:
    """Numbers between limits as they are kept, the name of a parameter, or a formula of names; or a list of these."""
    if isinstance(value, str) and value:
        return value if value.isidentifier() else Expression(name, value).text
    if isinstance(value, list | tuple) and any(isinstance(entry, str) for entry in value):
        return tuple(_entry(f"{name}[{k}]", entry, above, below) for k, entry in enumerate(value))
    also = ", or the name of a parameter or a formula"
    return frozen(value, array(name, value, above=above, below=below, also=also))


def _entry(name: str, value: object, above: float, below: float | None) -> Value:
    if isinstance(value, str):
        return quantity(name, value, above, below)
    return real(name, value, above=above, below=below, also=", or the name of a parameter or a formula")


def half_square_cumulant(rate: Array) -> Array:
    """`Noise.cumulant` of half the square of a standard normal number."""
    return np.where(rate < 1.0, -0.5 * np.log1p(-np.where(rate < 1.0, rate, 0.0)), np.inf)
