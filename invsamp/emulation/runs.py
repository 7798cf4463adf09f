"""The simulations of one emulation: what was run, what for, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from invsamp.emulation.inputs import Inputs, given, inputs_of
from invsamp.emulation.journal import Journal
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array


class SpentError(Exception):
    """The budget does not allow for any more simulations."""


class Simulations:
    """Runs the simulator, and keeps all runs in order.

    Parameters
    ----------
    posterior : Posterior
        Of one fidelity.
    budget : int
        Simulations, at most.
    journal : Journal, optional
        Of what was asked for before a kill.
    earlier : tuple of ndarray, shapes (k, p) and (k, m), optional
        Natural values of the unknown inputs, and outputs, of simulations that were there before.

    Attributes
    ----------
    coordinates : ndarray, shape (n, p)
        Of the inputs of all simulations so far, earlier ones first.
    outputs : ndarray, shape (n, m)
        NaN where a simulation failed.
    purposes : list of str
        What each was for.
    seconds : float
        Of all waves.
    """

    def __init__(
        self,
        posterior: Posterior,
        budget: int,
        journal: Journal | None = None,
        earlier: tuple[Array, Array] | None = None,
    ) -> None:
        self.posterior, self.budget, self._journal = posterior, budget, journal
        self.inputs: Inputs = inputs_of(posterior)
        posed = posterior._posed[posterior.fidelities[-1]]  # noqa: SLF001
        self.model, self.noise = posed.model, posed.noise
        self.coordinates = np.empty((0, self.inputs.coordinates.dimension))
        self.outputs = np.empty((0, self.model.observations))
        self.purposes: list[str] = []
        self.waves, self.seconds = 0, 0.0
        #: Called after each wave.
        self.watch: Callable[[Simulations], None] = lambda simulations: None
        if earlier is not None:
            self._keep(*earlier, "earlier")

    def __len__(self) -> int:
        return len(self.purposes)

    @property
    def made(self) -> int:
        """How many this emulation has asked for."""
        return len(self.purposes) - self.purposes.count("earlier")

    @property
    def left(self) -> int:
        """How many more the budget allows for."""
        return self.budget - self.made

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
        if self._journal is not None:
            natural = self._journal.wave(natural)
        began = time.monotonic()
        outputs = np.asarray(self.model(natural))
        self.seconds += time.monotonic() - began
        self.waves += 1
        self._keep(natural, outputs, purpose)
        self.watch(self)
        return self.outputs[len(self.outputs) - len(position) :]

    def _keep(self, natural: Array, outputs: Array, purpose: str) -> None:
        outputs = np.where(np.isfinite(outputs).all(axis=1, keepdims=True), outputs, np.nan)
        self.coordinates = np.concatenate([self.coordinates, self.inputs.encode(natural)])
        self.outputs = np.concatenate([self.outputs, outputs])
        self.purposes += [purpose] * len(natural)
