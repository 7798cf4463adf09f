"""An emulator of the simulations that are nearest to a point, by which descents step once they have some experience."""

from __future__ import annotations

import numpy as np

from invsamp.emulation.emulator.emulated_posterior import EmulatedPosterior
from invsamp.emulation.emulator.emulator_fit import fit_emulator
from invsamp.emulation.emulator.outputs import OutputScale
from invsamp.emulation.runs.simulation_runs import Simulations
from invsamp.posing.posterior.negative_log_posterior import PosteriorPotential
from invsamp.protocols import Array

#: Simulations for each input, and iterations for the hyperparameters.
_NEAREST, _ITERATIONS = 6, 20


def local_energy(simulations: Simulations, scale: OutputScale, center: Array, spread: Array) -> PosteriorPotential:
    """The energy by the mean of an emulator about the coordinates (p,) of some inputs; prior sds are ``spread``."""
    away = (simulations.coordinates - center) / spread
    distance = np.where(simulations.succeeded, np.square(away).sum(axis=1), np.inf)
    count = min(int(simulations.succeeded.sum()), _NEAREST * len(center))
    near = distance <= np.sort(distance)[count - 1]
    width = spread * (np.sqrt(np.square(away[near]).mean(axis=0)) + 1e-3)
    emulator = fit_emulator(simulations, scale, near, center, np.diag(1.0 / width), iterations=_ITERATIONS)
    return EmulatedPosterior(simulations.posterior, emulator, uncertain=False).potential()
