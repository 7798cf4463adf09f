"""A posterior of six data, cheap and not linear, and every batch of two of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import invsamp as iv

DATA, SIZE = 6, 2
X = np.linspace(0.5, 1.5, DATA)
PAIRS = np.array(list(itertools.combinations(range(DATA), SIZE)))


def curve(theta):
    return theta[:, :1] * np.exp(theta[:, 1:] * X)


def slopes(theta):
    grown = np.exp(theta[:, 1:] * X)
    return np.stack([grown, theta[:, :1] * X * grown], axis=2)


POSTERIOR = iv.Posterior(
    prior=iv.Prior(a=iv.Normal(0, 1), b=iv.Normal(0, 1)),
    forward=iv.with_jacobian(curve, slopes),
    data=curve(np.array([[1.0, 0.5]]))[0] + [0.1, -0.2, 0.3, 0.0, -0.1, 0.2],
    noise=iv.GaussianNoise(0.3),
)
POTENTIAL = POSTERIOR.potential()
HERE, THERE = np.array([0.8, 0.6]), np.array([1.0, 0.5])


@pytest.fixture
def all_pairs(monkeypatch):
    """Every batch of two of the six data once, one for each chain."""
    monkeypatch.setattr(
        "invsamp.estimators.minibatches.random_subsets", lambda rng, chains, size, total: PAIRS[:chains]
    )
