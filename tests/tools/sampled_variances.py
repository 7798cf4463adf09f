"""Sample variances of a known variance, and a regression on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.special import expit, polygamma

from invsamp.variances.kernel_ridge_model import KernelRidgeState
from invsamp.variances.models import kernel_ridge

SEEDS = st.integers(0, 2**32 - 1)
PROBES = 10
#: Variance of the log of a sample variance of ten Gaussian probes.
LOG_NOISE = float(polygamma(1, (PROBES - 1) / 2))


def sample_variances(rng: np.random.Generator, variance: np.ndarray, probes: int = PROBES) -> np.ndarray:
    """Sample variances of Gaussian probes with these variances."""
    return rng.normal(size=(probes, *variance.shape)).var(axis=0, ddof=1) * variance


def sigmoid_variance(position: np.ndarray) -> np.ndarray:
    return np.asarray((1.5 * expit(position[:, 0])) ** 2)


def fitted_state(
    rng: np.random.Generator, truth: Callable[[np.ndarray], np.ndarray], **settings: Any
) -> KernelRidgeState:
    """A pilot of 100 states, spread over -4..4."""
    model = kernel_ridge(100, **settings)
    position = rng.uniform(-4, 4, (100, 1))
    return model.update(model.init(()), position, sample_variances(rng, truth(position)), PROBES - 1)
