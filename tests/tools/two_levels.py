"""A linear problem whose posterior is known, and a coarse model of it that is bent, shifted and said to be cheap."""

from __future__ import annotations

import time

import numpy as np

import invsamp as iv

_RNG = np.random.default_rng(7)
FINE = _RNG.normal(size=(6, 3))
MAP, SHIFT = np.eye(6) + 0.2 * _RNG.normal(size=(6, 6)), _RNG.normal(size=6)
NOISE = 0.5
#: Quadratic forms, one for each datum: too many for an affine map of the data to undo.
BENDS = _RNG.normal(size=(6, 3, 3))
BENDS += BENDS.swapaxes(1, 2)
DATA = FINE @ [0.4, -0.3, 0.2] + NOISE * _RNG.normal(size=6)


class Line:
    """y = A theta + shift + bend theta^T Q theta, at a cost that it counts; it sleeps for each row."""

    def __init__(self, matrix=FINE, shift=0.0, bend=0.0, cost=1.0, seconds=0.0):
        self.matrix, self.shift, self.bend, self.work, self.seconds = matrix, shift, bend, cost, seconds

    def __call__(self, theta):
        if self.seconds:
            time.sleep(self.seconds * len(theta))
        return np.einsum("bk,mk->bm", theta, self.matrix) + self.shift + self.bend * self._forms(theta)

    def linearize(self, theta):
        def product(cotangent):
            bent = 2.0 * self.bend * np.einsum("bm,mij,bj->bi", cotangent, BENDS, theta)
            return np.einsum("bm,mk->bk", cotangent, self.matrix) + bent

        return self(theta), product

    @staticmethod
    def _forms(theta):
        return np.einsum("bi,mij,bj->bm", theta, BENDS, theta)


def posed(bend=0.02, cost=20.0, seconds=0.0, shift=SHIFT, **more):
    """The posterior, whose fine model costs so much more than the coarse one."""
    models = more or {"coarse": Line(MAP @ FINE, shift, bend), "fine": Line(cost=cost, seconds=seconds)}
    return iv.Posterior(iv.Prior(x=iv.Normal(0, 1, shape=3)), models, DATA, iv.GaussianNoise(NOISE))


def exact():
    """Mean and covariance of the posterior."""
    precision = np.eye(3) + FINE.T @ FINE / NOISE**2
    return np.linalg.solve(precision, FINE.T @ DATA / NOISE**2), np.linalg.inv(precision)
