r"""The evidence of a model from a ladder of tempered likelihoods: stepping stones, and thermodynamic integration.

With :math:`Z(\beta) = \int p(\theta)\, e^{-\beta \Phi(\theta)} d\theta`, the prior p normalised and :math:`\Phi` the
misfit, :math:`Z(0) = 1` and the evidence is :math:`Z(1)`. From rung to rung,

.. math:: \frac{Z(\beta_k)}{Z(\beta_{k+1})} = E_{\beta_{k+1}}\left[e^{-(\beta_k - \beta_{k+1}) \Phi}\right], \qquad
          \log Z(1) = -\int_0^1 E_\beta[\Phi]\, d\beta.

The errors are those of the draws: both estimates are, to first order, means over draws of a sum over the rungs, taken
at the same draw of all rungs, so that what swaps and autocorrelation do to them is in the effective size of that sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import logsumexp

from invsamp.arguments import array
from invsamp.contract import Array
from invsamp.diagnostics.convergence import mcse_mean

#: Of the least positive beta, by which all are shifted where means are interpolated in their logs.
SHIFT = 0.3
#: Share of the draws of a rung that count in its step below which few of them decide it.
FEW = 0.02


@dataclass(frozen=True)
class LogEvidence:
    """Log of the evidence, with standard errors; prints itself.

    Attributes
    ----------
    value, error : float
        By stepping stones: their error is that of sampling alone.
    thermodynamic, thermodynamic_error : float
        By thermodynamic integration; the error is that of sampling.
    quadrature : float
        How far the latter would be off without the variances of the misfits, from which it takes slopes: far more than
        the error of its quadrature.
    steps : tuple of float
        Log of the ratio of each pair of neighbours, the coldest pair first.
    efficiency : tuple of float
        Share of the hotter rung's draws that count in each.
    doubts : tuple of str
        Reasons not to trust it.
    """

    value: float
    error: float
    thermodynamic: float
    thermodynamic_error: float
    quadrature: float
    steps: tuple[float, ...]
    efficiency: tuple[float, ...]
    doubts: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = [
            f"log evidence {self.value:.6g} +- {self.error:.2g} by stepping stones",
            f"{self.thermodynamic:.6g} +- {self.thermodynamic_error:.2g} by thermodynamic integration",
        ]
        return "; ".join([", ".join(told), *self.doubts])


def log_evidence(betas: npt.ArrayLike, misfit: npt.ArrayLike) -> LogEvidence:
    r"""Evidence from misfits at draws of tempered likelihoods.

    Parameters
    ----------
    betas : array_like, shape (rungs,)
        Decreasing from 1 to 0.
    misfit : array_like, shape (rungs, chains, draws)
        Minus log-likelihoods, normalised ones, at draws of each rung that were made at the same time; +inf where a
        solve failed.

    Returns
    -------
    LogEvidence

    Raises
    ------
    ValueError
        If betas are not as they have to be, shapes do not fit, or there are fewer than 4 draws.

    References
    ----------
    Stepping stones: Xie, Lewis, Fan, Kuo and Chen (2011), Systematic Biology 60, 150-160. Thermodynamic integration:
    Friel and Pettitt (2008), JRSS B 70, 589-607; that variances are slopes: Friel, Hurn and Wyse (2014), Statistics and
    Computing 24, 709-723, who correct the trapezoidal rule by them, in beta itself.
    """
    beta, phi = array("betas", betas, ("rungs",)), array("misfit", misfit, ("rungs", "chains", "draws"), finite=False)
    if len(beta) < 2 or beta[0] != 1.0 or beta[-1] != 0.0 or (np.diff(beta) >= 0.0).any():
        raise ValueError(f"betas must decrease from 1 to 0, got {beta.tolist()}")
    if len(phi) != len(beta):
        raise ValueError(f"misfit must have one row for each of the {len(beta)} betas, got {len(phi)}")
    if phi.shape[2] < 4:
        raise ValueError(f"misfit must have at least 4 draws of each chain, got {phi.shape[2]}")
    steps, weights = _stepping_stones(beta, phi)
    efficiency = 1.0 / np.square(weights).mean(axis=(1, 2))
    integral, quadrature, influence = _integral(beta, phi)
    # the log of a mean is too low by half of its relative variance
    steps = steps + 0.5 * np.array([_error(weight) ** 2 for weight in weights])
    value, error = float(steps.sum()), _error(weights.sum(axis=0))
    other, other_error = -integral, _error(influence)
    doubts = _doubts(value - other, math.hypot(error, other_error), quadrature, efficiency)
    return LogEvidence(
        value, error, other, other_error, quadrature, tuple(steps.tolist()), tuple(efficiency.tolist()), doubts
    )


def _stepping_stones(beta: Array, phi: Array) -> tuple[Array, Array]:
    """Log ratios (rungs - 1,), and each draw's weight in them, of mean 1 (rungs - 1, chains, draws)."""
    with np.errstate(invalid="ignore"):
        logs = (np.diff(beta)[:, None, None]) * phi[1:]
    size = math.log(phi[0].size)
    steps = logsumexp(logs, axis=(1, 2)) - size
    return steps, np.exp(logs - steps[:, None, None])


def _integral(beta: Array, phi: Array) -> tuple[float, float, Array]:
    """The integral of the mean misfit, how far a coarser quadrature is off, and what each draw has to do with it."""
    solved = np.isfinite(phi)
    # of the prior, what cannot be solved is no part of the path: its share of the mass is lost at once
    phi = np.where(solved, phi, np.nan)
    mean, variance = np.nanmean(phi, axis=(1, 2)), np.nanvar(phi, axis=(1, 2))
    lost = -float(np.log(solved[-1].mean()))
    of_mean, of_variance, coarser = _quadrature(beta, mean)
    shifted = beta + SHIFT * beta[-2]
    # slopes beyond three secants are no monotone curve's: a variance that draws do not tell, or an infinite one
    steep = _largest_slopes(shifted, mean) < shifted * variance
    limited = np.where(steep, _largest_slopes(shifted, mean) / shifted, variance)
    integral = float(of_mean @ mean + of_variance @ limited)
    of_variance = np.where(steep, 0.0, of_variance)
    centred = np.nan_to_num(phi - mean[:, None, None])
    influence = np.einsum("k,kcn->cn", of_mean, centred)
    influence += np.einsum("k,kcn->cn", of_variance, centred**2 - variance[:, None, None] * solved)
    return integral + lost, abs(integral - coarser), influence


def _largest_slopes(shifted: Array, mean: Array) -> Array:
    """Of a falling curve through means, in the log of shifted betas, with the other sign (rungs,): Fritsch-Carlson."""
    secants = np.maximum(np.diff(mean) / -np.diff(np.log(shifted)), 0.0)
    return 3.0 * np.minimum(np.append(secants, np.inf), np.append(np.inf, secants))


def _quadrature(beta: Array, mean: Array) -> tuple[Array, Array, float]:
    """Weights (rungs,) of means and of variances in the integral over beta, and what it is without variances.

    Between the rungs stands the cubic that has the means as values and minus the variances as slopes, in the log of
    beta plus a small shift: as functions of beta itself means fall too steeply near 0.
    """
    shift = SHIFT * beta[-2]
    u = np.log(beta + shift)[::-1]
    nodes, weights = np.polynomial.legendre.leggauss(8)
    t = 0.5 * (nodes + 1.0)
    width = np.diff(u)[:, None]
    measure = 0.5 * width * weights * np.exp(u[:-1, None] + width * t)
    values = (2.0 * t - 3.0) * t**2 + 1.0, (3.0 - 2.0 * t) * t**2
    slopes = width * t * (1.0 - t) ** 2, width * t**2 * (t - 1.0)
    of_mean, of_slope = np.zeros((2, len(beta)))
    for end, (value, slope) in enumerate(zip(values, slopes, strict=True)):
        part = slice(end, len(beta) - 1 + end)
        of_mean[part] += (measure * value).sum(axis=1)
        of_slope[part] += (measure * slope).sum(axis=1)
    coarser = float((measure * scipy.interpolate.PchipInterpolator(u, mean[::-1])(u[:-1, None] + width * t)).sum())
    return of_mean[::-1], -of_slope[::-1] * (beta + shift), coarser


def _error(influence: Array) -> float:
    """Standard error of a mean (chains, draws)."""
    return float(mcse_mean(influence[None])[0]) if np.ptp(influence) > 0.0 else 0.0


def _doubts(gap: float, error: float, quadrature: float, efficiency: Array) -> tuple[str, ...]:
    found = []
    if abs(gap) > 4.0 * error + abs(quadrature):
        found.append(
            f"the two estimates differ by {gap:.3g}, more than their errors explain: draw more, or let the ladder have "
            "more rungs (auto_ladder(least=...))"
        )
    if (least := float(efficiency.min())) < FEW:
        k = int(efficiency.argmin())
        found.append(
            f"from rung {k + 1} to rung {k} {least:.1%} of the draws count: neighbours are too far apart, and the "
            "error may be larger than it says. Let the ladder have more rungs (auto_ladder(least=...))"
        )
    return tuple(found)
