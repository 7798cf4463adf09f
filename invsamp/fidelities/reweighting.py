"""Draws of several laws as weighted draws of another one, whose normalising constants nobody knows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from invsamp.contract import Array

#: Change of the free energies at which the iteration stops, and after how many rounds at the latest.
_TOLERANCE, _ROUNDS = 1e-7, 2000


def log_mixture(energies: Array, counts: npt.ArrayLike) -> Array:
    r"""Log density, but for a constant, of the mixture from which pooled draws come.

    .. math:: \log q_n = \log \sum_k N_k e^{f_k - u_k(x_n)}, \qquad
              f_k = -\log \sum_n e^{-u_k(x_n)} / q_n

    Parameters
    ----------
    energies : ndarray, shape (laws, n)
        Reduced energy :math:`u_k` of every law at every draw; +inf where it is zero.
    counts : array_like, shape (laws,)
        Number of draws of each law.

    References
    ----------
    Shirts and Chodera (2008), J. Chem. Phys. 129, 124105, eq. (11).
    """
    log_counts = np.log(np.asarray(counts, dtype=float))
    free = np.zeros(len(energies))
    for _ in range(_ROUNDS):
        mixture = logsumexp((log_counts + free)[:, None] - energies, axis=0)
        # a draw that no law allows (a failed solve) has no weight under any of them
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
