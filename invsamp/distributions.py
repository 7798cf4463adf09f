"""Distributions for priors. The common ones are also names of `invsamp` itself."""

from invsamp.posing.distributions.custom import Custom
from invsamp.posing.distributions.from_scipy import from_scipy
from invsamp.posing.distributions.gaussian_mixture import GaussianMixture
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
    Laplace,
    LogLaplace,
    LogUniform,
    StudentT,
    Triangular,
    Weibull,
)

# fmt: off
__all__ = [
    "LKJ", "Beta", "Cauchy", "Custom", "Dirichlet", "Exponential", "Flat", "Gamma", "GaussianMixture", "HalfCauchy",
    "HalfNormal", "HalfStudentT", "InverseGamma", "Laplace", "LogLaplace", "LogNormal", "LogUniform",
    "MultivariateNormal", "Normal", "Ordered", "StudentT", "Triangular", "Uniform", "Weibull", "from_scipy",
    "truncated",
]
# fmt: on
