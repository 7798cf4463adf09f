"""Ordinary differential equations: `OdeModel` solves them, `OdeObservation` and `MultipleShooting` observe them.

Where to look: `model` (the settings and checks), `doses` (and events), `observation` with `initial_values` and
`steady_state`, `experiments`, `shooting` (what is measured; its fit in `shooting_fit` and `arrow`), `sbml` (models of
files, with `sbml_reading`, `symbols` and `formulas`), `right_hand_side` (from plain Python to compiled code and its
derivatives, with `tracing`, for large systems `graph`, `function_copies`, `fingerprint`, `generated`), `solver`,
`trajectories`, `march`, `happenings`, `runge_kutta` and its tables `dormand_prince` and `dop853`, `rosenbrock` and
its table `rodas5p` with `tangents` (the compiled integrator), `integrators` (statuses, LSODA) with `newton` (its
Jacobians), `differentiation` (sensitivities that can be trusted).
"""

from invsamp.solvers.ode.codegen.interpolation_tables import Table
from invsamp.solvers.ode.events.doses_and_events import Event
from invsamp.solvers.ode.integrators.methods import Status
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
