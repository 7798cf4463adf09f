"""Valid, cheap calls of what solves equations in UFL; they need dolfinx."""

from __future__ import annotations

import numpy as np
import ufl
from dolfinx import fem
from fuzzing import Call
from mpi4py import MPI
from pde_cases import END_TIME, SENSORS, STEPS, side, square

from invsamp.solvers import pde


def pde_calls() -> dict[str, Call]:
    """Name -> a valid call."""
    domain, space, _ = square(MPI.COMM_SELF, 2)
    u, previous, v = fem.Function(space), fem.Function(space), ufl.TestFunction(space)
    k, step = fem.Constant(domain, 1.3), fem.Constant(domain, END_TIME / STEPS)
    still = k * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx + (u - 1.0) * v * ufl.dx
    moving = (u - previous) / step * v * ufl.dx + still
    edge = [fem.dirichletbc(0.0, side(space, 0, 0.0), space)]
    posed = {"state": u, "parameters": {"k": k}, "boundary_conditions": edge}
    clock = {"end_time": END_TIME, "steps": STEPS, "step_size": step}
    stationary = pde.StationaryProblem(still, **posed)
    marched = pde.TimeDependentProblem(moving, previous=previous, **posed, **clock)
    forms = {"residual": {"part"}, "state": {"part"}, "previous": {"part"}, "time": {"part", "none"}}
    forms |= {
        "initial": {"part", "none"},
        "step_size": {"part", "none"},
        "fields": {"mapping", "none", "empty mapping"},
    }
    kinds = forms | {"parameters": {"none such"}, "boundary_conditions": {"empty"}}
    sensors = {"sensors": {"numbers"}}
    return {
        "NewtonSettings": Call(pde.NewtonSettings),
        "point_sensors": Call(pde.point_sensors, {"points": SENSORS}, {"component": {"integer", "empty"}}),
        "StationaryProblem": Call(pde.StationaryProblem, {"residual": still, **posed}, kinds),
        "StationaryProblem.observe": Call(stationary.observe, {"sensors": SENSORS}, sensors),
        "StationaryModel.solve": Call(stationary.observe(SENSORS).solve, {"theta": np.ones(1)}),
        "TimeDependentProblem": Call(
            pde.TimeDependentProblem, {"residual": moving, "previous": previous, **posed, **clock}, kinds
        ),
        "TimeDependentProblem.observe": Call(marched.observe, {"sensors": SENSORS}, sensors),
    }
