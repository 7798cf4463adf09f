"""Transition kernels, one file for each method, and `schedules` of step sizes.

A kernel is part of a `invsamp.ladder.Rung`. The contract is `invsamp.kernels.contract`.
"""

from invsamp.kernels import schedules
from invsamp.kernels.crank_nicolson import CrankNicolson
from invsamp.kernels.delayed_acceptance import DelayedAcceptance
from invsamp.kernels.deo_sgd import DeoSgd
from invsamp.kernels.differential_evolution import DifferentialEvolution
from invsamp.kernels.gradient_descent import GradientDescent
from invsamp.kernels.hamiltonian import Hamiltonian
from invsamp.kernels.langevin import Langevin
from invsamp.kernels.local_langevin import LocalLangevin
from invsamp.kernels.microcanonical import Microcanonical
from invsamp.kernels.momentum import Momentum
from invsamp.kernels.prior_sampler import prior_draws
from invsamp.kernels.rms_langevin import RmsLangevin
from invsamp.kernels.rotations import InfinityHamiltonian, InfinityMicrocanonical
from invsamp.kernels.stein import Stein
from invsamp.kernels.stretch import Stretch

__all__ = [
    "CrankNicolson",
    "DelayedAcceptance",
    "DeoSgd",
    "DifferentialEvolution",
    "GradientDescent",
    "Hamiltonian",
    "InfinityHamiltonian",
    "InfinityMicrocanonical",
    "Langevin",
    "LocalLangevin",
    "Microcanonical",
    "Momentum",
    "RmsLangevin",
    "Stein",
    "Stretch",
    "prior_draws",
    "schedules",
]
