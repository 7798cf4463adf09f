"""Straight Langevin moves, whose injected noise may leave room for the gradient's own."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from invsamp.kernels.compiled import langevin_loop
from invsamp.kernels.contract import StepSize
from invsamp.protocols import Array


def propose(
    gradient: Array, noise: Array, step_size: StepSize, gradient_noise: Array | None = None, heat: float = 1.0
) -> tuple[Array, int]:
    r"""Move -step_size * gradient + N(0, cov), and how many entries of its noise had no variance left.

    .. math:: \mathrm{cov} = 2 h \eta I - \eta^2 S

    Negative eigenvalues (S over the budget) are set to zero and counted.

    Parameters
    ----------
    gradient, noise : ndarray, shape (chains, d)
        Of the reduced energy in whitened coordinates; standard normal.
    step_size : float or ndarray (chains, 1)
        :math:`\eta`.
    gradient_noise : ndarray, optional
        S, the covariance of the gradient's noise: isotropic (chains,), diagonal (chains, d) or full (chains, d, d).
    heat : float
        h: 1, or the friction, where there is some; the share of the last move that is kept is yet to be added then.

    References
    ----------
    Li, Lin, Zhang and Zhou (2023), "Fast replica exchange SGLD", eq. (13) and (15), which print
    :math:`\tau \eta` where :math:`2 \tau \eta` is right.
    """
    variance = 2.0 * heat * step_size
    if gradient_noise is None:
        if isinstance(step_size, float):
            move = np.empty(noise.shape)
            langevin_loop.straight(gradient, noise, step_size, math.sqrt(variance), move)
            return move, 0
        return np.sqrt(variance) * noise - step_size * gradient, 0
    if gradient_noise.ndim == 3:
        injected, clipped = _correlated(gradient_noise, noise, variance, step_size)
    else:
        by_entry = gradient_noise[:, None] if gradient_noise.ndim == 1 else gradient_noise
        if isinstance(step_size, float):
            move, room = np.empty(noise.shape), 2.0 * heat * step_size
            return move, _within_budget(gradient, noise, step_size, room, step_size**2, by_entry, move)
        spread, clipped = _spent(variance - step_size**2 * by_entry)
        injected = spread * noise
    return injected - step_size * gradient, clipped


def arrive(position: Array, gradient: Array, noise: Array, step_size: StepSize) -> Array:
    """Where the move of `propose` ends, from positions (chains, d) where nothing is in its way.

    To the bit as the move and then the sum: of millions of numbers one pass is a twentieth of a step less.
    """
    if not isinstance(step_size, float):
        return position + propose(gradient, noise, step_size)[0]
    end = np.empty(position.shape)
    _arrived(position, gradient, noise, step_size, math.sqrt(2.0 * step_size), end)
    return end


@njit(cache=True)
def _arrived(position: Array, gradient: Array, noise: Array, step_size: float, sd: float, end: Array) -> None:
    """Into ``end``, position + (sd * noise - step_size * gradient)."""
    for i in range(noise.shape[0]):
        for j in range(noise.shape[1]):
            end[i, j] = position[i, j] + (sd * noise[i, j] - step_size * gradient[i, j])


@njit(cache=True)
def _within_budget(
    gradient: Array, noise: Array, step_size: float, room: float, share: float, by_entry: Array, move: Array
) -> int:
    """Into ``move``, the same with noise of variance room - share * by_entry; how many chains have overspent."""
    clipped, wide = 0, by_entry.shape[1] > 1
    for i in range(noise.shape[0]):
        overspent = False
        for j in range(noise.shape[1]):
            left = room - share * by_entry[i, j if wide else 0]
            if left < 0.0:
                left, overspent = 0.0, True
            move[i, j] = math.sqrt(left) * noise[i, j] - step_size * gradient[i, j]
        clipped += overspent
    return clipped


def _correlated(covariance: Array, noise: Array, variance: StepSize, step_size: StepSize) -> tuple[Array, int]:
    """Injected noise (chains, d) for full covariances (chains, d, d), and how many chains have overspent."""
    left = np.asarray(variance)[..., None] * np.eye(noise.shape[1]) - np.asarray(step_size)[..., None] ** 2 * covariance
    try:
        # a fifth of the time of the eigenvalues, which only an overspent budget needs
        return (np.linalg.cholesky(left) @ noise[:, :, None])[:, :, 0], 0
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(left)
        sd, clipped = _spent(values)
        return (vectors @ (sd * noise)[:, :, None])[:, :, 0], clipped


def _spent(left: Array) -> tuple[Array, int]:
    """Standard deviations of the variances that are left (chains, d), and how many chains have overspent."""
    if left.min() >= 0.0:
        return np.sqrt(left), 0
    return np.sqrt(np.maximum(left, 0.0)), int((left < 0.0).any(axis=1).sum())
