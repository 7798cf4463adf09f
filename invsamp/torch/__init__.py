"""Posteriors of networks: a `torch.nn.Module`, data, a likelihood and a prior, as a problem to sample.

Needs torch (``pip install 'invsamp[torch]'``), which `import invsamp` alone does not load. Every sampler of
`invsamp.samplers` works on such a posterior.
"""

# ruff: noqa: E402 (what says that torch is missing comes before what imports it)
from invsamp.arguments import needed

needed("invsamp.torch needs", "torch", "torch")

from invsamp.torch.likelihoods import Categorical, Gaussian, Likelihood, categorical, gaussian
from invsamp.torch.posterior import ModulePosterior, module_posterior
from invsamp.torch.surrogate import NetworkModel, network_model

__all__ = [
    "Categorical",
    "Gaussian",
    "Likelihood",
    "ModulePosterior",
    "NetworkModel",
    "categorical",
    "gaussian",
    "module_posterior",
    "network_model",
]
