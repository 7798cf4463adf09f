"""Ordinary differential equations: `OdeModel` solves them, `OdeObservation` and `MultipleShooting` observe them.

The packages are:

- `model`: settings, checks, observations, several experiments, steady states
- `events`: doses, events, breakpoints, pulses
- `codegen`: from plain Python to compiled code, its derivatives and its Taylor series
- `integrators`: explicit Runge-Kutta pairs, Taylor's method, Rodas5P, LSODA, CVODE
- `sensitivities`, `multiple_shooting`
- `sbml` and `symbolic`: models of SBML files
"""

from invsamp.solvers.ode.codegen.interpolation_tables import Table
from invsamp.solvers.ode.events.doses_and_events import Event
from invsamp.solvers.ode.integrators.status import Status
from invsamp.solvers.ode.model.experiments import Experiments
from invsamp.solvers.ode.model.observation import OdeObservation
from invsamp.solvers.ode.model.ode_model import OdeModel, SensitiveSolution, Solution
from invsamp.solvers.ode.model.steady_state import SteadyState
from invsamp.solvers.ode.multiple_shooting.least_squares import ShootingFit
from invsamp.solvers.ode.multiple_shooting.multiple_shooting import MultipleShooting
from invsamp.solvers.ode.sbml.sbml_model import SbmlModel, from_sbml

__all__ = [
    "Event",
    "Experiments",
    "MultipleShooting",
    "OdeModel",
    "OdeObservation",
    "SbmlModel",
    "SensitiveSolution",
    "ShootingFit",
    "Solution",
    "Status",
    "SteadyState",
    "Table",
    "from_sbml",
]
