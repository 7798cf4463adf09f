r"""Besov priors: fields with jumps, by Haar wavelets whose coefficients have heavier tails than normal ones.

.. math:: u = m + \gamma \sum_{j, k} 2^{-j (s + d/2 - d/p)} \xi_{jk} \psi_{jk}, \qquad
          f(\xi) = \frac{p}{2^{1 + 1/p} \Gamma(1/p)} \exp\bigl(-\tfrac12 |\xi|^p\bigr),

with orthonormal wavelets on the unit cube. The density of u falls as :math:`\exp(-\frac12 \|u\|^p)` in the norm of the
Besov space :math:`B^s_{pp}`, up to the factor. The coefficients are functions of white coordinates z, one each:
:math:`\xi = F^{-1}(\Phi(z))`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincc, gammainccinv, gammaln, log_ndtr, ndtri_exp

from invsamp.arguments import array, generator, integer, real, wrong
from invsamp.solvers.fem.contract import Array


def besov(
    shape: int | tuple[int, ...], sd: float = 1.0, smoothness: float | None = None, p: float = 1.0, mean: float = 0.0
) -> BesovField:
    r"""Besov prior of a field that is constant on each block of a grid, such as an image with edges.

    Parameters
    ----------
    shape : int or tuple of int
        Blocks along each axis of a box, one to three axes: powers of 2, all the same.
    sd : float, > 0
        Standard deviation of each value, the same everywhere.
    smoothness : float, optional
        s; the default is :math:`d/p + 1/2`, in which fields have a limit as blocks become smaller.
    p : float in [1, 2]
        Exponent: 1 gives Laplace coefficients, of which few are large; 2 normal ones.
    mean : float

    Returns
    -------
    BesovField
        For `invsamp.Prior`, and for forward models by `invsamp.solvers.fem.fields.PerBlock` of the same shape.

    Raises
    ------
    ValueError
        If an argument is not what it has to be.

    Warns
    -----
    UserWarning
        If ``smoothness`` is at most d / p: the fields have no limit then, as the grid is refined.

    References
    ----------
    Lassas, Saksman and Siltanen (2009), Inverse Problems and Imaging 3, 87-122, eq. (2.1); Dashti, Harris and Stuart
    (2012), Inverse Problems and Imaging 6, 183-200, eq. (2.3). White coordinates: Chen, Dunlop, Papaspiliopoulos and
    Stuart (2018), arXiv:1803.03344, section 2. Here the first level counts as j = 0, with its mean, and ``sd`` fixes
    the factor :math:`\gamma`.

    Examples
    --------
    >>> import invsamp as iv
    >>> from invsamp.solvers import fields
    >>> iv.Prior(image=fields.besov((8, 8))).dimension
    64
    """
    counts = np.atleast_1d(array("shape", shape, least=2, whole=True)).astype(int)
    if counts.ndim != 1 or not 1 <= len(counts) <= 3 or (counts != counts[0]).any() or counts[0] & (counts[0] - 1):
        raise wrong("shape", "one to three equal powers of 2, such as (32, 32)", shape)
    power, dimension = real("p", p, least=1, most=2), len(counts)
    least = dimension / power
    s = least + 0.5 if smoothness is None else real("smoothness", smoothness, above=0)
    if s <= least:
        warnings.warn(
            f"smoothness {s:g} is at most d / p = {least:g}: the prior has no limit as the grid is refined, and "
            "results depend on the grid. Take more than that",
            stacklevel=2,
        )
    return BesovField(tuple(counts.tolist()), real("sd", sd, above=0), s, power, real("mean", mean))


@dataclass(frozen=True)
class BesovField:
    """A Besov prior on a grid of blocks; made by `besov`.

    What a prior needs of it is ``size``, ``names`` and `coloring`. In white coordinates it is N(0, I).

    Attributes
    ----------
    shape : tuple of int
    sd, smoothness, p, mean : float
    """

    shape: tuple[int, ...]
    sd: float
    smoothness: float
    p: float
    mean: float
    names: tuple[str, ...] = field(default=(), init=False, repr=False)

    @property
    def size(self) -> int:
        """Number of blocks."""
        return math.prod(self.shape)

    def coloring(self, values: Array) -> BesovField:
        """Itself: nothing is unknown of it."""
        return self

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """``n`` independent draws, shape (n, size)."""
        return self.color(generator("rng", rng).standard_normal((integer("n", n, least=0), self.size)))

    def color(self, white: Array) -> Array:
        """Values (batch, n) of the blocks, in C order, of white coordinates (batch, n)."""
        return self.mean + self._wavelets(self._scale * _quantile(white, self.p), inverse=True)

    def whiten(self, values: Array) -> Array:
        """White coordinates (batch, n) of values (batch, n)."""
        return _white(self._wavelets(values - self.mean, inverse=False) / self._scale, self.p)

    def pullback(self, white: Array, cotangents: Array) -> tuple[Array, Array]:
        """As `invsamp.protocols.Coloring.pullback`; nothing is unknown."""
        batch, q, n = cotangents.shape
        # the wavelets are orthonormal up to the factor in the scale: the transpose of the synthesis is the analysis
        back = self._wavelets(cotangents.reshape(batch * q, n), inverse=False).reshape(batch, q, n)
        slope = self._scale * _quantile_slope(white, self.p)
        return back * slope[:, None], np.empty((batch, q, 0))

    def log_density(self, values: npt.ArrayLike) -> tuple[Array, Array, Array]:
        """Log density (batch,) of values (batch, n), its gradient (batch, n), and nothing for what is unknown."""
        given = array("values", values, ("batch", self.size))
        coefficients = self._wavelets(given - self.mean, inverse=False) / self._scale
        constant = self.size * (math.log(self.p) - (1.0 + 1.0 / self.p) * math.log(2.0) - gammaln(1.0 / self.p))
        value = constant - np.log(self._scale).sum() - 0.5 * (np.abs(coefficients) ** self.p).sum(axis=1)
        slope = -0.5 * self.p * np.sign(coefficients) * np.abs(coefficients) ** (self.p - 1.0)
        return value, self._wavelets(slope / self._scale, inverse=True), np.empty((len(given), 0))

    @cached_property
    def _scale(self) -> Array:
        """Factor of each coefficient (n,), in the order of `_haar`, by which values have the sd."""
        dimension, side = len(self.shape), self.shape[0]
        along = np.append(0.0, np.floor(np.log2(np.arange(1, side))))  # of the mean 0 too
        levels = along
        for _ in range(dimension - 1):
            levels = np.maximum(levels[..., None], along)
        decay = 2.0 ** (-levels * (self.smoothness + dimension / 2 - dimension / self.p))
        # all values have the same variance: of each level's wavelets, a value sees one of each kind
        variance = (decay**2).sum() / self.size * 4.0 ** (1.0 / self.p)
        variance *= math.exp(gammaln(3.0 / self.p) - gammaln(1.0 / self.p))
        return np.asarray(self.sd * decay.ravel() / math.sqrt(variance))

    def _wavelets(self, rows: Array, *, inverse: bool) -> Array:
        """Coefficients of values (batch, n), or the inverse."""
        values = rows.reshape(len(rows), *self.shape)
        return _haar(values, inverse).reshape(rows.shape)


def _haar(values: Array, inverse: bool) -> Array:
    """Orthonormal isotropic Haar wavelets over all axes but the first: at each level means stand before differences.

    The coefficients of level j are those whose largest index lies between 2^j and 2^(j + 1).
    """
    side, axes = values.shape[1], range(1, values.ndim)
    found = values.copy()
    widths = [2**j for j in range(1, int(math.log2(side)) + 1)]
    for width in widths if inverse else reversed(widths):
        block = (slice(None), *(slice(width),) * len(axes))
        part = found[block]
        for axis in axes:
            moved = np.moveaxis(part, axis, -1)
            half = width // 2
            if inverse:
                low, high = moved[..., :half], moved[..., half:]
                pairs = np.stack([low + high, low - high], axis=-1).reshape(moved.shape)
            else:
                pairs = np.concatenate(
                    [moved[..., 0::2] + moved[..., 1::2], moved[..., 0::2] - moved[..., 1::2]], axis=-1
                )
            part = np.moveaxis(pairs * math.sqrt(0.5), -1, axis)
        found[block] = part
    return found


def _quantile(z: Array, p: float) -> Array:
    """The xi at the probability that a normal number is below z."""
    size = gammainccinv(1.0 / p, np.exp(np.minimum(math.log(2.0) + log_ndtr(-np.abs(z)), 0.0)))
    return np.sign(z) * (2.0 * size) ** (1.0 / p)


def _quantile_slope(z: Array, p: float) -> Array:
    """Derivative of `_quantile`: the ratio of the densities."""
    xi = np.abs(_quantile(z, p))
    constant = math.log(p) - (1.0 + 1.0 / p) * math.log(2.0) - gammaln(1.0 / p)
    return np.exp(-0.5 * z**2 - 0.5 * math.log(2.0 * math.pi) - constant + 0.5 * xi**p)


def _white(xi: Array, p: float) -> Array:
    """Inverse of `_quantile`."""
    upper = np.log(np.maximum(gammaincc(1.0 / p, 0.5 * np.abs(xi) ** p), 1e-300)) - math.log(2.0)
    return -np.sign(xi) * ndtri_exp(upper)
