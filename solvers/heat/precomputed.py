"""Observations of the heat equation without a solve: where the conductivity is known, they are linear in the data."""

from __future__ import annotations

import numpy as np

from invsamp.solvers.fem.space import Sensors
from invsamp.solvers.fem.weighted import Precomputed, weighted
from invsamp.solvers.heat.discretization import Discretization
from invsamp.solvers.heat.separable import separate


def precompute_observation(discretization: Discretization, sensors: Sensors, steps: tuple[int, ...]) -> Precomputed:
    """Solve one adjoint problem for each sensor and time."""
    functionals = discretization.functionals(sensors, steps)
    weights = {kind: getattr(functionals, kind) for kind in discretization.drivers}
    if discretization.exact:
        weights["initial"] = weights["initial"] + weights.pop("edge")
    bumps, rest = separate(discretization, weights)
    drivers = discretization.drivers
    others = {kind: (drivers[kind].values, drivers[kind].columns) for kind in rest}
    constant, parts = weighted(others, weights, discretization.space)
    return Precomputed(np.zeros(len(steps) * sensors.count) + constant, (*bumps, *parts))
