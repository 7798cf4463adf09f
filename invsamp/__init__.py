"""invsamp: pose inverse problems whose forward model is expensive, and sample their posteriors honestly."""

from importlib import import_module, metadata
from types import ModuleType

from invsamp import code_cache as code_cache  # the first: others store compiled code
from invsamp import diagnostics, evaluate, parallel
from invsamp.calibration import Calibration, calibrate
from invsamp.correcting import correct
from invsamp.domains import Ball, Box, Ellipsoid, HalfSpaces, LevelSet, Polygon, Product, Unbounded, constraint
from invsamp.domains.boundary import penalized, projected
from invsamp.errors import ModelError
from invsamp.estimators import exact, minibatch, noisy
from invsamp.estimators.control_variates import control_variate
from invsamp.estimators.coupled_sums import coupled_sum
from invsamp.estimators.quadratic_controls import fixed_control
from invsamp.estimators.stored_terms import saga
from invsamp.fidelities.comparison import compare_fidelities
from invsamp.fidelities.hierarchy import measure_levels
from invsamp.identifiability.fisher import Information, information
from invsamp.identifiability.profiles import Profiles, profile
from invsamp.kernels import (
    CrankNicolson,
    DelayedAcceptance,
    Hamiltonian,
    Langevin,
    LocalLangevin,
    Microcanonical,
    Momentum,
    prior_draws,
)
from invsamp.kernels.schedules import constant, cyclic_cosine, exponential, polynomial
from invsamp.ladder import GradientNoise, Rung, Sampler, Swap, geometric
from invsamp.ladder.spacing import auto_ladder
from invsamp.maximizing import maximize
from invsamp.modes import Modes
from invsamp.parallel.isolation import isolated
from invsamp.posing.distributions.multivariate import LKJ, Dirichlet, Flat, Ordered
from invsamp.posing.distributions.truncated import truncated
from invsamp.posing.distributions.univariate import (
    Beta,
    Cauchy,
    Gamma,
    HalfNormal,
    LogNormal,
    MultivariateNormal,
    Normal,
    Uniform,
)
from invsamp.posing.distributions.univariate_more import (
    Exponential,
    HalfCauchy,
    HalfStudentT,
    InverseGamma,
    LogUniform,
    StudentT,
    Triangular,
    Weibull,
)
from invsamp.posing.forward_models.adapters import (
    approximate_derivatives,
    finite_differences,
    from_torch,
    scalar_function,
    with_jacobian,
)
from invsamp.posing.forward_models.log_density import LogDensity
from invsamp.posing.forward_models.population import Population
from invsamp.posing.forward_models.umbridge_client import from_umbridge
from invsamp.posing.noise.base import Noise
from invsamp.posing.noise.censored_truncated import CensoredNoise, TruncatedNoise
from invsamp.posing.noise.continuous import GaussianNoise, LogNormalNoise, StudentTNoise
from invsamp.posing.noise.discrete import BinomialNoise, CategoricalNoise, NegativeBinomialNoise, PoissonNoise
from invsamp.posing.noise.error_covariance import AutoRegressive, ExponentialCorrelation, Precision
from invsamp.posing.noise.marginal_variance import MarginalNoise
from invsamp.posing.noise.outlier_mixture import MixtureNoise
from invsamp.posing.noise.per_output import Outputs
from invsamp.posing.posterior.function_potential import FunctionPotential, SumPotential
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.posterior.target import Target
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import ForwardModel, Potential, Problem, Terms, TermwisePotential
from invsamp.results.classes import auroc, predicted_classes
from invsamp.results.iterate_averages import swag
from invsamp.results.run import Run
from invsamp.resuming import resume
from invsamp.samplers import (
    awsgld,
    contour_exchange,
    csgld,
    cyclic_sgld,
    deo_sgd,
    fast_resgld,
    ghmc,
    hmc,
    icsgld,
    mala,
    mams,
    multi_variance_resgld,
    paired_resgld,
    pcn,
    psgld,
    r2sgld,
    relangevin,
    resgld,
    sgd,
    sghmc,
    sgld,
    surrogate_exchange,
    svgd,
    two_stage,
    vr_resgld,
)
from invsamp.sampling import sample
from invsamp.surrogates.residuals import gaussian_process_model, polynomial_model
from invsamp.swaps.discrepancy import Discrepancy
from invsamp.swaps.rules import corrected, delayed_acceptance, fast, multi_variance, naive, product_target
from invsamp.swaps.schemes import adjacent, all_pairs, deo, seo, sweep
from invsamp.tempering import tempered, tempered_likelihood
from invsamp.tempering.contour_learning import gain
from invsamp.tempering.contours import contour
from invsamp.tempering.cooling import annealed, cold_posterior
from invsamp.variances.models import kernel_ridge, known, running_average

try:
    __version__ = metadata.version("invsamp")
except metadata.PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+unknown"

load = Run.load


def __getattr__(name: str) -> ModuleType:
    """`invsamp.petab` on its first use: it imports the solvers."""
    if name == "petab":
        return import_module("invsamp.petab")
    raise AttributeError(f"module 'invsamp' has no attribute {name!r}")


# fmt: off
__all__ = [
    "LKJ", "AutoRegressive", "Ball", "Beta", "BinomialNoise", "Box", "Calibration", "CategoricalNoise", "Cauchy",
    "CensoredNoise", "CrankNicolson", "DelayedAcceptance", "Dirichlet", "Discrepancy", "Ellipsoid", "Exponential",
    "ExponentialCorrelation", "Flat", "ForwardModel", "FunctionPotential", "Gamma", "GaussianNoise", "GradientNoise",
    "HalfCauchy", "HalfNormal", "HalfSpaces", "HalfStudentT", "Hamiltonian", "Information", "InverseGamma", "Langevin",
    "LevelSet", "LocalLangevin", "LogDensity", "LogNormal", "LogNormalNoise", "LogUniform", "MarginalNoise",
    "Microcanonical", "MixtureNoise", "ModelError", "Modes", "Momentum", "MultivariateNormal", "NegativeBinomialNoise",
    "Noise", "Normal", "Ordered", "Outputs", "PoissonNoise", "Polygon", "Population", "Posterior", "Potential",
    "Precision", "Prior", "Problem", "Product", "Profiles", "Run", "Rung", "Sampler", "StudentT", "StudentTNoise",
    "SumPotential", "Swap", "Target", "Terms", "TermwisePotential", "Triangular", "TruncatedNoise", "Unbounded",
    "Uniform", "Weibull", "__version__", "adjacent", "all_pairs", "annealed", "approximate_derivatives", "auroc",
    "auto_ladder", "awsgld", "calibrate", "cold_posterior", "compare_fidelities", "constant", "constraint", "contour",
    "contour_exchange", "control_variate", "correct", "corrected", "coupled_sum", "csgld", "cyclic_cosine",
    "cyclic_sgld", "delayed_acceptance", "deo", "deo_sgd", "diagnostics", "evaluate", "exact", "exponential", "fast",
    "fast_resgld", "finite_differences", "fixed_control", "from_torch", "from_umbridge", "gain",
    "gaussian_process_model", "geometric", "ghmc", "hmc", "icsgld", "information", "isolated", "kernel_ridge", "known",
    "load", "mala", "mams", "maximize", "measure_levels", "minibatch", "multi_variance", "multi_variance_resgld",
    "naive", "noisy", "paired_resgld", "parallel", "pcn", "penalized", "polynomial", "polynomial_model",
    "predicted_classes", "prior_draws", "product_target", "profile", "projected", "psgld", "r2sgld", "relangevin",
    "resgld", "resume", "running_average", "saga", "sample", "scalar_function", "seo", "sgd", "sghmc", "sgld",
    "surrogate_exchange", "svgd", "swag", "sweep", "tempered", "tempered_likelihood", "truncated", "two_stage",
    "vr_resgld", "with_jacobian",
]
# fmt: on
