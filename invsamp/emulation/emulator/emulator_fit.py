"""An emulator from simulations."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.emulation.emulator.emulated_posterior import Emulator
from invsamp.emulation.emulator.gaussian_process import Hyperparameters, fit
from invsamp.emulation.emulator.outputs import OutputScale, principal_components
from invsamp.emulation.emulator.success import success_region
from invsamp.emulation.runs.simulation_runs import Simulations
from invsamp.protocols import Array

#: Inputs whose |x|^2 is at most so many sds above its mean show how large errors are, if there are at least so many.
WITHIN, FEW = 3.0, 8
#: Of the regression of outputs on inputs, in units of the inputs' variance.
_RIDGE = 1e-3


def fit_emulator(
    simulations: Simulations,
    scale: OutputScale,
    near: npt.NDArray[np.bool_],
    center: Array,
    whitening: Array,
    start: Hyperparameters | None = None,
    iterations: int = 40,
    rotated: bool = False,
) -> Emulator:
    """The emulator of the simulations that are near.

    Parameters
    ----------
    simulations : Simulations
    scale : OutputScale
    near : ndarray of bool, shape (n,)
        Those from which it learns, among all of them.
    center, whitening : ndarray, shape (p,), (p, p)
        Standardized inputs are ``whitening @ (coordinates - center)``; each has a length of its own.
    start, iterations : Hyperparameters, int
        Where the search for hyperparameters begins, and its length, at most.
    rotated : bool
        Whether lengths may belong to the directions in which outputs change most, and trends share them, where that
        makes the outputs more probable.
    """
    good = simulations.succeeded
    chosen = good & near
    x = (simulations.coordinates - center) @ whitening.T
    eta = scale.encode(simulations.outputs[chosen])
    trend = None if simulations.trend is None else simulations.trend.emulator
    below = None
    if trend is not None:
        below = _scaled(trend, scale, simulations.coordinates[chosen], eta)
        eta = eta - below.outputs
    components, values = principal_components(eta, scale)
    process = fit(x[chosen], values, start, iterations)
    if rotated:
        axes = _axes(x[chosen], values)
        others = [fit(x[chosen] @ axes, values, None, iterations, shared) for shared in (False, True)]
        if (best := max(others, key=lambda one: one.evidence)).evidence > process.evidence:
            process, x, whitening = best, x @ axes, axes.T @ whitening
    errors, factors = process.leave_one_out()
    inside = _within(x[chosen])
    squared = np.square(errors[inside]).mean(axis=0) / (process.scales * factors[inside].mean())
    weight = process.scales / process.scales.sum()
    inflation = max(1.0, float(weight @ squared))
    region = success_region(x[near], good[near])
    scales = process.scales * inflation
    if below is not None:  # any fixed function serves as a trend: it has no error of its own
        rows = np.concatenate([components.rows, below.rows])
        components = replace(components, mean=components.mean + below.mean, rows=rows)
        scales = np.concatenate([scales, np.zeros(len(below.rows))])
    return Emulator(simulations.inputs, center, whitening, components, process, scales, region, trend)


def _within(x: Array) -> npt.NDArray[np.bool_]:
    """Which standardized inputs (n, p) are of the size of 1; all of them if these are few."""
    p = x.shape[1]
    inside = np.square(x).sum(axis=1) < p + WITHIN * np.sqrt(2.0 * p)
    return inside if inside.sum() >= FEW else np.ones(len(x), dtype=bool)


def _axes(x: Array, values: Array) -> Array:
    """Orthogonal directions (p, p) of inputs (n, p), as columns, the last one that in which components change most.

    Compare active subspaces (Constantine, Dow and Wang 2014, SIAM Journal on Scientific Computing 36, A1500-A1524); the
    slopes here are those of a linear regression.
    """
    square = x.T @ x
    slopes = np.linalg.solve(square + _RIDGE * len(x) * np.eye(len(square)), x.T @ values)
    return np.asarray(np.linalg.eigh(slopes @ slopes.T)[1])


class _Below(NamedTuple):
    """A trend in the units of the emulator, times the factor that fits the outputs best."""

    mean: Array
    rows: Array
    outputs: Array


def _scaled(trend: Emulator, scale: OutputScale, coordinates: Array, eta: Array) -> _Below:
    """The trend times one factor, as of Kennedy and O'Hagan (2000), Biometrika 87, eq. (2)."""
    units = trend.components.scale.scale / scale.scale
    mean, rows = trend.components.mean * units, trend.components.rows * units
    outputs = mean + trend.columns(coordinates)[0][:, :-2] @ rows
    away = outputs - outputs.mean(axis=0)
    factor = float(np.vdot(away, eta) / max(np.vdot(away, away), 1e-12))
    return _Below(factor * mean, factor * rows, factor * outputs)
