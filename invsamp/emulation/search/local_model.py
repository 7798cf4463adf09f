"""A linear model of the outputs about one simulation, and the energy that it gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its optimizers take long to import: not before they are wanted
from scipy.linalg import cholesky, solve_triangular

from invsamp.emulation.emulator.likelihood import EmulatedLikelihood
from invsamp.emulation.emulator.outputs import Components, OutputScale
from invsamp.emulation.runs.inputs import Inputs
from invsamp.posing.forward_models.guarded_model import GuardedModel
from invsamp.posing.posterior.negative_log_posterior import PosteriorPotential
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, VectorJacobianProduct

#: Distance, in prior sds, over which outputs are taken to curve; only its ratio to distances counts.
_LENGTH = 2.0
#: Distance, in prior sds, at which the error of a linear model is as small as those of outputs are taken to be.
_NEAREST = 0.03
#: Simulations at more than so many of those lengths say nothing about a slope.
_FAR = 15.0
#: Share of the largest information that keeps a regression solvable.
_RIDGE = 1e-8


@dataclass(frozen=True)
class LinearModel:
    """Outputs as a linear function of inputs, in units of the noise.

    Attributes
    ----------
    inputs : Inputs
    center : ndarray, shape (p,)
        Coordinates of inputs.
    eta : ndarray, shape (m,)
        Outputs there.
    jacobian : ndarray, shape (m, p)
    """

    inputs: Inputs
    center: Array
    eta: Array
    jacobian: Array

    def __call__(self, theta: Array) -> Array:
        """Displacements (batch, p), and what `EmulatedLikelihood` takes beside components."""
        away = self.inputs.encode(theta) - self.center
        return np.column_stack([away, np.zeros((len(theta), 2))])

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """The same, and its vector-Jacobian product."""
        coordinates = self.inputs.encode(theta)
        slopes = self.inputs.slopes(coordinates)
        packed = np.column_stack([coordinates - self.center, np.zeros((len(theta), 2))])
        return packed, lambda cotangent: cotangent[:, :-2] * slopes


def regressed(
    inputs: Inputs, center: Array, eta: Array, points: Array, outputs: Array, spread: Array
) -> tuple[LinearModel, Array]:
    """The linear model through one simulation that fits all others best, the near ones most.

    The error of a linear model is taken to be a Gaussian process, with all terms of second order and above. Its
    covariance is exp(s) - 1 - s, where s is the product of two displacements in units of a length. So its variance
    grows with the fourth power of the distance. Simulations that are near each other have nearly the same error: their
    difference is a derivative, also seen from far away. The estimate is that of generalized least squares.

    Parameters
    ----------
    center, eta : ndarray, shape (p,), (m,)
        The simulation.
    points, outputs : ndarray, shape (n, p), (n, m)
        All simulations.
    spread : ndarray, shape (p,)
        Prior sds of the inputs.

    Returns
    -------
    LinearModel
    ndarray, shape (p,)
        The direction about which the simulations say least, in prior sds: so long that they say as much as one at its
        end would.
    """
    away = (points - center) / spread
    distance = np.linalg.norm(away, axis=1)
    others = (distance > 0.0) & (distance < _FAR * _LENGTH)
    if not others.any():
        return LinearModel(inputs, center, eta, np.zeros((len(eta), len(center)))), np.eye(len(center))[0]
    away, change = away[others], (outputs - eta)[others]
    covariance = _errors(away)
    scale = np.sqrt(np.diag(covariance))
    factor = cholesky(covariance / np.outer(scale, scale) + _RIDGE * np.eye(len(away)), lower=True)
    rows = solve_triangular(factor, away / scale[:, None], lower=True)
    values, vectors = np.linalg.eigh(rows.T @ rows)
    values = values + _RIDGE * values.max() + 1e-300
    slope = (vectors / values) @ vectors.T @ rows.T @ solve_triangular(factor, change / scale[:, None], lower=True)
    return LinearModel(inputs, center, eta, (slope / spread[:, None]).T), vectors[:, 0] / np.sqrt(values[0])


def _errors(away: Array) -> Array:
    """Covariance (n, n) of a linear model's errors at displacements (n, p), in any unit."""
    s = away @ away.T / _LENGTH**2
    covariance = np.where(np.abs(s) < 1e-4, 0.5 * s * s, np.expm1(s) - s)
    return np.asarray(2.0 * _LENGTH**4 * covariance + _NEAREST**4 * np.eye(len(away)))


def energy_of(posterior: Posterior, model: LinearModel, scale: OutputScale) -> PosteriorPotential:
    """The energy, in positions, of a linear model."""
    posed = posterior._posed[posterior.fidelities[-1]]  # noqa: SLF001
    components = Components(scale, model.eta, np.ascontiguousarray(model.jacobian.T))
    likelihood = EmulatedLikelihood(posed.noise, components, np.zeros(len(model.center)))
    return PosteriorPotential(
        posterior._sampled,  # noqa: SLF001
        posterior.coordinates,
        posterior.sampling_domain,
        GuardedModel(model, len(model.center) + 2, "linear"),
        posed.columns,
        likelihood,  # type: ignore[arg-type]
    )


def minimized(
    potential: PosteriorPotential, position: Array, lower: Array, upper: Array, iterations: int = 60
) -> tuple[Array, float]:
    """The least energy between bounds, and where it is."""

    def energy(point: Array) -> tuple[float, Array]:
        value, slope = potential.energy_and_gradient(point[None])
        return (float(value[0]), slope[0]) if np.isfinite(value[0]) else (1e12, np.zeros_like(point))

    bounds = list(zip(lower, upper, strict=True))
    found = scipy.optimize.minimize(
        energy, position, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations}
    )
    return found.x, float(found.fun)


def laplace(potential: PosteriorPotential, position: Array, spread: Array) -> Array:
    """The covariance (d, d) of the Gaussian about a position; no direction is wider than about two prior sds.

    At a bound, differences are one-sided. Beyond it there is no mass, so that a slope there counts as the inverse of
    the width of an exponential.
    """
    d, step = len(position), 1e-3 * spread
    points = np.concatenate([position + np.diag(step), position - np.diag(step), position[None]])
    energy, slopes = potential.energy_and_gradient(points)
    inside, here = np.isfinite(energy[: 2 * d]).reshape(2, d), slopes[-1]
    upper, lower = (np.where(inside[k][:, None], slopes[k * d : (k + 1) * d], here) for k in (0, 1))
    hessian = (upper - lower) / (np.maximum(inside.sum(axis=0), 1) * step)[:, None]
    hessian = 0.5 * (hessian + hessian.T) + np.diag(np.where(inside.all(axis=0), 0.0, here) ** 2)
    values, vectors = np.linalg.eigh(hessian * np.outer(spread, spread))
    return np.asarray((vectors / np.maximum(values, 0.3)) @ vectors.T * np.outer(spread, spread))
