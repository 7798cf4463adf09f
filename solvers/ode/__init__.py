"""Ordinary differential equations: `OdeModel` solves them, `OdeObservation` and `MultipleShooting` observe them.

Where to look: `model` (the settings and checks), `doses` (and events), `observation` with `initial_values` and
`steady_state`, `experiments`, `shooting` (what is measured; its fit in `shooting_fit` and `arrow`), `sbml` (models of
files, with `sbml_reading`, `symbols` and `formulas`), `right_hand_side` (from plain Python to compiled code and its
derivatives, with `tracing`, for large systems `graph`, `function_copies`, `fingerprint`, `generated`), `solver`,
`trajectories`, `march`, `happenings`, `runge_kutta` and its tables `dormand_prince` and `dop853`, `rosenbrock` and
its table `rodas5p` with `tangents` (the compiled integrator), `integrators` (statuses, LSODA) with `newton` (its
Jacobians), `differentiation` (sensitivities that can be trusted).
"""

from invsamp.solvers.ode.doses import Event
from invsamp.solvers.ode.experiments import Experiments
from invsamp.solvers.ode.integrators import Status
from invsamp.solvers.ode.model import OdeModel, SensitiveSolution, Solution
from invsamp.solvers.ode.observation import OdeObservation
from invsamp.solvers.ode.sbml import SbmlModel, from_sbml
from invsamp.solvers.ode.shooting import MultipleShooting
from invsamp.solvers.ode.shooting_fit import ShootingFit
from invsamp.solvers.ode.steady_state import SteadyState
from invsamp.solvers.ode.tables import Table

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
