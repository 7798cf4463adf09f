"""Partial differential equations that a user writes in UFL, solved by dolfinx.

The modules are:

- `stationary` and `time_dependent`: the problems and their models
- `model`: batches, failures, ranks
- `equation`: Newton's method and the adjoint
- `operator`: the linear solver
- `unknowns`: the meaning of theta's columns
- `boundary`: Dirichlet values that are unknown
- `sensors`: observed quantities
- `derivatives`: those of UFL
- `checks`: refused input

dolfinx is imported when a problem is made, not before.
"""

from invsamp.solvers.pde.equation import NewtonSettings
from invsamp.solvers.pde.operator import DIRECT
from invsamp.solvers.pde.sensors import point_sensors
from invsamp.solvers.pde.stationary import StationaryModel, StationaryProblem
from invsamp.solvers.pde.time_dependent import TimeDependentModel, TimeDependentProblem

__all__ = [
    "DIRECT",
    "NewtonSettings",
    "StationaryModel",
    "StationaryProblem",
    "TimeDependentModel",
    "TimeDependentProblem",
    "point_sensors",
]
