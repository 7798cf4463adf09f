r"""How a contour target learns the masses of its energy bins, and where these are; see `invsamp.tempering.contours`.

With :math:`\theta_i` the mass of bin i, J the bin of a chain, w a gain that falls, each published sampler has its own
random field H, :math:`\theta \leftarrow \theta + w H`:

.. math:: H_i = \theta_J^\zeta (1[i = J] - \theta_i), \qquad H_i = \theta_J (1[i = J] - \theta_i), \qquad
          H_i = \theta_J (1[i \ge J] - \theta_i)

for CSGLD, ICSGLD (a mean over chains) and AWSGLD. What is learned by default is the log,

.. math:: \log \theta_i \leftarrow \log \theta_i + w (1[i = J] - p_i), \qquad p_i \propto \theta_i^{1 - \zeta},

which has the fixed point of the first without its underflow. The :math:`p_i` are the desired shares of the steps in
each bin, all the same at :math:`\zeta = 1` (Wang and Landau 2001; Liang, Liu and Carroll 2007, JASA 102(477)).

References
----------
Deng (2021), "Non-convex Bayesian learning via stochastic gradient Markov chain Monte Carlo", thesis, Purdue University,
eq. (5.8), (6.7), (7.5). The gain min(1/2, m / k): Belardinelli and Pereyra (2007), Phys. Rev. E 75, 046701.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import boolean, one_of, real, store
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass

Field = Literal["log", "csgld", "icsgld", "awsgld"]
FIELDS: tuple[Field, ...] = ("log", "csgld", "icsgld", "awsgld")
#: Smallest mass of a bin: its log stays finite.
_LEAST = 1e-300


@stored_dataclass
class Gain:
    r"""Gain of a stochastic approximation, :math:`w_k = \min(w_0, a / (k^\alpha + b))`. Made by `gain`."""

    scale: float
    offset: float = 0.0
    exponent: float = 1.0
    max_gain: float = 0.5

    def __call__(self, k: int) -> float:
        """Gain of the ``k``-th step that is learned from, counted from 1."""
        return min(self.max_gain, self.scale / (k**self.exponent + self.offset))


def gain(scale: float, offset: float = 0.0, exponent: float = 1.0, max_gain: float = 0.5) -> Gain:
    r"""Gain by which a contour target learns, :math:`w_k = \min(w_0, a / (k^\alpha + b))`.

    Parameters
    ----------
    scale : float, > 0
        a.
    offset : float, >= 0
        b.
    exponent : float in (1/2, 1]
        :math:`\alpha`. Where it is not above 1/2, what is learned never settles.
    max_gain : float in (0, 1]
        :math:`w_0`.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.tempering.gain(scale=100.0, offset=1000.0)
    Gain(scale=100.0, offset=1000.0, exponent=1.0, max_gain=0.5)
    """
    return Gain(
        real("scale", scale, above=0),
        real("offset", offset, least=0),
        real("exponent", exponent, above=0.5, most=1),
        real("max_gain", max_gain, above=0, most=1),
    )


@stored_dataclass
class Learning:
    """How a contour target learns.

    Parameters
    ----------
    field : "log", "csgld", "icsgld" or "awsgld"
        The random field.
    gain : Gain, optional
        Default: the number of bins over the number of steps, at most 1/2.
    forever : bool
        Whether it goes on after warm-up, as published. Draws are then those of a target that changes as it is sampled.
    shared : bool
        Whether all chains learn the same masses, from all of them. False: each its own.
    """

    field: Field = "log"
    gain: Gain | None = None
    forever: bool = False
    shared: bool = True

    def __post_init__(self) -> None:
        one_of("field", self.field, FIELDS)
        store(self, forever=boolean("forever", self.forever), shared=boolean("shared", self.shared))

    def begun(self, bins: int) -> Array:
        """Log masses (1, bins) before anything is learned: equal ones, of AWSGLD's increasing function equal steps."""
        masses = np.arange(1.0, bins + 1.0) / bins if self.field == "awsgld" else np.full(bins, 1.0 / bins)
        return np.log(masses)[None]

    def step(self, log_psi: Array, zeta: float, at: npt.NDArray[np.intp], k: int) -> Array:
        """Log masses (1 or chains, bins) after the ``k``-th step that is learned from, to the bins ``at`` (chains,)."""
        bins = log_psi.shape[1]
        size = Gain(float(bins))(k) if self.gain is None else self.gain(k)
        change = self._field(log_psi, zeta, at)
        if self.shared:
            change = change.mean(axis=0, keepdims=True)
        if self.field == "log":
            return log_psi + size * change
        return np.asarray(np.log(np.maximum(np.exp(log_psi) + size * change, _LEAST)))

    def _field(self, log_psi: Array, zeta: float, at: npt.NDArray[np.intp]) -> Array:
        bins = log_psi.shape[1]
        if self.field == "log":
            return met(at, bins) - shares(log_psi, zeta)
        theta = np.exp(log_psi)
        own = np.take_along_axis(np.broadcast_to(theta, (len(at), bins)), at[:, None], axis=1)
        if self.field == "awsgld":
            return np.asarray(own * ((np.arange(bins) >= at[:, None]) - theta))
        return np.asarray((own**zeta if self.field == "csgld" else own) * (met(at, bins) - theta))


def met(at: npt.NDArray[np.intp], bins: int) -> Array:
    """1 in the bin of each chain, 0 elsewhere: (chains, bins)."""
    found = np.zeros((len(at), bins))
    found[np.arange(len(at)), at] = 1.0
    return found


def shares(log_psi: Array, zeta: float) -> Array:
    """Shares of the steps that the bins are to have, in the shape of their log masses."""
    power = (1.0 - zeta) * log_psi
    power = np.exp(power - power.max(axis=1, keepdims=True))
    return np.asarray(power / power.sum(axis=1, keepdims=True))


#: Steps of warm-up at the posterior's temperature, and at the hottest, from whose second halves a range is taken.
RANGE_STEPS = 100


class Range:
    r"""The range of energies that a contour target flattens, where no one gives it: from the posterior's to a hotter
    target's.

    The energies :math:`u_1` at temperature 1 and :math:`u_T` at the hottest T, on average, give the inverse temperature
    between them as that of a Gaussian of any dimension,

    .. math:: \beta(u) = \Bigl(1 + (T - 1) \frac{u - u_1}{u_T - u_1}\Bigr)^{-1}.

    Knots stand from a standard deviation below :math:`u_1` to two above :math:`u_T`, at distances that grow with
    :math:`1 / \beta`, and v begins as the integral of :math:`\beta`.
    """

    @staticmethod
    def begun() -> Array:
        """Counts, sums and sums of squares of the energies at both temperatures, (2, 3)."""
        return np.zeros((2, 3))

    @staticmethod
    def step(sums: Array, energy: Array, iteration: int) -> Array:
        """The same with the energies (chains,) of one more step."""
        phase, step = divmod(iteration - 1, RANGE_STEPS)
        if step < RANGE_STEPS // 2:
            return sums
        known = energy[np.isfinite(energy)]
        sums = sums.copy()
        sums[phase] += len(known), known.sum(), np.square(known).sum()
        return sums

    @staticmethod
    def found(sums: Array, hottest: float, count: int) -> tuple[Array, Array]:
        """Knots (count,) and the values of v there."""
        number = np.maximum(sums[:, 0], 1.0)
        mean = sums[:, 1] / number
        sd = np.sqrt(np.maximum(sums[:, 2] / number - mean**2, 1e-12))
        low, high = mean[0] - sd[0], max(mean[1] + 2.0 * sd[1], mean[0] + sd[0])
        share = np.linspace(0.0, 1.0, count)
        knots = low + (high - low) * np.expm1(share * math.log(hottest)) / (hottest - 1.0)
        return knots, hyperbolic(knots, (mean[0], max(mean[1], mean[0] + sd[0])), hottest)


def hyperbolic(knots: Array, means: tuple[float, float], hottest: float) -> Array:
    r"""The integral of :math:`\beta(u)`, kept within [1/T, 1], at the knots."""
    fine = np.linspace(knots[:-1], knots[1:], 33, axis=1)
    beta = 1.0 / (1.0 + (hottest - 1.0) * np.maximum(fine - means[0], 0.0) / (means[1] - means[0]))
    pieces = np.maximum(beta, 1.0 / hottest).mean(axis=1) * np.diff(knots)
    return np.concatenate([[0.0], np.cumsum(pieces)])
