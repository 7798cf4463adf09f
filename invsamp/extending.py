"""Contracts and base classes for extensions: distributions, noise, models, kernels, targets, swaps, and evaluators.

`docs/how-to/extend/extending.md` shows an example of each. Everything here is defined elsewhere, in the module of its
contract; this is the one place from which an extension imports.
"""

from invsamp.domains.boundary import Boundary
from invsamp.domains.contract import Domain, Reflection
from invsamp.estimators.contract import BoundEstimator, Estimator, Remembering, Source
from invsamp.evaluate.contract import Evaluator
from invsamp.evaluate.requests import Batch, Estimate, Request
from invsamp.kernels.contract import Info, Kernel, Point, decided
from invsamp.kernels.defaults import KernelDefaults
from invsamp.kernels.schedules import Schedule
from invsamp.posing.distributions.base import Distribution
from invsamp.posing.noise.base import Noise
from invsamp.posing.posterior.function_potential import FunctionPotential, SumPotential
from invsamp.protocols import (
    Coloring,
    FinishedRun,
    ForwardModel,
    GaussianField,
    Potential,
    Problem,
    RandomField,
    RunsRows,
    TangentForwardModel,
    Terms,
    TermwisePotential,
)
from invsamp.swaps.rules import Stage, SwapRule, Weights
from invsamp.swaps.schemes import SwapScheme
from invsamp.tempering.target_distribution import TargetDistribution
from invsamp.variances.models import VarianceModel

__all__ = [
    "Batch",
    "BoundEstimator",
    "Boundary",
    "Coloring",
    "Distribution",
    "Domain",
    "Estimate",
    "Estimator",
    "Evaluator",
    "FinishedRun",
    "ForwardModel",
    "FunctionPotential",
    "GaussianField",
    "Info",
    "Kernel",
    "KernelDefaults",
    "Noise",
    "Point",
    "Potential",
    "Problem",
    "RandomField",
    "Reflection",
    "Remembering",
    "Request",
    "RunsRows",
    "Schedule",
    "Source",
    "Stage",
    "SumPotential",
    "SwapRule",
    "SwapScheme",
    "TangentForwardModel",
    "TargetDistribution",
    "Terms",
    "TermwisePotential",
    "VarianceModel",
    "Weights",
    "decided",
]
