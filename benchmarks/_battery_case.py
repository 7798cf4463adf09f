"""A posterior of the battery with its known moments, and densities that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import invsamp as iv
from invsamp.protocols import Array, Potential, Problem


@dataclass(frozen=True)
class Case:
    """A posterior with its known moments.

    Parameters
    ----------
    name : str
    problem : Problem
        As a user would pose it.
    known : mapping of label to (mean, sd, error of the mean)
        Moments of the quantities below. NaN for an sd that is not assessed.
    quantities : callable, optional
        Theta (n, d) to quantities (n, q), in the order of ``known``. Default: theta itself.
    smooth : Potential, optional
        The same distribution without bounds, for samplers without constraints; ``of_smooth`` gives the quantities of
        its positions.
        Default: the problem's own potential.
    weights : mapping of fidelity to float, optional
        Cost of a solve, in solves of the finest. Default: 1 each.
    """

    name: str
    problem: Problem
    known: Mapping[str, tuple[float, float, float]]
    quantities: Callable[[Array], Array] = lambda theta: theta
    smooth: Potential | None = None
    of_smooth: Callable[[Array], Array] | None = None
    weights: Mapping[str, float] | None = None

    @property
    def labels(self) -> list[str]:
        """One label for each quantity."""
        return list(self.known)

    @property
    def moments(self) -> tuple[Array, Array, Array]:
        """Means, sds and errors of the means, each (q,)."""
        mean, sd, error = np.array(list(self.known.values())).T
        return mean, sd, error

    def unconstrained(self) -> tuple[Potential, Callable[[Array], Array]] | None:
        """A potential without bounds, and the map from its positions to quantities; None if there is none."""
        if self.smooth is not None and self.of_smooth is not None:
            return self.smooth, self.of_smooth
        if not isinstance(self.problem.sampling_domain, iv.domains.Unbounded):
            return None
        return self.problem.potential(), lambda position: self.quantities(self.problem.to_theta(position))


class Linear:
    """Forward model y = X b: X (n, p), b (batch, p)."""

    def __init__(self, columns: Array, parameters: tuple[str, ...] | None = None) -> None:
        self.columns = np.ascontiguousarray(columns)
        self.n_observations = len(columns)
        if parameters is not None:
            self.parameters = parameters

    def __call__(self, theta: Array) -> Array:
        return np.stack([self.columns @ row for row in theta])  # row by row, so that a row does not depend on its batch

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations and the vector-Jacobian product."""
        return self(theta), lambda cotangent: np.stack([row @ self.columns for row in cotangent])


def by_likelihood(
    prior: iv.Prior, function: Callable[[Array], tuple[Array, Array]], domain: Any = None, transforms: Any = None
) -> iv.Posterior:
    """A posterior by its prior, and theta (batch, d) to its log likelihood (batch,) and the gradient (batch, d)."""
    return iv.Posterior(prior, domain=domain, transforms=transforms, log_likelihood=iv.LogDensity(function, True))


class FlatRegression:
    r"""Gaussian regression with flat priors, as a potential of (b, log sigma).

    .. math:: U = N \log \sigma + |y - X b|^2 / (2 \sigma^2) - \log p(\sigma) - \log \sigma

    Parameters
    ----------
    columns, y : ndarray (n, p), (n,)
    half_cauchy : float, optional
        Scale of sigma's prior; flat by default.
    """

    def __init__(self, columns: Array, y: Array, half_cauchy: float | None = None) -> None:
        orthogonal, self.factor = np.linalg.qr(columns)
        self.target = orthogonal.T @ y
        # the minimum of the sum of squares, without cancellation
        self.rest = float(np.square(y - orthogonal @ self.target).sum())
        self.size, self.dimension = len(y), columns.shape[1] + 1
        self.half_cauchy = half_cauchy

    def energy(self, position: Array) -> Array:
        """Energy (batch,)."""
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (batch,) and gradient (batch, d)."""
        b, log_sigma = position[:, :-1], position[:, -1]
        away = np.einsum("jk,ik->ij", self.factor, b) - self.target
        with np.errstate(over="ignore", invalid="ignore"):
            precision = np.exp(-2.0 * log_sigma)
            squares = self.rest + np.square(away).sum(axis=1)
            energy = (self.size - 1) * log_sigma + 0.5 * squares * precision
            by_b = np.einsum("ij,jk->ik", away, self.factor) * precision[:, None]
            by_sigma = self.size - 1 - squares * precision
            if self.half_cauchy is not None:
                ratio = np.exp(2.0 * log_sigma) / self.half_cauchy**2
                energy += np.log1p(ratio)
                by_sigma += 2.0 * ratio / (1.0 + ratio)
            failed = ~np.isfinite(energy)
        gradient = np.column_stack([by_b, by_sigma])
        gradient[failed] = 0.0
        return np.where(failed, np.inf, energy), gradient


def last_is_log(theta: Array) -> Array:
    """Theta (n, d) with its last column exponentiated."""
    return np.column_stack([theta[:, :-1], np.exp(theta[:, -1])])
