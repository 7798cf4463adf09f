r"""Directions of earlier runs of conjugate gradients on a matrix, as a preconditioner of the next system.

A run of conjugate gradients on the matrix A leaves directions P and their images A P, with :math:`P^T A P = D`
diagonal. The preconditioner

.. math:: H v = P D^{-1} P^T v + (I - P D^{-1} (A P)^T)\, H_0\, (I - A P D^{-1} P^T) v

is :math:`A^{-1}` on the space that the images span, and :math:`H_0` apart from it. :math:`H_0` is that of the runs
before; that of the first run is the covariance of a Gaussian that may be like this one, or the identity. It takes no
products. It is positive definite whatever A has become since.

Morales and Nocedal (2000), "Automatic preconditioning by limited memory quasi-Newton updating", SIAM J. Optim. 10,
eq. (2.4), where the pairs are conjugate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from invsamp.kernels.metric import LowRankMetric
from invsamp.protocols import Array

#: Directions that are kept at most, of the last runs.
MOST = 150


class Pairs(NamedTuple):
    """Of one run of conjugate gradients."""

    directions: Array  # P (k, d)
    images: Array  # A P (k, d)
    curvatures: Array  # of D (k,)


class ConjugatePairs(NamedTuple):
    """Those of several runs, each one preconditioned by the ones before it."""

    like: LowRankMetric | None = None
    runs: tuple[Pairs, ...] = ()

    def then(self, directions: Sequence[Array], images: Sequence[Array], curvatures: Sequence[float]) -> ConjugatePairs:
        """With those of one more run, without the oldest if there are too many."""
        if not directions:
            return self
        runs = (*self.runs, Pairs(np.array(directions), np.array(images), np.array(curvatures)))
        while len(runs) > 1 and sum(len(run.curvatures) for run in runs) > MOST:
            runs = runs[1:]
        return self._replace(runs=runs)

    def times(self, vector: Array) -> Array:
        """H times a vector (d,)."""
        shares = []
        for directions, images, curvatures in reversed(self.runs):
            shares.append((directions @ vector) / curvatures)
            vector = vector - shares[-1] @ images
        if self.like is not None:
            vector = self.like.covariance_times(vector)
        for (directions, images, curvatures), share in zip(self.runs, reversed(shares), strict=True):
            vector = vector + (share - (images @ vector) / curvatures) @ directions
        return vector
