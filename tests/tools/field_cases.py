"""Posteriors whose prior is Gaussian in many unknowns, of which data inform few."""

from __future__ import annotations

from functools import cache

import numpy as np

import invsamp as iv

DATA, NOISE = np.array([0.8, 0.4]), 0.35


class Bent:
    """Two data of two of the unknowns, one of them curved; the prior alone knows of the others."""

    def __call__(self, theta):
        return np.stack([theta[:, 0] + 0.5 * theta[:, 1] ** 2, theta[:, 1] + 0.3 * theta[:, 0]], axis=1)

    def linearize(self, theta):
        y, jacobian = self.jacobian(theta)
        return y, lambda cotangent: np.einsum("nm,nmd->nd", cotangent, jacobian)

    def jacobian(self, theta):
        jacobian = np.zeros((len(theta), 2, theta.shape[1]))
        jacobian[:, 0, 0], jacobian[:, 0, 1], jacobian[:, 1, 1], jacobian[:, 1, 0] = 1.0, theta[:, 1], 1.0, 0.3
        return self(theta), jacobian


class Coarse(Bent):
    """A cheaper model of the same data, which does not bend."""

    def __call__(self, theta):
        return super().__call__(theta) - np.stack([0.5 * theta[:, 1] ** 2, np.full(len(theta), 0.1)], axis=1)

    def jacobian(self, theta):
        jacobian = super().jacobian(theta)[1]
        jacobian[:, 0, 1] = 0.0
        return self(theta), jacobian


def two_fidelities(d=90, coarse=None):
    """The fine model, with one 20 times cheaper."""
    models = {"coarse": Coarse() if coarse is None else coarse, "fine": Bent()}
    prior = iv.Prior(x=iv.Normal(0.0, np.ones(d)))
    return iv.Posterior(prior, models, DATA, iv.GaussianNoise(NOISE), costs={"coarse": 1.0, "fine": 20.0})


def bent_field(d=90):
    """Of that model."""
    return iv.Posterior(iv.Prior(x=iv.Normal(0.0, np.ones(d))), Bent(), DATA, iv.GaussianNoise(NOISE))


@cache
def bent(d=90):
    """The posterior, and its mode."""
    posterior = bent_field(d)
    return posterior, iv.maximize(posterior, seed=1)


@cache
def truth(power=1.0):
    """Moments of the first two unknowns, by quadrature, and of one that the data say nothing of; see `moments`."""
    x, y = np.meshgrid(*2 * [np.linspace(-5.0, 5.0, 1601)], indexing="ij")
    misfit = np.square(Bent()(np.stack([x.ravel(), y.ravel()], axis=1)) - DATA).sum(axis=1) / (2.0 * NOISE**2)
    density = np.exp(-0.5 * (x**2 + y**2) - power * misfit.reshape(x.shape))
    return [(density * value).sum() / density.sum() for value in (x, y, x**2, y**2, x * y)] + [1.0]


def moments(run):
    """By chain."""
    x, y, other = (run.theta[..., k] for k in (0, 1, 7))
    return np.stack([value.mean(axis=1) for value in (x, y, x**2, y**2, x * y, other**2)], axis=1)
