"""Draws of several targets as weighted draws of another one, whose normalizing constants no one knows."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from invsamp.diagnostics.weights import effective
from invsamp.protocols import Array

#: Tail index of weights from which on they are not used.
HEAVIEST_TAIL = 0.7
#: Change of the free energies at which the iteration stops, and after how many rounds at the latest.
_TOLERANCE, _ROUNDS = 1e-7, 2000


def log_mixture(energies: Array, counts: npt.ArrayLike) -> Array:
    r"""Log density, but for a constant, of the mixture from which pooled draws come.

    .. math:: \log q_n = \log \sum_k N_k e^{f_k - u_k(x_n)}, \qquad
              f_k = -\log \sum_n e^{-u_k(x_n)} / q_n

    Parameters
    ----------
    energies : ndarray, shape (targets, n)
        Reduced energy :math:`u_k` of every target at every draw; +inf where it is zero.
    counts : array_like, shape (targets,)
        Number of draws of each target.

    References
    ----------
    Shirts and Chodera (2008), J. Chem. Phys. 129, 124105, eq. (11).
    """
    log_counts = np.log(np.asarray(counts, dtype=float))
    free = np.zeros(len(energies))
    for _ in range(_ROUNDS):
        mixture = logsumexp((log_counts + free)[:, None] - energies, axis=0)
        # a draw that no target allows (a failed solve) has no weight under any of them
        inverse = np.where(np.isfinite(mixture), -mixture, -np.inf)
        new = -logsumexp(inverse - energies, axis=1)
        new -= new[0]
        change, free = float(np.abs(new - free).max()), new
        if change < _TOLERANCE:
            break
    return np.asarray(logsumexp((log_counts + free)[:, None] - energies, axis=0))


def weights(energy: Array, mixture: Array) -> Array:
    """Weights (n,), of sum 1, that make draws of ``mixture`` (its log density) draws of exp(-``energy``)."""
    weight = np.zeros(len(energy))
    known = np.isfinite(energy) & np.isfinite(mixture)
    if known.any():
        log = -energy[known] - mixture[known]
        weight[known] = np.exp(log - logsumexp(log))
    return weight


def effective_draws(weight: Array) -> float:
    """Effective number of draws with these weights; 0 where a few decide, this number too."""
    return effective(weight) if tail_index(weight) < HEAVIEST_TAIL else 0.0


def tail_index(weight: Array) -> float:
    r"""How heavy the tail of the weights is: their k-th moment is finite for k below one over it.

    .. math:: \frac1m \sum_{i \le m} \log \frac{w_{(n - i + 1)}}{w_{(n - m)}}, \qquad m = \min(n / 5, 3 \sqrt n)

    References
    ----------
    Hill (1975), Ann. Statist. 3, 1163; m and `HEAVIEST_TAIL` as in Vehtari et al. (2024), JMLR 25, 72.
    """
    n = len(weight)
    m = math.ceil(min(n / 5, 3 * math.sqrt(n)))
    largest = np.partition(weight, n - m - 1)[n - m - 1 :] if m < n else np.zeros(1)
    # of logs: the quotient of two weights may not be a number that can be written
    return float((np.log(largest[1:]) - np.log(largest[0])).mean()) if largest[0] > 0.0 else math.inf
