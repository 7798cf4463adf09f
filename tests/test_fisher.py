"""Fisher information: known in closed form for some noises; directions that are not told; bad points."""

from __future__ import annotations

import numpy as np
import pytest

import invsamp as iv

SLOPES = np.random.default_rng(0).standard_normal((30, 3))
POINT = np.array([0.4, -0.2, 0.7])
PRIOR = iv.Prior(b=iv.Normal(0.0, 2.0, shape=3))


def model(link=lambda z: z, slope=np.ones_like):
    return iv.with_jacobian(
        lambda t: link(t @ SLOPES.T), lambda t: slope(t @ SLOPES.T)[:, :, None] * SLOPES, parameters=["b"]
    )


def predicted(link):
    return link(SLOPES @ POINT)


COVARIANCE = 0.3 * (0.6 ** np.abs(np.subtract.outer(np.arange(30), np.arange(30))))
CASES = {
    "gaussian": (model(), np.zeros(30), iv.GaussianNoise(0.5), SLOPES.T @ SLOPES / 0.25),
    # of a location family with unit scale: (nu + 1) / (nu + 3)
    "student": (model(), np.zeros(30), iv.StudentTNoise(4.0, 0.5), SLOPES.T @ SLOPES / 0.25 * 5 / 7),
    "counts": (
        *(model(np.exp, np.exp), np.ones(30), iv.PoissonNoise()),
        SLOPES.T @ (predicted(np.exp)[:, None] * SLOPES),
    ),
    "dependent": (
        *(model(), np.zeros(30), iv.GaussianNoise(covariance=COVARIANCE)),
        SLOPES.T @ np.linalg.solve(COVARIANCE, SLOPES),
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_closed_forms(name, within, seed):
    forward, data, noise, exact = CASES[name]
    posterior = iv.Posterior(PRIOR, forward, data, noise)
    datasets = 2000 if name == "dependent" else 400
    found = iv.information(posterior, {"b": POINT}, datasets=datasets, seed=seed(3))
    # whitened by what it should be: the identity, with errors of sqrt(2 / (data sets x terms)) and, of Poisson and
    # Student terms, about twice that
    root = np.linalg.inv(np.linalg.cholesky(exact))
    apart = root @ found.matrix @ root.T - np.eye(3)
    terms = 1 if name == "dependent" else 30 / 3
    error = 2.0 * np.sqrt(2.0 / (datasets * terms))
    within(np.abs(apart).max() / error, 4.5)
    within.rejects(np.abs(root @ (1.5 * found.matrix) @ root.T - np.eye(3)).max() / error, 4.5)
