"""Estimators of energies and gradients: exact, from minibatches of the data, with control variates, or noisy.

The contract is `invsamp.estimators.contract`.
"""

from invsamp.estimators.control_variates import control_variate
from invsamp.estimators.coupled_sums import coupled_sum
from invsamp.estimators.exact_energies import exact
from invsamp.estimators.injected_noise import noisy
from invsamp.estimators.minibatches import minibatch
from invsamp.estimators.quadratic_controls import fixed_control
from invsamp.estimators.stored_terms import saga

__all__ = ["control_variate", "coupled_sum", "exact", "fixed_control", "minibatch", "noisy", "saga"]
