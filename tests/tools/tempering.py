"""Posteriors in one dimension, known by quadrature, for tempered likelihoods."""

from __future__ import annotations

import numpy as np

import invsamp as iv
from invsamp.evaluate.requests import Estimate
from invsamp.protocols import SplitPotential


class Square:
    """F(x) = x^2: two modes, of a weight that the prior's mean decides."""

    def __call__(self, theta):
        return theta**2

    def linearize(self, theta):
        return theta**2, lambda cotangent: cotangent * 2.0 * theta


class SquareRoot:
    """F(x) = sqrt(x): no solution below 0."""

    def __call__(self, theta):
        with np.errstate(invalid="ignore"):
            return np.sqrt(theta)

    def linearize(self, theta):
        root = self(theta)
        return root, lambda cotangent: cotangent * 0.5 / root


def two_modes_posterior():
    """Modes near -1.5 and 1.5, sds .13, a barrier of 13 between them; the left one has a third of the mass."""
    prior = iv.Prior(x=iv.Normal(0.2, 1.0))
    return iv.Posterior(prior, Square(), [2.3], iv.GaussianNoise(0.4))


class Line:
    """Quadrature on the real line, and shares of the intervals between some points of it."""

    points = np.linspace(-12.0, 12.0, 240_001)
    edges = np.array([-1.5, 0.0, 1.5])
    intervals = 4

    def truth(self, potential, targets):
        """Probabilities of the intervals under several distributions, one after the other."""
        return np.concatenate([self._probabilities(potential, target) for target in targets])

    def shares(self, run):
        """Of each rung's draws in the intervals, (chains, rungs * intervals)."""
        within = np.stack([np.searchsorted(self.edges, run.rung_theta(k)[..., 0]) for k in range(run.rungs)])
        counts = [(within == k).mean(axis=2) for k in range(self.intervals)]
        return np.moveaxis(np.stack(counts, axis=2), 1, 0).reshape(within.shape[1], -1)

    def _probabilities(self, potential, target):
        at = self.points[:, None]
        prior = potential.parts(at, False).prior if isinstance(potential, SplitPotential) else None
        value = target.energy(Estimate(potential.energy(at), None, prior=prior), target.init())
        density = np.exp(value.min() - value)
        found = np.bincount(np.searchsorted(self.edges, self.points), density, minlength=self.intervals)
        return found / found.sum()


LINE = Line()


class Field:
    """A field in Karhunen-Loeve modes, with sds that fall as 1 / k, seen at three points; it counts linearizations."""

    data = np.array([0.8, -0.5, 0.3])

    def __init__(self, modes):
        k, x = np.arange(1, modes + 1), np.array([0.2, 0.5, 0.7])
        self.matrix = np.sqrt(2.0) * np.sin(np.pi * np.outer(x, k)) / k
        self.linearized = 0

    def __call__(self, theta):
        return theta @ self.matrix.T

    def linearize(self, theta):
        self.linearized += 1
        return self(theta), lambda cotangent: cotangent @ self.matrix
