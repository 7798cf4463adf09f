"""An emulator from simulations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.emulation.emulator.emulated_posterior import Emulator
from invsamp.emulation.emulator.gaussian_process import Hyperparameters, fit
from invsamp.emulation.emulator.outputs import OutputScale, principal_components
from invsamp.emulation.emulator.success import success_region
from invsamp.emulation.runs.simulation_runs import Simulations
from invsamp.protocols import Array


def fit_emulator(
    simulations: Simulations,
    scale: OutputScale,
    near: npt.NDArray[np.bool_],
    center: Array,
    covariance: Array,
    start: Hyperparameters | None = None,
    iterations: int = 40,
) -> Emulator:
    """The emulator of the simulations that are near.

    Parameters
    ----------
    simulations : Simulations
    scale : OutputScale
    near : ndarray of bool, shape (n,)
        Those from which it learns, among all of them.
    center, covariance : ndarray, shape (p,), (p, p)
        Of the inputs' distribution, by which they are standardized.
    """
    factor = np.linalg.cholesky(covariance + 1e-10 * np.diag(np.diag(covariance)))
    whitening = np.linalg.inv(factor)
    good = simulations.succeeded
    chosen = good & near
    x = (simulations.coordinates - center) @ whitening.T
    components, values = principal_components(scale.encode(simulations.outputs[chosen]), scale)
    process = fit(x[chosen], values, start, iterations)
    errors, factors = process.leave_one_out()
    squared = np.square(errors).mean(axis=0) / (process.scales * factors.mean())
    weight = process.scales / process.scales.sum()
    inflation = max(1.0, float(weight @ squared))
    region = success_region(x[near], good[near])
    scales = process.scales * inflation
    return Emulator(simulations.inputs, center, whitening, components, process, scales, region)
