"""How rungs move: one file for each method, see `invsamp.kernels.contract`."""

from invsamp.kernels.contract import Info, Kernel, Moved, Point, decided, where_solved
from invsamp.kernels.hamiltonian import Hamiltonian
from invsamp.kernels.langevin import Langevin
from invsamp.kernels.microcanonical import Microcanonical
from invsamp.kernels.momentum import Momentum

__all__ = [
    "Hamiltonian",
    "Info",
    "Kernel",
    "Langevin",
    "Microcanonical",
    "Momentum",
    "Moved",
    "Point",
    "decided",
    "where_solved",
]
