"""Distributions for priors. The common ones are also names of `invsamp` itself."""

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

# fmt: off
__all__ = [
    "LKJ", "Beta", "Cauchy", "Dirichlet", "Exponential", "Flat", "Gamma", "HalfCauchy", "HalfNormal", "HalfStudentT",
    "InverseGamma", "LogNormal", "LogUniform", "MultivariateNormal", "Normal", "Ordered", "StudentT", "Triangular",
    "Uniform", "Weibull", "truncated",
]
# fmt: on
