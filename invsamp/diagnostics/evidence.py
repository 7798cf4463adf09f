r"""The evidence of a model from a ladder of tempered likelihoods, by stepping stones.

With :math:`Z(\beta) = \int p(\theta)\, e^{-\beta \Phi(\theta)} d\theta`, the prior p normalized and :math:`\Phi` the
misfit, :math:`Z(0) = 1` and the evidence is :math:`Z(1)`. From rung to rung,

.. math:: \frac{Z(\beta_k)}{Z(\beta_{k+1})} = E_{\beta_{k+1}}[w]
          = \frac{E_{\beta_{k+1}}[w / (w + r)]}{E_{\beta_k}[1 / (w + r)]}, \qquad w = e^{-(\beta_k - \beta_{k+1}) \Phi},

for any r > 0. The first are stepping stones: means of bounded weights over draws of the hotter rung alone. The second,
at r equal to the ratio itself, is Bennett's, which takes draws of both rungs. The two differ by more than sampling
explains where one of the rungs does not sample its target. Thermodynamic integration, :math:`\log Z(1) = -\int_0^1
E_\beta[\Phi]\, d\beta`, is no such check: under the prior the misfit often has no mean, and then neither its value nor
its error is meaningful.

The errors are Monte Carlo errors. To first order, an estimate is a mean over draws of a sum over the rungs, taken at
the same draw of all rungs. So the effective sample size of that sum includes the effects of swaps and of
autocorrelation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import expit, logsumexp

from invsamp.arguments import array
from invsamp.diagnostics.convergence import ensemble_of, mcse_mean, rhat_rank
from invsamp.diagnostics.limits import APART_LIMIT
from invsamp.protocols import Array

#: Standard errors by which two estimates of one ratio may differ, and the rounding that is no difference.
APART, ROUNDING = 4.5, 1e-9
#: Logarithm below which a weight is 0 beside all others.
NEVER = 700.0
#: Share of the draws of a rung that count in its step below which few of them decide it.
FEW = 0.02


@dataclass(frozen=True)
class LogEvidence:
    """Log of the evidence, with standard errors; prints itself.

    Attributes
    ----------
    value, error : float
        By stepping stones.
    bennett : float
        By Bennett's acceptance ratio, a check: from draws of both rungs of each pair.
    steps : tuple of float
        Log of the ratio of each pair of neighbors, the coldest pair first.
    efficiency : tuple of float
        Share of the hotter rung's draws that count in each.
    doubts : tuple of str
        Reasons not to trust it.
    """

    value: float
    error: float
    bennett: float
    steps: tuple[float, ...]
    efficiency: tuple[float, ...]
    doubts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join([f"log evidence {self.value:.6g} +- {self.error:.2g}", *self.doubts])


def log_evidence(betas: npt.ArrayLike, misfit: npt.ArrayLike, ensemble_size: int = 1) -> LogEvidence:
    r"""Evidence from misfits at draws of tempered likelihoods.

    Parameters
    ----------
    betas : array_like, shape (rungs,)
        Decreasing from 1 to 0.
    misfit : array_like, shape (rungs, chains, draws)
        Minus log-likelihoods, normalized ones, at draws of each rung that were made at the same time; +inf where a
        solve failed.
    ensemble_size : int
        As for `invsamp.diagnostics.ess`.

    Returns
    -------
    LogEvidence

    Raises
    ------
    ValueError
        If betas are not as they have to be, shapes do not fit, there are fewer than 4 draws, or a rung has no finite
        misfit.

    References
    ----------
    Stepping stones: Xie, Lewis, Fan, Kuo and Chen (2011), Systematic Biology 60, 150-160. The check: Bennett (1976),
    J. Comput. Phys. 22, 245-268, eqs. (7), (8) and (12).
    """
    beta, phi = array("betas", betas, ("rungs",)), array("misfit", misfit, ("rungs", "chains", "draws"), finite=False)
    if len(beta) < 2 or beta[0] != 1.0 or beta[-1] != 0.0 or (np.diff(beta) >= 0.0).any():
        raise ValueError(f"betas must decrease from 1 to 0, got {beta.tolist()}")
    if len(phi) != len(beta):
        raise ValueError(f"misfit must have one row for each of the {len(beta)} betas, got {len(phi)}")
    if phi.shape[2] < 4:
        raise ValueError(f"misfit must have at least 4 draws of each chain, got {phi.shape[2]}")
    if np.isneginf(phi).any():
        raise ValueError("misfit must be a number, or +inf where a solve failed, got -inf")
    if len(unsolved := np.flatnonzero(np.isposinf(phi).all(axis=(1, 2)))):
        raise ValueError(
            f"misfit must be finite for some draws of each beta, got +inf for all of {beta[unsolved[0]]:g}"
        )
    size = ensemble_of("ensemble_size", ensemble_size, phi.shape[1])
    steps, weights = _stepping_stones(beta, phi)
    efficiency = 1.0 / np.square(weights).mean(axis=(1, 2))
    others, influences = _bennett(beta, phi)
    # the log of a mean is too low by half of its relative variance
    steps = steps + 0.5 * np.array([_error(weight, size) ** 2 for weight in weights])
    apart = np.array([_error(weight - 1.0 - other, size) for weight, other in zip(weights, influences, strict=True)])
    doubts = _doubts(steps - others, apart, efficiency) + _chains_apart(phi, size)
    value, error, bennett = float(steps.sum()), _error(weights.sum(axis=0), size), float(others.sum())
    return LogEvidence(value, error, bennett, tuple(steps.tolist()), tuple(efficiency.tolist()), doubts)


def _stepping_stones(beta: Array, phi: Array) -> tuple[Array, Array]:
    """Log ratios (rungs - 1,), and each draw's weight in them, of mean 1 (rungs - 1, chains, draws)."""
    with np.errstate(invalid="ignore"):
        logs = (np.diff(beta)[:, None, None]) * phi[1:]
    size = math.log(phi[0].size)
    steps = logsumexp(logs, axis=(1, 2)) - size
    return steps, np.exp(logs - steps[:, None, None])


def _bennett(beta: Array, phi: Array) -> tuple[Array, Array]:
    """Log ratios (rungs - 1,) from draws of both rungs, and what each draw has to do with them, of mean 0."""
    ratios, influences = [], []
    for step, cold, hot in zip(-np.diff(beta), phi[:-1], phi[1:], strict=True):
        logs = -step * np.stack([cold, hot])
        top, size = float(logs.max()), math.log(2 * cold.size)
        logs = np.maximum(logs, top - NEVER)
        ends = top - NEVER - size - 1.0, top + size + 1.0
        found = float(scipy.optimize.brentq(_excess, *ends, args=(logs,)))
        below, above = expit(logs - found), expit(found - logs)
        slope = float((below * above).mean(axis=(1, 2)).sum())
        ratios.append(found)
        influences.append((below[1] - above[0]) / slope)
    return np.array(ratios), np.array(influences)


def _excess(ratio: float, logs: Array) -> float:
    """Falls with the ratio; 0 at the estimate from as many draws of the colder rung, first, as of the hotter one."""
    return float(expit(logs[1] - ratio).mean() - expit(ratio - logs[0]).mean())


def _error(influence: Array, size: int) -> float:
    """Standard error of a mean (chains, draws)."""
    return float(mcse_mean(influence[None], None, size)[0]) if np.ptp(influence) > 0.0 else 0.0


def _doubts(gaps: Array, errors: Array, efficiency: Array) -> tuple[str, ...]:
    found = []
    apart = np.abs(gaps) / (errors + ROUNDING)
    worst = int(apart.argmax())
    if apart[worst] > APART:
        found.append(
            f"rungs {worst + 1} and {worst} disagree: the estimate from draws of the hotter one differs by "
            f"{gaps[worst]:+.2g} ({apart[worst]:.0f} standard errors) from that by draws of both. One of them does not "
            "sample its distribution, or misses a mode of the other: draw more, or let the ladder have more rungs "
            "(auto_ladder(min_rungs=...))"
        )
    if (least := float(efficiency.min())) < FEW:
        k = int(efficiency.argmin())
        found.append(
            f"from rung {k + 1} to rung {k} {least:.1%} of the draws count: neighbors are too far apart, and the "
            "error may be larger than it says. Let the ladder have more rungs (auto_ladder(min_rungs=...))"
        )
    return tuple(found)


def _chains_apart(phi: Array, size: int) -> tuple[str, ...]:
    solved = np.isfinite(phi)
    with np.errstate(divide="ignore", invalid="ignore"):  # NaN of a constant misfit, and of one chain
        rhat = rhat_rank(np.where(solved, phi, phi.max(where=solved, initial=0.0)), None, size)
    worst = int(np.argmax(np.nan_to_num(rhat)))
    if not rhat[worst] > APART_LIMIT:
        return ()
    return (
        f"chains of rung {worst} have different misfits (R-hat {rhat[worst]:.3g}), as in modes that they do not leave: "
        "the error is larger than it says. Draw more, or start all chains where the mass is",
    )
