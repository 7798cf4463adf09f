"""Noise of data some of which are outliers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from invsamp.arguments import instance, store, wrong
from invsamp.expression import Value
from invsamp.posing.noise.base import Link, Noise, quantity
from invsamp.protocols import Array


@dataclass(frozen=True)
class MixtureNoise(Noise):
    """Each datum has one noise, or with some probability another: a robust one for outliers.

    .. math:: p(d \\mid y) = (1 - f)\\, p_1(d \\mid y) + f\\, p_2(d \\mid y)

    Parameters
    ----------
    noise, outliers : Noise
        Of data that are independent, such as ``GaussianNoise(0.1)`` and ``GaussianNoise(10)``.
    fraction : float, array_like or str
        Probability f of an outlier, in (0, 1): numbers, the name of a parameter of the prior, or a formula.

    Raises
    ------
    ValueError
        If a number is not in (0, 1), or a noise is none, or makes data that depend on each other.

    Examples
    --------
    >>> import invsamp as iv
    >>> noise = iv.MixtureNoise(iv.GaussianNoise(0.1), iv.GaussianNoise(5.0), fraction=0.05)  # 5% outliers
    >>> posterior = iv.Posterior(iv.Prior(a=iv.Normal(0.0, 1.0)), lambda a: a, data=[3.0], noise=noise)
    >>> posterior.log_likelihood([[0.0]]).round(3)
    array([[-5.704]])
    """

    noise: Noise
    outliers: Noise
    fraction: npt.ArrayLike | str

    def __post_init__(self) -> None:
        for name in ("noise", "outliers"):
            part = instance(name, getattr(self, name), Noise, "a noise such as GaussianNoise(0.1)")
            if not part.independent:
                raise wrong(name, "one of independent data", part)
        store(self, fraction=quantity("fraction", self.fraction, above=0.0, below=1.0))

    @property
    def quantities(self) -> Mapping[str, object]:
        return {"fraction": self.fraction} | {f"{name}.{key}": v for name, key, v in self._of_parts("quantities")}

    @property
    def limits(self) -> Mapping[str, tuple[float, float]]:
        return {"fraction": (0.0, 1.0)} | {f"{name}.{key}": v for name, key, v in self._of_parts("limits")}

    @property
    def link(self) -> Link:
        """That of the first noise, unless it has none."""
        return self.noise.link if self.noise.link != "identity" else self.outliers.link

    def saturated(self, data: Array, *values: Array) -> Array:
        """Those of the first noise."""
        return self.noise.saturated(data, *self._split(values)[1])

    def _of_parts(self, what: str) -> list[tuple[str, str, Value]]:
        parts = {"noise": self.noise, "outliers": self.outliers}
        return [(name, key, value) for name, part in parts.items() for key, value in getattr(part, what).items()]

    def bind(self, shape: tuple[int, ...], chosen: npt.NDArray[np.intp]) -> Noise:
        """The noise of the data ``chosen``, indices (m,) in C order, of all those of this shape."""
        return replace(self, noise=self.noise.bind(shape, chosen), outliers=self.outliers.bind(shape, chosen))

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Which of the data can come with both."""
        return self.noise.accepts(data) & self.outliers.accepts(data)

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihood per datum and its derivatives with respect to y and all quantities, each (batch, m)."""
        fraction, first, second = self._split(values)
        one, *one_slopes = self.noise.evaluate(y, data, *first)
        other, *other_slopes = self.outliers.evaluate(y, data, *second)
        value = np.logaddexp(np.log1p(-fraction) + one, np.log(fraction) + other)
        by_one, by_other = np.exp(one - value), np.exp(other - value)
        # by their probabilities: one of a datum that this noise cannot have given is 0 to the bit
        one_slopes = [_share((1.0 - fraction) * by_one, slope) for slope in one_slopes]
        other_slopes = [_share(fraction * by_other, slope) for slope in other_slopes]
        by_y = one_slopes[0] + other_slopes[0]
        return value, by_y, by_other - by_one, *one_slopes[1:], *other_slopes[1:]

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, shape (batch, m)."""
        fraction, first, second = self._split(values)
        outlier = rng.random(y.shape) < fraction
        return np.where(outlier, self.outliers.sample(rng, y, *second), self.noise.sample(rng, y, *first))

    def _split(self, values: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...], tuple[Array, ...]]:
        count = 1 + len(self.noise.quantities)
        return values[0], values[1:count], values[count:]


def _share(weight: Array, slope: Array) -> Array:
    """Their product: 0 where a datum cannot be of this noise, however steep its density is there."""
    return np.where(weight == 0.0, 0.0, weight * slope)
