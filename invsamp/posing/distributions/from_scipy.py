"""Distributions of `scipy.stats`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from invsamp.arguments import generator, integer, wrong
from invsamp.posing.distributions.base import Distribution, as_shape
from invsamp.posing.distributions.gaussian_mixture import GaussianMixture
from invsamp.protocols import Array

#: Central differences of order eight (Fornberg 1988, Math. Comp. 51, 699-706, table 1): offsets and weights.
_OFFSETS = np.array([-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0])
_WEIGHTS = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
#: Steps, as parts of the distribution's spread, or of the distance to the end of the support where that is less.
_STEPS = 0.05 * 8.0 ** -np.arange(6)


@dataclass(frozen=True)
class ScipyDistribution(Distribution):
    """A univariate distribution of `scipy.stats`, entry by entry; see `from_scipy`."""

    name: str
    parameters: tuple[Any, ...]
    shape: Any = ()
    _frozen: Any = field(default=None, repr=False, compare=False)

    @cached_property
    def support(self) -> tuple[Array, Array]:  # type: ignore[override]
        """Lower and upper end of the support of every entry."""
        lower, upper = (np.array(np.broadcast_to(end, self.shape), dtype=float) for end in self._frozen.support())
        return lower, upper

    @property
    def log_constant(self) -> float:
        """0: the log densities of scipy are normalized."""
        return 0.0

    @cached_property
    def _spread(self) -> Array:
        low, high = self._frozen.ppf(0.25), self._frozen.ppf(0.75)
        spread = np.broadcast_to(high - low, self.shape).ravel()
        return np.where(np.isfinite(spread) & (spread > 0.0), spread, 1.0)

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        """Log density (batch,) and its gradient (batch, size), by differences of order eight."""
        value = self.log_densities(columns).sum(axis=1)
        lower, upper = (end.ravel() for end in self.support)
        room = np.minimum(columns - lower, upper - columns)
        return value, derivative(self.log_densities, columns, np.minimum(self._spread, room))

    def log_densities(self, columns: Array) -> Array:
        """Log density of each entry, at columns (..., size)."""
        with np.errstate(all="ignore"):
            value = self._frozen.logpdf(columns.reshape(*columns.shape[:-1], *self.shape))
        return np.asarray(value, dtype=float).reshape(columns.shape)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """``n`` independent draws, shape (n, *shape)."""
        generator("rng", rng)
        size = (integer("n", n, least=0), *self.shape)
        return np.asarray(self._frozen.rvs(size=size, random_state=rng), dtype=float).reshape(size)


def from_scipy(distribution: Any, shape: int | tuple[int, ...] = ()) -> ScipyDistribution | GaussianMixture:
    r"""Distribution for a prior from one of `scipy.stats`.

    Parameters
    ----------
    distribution : frozen univariate continuous distribution, rv_histogram or gaussian_kde
        Such as ``stats.skewnorm(4)``, ``stats.rv_histogram(np.histogram(draws))`` or ``stats.gaussian_kde(draws)``,
        which is of a vector where its draws are. Arrays as parameters make a vector or array of independent entries.
    shape : int or tuple of int
        Independent entries of the same distribution.

    Returns
    -------
    Distribution
        With scipy's log density, support and draws. What is bounded below only is sampled as its logarithm. The
        gradient of a kernel density estimate is exact. Others are central differences of order eight at six step sizes,
        of which those two that agree best decide; relative errors of smooth densities are about 1e-11.

    Raises
    ------
    ValueError
        If it is discrete, not frozen, or of several dependent numbers.

    Examples
    --------
    >>> from scipy import stats
    >>> import invsamp as iv
    >>> prior = iv.Prior(skew=iv.from_scipy(stats.skewnorm(4)), rate=iv.from_scipy(stats.gengamma(2, 1.5), shape=3))
    >>> prior.support[0].tolist()
    [-inf, 0.0, 0.0, 0.0]
    """
    from scipy import stats  # slow to import, and who calls this has imported it

    own = as_shape(shape)
    if isinstance(distribution, stats.gaussian_kde):
        if own:
            raise ValueError(f"shape must be () for a gaussian_kde, which has its own, got {shape!r}")
        return _mixture(distribution)
    if isinstance(distribution, stats.rv_continuous) and distribution.numargs == 0:  # such as a histogram
        distribution = distribution.freeze()
    family = getattr(distribution, "dist", None)
    if not isinstance(family, stats.rv_continuous):
        raise wrong(
            "distribution",
            "a frozen univariate continuous distribution of scipy.stats, such as stats.skewnorm(4), or a gaussian_kde; "
            "of several dependent numbers there are iv.MultivariateNormal and iv.distributions.Custom",
            distribution,
        )
    with np.errstate(all="ignore"):
        lower, upper = distribution.support()
    if np.isnan(lower).any() or np.isnan(upper).any():
        raise ValueError(f"distribution must have parameters that {family.name} allows, got {_settings(distribution)}")
    given = np.shape(lower)
    if own and given not in ((), own):
        raise ValueError(f"shape must be that of the distribution's parameters, {given}, got {own}")
    name = "rv_histogram" if isinstance(family, stats.rv_histogram) else family.name
    return ScipyDistribution(name, _settings(distribution), own or given, distribution)


def derivative(function: Callable[[Array], Array], x: Array, scale: Array) -> Array:
    """Derivative (batch, size) of a function of each entry (..., size) -> (..., size).

    Central differences of order eight at step sizes that fall by eight. Truncation makes the first ones differ,
    rounding the last ones: the first of the two neighbors that differ least is taken.

    Parameters
    ----------
    function : callable
    x : ndarray, shape (batch, size)
    scale : ndarray, shape (batch, size)
        Within this distance of an entry the function is smooth, or at least known.
    """
    step = _STEPS[:, None, None] * scale
    step = (x + step) - x  # as it is taken after rounding
    values = function(x + _OFFSETS[:, None, None, None] * step)
    with np.errstate(all="ignore"):
        slopes = np.einsum("o,osnd->snd", _WEIGHTS, values) / step
        apart = np.abs(np.diff(slopes, axis=0))
    best = np.argmin(np.where(np.isnan(apart), np.inf, apart), axis=0)
    found: Array = np.take_along_axis(slopes, best[None], axis=0)[0]
    return found


def _settings(distribution: Any) -> tuple[Any, ...]:
    """Parameters that print and compare."""
    from scipy import stats

    if isinstance(distribution.dist, stats.rv_histogram):
        counts, edges = distribution.dist._histogram  # noqa: SLF001 (scipy has no other way to them)
        found: Any = [np.asarray(counts, float), np.asarray(edges, float)]
    else:
        found = [*distribution.args, *(value for _, value in sorted(distribution.kwds.items()))]
    return tuple(tuple(np.ravel(value).tolist()) if np.ndim(value) else float(value) for value in found)


def _mixture(kernels: Any) -> GaussianMixture:
    """A kernel density estimate as the mixture that it is."""
    points = kernels.dataset.T
    if kernels.d == 1:
        return GaussianMixture(kernels.weights, points[:, 0], kernels.covariance[:1, 0])
    return GaussianMixture(kernels.weights, points, kernels.covariance[None])
