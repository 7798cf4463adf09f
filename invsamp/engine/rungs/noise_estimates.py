"""Estimates of the noise of a rung's energies: the variance models of one fidelity and their states."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.ladder import Rung
from invsamp.protocols import Array
from invsamp.variances.kernel_ridge_model import KernelRidge
from invsamp.variances.models import Known, VarianceModel
from invsamp.variances.sample_variances import Mask


class Samples(NamedTuple):
    """Sample variances at positions: what variance models learn from."""

    position: Array  # (n, d)
    energy: Array  # (n,)
    gradient: Array | None  # (n, *shape); None where no one takes it out
    degrees_of_freedom: int


class NoiseModels(Lasting, lasting=("_energy", "_gradient", "ready")):
    """Variance models of energies and gradients with what they have learned.

    Each rung has its own, except that rungs of one fidelity may share a pilot (`invsamp.engine.ensemble`).

    Parameters
    ----------
    rung : Rung
        Whose settings these are.
    dimension : int
        Of a position.
    exact_energy : bool
        Whether there is nothing to learn of the energies.
    """

    def __init__(self, rung: Rung, dimension: int, exact_energy: bool) -> None:
        self.energy_model = None if exact_energy else rung.energy_variance
        self.gradient_model = rung.gradient_noise.variance if rung.gradient_noise else None
        structure = rung.gradient_noise.structure if rung.gradient_noise else "isotropic"
        shape = {"isotropic": (), "diagonal": (dimension,), "full": (dimension, dimension)}[structure]
        # what a pilot is made with: two rungs may share one only if they agree in all of it
        self._made_with = rung.estimator, self.energy_model, self.gradient_model, structure, rung.probes
        self._energy: Any = None if self.energy_model is None else self.energy_model.init(())
        self._gradient: Any = None if self.gradient_model is None else self.gradient_model.init(shape)
        #: Whether predictions can be made.
        self.ready = not rung.learns_variance

    def wants_samples(self, position: Array) -> Mask:
        """At which positions (n, d) a sample variance would add something new."""
        wanted = np.zeros(len(position), dtype=bool)
        if self.energy_model is not None:
            wanted = wanted | self.energy_model.wants_samples(self._energy, position)
        if self.gradient_model is not None:
            wanted = wanted | self.gradient_model.wants_samples(self._gradient, position)
        return wanted

    def learn(self, samples: Samples) -> None:
        """Learn from sample variances; failed solves are left out."""
        position, energy, gradient, freedom = samples
        fine = np.isfinite(energy)
        if not fine.any():
            return
        at = position[fine]
        if self.energy_model is not None:
            self._energy = self.energy_model.update(self._energy, at, energy[fine], freedom)
        if self.gradient_model is not None and gradient is not None:
            self._gradient = self.gradient_model.update(self._gradient, at, gradient[fine], freedom)
        self.ready = True

    def finish(self) -> None:
        """Nothing more is learned."""
        if self.energy_model is not None:
            self._energy = self.energy_model.finish(self._energy)
        if self.gradient_model is not None:
            self._gradient = self.gradient_model.finish(self._gradient)

    def energy_variance(self, position: Array, stated: Array | None) -> Array | None:
        """Variances (n,) of energies; ``stated`` is what the estimator itself says. None where they are exact."""
        if self.energy_model is None:
            return None
        return _predict(self.energy_model, self._energy, position, stated)

    def gradient_variance(self, position: Array, stated: Array | None) -> Array | None:
        """Covariances (n, *shape) of gradients; None where they are not taken out of the injected noise."""
        if self.gradient_model is None:
            return None
        return _predict(self.gradient_model, self._gradient, position, stated)

    def uncovered(self, position: Array) -> float | None:
        """Fraction of positions (n, d) that a pilot does not cover; None without a pilot."""
        found = [
            1.0 - float(model.covers(state, position).mean())
            for model, state in ((self.energy_model, self._energy), (self.gradient_model, self._gradient))
            if isinstance(model, KernelRidge)
        ]
        return max(found, default=None)

    def may_share(self, other: NoiseModels) -> bool:
        """Whether another rung of the same fidelity may learn into these models: functions of the position alone.

        A running average is one of the states that its own rung visits.
        """
        models = self.energy_model, self.gradient_model
        by_position = all(model is None or isinstance(model, KernelRidge | Known) for model in models)
        return by_position and self._made_with == other._made_with


def _predict(model: VarianceModel, state: object, position: Array, stated: Array | None) -> Array | None:
    """Variances that a model predicts; `known()` without a value repeats those that the estimator itself states."""
    if isinstance(model, Known) and model.stated:
        return stated
    return model.predict(state, position)
