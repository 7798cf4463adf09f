"""An affine map from what a coarse model says to what the fine one would: least squares, with a ridge."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Array

Mask = npt.NDArray[np.bool_]
#: Ridges that are tried, relative to the largest variance of a direction of the coarse observations.
_RIDGES = (0.0, *np.geomspace(1e-12, 1e2, 29).tolist())


class Map(NamedTuple):
    """Observations of the fine model from those of a coarse one: ``factor`` times these plus ``offset``."""

    offset: Array  # (m,)
    factor: Array | None  # (m, k); None: the identity

    def __call__(self, y: Array) -> Array:
        """Observations (n, m) from (n, k)."""
        return (y if self.factor is None else y @ self.factor.T) + self.offset


def ridge(coarse: Array, fine: Array, seen: Mask) -> Map:
    """The affine map of least squares, shrunk towards an offset by the ridge of least generalized cross-validation.

    Parameters
    ----------
    coarse : ndarray, shape (n, k)
    fine : ndarray, shape (n, m)
    seen : ndarray of bool, shape (m,)
        Which of the m the k are: k of them are true. Without a difference to be learned they map to themselves.
    """
    itself = np.eye(len(seen))[:, seen]  # (m, k)
    means = coarse.mean(axis=0), fine.mean(axis=0)
    x, rest = coarse - means[0], fine - means[1] - (coarse - means[0]) @ itself.T
    factor = itself + least_squares(x, rest)
    return Map(means[1] - factor @ means[0], factor)


def least_squares(x: Array, rest: Array) -> Array:
    """The linear map (m, k) from x (n, k) to ``rest`` (n, m), both centered, by the same ridge; 0 for none."""
    nothing = np.zeros((rest.shape[1], x.shape[1]))
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    if not s.size or s[0] == 0.0:
        return nothing
    kept = s > s[0] * max(x.shape) * np.finfo(float).eps
    u, s, vt = u[:, kept], s[kept], vt[kept]
    shares, total, n = u.T @ rest, float((rest**2).sum()), len(x)
    power = (shares**2).sum(axis=1)

    def score(ridge: float) -> float:
        shrunk = s**2 / (s**2 + ridge * s[0] ** 2)
        left = total - float(((2.0 * shrunk - shrunk**2) * power).sum())
        freedom = n - 1.0 - float(shrunk.sum())
        # without freedom the pairs are met whatever they are
        return left / freedom**2 if freedom > 0.5 * (n - 1.0) else math.inf

    ridge = min(_RIDGES, key=score)
    return (shares.T * (s / (s**2 + ridge * s[0] ** 2))) @ vt if math.isfinite(score(ridge)) else nothing
