"""invsamp: define inverse problems with an expensive forward model, and sample their posteriors honestly.

Here are the names that most scripts need: `sample` and what it is given, priors, noise models, forward models, and the
samplers `mala`, `hmc`, `pcn`, `mams` and `resgld`. The others are in namespaces:

===============  =====================================================================================
`distributions`  all distributions for priors
`noise`          all noise models
`samplers`       all samplers of the literature
`ladder`         samplers as compositions of parts: `Rung`, `Swap`, `Sampler`
`kernels`        transition kernels; step sizes that change: `kernels.schedules`
`tempering`      target distributions of rungs
`estimators`     energies and gradients from minibatches, or with noise
`variances`      models of the variance of that noise
`swaps`          swap rules and swap schemes
`domains`        constraints on parameters
`surrogates`     cheap fidelities from solves of an expensive one
`simulations`    runs of a simulator, kept in a folder and shared
`fidelities`     cost, bias, noise and correlation of fidelities
`results`        scores of classifiers, Gaussians of iterates
`diagnostics`    effective sample sizes, R-hat, swap rates
`parallel`       several processes
`evaluate`       evaluators
`extending`      contracts and base classes for extensions
===============  =====================================================================================

`invsamp.torch`, `invsamp.petab`, `invsamp.plots`, `invsamp.solvers` and `invsamp.problems` are imported by themselves.
"""

from importlib import import_module, metadata
from types import ModuleType

from invsamp import code_cache as code_cache  # the first: others store compiled code
from invsamp import (
    diagnostics,
    distributions,
    domains,
    estimators,
    evaluate,
    extending,
    fidelities,
    kernels,
    ladder,
    noise,
    parallel,
    results,
    samplers,
    simulations,
    surrogates,
    swaps,
    tempering,
    variances,
)
from invsamp.calibration.calibrate import calibrate
from invsamp.correcting import correct
from invsamp.distributions import (
    Beta,
    Cauchy,
    Exponential,
    Flat,
    Gamma,
    HalfCauchy,
    HalfNormal,
    LogNormal,
    LogUniform,
    MultivariateNormal,
    Normal,
    StudentT,
    Uniform,
    from_scipy,
    truncated,
)
from invsamp.domains.box import Box
from invsamp.domains.constraints import constraint
from invsamp.emulation.emulate import emulate
from invsamp.errors import ModelError
from invsamp.identifiability.fisher import information
from invsamp.identifiability.profiles import profile
from invsamp.interop.bridgestan_model import from_bridgestan
from invsamp.interop.pymc_model import from_pymc
from invsamp.ladder.preconditioner import transport_map
from invsamp.maximizing import maximize
from invsamp.noise import (
    BinomialNoise,
    CensoredNoise,
    GaussianNoise,
    LogNormalNoise,
    MixtureNoise,
    NegativeBinomialNoise,
    Outputs,
    PoissonNoise,
    StudentTNoise,
    TruncatedNoise,
)
from invsamp.posing.forward_models.adapters import (
    approximate_derivatives,
    finite_differences,
    from_torch,
    scalar_function,
    with_jacobian,
)
from invsamp.posing.forward_models.executable import executable
from invsamp.posing.forward_models.jax_model import from_jax
from invsamp.posing.forward_models.log_density import LogDensity
from invsamp.posing.forward_models.population import Population
from invsamp.posing.forward_models.umbridge_client import from_umbridge
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.posterior.target import Target
from invsamp.posing.priors.joint_prior import Prior
from invsamp.results.run import Run
from invsamp.resuming import resume
from invsamp.samplers import hmc, mala, mams, pcn, resgld
from invsamp.sampling import sample

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
    "Beta", "BinomialNoise", "Box", "Cauchy", "CensoredNoise", "Exponential", "Flat", "Gamma", "GaussianNoise",
    "HalfCauchy", "HalfNormal", "LogDensity", "LogNormal", "LogNormalNoise", "LogUniform", "MixtureNoise",
    "ModelError", "MultivariateNormal", "NegativeBinomialNoise", "Normal", "Outputs", "PoissonNoise", "Population",
    "Posterior", "Prior", "Run", "StudentT", "StudentTNoise", "Target", "TruncatedNoise", "Uniform", "__version__",
    "approximate_derivatives", "calibrate", "constraint", "correct", "diagnostics", "distributions", "domains",
    "emulate", "estimators", "evaluate", "executable", "extending", "fidelities", "finite_differences",
    "from_bridgestan", "from_jax", "from_pymc", "from_scipy", "from_torch", "from_umbridge", "hmc", "information",
    "kernels", "ladder", "load", "mala", "mams", "maximize", "noise", "parallel", "pcn", "profile", "resgld",
    "results", "resume", "sample", "samplers", "scalar_function", "simulations", "surrogates", "swaps", "tempering",
    "transport_map", "truncated", "variances", "with_jacobian",
]
# fmt: on
