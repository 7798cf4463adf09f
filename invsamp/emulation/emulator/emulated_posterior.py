"""A posterior whose simulator is replaced by an emulator, with the emulator's uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.emulation.emulator.gaussian_process import GaussianProcess
from invsamp.emulation.emulator.likelihood import EmulatedLikelihood
from invsamp.emulation.emulator.outputs import Components
from invsamp.emulation.emulator.success import SuccessRegion
from invsamp.emulation.runs.inputs import Inputs, given
from invsamp.posing.forward_models.guarded_model import GuardedModel
from invsamp.posing.posterior.negative_log_posterior import PosteriorPotential
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, VectorJacobianProduct

#: Name of the fidelity.
EMULATOR = "emulator"


@dataclass(frozen=True)
class Emulator:
    """Knowledge of a simulator's outputs.

    Attributes
    ----------
    inputs : Inputs
    center, whitening : ndarray, shape (p,), (p, p)
        Standardized inputs are ``whitening @ (coordinates - center)``.
    components : Components
    process : GaussianProcess
        Of the components, as functions of standardized inputs.
    scales : ndarray, shape (k,)
        Variances of the components' errors where the process has variance 1.
    success : SuccessRegion
        Where the simulator does not fail.
    trend : Emulator, optional
        Of a cheap simulator. Its components follow those of the process, which emulates what it lacks.
    """

    inputs: Inputs
    center: Array
    whitening: Array
    components: Components
    process: GaussianProcess
    scales: Array
    success: SuccessRegion
    trend: Emulator | None = None

    def standardized(self, coordinates: Array) -> Array:
        """Standardized inputs (n, p) of coordinates."""
        return np.asarray((coordinates - self.center) @ self.whitening.T)

    def packed(self, natural: Array) -> tuple[Array, VectorJacobianProduct]:
        """Columns as `EmulatedLikelihood` takes them, at natural values (n, p), and what pulls slopes back."""
        coordinates = self.inputs.encode(natural)
        columns, by_coordinates = self.columns(coordinates)

        @np.errstate(over="ignore", invalid="ignore")  # a gradient that is not finite ends the move, as a failed solve
        def pull_back(cotangent: Array) -> Array:
            return np.asarray(by_coordinates(cotangent) * self.inputs.slopes(coordinates))

        return columns, pull_back

    def columns(self, coordinates: Array) -> tuple[Array, VectorJacobianProduct]:
        """The same at coordinates (n, p)."""
        x = self.standardized(coordinates)
        predicted = self.process.predict(x)
        log_success, by_x = self.success.log_probability(x)
        own = predicted.mean.shape[1]
        below, by_below = (np.empty((len(x), 2)), None) if self.trend is None else self.trend.columns(coordinates)

        def pull_back(cotangent: Array) -> Array:
            slope = predicted.pull_back(cotangent[:, :own], cotangent[:, -2]) + cotangent[:, [-1]] * by_x
            slope = slope @ self.whitening
            if by_below is None:
                return np.asarray(slope)
            return slope + by_below(np.column_stack([cotangent[:, own:-2], np.zeros((len(slope), 2))]))

        return np.column_stack([predicted.mean, below[:, :-2], predicted.variance, log_success]), pull_back

    def left_out(self, coordinates: Array, rows: npt.NDArray[np.int_]) -> Array:
        """Columns at some of the process's inputs, by their numbers, each as the other inputs predict them."""
        errors, factors = self.process.leave_one_out()
        mean = (self.process.outputs - errors)[rows]
        variance = np.maximum(factors[rows] - self.process.hyperparameters.noise, 0.0)
        others, _ = self.columns(coordinates)
        return np.column_stack([mean, others[:, mean.shape[1] : -2], variance, others[:, -1]])


class EmulatedModel:
    """The emulator's mean as a forward model, for predictions."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self.parameters = emulator.inputs.names

    def __call__(self, theta: Array) -> Array:
        """Outputs (batch, m)."""
        return self._emulator.components.decode(self._emulator.packed(theta)[0][:, :-2]).y

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Outputs (batch, m) and their vector-Jacobian product."""
        packed, pull_back = self._emulator.packed(theta)
        decoded = self._emulator.components.decode(packed[:, :-2])

        def vjp(cotangent: Array) -> Array:
            by_components = (cotangent * decoded.slope) @ self._emulator.components.rows.T
            return pull_back(np.column_stack([by_components, np.zeros((len(theta), 2))]))

        return decoded.y, vjp


class _PackedModel:
    """The emulator as a forward model of the columns that `EmulatedLikelihood` takes."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    def __call__(self, theta: Array) -> Array:
        return self._emulator.packed(theta)[0]

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        return self._emulator.packed(theta)


class EmulatedPosterior(Posterior):
    """The posterior of an emulator: energies count its variance, predictions are its mean.

    Parameters
    ----------
    posterior : Posterior
        Of the simulator, its finest fidelity.
    emulator : Emulator
    uncertain : bool
        Whether the emulator's variance counts.
    """

    def __init__(self, posterior: Posterior, emulator: Emulator, uncertain: bool = True) -> None:
        fidelity = posterior.fidelities[-1]
        alone = posterior.alone(fidelity).with_forward({EMULATOR: EmulatedModel(emulator)})
        vars(self).update(vars(alone))
        self.emulator, self.of, self._uncertain = emulator, posterior, uncertain

    @property
    def likelihood(self) -> EmulatedLikelihood:
        """Of the data, with the emulator's variance."""
        scales = self.emulator.scales if self._uncertain else np.zeros_like(self.emulator.scales)
        return EmulatedLikelihood(self._posed[EMULATOR].noise, self.emulator.components, scales)

    def with_forward(self, forward: Mapping[str, object]) -> Posterior:
        """The posterior of other forward models, not emulated."""
        return self.of.with_forward(forward)

    def potential(self, fidelity: str | None = None) -> PosteriorPotential:
        """Energy, in positions, with the emulator's variance."""
        posed, likelihood = self._posed[self._fidelity(fidelity)], self.likelihood
        model = GuardedModel(_PackedModel(self.emulator), likelihood.outputs, EMULATOR)
        return PosteriorPotential(
            self._sampled,
            self.coordinates,
            self.sampling_domain,
            model,
            posed.columns,
            likelihood,  # type: ignore[arg-type]  # what an energy asks of a noise, it has
        )

    def left_out(self, position: Array, coordinates: Array, rows: npt.NDArray[np.int_]) -> Array:
        """Energies (n,) at positions that were simulated, each as the emulator of all other simulations has it.

        ``rows`` are their numbers among the simulations from which the emulator learned.
        """
        value, theta = np.zeros(len(position)), self.to_theta(position)
        self.likelihood.accumulate(theta, self.emulator.left_out(coordinates, rows), value, np.zeros(theta.shape))
        return np.asarray(-value - self.log_prior_at(position))

    def misfit_errors(self, position: Array) -> Array:
        """Sd (n,) of the misfit's error by the emulator at positions (n, dimension)."""
        theta = self.to_theta(position)
        packed = self.emulator.packed(given(self, theta))[0]
        return np.asarray(np.sqrt(self.likelihood.error_variance(theta, packed)))
