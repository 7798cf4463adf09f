"""Targets with known distributions, and the moments of a run to compare with them."""

from __future__ import annotations

import numpy as np
from scipy.stats import kstwo

from invsamp.domains import Box
from invsamp.posing.posterior.function_potential import FunctionPotential


def gaussian(precision, mean=0.0):
    """Potential of a Gaussian with this precision, a number or a matrix."""
    precision = np.atleast_2d(precision)
    d = len(precision)
    mean = np.broadcast_to(mean, (d,))

    def function(position):
        pull = (position - mean) @ precision
        return 0.5 * (pull * (position - mean)).sum(axis=1), pull

    return FunctionPotential(function, d)


def second_moments(run):
    """Mean of theta theta^T over each chain, its upper triangle: (chains, d (d + 1) / 2)."""
    theta = run.theta
    moments = np.einsum("cni,cnj->cij", theta, theta) / theta.shape[1]
    return moments[:, *np.triu_indices(theta.shape[2])]


def upper(matrix):
    return matrix[np.triu_indices(len(matrix))]


CORRELATED = np.array([[1.0, 0.9], [0.9, 2.0]])


def box(lower, upper_bounds):
    """A box, and quadrature points with weights on it."""
    d = len(lower)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    axes = [lo + (hi - lo) * (nodes + 1.0) / 2.0 for lo, hi in zip(lower, upper_bounds, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    jacobian = np.prod(np.stack(np.meshgrid(*[weights] * d, indexing="ij"), axis=-1).reshape(-1, d), axis=1)
    return Box(lower, upper_bounds), points, jacobian


def tempered(potential, points, weights):
    """Probabilities of the quadrature points."""
    energy = potential.energy(points)
    density = weights * np.exp(-(energy - energy.min()))
    return density / density.sum()


def moments_about(run, mean):
    """Per chain: means, and second moments about the true mean."""
    away = run.theta - mean
    second = np.einsum("cni,cnj->cij", away, away) / away.shape[1]
    return np.concatenate([run.theta.mean(axis=1), second[:, *np.triu_indices(len(mean))]], axis=1)


def sgld_covariance(precision, run, step):
    """Stationary covariance of SGLD, in the coordinates that the run's preconditioner P = L L^T whitens.

    With M = L^T A L: w' = (1 - h M) w + sqrt(2 h) xi has covariance (M - h M^2 / 2)^-1.
    """
    (matrix,) = run.report["preconditioner_matrices"]
    d = len(precision)
    matrix = np.eye(d) if matrix is None else np.asarray(matrix)
    factor = np.linalg.cholesky(np.diag(matrix) if matrix.ndim == 1 else matrix)
    whitened = factor.T @ precision @ factor
    return factor @ np.linalg.inv(whitened - step * whitened @ whitened / 2.0) @ factor.T


def kolmogorov(draws, cdf, alarms=1e-5):
    """Largest distance of the empirical distribution function from ``cdf``, and its bound at a rate of false alarms."""
    n = len(draws)
    at = cdf(np.sort(draws))
    return max((np.arange(1, n + 1) / n - at).max(), (at - np.arange(n) / n).max()), kstwo.isf(alarms, n)
