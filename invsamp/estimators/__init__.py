"""What a rung is told of energies and gradients, and with what noise: see `invsamp.estimators.contract`."""

from invsamp.estimators.contract import (
    BoundEstimator,
    Estimator,
    MultilevelEstimator,
    Pairing,
    Remembering,
    SelfProbing,
    Source,
    expand_isotropic,
    probe,
    remembered,
)
from invsamp.estimators.exact_energies import Exact, exact
from invsamp.estimators.injected_noise import Noisy, noisy
from invsamp.estimators.minibatches import BoundMinibatch, Minibatch, minibatch

__all__ = [
    "BoundEstimator",
    "BoundMinibatch",
    "Estimator",
    "Exact",
    "Minibatch",
    "MultilevelEstimator",
    "Noisy",
    "Pairing",
    "Remembering",
    "SelfProbing",
    "Source",
    "exact",
    "expand_isotropic",
    "minibatch",
    "noisy",
    "probe",
    "remembered",
]
