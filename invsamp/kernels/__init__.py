"""How rungs move: one file for each method, see `invsamp.kernels.contract`."""

from invsamp.kernels.contract import Info, Kernel, Moved, Point, decided, where_solved
from invsamp.kernels.crank_nicolson import CrankNicolson
from invsamp.kernels.hamiltonian import Hamiltonian
from invsamp.kernels.langevin import Langevin
from invsamp.kernels.local_langevin import LocalLangevin
from invsamp.kernels.microcanonical import Microcanonical
from invsamp.kernels.momentum import Momentum
from invsamp.kernels.prior_draws import PriorDraws, prior_draws

__all__ = [
    "CrankNicolson",
    "Hamiltonian",
    "Info",
    "Kernel",
    "Langevin",
    "LocalLangevin",
    "Microcanonical",
    "Momentum",
    "Moved",
    "Point",
    "PriorDraws",
    "decided",
    "prior_draws",
    "where_solved",
]
