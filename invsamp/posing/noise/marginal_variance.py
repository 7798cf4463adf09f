"""Gaussian noise of unknown variance that is integrated over in closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special

from invsamp.arguments import instance, real, store
from invsamp.posing.noise.base import Noise
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.protocols import Array

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class MarginalNoise(Noise):
    r"""Gaussian noise times an unknown factor, common to all data, that is no parameter: it is integrated over.

    .. math:: d = y + \sigma e, \qquad \sigma^2 \sim \text{InverseGamma}(\text{concentration}, \text{rate})

    With q the squared length of the residuals in units of the noise, the m data have a multivariate Student's t of
    density proportional to :math:`(\text{rate} + q/2)^{-\text{concentration} - m/2}`. They depend on each other, so
    that minibatches are refused. Predictions draw the factor given the data.

    Parameters
    ----------
    noise : GaussianNoise
        Of e, with its scale, known or not, and its covariance.
    concentration, rate : float, > 0
        Of 1 / sigma^2, which is Gamma distributed: the prior knows as much as ``2 * concentration`` data whose mean
        square is ``rate / concentration``.

    Raises
    ------
    ValueError
        If a number is not positive, or it is another noise.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.noise.MarginalNoise(iv.GaussianNoise(1.0), concentration=2.0, rate=0.1)
    MarginalNoise(noise=GaussianNoise(scale=1.0), concentration=2.0, rate=0.1)
    """

    noise: GaussianNoise
    concentration: float
    rate: float
    independent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        instance("noise", self.noise, GaussianNoise, "a GaussianNoise")
        for name in ("concentration", "rate"):
            store(self, **{name: real(name, getattr(self, name), above=0)})

    @property
    def quantities(self) -> Mapping[str, object]:
        return self.noise.quantities

    @property
    def limits(self) -> Mapping[str, tuple[float, float]]:
        return self.noise.limits

    def bind(self, shape: tuple[int, ...], chosen: npt.NDArray[np.intp]) -> Noise:
        """The noise of the data ``chosen``, indices (m,) in C order, of all those of this shape."""
        return _Bound(self, shape, chosen)

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """As of data of one axis; see `invsamp.extending.Noise`."""
        return self.bind(y.shape[1:], np.arange(y.shape[1])).evaluate(y, data, *values)

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """As of data of one axis; see `invsamp.extending.Noise`."""
        return self.bind(y.shape[1:], np.arange(y.shape[1])).sample(rng, y, *values)


class _Bound(Noise):
    """The same for chosen data."""

    independent: ClassVar[bool] = False

    def __init__(self, marginal: MarginalNoise, shape: tuple[int, ...], chosen: npt.NDArray[np.intp]) -> None:
        self._marginal, self._shape, self._chosen = marginal, shape, chosen
        self._noise = marginal.noise.bind(shape, chosen)
        self._a, self._b = marginal.concentration, marginal.rate

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihoods, the same for all data, and their derivatives; see `invsamp.extending.Noise`."""
        a, b, m = self._a, self._b, y.shape[1]
        square = self._square(y, data, *values)
        precision = (a + 0.5 * m) / (b + 0.5 * square)  # mean of 1 / sigma^2 given the data
        # with residuals as long as this, the Gaussian's derivatives are those of the mean of 1 / sigma^2
        root = np.sqrt(precision)
        parts, by_y, *slopes = self._noise.evaluate(y, y + root * (data - y), *values)
        total = parts.sum(axis=1, keepdims=True) + 0.5 * precision * square
        total += special.gammaln(a + 0.5 * m) - special.gammaln(a) + a * math.log(b)
        total -= (a + 0.5 * m) * np.log(b + 0.5 * square)
        return np.broadcast_to(total / m, y.shape).copy(), root * by_y, *slopes

    def log_likelihood(self, y: Array, data: Array, *values: Array) -> Array:
        """Log-likelihood of each datum given all others, (batch, m): Student's t of 2 concentration + m - 1 degrees."""
        peak = self._noise.log_likelihood(y, np.broadcast_to(y, y.shape), *values)
        own = 2.0 * (peak - self._noise.log_likelihood(y, data, *values))  # squared residual given the others
        a = self._a + 0.5 * (y.shape[1] - 1)
        b = self._b + 0.5 * (self._square(y, data, *values) - own)
        constant = special.gammaln(a + 0.5) - special.gammaln(a)
        return np.asarray(peak + constant - 0.5 * np.log(b) - (a + 0.5) * np.log1p(0.5 * own / b))

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Data with fresh noise, of a factor from its prior, shape (batch, m)."""
        return self._scaled(rng, y, self._a, np.full((len(y), 1), self._b), *values)

    def replicate(self, rng: np.random.Generator, y: Array, data: Array, *values: Array) -> Array:
        """Data with fresh noise, of a factor given the data, shape (batch, m)."""
        seen = ~np.isnan(data)
        bound = self if seen.all() else _Bound(self._marginal, self._shape, self._chosen[seen])
        square = bound._square(y[:, seen], data[seen], *(np.broadcast_to(v, y.shape)[:, seen] for v in values))  # noqa: SLF001 (its own class)
        return self._scaled(rng, y, self._a + 0.5 * seen.sum(), self._b + 0.5 * square, *values)

    def _scaled(self, rng: np.random.Generator, y: Array, a: float, b: Array, *values: Array) -> Array:
        factor = np.sqrt(b / rng.gamma(a, size=b.shape))
        return np.asarray(y + factor * (self._noise.sample(rng, y, *values) - y))

    def _square(self, y: Array, data: Array, *values: Array) -> Array:
        """Squared length of the residuals in units of the noise, (batch, 1)."""
        return np.asarray(((data - y) * self._noise.evaluate(y, data, *values)[1]).sum(axis=1, keepdims=True))
