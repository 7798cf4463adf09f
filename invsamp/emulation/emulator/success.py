"""Where a simulator does not fail, from where it did and did not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Array

#: Prior numbers of successes and failures everywhere, in units of one simulation at the point itself.
_PRIOR = 1e-2
#: A region has to predict failures better than their share does by so much log-probability.
_GAIN = 2.0


@dataclass(frozen=True)
class SuccessRegion:
    """The probability of success by kernel regression on simulations, in standardized inputs.

    Attributes
    ----------
    points : ndarray, shape (n, p)
        Empty: failures are not where any region would have them.
    succeeded : ndarray of bool, shape (n,)
    length : float
    """

    points: Array
    succeeded: npt.NDArray[np.bool_]
    length: float

    def log_probability(self, x: Array) -> tuple[Array, Array]:
        """Log probability (batch,) of success and its slope (batch, p)."""
        if not len(self.points):
            return np.zeros(len(x)), np.zeros(x.shape)
        weight = _kernel(x, self.points, self.length)
        good, all_ = weight @ self.succeeded + _PRIOR, weight.sum(axis=1) + _PRIOR
        by_weight = self.succeeded / good[:, None] - 1.0 / all_[:, None]
        slope = (by_weight * weight) @ self.points - (by_weight * weight).sum(axis=1)[:, None] * x
        return np.log(good / all_), slope / self.length**2


def success_region(points: Array, succeeded: npt.NDArray[np.bool_]) -> SuccessRegion:
    """The region that predicts each simulation best from the others; none where that is no better than their share."""
    none = SuccessRegion(np.empty((0, points.shape[1])), np.empty(0, dtype=bool), 1.0)
    failures = int((~succeeded).sum())
    if failures < 2 or failures == len(succeeded):
        return none
    share = failures / len(succeeded)
    constant = failures * np.log(share) + (len(succeeded) - failures) * np.log1p(-share)
    distance = np.sqrt(np.square(points[:, None] - points[None]).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    nearest = np.median(distance.min(axis=1))
    best, chosen = constant + _GAIN, none
    for factor in (0.35, 0.5, 0.7, 1.0):
        weight = np.exp(-0.5 * np.square(distance / (factor * nearest)))
        good = (weight @ succeeded + _PRIOR) / (weight.sum(axis=1) + _PRIOR)
        good = np.clip(good, 0.02, 0.98)
        score = float(np.where(succeeded, np.log(good), np.log1p(-good)).sum())
        if score > best:
            best, chosen = score, SuccessRegion(points, succeeded, float(factor * nearest))
    return chosen


def _kernel(x: Array, points: Array, length: float) -> Array:
    square = np.square(x).sum(axis=1)[:, None] + np.square(points).sum(axis=1) - 2.0 * x @ points.T
    return np.asarray(np.exp(-0.5 * np.maximum(square, 0.0) / length**2))
