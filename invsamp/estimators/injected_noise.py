"""The whole potential with Gaussian noise that is injected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from invsamp.arguments import numbers, real
from invsamp.estimators.contract import BoundEstimator, Source, expand_isotropic
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request, Structure
from invsamp.protocols import Array, Gradients
from invsamp.stored import stored_dataclass

#: Standard deviation of a noise: a number, or a function of (position (chains, d), energy (chains,)) -> (chains,).
StandardDeviation = float | Callable[[Array, Array], Array]


def noisy(energy_sd: StandardDeviation = 0.0, gradient_sd: StandardDeviation = 0.0) -> Noisy:
    """Estimator with injected Gaussian noise, independent for energy and gradient, isotropic for the gradient.

    Parameters
    ----------
    energy_sd, gradient_sd : float >= 0, or callable
        Standard deviations; a callable gets (position (chains, d), energy (chains,)) and returns (chains,).

    Raises
    ------
    ValueError
        If a number is negative or not finite.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.estimators.noisy(energy_sd=0.5, gradient_sd=0.1)
    Noisy(energy_sd=0.5, gradient_sd=0.1)
    """
    return Noisy(_standard_deviation("energy_sd", energy_sd), _standard_deviation("gradient_sd", gradient_sd))


@stored_dataclass
class Noisy:
    """The potential with injected Gaussian noise of known standard deviations."""

    energy_sd: StandardDeviation
    gradient_sd: StandardDeviation

    def bind(self, source: Source, structure: Structure | None) -> BoundEstimator:
        """Join to a fidelity."""
        return _BoundNoisy(source.fidelity, self.energy_sd, self.gradient_sd, structure)


class _BoundNoisy:
    exact = exact_energy = False
    degrees_of_freedom: int | None = None

    def __init__(
        self, fidelity: str, energy_sd: StandardDeviation, gradient_sd: StandardDeviation, structure: Structure | None
    ) -> None:
        self._fidelity, self._energy_sd, self._gradient_sd = fidelity, energy_sd, gradient_sd
        self._structure = structure
        # numbers stay what they are at every step: arrays (chains,) of sd and variance by number and chains
        self._repeated: dict[tuple[float, int], tuple[Array, Array]] = {}

    def estimate(
        self, rng: np.random.Generator, position: Array, gradient: Gradients = True
    ) -> EvaluationRequests[Estimate]:
        (found,) = yield (tuple.__new__(Request, (self._fidelity, position, gradient, None, False)),)
        energy_sd, energy_variance = self._evaluate(self._energy_sd, position, found.energy)
        chains, d = position.shape
        if not gradient:
            energy = found.energy + energy_sd * rng.standard_normal(chains)
            return tuple.__new__(Estimate, (energy, None, energy_variance, *found[3:]))
        gradient_sd, gradient_variance = self._evaluate(self._gradient_sd, position, found.energy)
        noise = rng.standard_normal((chains, d + 1))
        energy, noisy_gradient = np.empty(chains), np.empty((chains, d))
        _add_noise(found.energy, found.gradient, energy_sd, gradient_sd, noise, energy, noisy_gradient)
        variance = expand_isotropic(gradient_variance, d, self._structure)
        return tuple.__new__(Estimate, (energy, noisy_gradient, energy_variance, variance, *found[4:]))

    def _evaluate(self, sd: StandardDeviation, position: Array, energy: Array) -> tuple[Array, Array]:
        """Standard deviations and variances, each (chains,)."""
        if callable(sd):
            # a failed solve has an infinite energy, and a noise that depends on it would turn that into nan
            values = np.where(np.isfinite(energy), numbers("the standard deviation", sd(position, energy)), 0.0)
            return values, values**2
        key = sd, len(position)
        known = self._repeated.get(key)
        if known is None:
            known = self._repeated[key] = np.full(key[1], float(sd)), np.full(key[1], float(sd) * float(sd))
        return known


@njit(cache=True)
def _add_noise(
    energy: Array,
    gradient: Array,
    energy_sd: Array,
    gradient_sd: Array,
    noise: Array,
    noisy_energy: Array,
    noisy_gradient: Array,
) -> None:
    """A quarter of NumPy's time, and this is asked at every step."""
    for i in range(noise.shape[0]):
        noisy_energy[i] = energy[i] + energy_sd[i] * noise[i, 0]
        for j in range(gradient.shape[1]):
            noisy_gradient[i, j] = gradient[i, j] + gradient_sd[i] * noise[i, j + 1]


def _standard_deviation(name: str, value: StandardDeviation) -> StandardDeviation:
    if callable(value) and not isinstance(value, type):
        return value
    return real(name, value, least=0, also=" or a function")
