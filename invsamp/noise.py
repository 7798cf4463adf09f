"""Noise models: the distribution of data given outputs. The common ones are also names of `invsamp` itself."""

from invsamp.posing.noise.censored_truncated import CensoredNoise, TruncatedNoise
from invsamp.posing.noise.continuous import GaussianNoise, LogNormalNoise, StudentTNoise
from invsamp.posing.noise.discrete import BinomialNoise, CategoricalNoise, NegativeBinomialNoise, PoissonNoise
from invsamp.posing.noise.error_covariance import AutoRegressive, ExponentialCorrelation, Precision
from invsamp.posing.noise.laplace import LaplaceNoise, LogLaplaceNoise
from invsamp.posing.noise.marginal_variance import MarginalNoise
from invsamp.posing.noise.outlier_mixture import MixtureNoise
from invsamp.posing.noise.per_output import Outputs
from invsamp.posing.noise.predicted_scale import PredictedScale

# fmt: off
__all__ = [
    "AutoRegressive", "BinomialNoise", "CategoricalNoise", "CensoredNoise", "ExponentialCorrelation", "GaussianNoise",
    "LaplaceNoise", "LogLaplaceNoise", "LogNormalNoise", "MarginalNoise", "MixtureNoise", "NegativeBinomialNoise",
    "Outputs", "PoissonNoise", "Precision", "PredictedScale", "StudentTNoise",
    "TruncatedNoise",
]
# fmt: on
