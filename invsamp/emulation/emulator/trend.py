"""A cheap simulator as the trend of an expensive one."""

from __future__ import annotations

import numpy as np

from invsamp.emulation.emulator.emulated_posterior import Emulator
from invsamp.emulation.emulator.emulator_fit import fit_emulator
from invsamp.emulation.runs.simulation_runs import Simulations
from invsamp.protocols import Array

#: Iterations for the hyperparameters, at first and whenever there are more simulations.
FIRST, LATER = 60, 5


class Trend:
    """The emulator of a cheap simulator, which is run wherever the expensive one is.

    So the emulated outputs are those of the cheap simulator at all points from which the difference is learned (a
    nested design: Le Gratiet and Garnier 2014, International Journal for Uncertainty Quantification 4, 365-386).

    Parameters
    ----------
    simulations : Simulations
        Of the cheap simulator.
    emulator : Emulator
        The last one of its posterior, by whose inputs and outputs others are scaled.
    """

    def __init__(self, simulations: Simulations, emulator: Emulator) -> None:
        self._runs, self._scale = simulations, emulator.components.scale
        self._center, self._whitening = emulator.center, emulator.whitening
        self.emulator = emulator
        self._fit(FIRST)

    def learn(self, position: Array) -> None:
        """Run the cheap simulator at positions (n, dimension)."""
        self._runs.budget += len(position)
        self._runs.run(position, "with the expensive ones")
        self._fit(LATER)

    def _fit(self, iterations: int) -> None:
        every = np.ones(len(self._runs), dtype=bool)
        start = self.emulator.process.hyperparameters
        self.emulator = fit_emulator(
            self._runs, self._scale, every, self._center, self._whitening, start, iterations=iterations
        )
