"""Runs of a simulator: kept in a folder, looked up before a simulation is run, and shared by scripts.

`invsamp.Posterior` does all of it with ``simulations="folder"``.
"""

from invsamp.simulations.database import SimulationDatabase
from invsamp.simulations.stored_model import stored

__all__ = ["SimulationDatabase", "stored"]
