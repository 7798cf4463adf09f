"""Expected swaps between two rungs, from the energies of both their levels at common draws."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from invsamp.diagnostics.weights import resampled
from invsamp.fidelities.reweighting import effective_draws
from invsamp.protocols import Array

#: Effective draws of each rung below which there is no forecast for it.
LEAST_EFFECTIVE = 20.0
#: Draws of each rung of which all pairs are looked at.
MOST_DRAWS = 400


class Side(NamedTuple):
    """One rung at n draws."""

    energy: Array  # (n,) of its level
    weight: Array  # (n,) that make the draws its own; sum 1
    temperature: float
    variance: float  # of the noise of an energy in a swap


class Forecast(NamedTuple):
    """Expectations over a draw of each rung. All NaN where either rung has too few effective draws."""

    first_stage: float  # acceptance of delayed acceptance's first stage
    second_stage: float  # of its second, where the first has accepted
    swap_rate: float  # of both
    product_rate: float  # of the product target's rule, in one stage
    discrepancy_sd: float  # of the second stage's log ratio without noise, where the first has accepted
    noise_sd: float  # sqrt(v): of the noise in the product target's log ratio
    own_energies_error: float  # rms of what the log ratio of own energies (eq. 18) misses, noise apart
    cold_energies_error: float  # the same of the cold rung's energies at both positions (eq. 11, weight 1)


def forecast(cold: Side, hot: Side) -> Forecast:
    r"""Expectations over pairs of draws, one weighted as the colder rung's and one as the hotter rung's.

    With :math:`D = U_c - U_h`, the exact log ratio is that of own energies, :math:`\delta (U_c(t_c) - U_h(t_h))`, plus
    :math:`D(t_c)/\tau_h - D(t_h)/\tau_c`; and that of the cold rung's energies, :math:`\delta (U_c(t_c) - U_c(t_h))`,
    plus :math:`(D(t_c) - D(t_h))/\tau_h`.
    """
    if min(effective_draws(cold.weight), effective_draws(hot.weight)) < LEAST_EFFECTIVE:
        return Forecast(*[math.nan] * len(Forecast._fields))
    at_cold, at_hot = (resampled(side.weight, MOST_DRAWS) for side in (cold, hot))
    pairs = np.full((len(at_cold), len(at_hot)), 1.0 / (len(at_cold) * len(at_hot)))
    gap = 1.0 / cold.temperature - 1.0 / hot.temperature
    difference = cold.energy - hot.energy
    d_cold, d_hot = difference[at_cold, None], difference[at_hot]
    first = gap * (hot.energy[at_cold, None] - hot.energy[at_hot])
    second = (d_cold - d_hot) / cold.temperature
    product_variance = 2.0 * cold.variance / cold.temperature**2 + 2.0 * hot.variance / hot.temperature**2
    passed = pairs * acceptance(first, 2.0 * gap**2 * hot.variance)
    accepted = passed * acceptance(second, 2.0 * (cold.variance + hot.variance) / cold.temperature**2)
    first_stage, rate = float(passed.sum()), float(accepted.sum())
    if not first_stage > 0.0:
        return Forecast(0.0, *[math.nan] * (len(Forecast._fields) - 1))
    passed /= first_stage
    mean = float((passed * second).sum())
    own = d_hot / cold.temperature - d_cold / hot.temperature
    common = (d_cold - d_hot) / hot.temperature
    return Forecast(
        first_stage,
        rate / first_stage,
        rate,
        float((pairs * acceptance(first + second, product_variance)).sum()),
        math.sqrt(float((passed * (second - mean) ** 2).sum())),
        math.sqrt(product_variance),
        math.sqrt(float((passed * own**2).sum())),
        math.sqrt(float((passed * common**2).sum())),
    )


def acceptance(log_ratio: Array, variance: float) -> Array:
    r"""Expected acceptance at a log ratio whose Gaussian noise of known variance v is penalized.

    .. math:: E \min(1, e^{\Delta + \epsilon - v/2}) = \Phi\Bigl(\frac{\Delta - v/2}{\sqrt v}\Bigr)
              + e^\Delta\, \Phi\Bigl(-\frac{\Delta + v/2}{\sqrt v}\Bigr), \qquad \epsilon \sim N(0, v)

    References
    ----------
    Ceperley and Dewing (1999), J. Chem. Phys. 110, 9812, eq. (12).
    """
    if variance == 0.0:
        return np.exp(np.minimum(log_ratio, 0.0))
    sd, half = math.sqrt(variance), 0.5 * variance
    return np.asarray(
        np.exp(log_ndtr((log_ratio - half) / sd)) + np.exp(log_ratio + log_ndtr(-(log_ratio + half) / sd))
    )
