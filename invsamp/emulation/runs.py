"""The simulations of one emulation: what was run, what for, and what came of it."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from invsamp.emulation.inputs import Inputs, given, inputs_of
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array


class SpentError(Exception):
    """The budget does not allow for any more simulations."""


class Simulations:
    """Runs the simulator, and keeps all runs in order.

    Parameters
    ----------
    posterior : Posterior
    budget : int
        Simulations, at the most.

    Attributes
    ----------
    coordinates : ndarray, shape (n, p)
        Of the inputs of all simulations so far.
    outputs : ndarray, shape (n, m)
        NaN where a simulation failed.
    purposes : list of str
        What each was for.
    """

    def __init__(self, posterior: Posterior, budget: int) -> None:
        self.posterior, self.budget = posterior, budget
        self.inputs: Inputs = inputs_of(posterior)
        posed = posterior._posed[posterior.fidelities[-1]]  # noqa: SLF001
        self.model, self.noise = posed.model, posed.noise
        self.coordinates = np.empty((0, self.inputs.coordinates.dimension))
        self.outputs = np.empty((0, self.model.observations))
        self.purposes: list[str] = []
        self.waves, self.seconds = 0, 0.0

    def __len__(self) -> int:
        return len(self.purposes)

    @property
    def left(self) -> int:
        """How many more the budget allows for."""
        return self.budget - len(self)

    @property
    def succeeded(self) -> npt.NDArray[np.bool_]:
        """Which simulations (n,) did not fail."""
        return np.asarray(np.isfinite(self.outputs).all(axis=1))

    def coordinates_at(self, position: Array) -> Array:
        """Coordinates (n, p) of the inputs at positions (n, dimension)."""
        return self.inputs.encode(given(self.posterior, self.posterior.to_theta(position)))

    def run(self, position: Array, purpose: str) -> Array:
        """Outputs (n, m) at positions (n, dimension), NaN where a simulation fails.

        Raises
        ------
        SpentError
            If there are more than the budget allows for; nothing is run then.
        """
        if len(position) > self.left:
            raise SpentError
        natural = given(self.posterior, self.posterior.to_theta(position))
        began = time.monotonic()
        outputs = np.asarray(self.model(natural))
        self.seconds += time.monotonic() - began
        outputs = np.where(np.isfinite(outputs).all(axis=1)[:, None], outputs, np.nan)
        self.coordinates = np.concatenate([self.coordinates, self.inputs.encode(natural)])
        self.outputs = np.concatenate([self.outputs, outputs])
        self.purposes += [purpose] * len(position)
        self.waves += 1
        return outputs
