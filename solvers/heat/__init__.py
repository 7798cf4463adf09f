"""The heat equation in finite elements, with exact discrete adjoints for all its unknowns."""

from invsamp.solvers.fem.boundary import dirichlet, neumann
from invsamp.solvers.fem.fields import GaussianBump
from invsamp.solvers.fem.sensors import Disc, point_sensors, region_averages
from invsamp.solvers.heat.equation import HeatEquation
from invsamp.solvers.heat.manufactured import DecayingGaussian
from invsamp.solvers.heat.observation import HeatObservation

__all__ = [
    "DecayingGaussian",
    "Disc",
    "GaussianBump",
    "HeatEquation",
    "HeatObservation",
    "dirichlet",
    "neumann",
    "point_sensors",
    "region_averages",
]
