"""How rungs move: one file for each method, see `invsamp.kernels.contract`."""

from invsamp.kernels.baseline import Baseline
from invsamp.kernels.contract import RESTED, Info, Kernel, Moved, Point, decided, where_solved
from invsamp.kernels.crank_nicolson import CrankNicolson
from invsamp.kernels.defaults import KernelDefaults
from invsamp.kernels.delayed_acceptance import DelayedAcceptance
from invsamp.kernels.deo_sgd import DeoSgd
from invsamp.kernels.gradient_descent import GradientDescent
from invsamp.kernels.hamiltonian import Hamiltonian
from invsamp.kernels.langevin import Langevin
from invsamp.kernels.local_langevin import LocalLangevin
from invsamp.kernels.microcanonical import Microcanonical
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.kernels.momentum import Momentum
from invsamp.kernels.prior_sampler import PriorDraws, prior_draws
from invsamp.kernels.rms_langevin import RmsLangevin
from invsamp.kernels.stein import Stein

# fmt: off
__all__ = [
    "RESTED", "Baseline", "CrankNicolson", "DelayedAcceptance", "DeoSgd", "GradientDescent", "Hamiltonian", "Info",
    "Kernel", "KernelDefaults", "Langevin", "LocalLangevin", "Microcanonical", "ModeJumps", "Momentum", "Moved",
    "Point", "PriorDraws", "RmsLangevin", "Stein", "decided", "prior_draws", "where_solved",
]
# fmt: on
