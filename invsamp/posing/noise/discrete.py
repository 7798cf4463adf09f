"""Noise of counts: Poisson, negative binomial, binomial, categories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special

from invsamp.arguments import array, store
from invsamp.axis_labels import frozen
from invsamp.posing.compiled import likelihood_loops
from invsamp.posing.noise.base import CompiledNoise, Link, Noise, quantity
from invsamp.protocols import Array


class _Counts(CompiledNoise):
    """Base of noise models for counts."""

    wanted: ClassVar[str] = "counts, which are integers >= 0,"

    @property
    def link(self) -> Link:
        """The root."""
        return "root"

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Which of the data are integers and not negative."""
        return np.asarray(np.isfinite(data) & (data >= 0) & (data == np.floor(data)))

    def auxiliary(self, data: Array, value: Array) -> Array:
        """Logarithm of the factorials."""
        return np.asarray(special.gammaln(data + 1.0))


@dataclass(frozen=True)
class PoissonNoise(_Counts):
    """Counts of mean y.

    A y below 0 has zero likelihood, and so has y = 0 where something was counted.

    Examples
    --------
    >>> import invsamp as iv
    >>> prior = iv.Prior(rate=iv.Gamma(2.0, 1.0))
    >>> posterior = iv.Posterior(prior, lambda rate: rate, data=[3], noise=iv.PoissonNoise())
    >>> posterior.log_likelihood([[3.0]]).round(3)
    array([[-1.496]])
    """

    family: ClassVar[int] = likelihood_loops.POISSON

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Counts, shape (batch, m); NaN where y is negative."""
        return np.where(y >= 0.0, rng.poisson(np.maximum(y, 0.0)), np.nan)


@dataclass(frozen=True)
class NegativeBinomialNoise(_Counts):
    """Counts of mean y and variance ``y + dispersion * y**2``: Poisson counts whose mean is Gamma distributed.

    Parameters
    ----------
    dispersion : float, array_like or str
        Squared coefficient of variation of that mean; towards 0 the counts become Poisson. It is one over what others
        call size. As the scale of `invsamp.GaussianNoise`: numbers that broadcast to the data's shape, the name of a
        parameter of the prior, or a formula.

    Raises
    ------
    ValueError
        If a number is not positive.

    Examples
    --------
    >>> import invsamp as iv
    >>> noise = iv.NegativeBinomialNoise("dispersion")  # an unknown, with a prior
    >>> prior = iv.Prior(cases=iv.LogNormal(2.0, 1.0), dispersion=iv.Exponential(1.0))
    >>> posterior = iv.Posterior(prior, lambda cases: cases, data=[9], noise=noise)
    >>> posterior.log_likelihood([[9.0, 0.5]]).round(3)
    array([[-2.913]])
    """

    dispersion: npt.ArrayLike | str
    family: ClassVar[int] = likelihood_loops.NEGATIVE_BINOMIAL

    def __post_init__(self) -> None:
        store(self, dispersion=quantity("dispersion", self.dispersion))

    @property
    def quantities(self) -> Mapping[str, object]:
        return {"dispersion": self.dispersion}

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Counts, shape (batch, m); NaN where y is negative."""
        (dispersion,) = values
        mean = rng.gamma(np.broadcast_to(1.0 / dispersion, y.shape), dispersion * np.maximum(y, 0.0))
        return np.where(y >= 0.0, rng.poisson(mean), np.nan)


@dataclass(frozen=True)
class BinomialNoise(_Counts):
    """Counts of what succeeds with probability y among a known number of trials.

    A y outside [0, 1] has zero likelihood.

    Parameters
    ----------
    trials : int or array_like of int, >= 1
        Broadcasts to the data's shape.

    Raises
    ------
    ValueError
        If a number is no integer, or below 1.

    Examples
    --------
    >>> import invsamp as iv
    >>> noise = iv.BinomialNoise(trials=20)  # the model gives the probability
    >>> posterior = iv.Posterior(iv.Prior(p=iv.Uniform(0.0, 1.0)), lambda p: p, data=[7], noise=noise)
    >>> posterior.log_likelihood([[0.35]]).round(3)
    array([[-1.691]])
    """

    trials: npt.ArrayLike
    family: ClassVar[int] = likelihood_loops.BINOMIAL
    wanted: ClassVar[str] = "counts, which are integers from 0 to trials,"

    def __post_init__(self) -> None:
        store(self, trials=frozen(self.trials, array("trials", self.trials, least=1, whole=True)))

    @property
    def quantities(self) -> Mapping[str, object]:
        return {"trials": self.trials}

    @property
    def link(self) -> Link:
        """The arcsine of the root."""
        return "arcsine"

    def saturated(self, data: Array, *values: Array) -> Array:
        """Shares of the trials."""
        return np.asarray(data / values[0])

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Which of the data are integers from 0 to the number of trials."""
        try:
            return super().accepts(data) & (data <= np.asarray(self.trials))
        except ValueError:  # of shapes that do not fit, which is reported where trials are read
            return super().accepts(data)

    def auxiliary(self, data: Array, value: Array) -> Array:
        """Logarithm of the binomial coefficients."""
        return np.asarray(
            special.gammaln(value + 1.0) - special.gammaln(data + 1.0) - special.gammaln(value - data + 1.0)
        )

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """Counts, shape (batch, m); NaN where y is no probability."""
        (trials,) = values
        inside = (y >= 0.0) & (y <= 1.0)
        return np.where(inside, rng.binomial(trials.astype(int), np.where(inside, y, 0.0)), np.nan)


@dataclass(frozen=True)
class CategoricalNoise(Noise):
    """One of several categories along the last axis of the data: 1 at the one that was observed, 0 at the others.

    ``y`` is a weight >= 0 for each category: their probabilities, or what is proportional to them. A y below 0 has
    zero likelihood. Of labels ``k`` the data are ``numpy.eye(categories)[k]``.

    Examples
    --------
    >>> import invsamp as iv
    >>> noise = iv.noise.CategoricalNoise()  # data: 1 at the category that was seen
    >>> noise
    CategoricalNoise()
    """

    _categories: int = field(default=0, init=False, repr=False)
    independent: ClassVar[bool] = False
    wanted: ClassVar[str] = "1 at one category along the last axis and 0 at all others, numpy.eye(n)[labels] of labels,"

    @property
    def link(self) -> Link:
        """The root."""
        return "root"

    def bind(self, shape: tuple[int, ...], chosen: npt.NDArray[np.intp]) -> CategoricalNoise:
        """With the number of categories."""
        count = shape[-1] if shape else 1
        if len(chosen) % count or not np.array_equal(chosen.reshape(-1, count) % count, _rows(len(chosen), count)):
            raise ValueError(
                f"data must hold all {count} categories of an observation under CategoricalNoise, or none: "
                f"got {len(chosen)} of {np.prod(shape, dtype=int)}"
            )
        bound = CategoricalNoise()
        store(bound, _categories=count)
        return bound

    def accepts(self, data: Array) -> npt.NDArray[np.bool_]:
        """Whether there is one 1 among zeros along the last axis."""
        if data.ndim == 0:
            return np.zeros((), dtype=bool)
        whole = (np.nansum(data, axis=-1, keepdims=True) == 1.0) | np.isnan(data).all(axis=-1, keepdims=True)
        return np.asarray(((data == 0.0) | (data == 1.0)) & whole)

    def evaluate(self, y: Array, data: Array, *values: Array) -> tuple[Array, ...]:
        """Log-likelihood, in the entry of the category that was observed, and its derivative with respect to y."""
        weights, seen = self._by_category(y), self._by_category(np.broadcast_to(data, y.shape))
        total = weights.sum(axis=-1, keepdims=True)
        possible = np.where((weights >= 0.0) | np.isnan(weights), weights / total, -np.inf)
        possible = np.where((possible == -np.inf).any(axis=-1, keepdims=True), 0.0, possible)
        value = special.xlogy(seen, possible)
        slope = np.where(seen > 0.0, 1.0 / weights, 0.0) - 1.0 / total
        return value.reshape(y.shape), slope.reshape(y.shape)

    def sample(self, rng: np.random.Generator, y: Array, *values: Array) -> Array:
        """One category each, shape (batch, m)."""
        weights = self._by_category(y)
        edges = np.cumsum(weights, axis=-1)
        level = rng.random((*edges.shape[:-1], 1)) * edges[..., -1:]
        chosen = (level >= edges[..., :-1]).sum(axis=-1)
        return np.eye(edges.shape[-1])[chosen].reshape(y.shape)

    def _by_category(self, values: Array) -> Array:
        return values.reshape(*values.shape[:-1], -1, self._categories or values.shape[-1])


def _rows(size: int, count: int) -> npt.NDArray[np.intp]:
    return np.broadcast_to(np.arange(count), (size // count, count))
