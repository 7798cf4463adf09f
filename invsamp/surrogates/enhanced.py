r"""The enhanced error model: what a corrected model leaves is one more covariance in the noise of its posterior.

With noise of covariance :math:`\Gamma` and residuals of covariance R, the misfit of the wider noise is that of other
observations under the noise as it is,

.. math:: (y - d)^T (\Gamma + R)^{-1} (y - d) = (y' - d)^T \Gamma^{-1} (y' - d),
          \qquad y' = d + A (y - d), \quad A^T \Gamma^{-1} A = (\Gamma + R)^{-1},

so that it is an affine map of the observations, too (Kaipio and Somersalo 2007, "Statistical inverse problems:
discretization, model reduction and inverse crimes", section 5).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.surrogates.affine import Map


class Enhanced(NamedTuple):
    """Affine map of the observations that the model predicts, y' of the enhanced error model."""

    factor: Array  # (k, k), A
    data: Array  # (k,), d
    seen: npt.NDArray[np.bool_]  # (m,) which of the data

    @classmethod
    def of(cls, posterior: Posterior, fine: Array, corrected: Array, seen: npt.NDArray[np.bool_]) -> Enhanced:
        """From observations (n, m) of the fine model, and of a corrected one at states that did not teach it.

        Raises
        ------
        ValueError
            If the noise is not that of `GaussianNoise`, independent and of a known scale, or data are missing.
        """
        noise = posterior.noise
        known = isinstance(noise, GaussianNoise) and noise.covariance is None
        scale = np.asarray(noise.scale) if isinstance(noise, GaussianNoise) else np.asarray("")
        if not known or scale.dtype.kind not in "fiu":
            raise ValueError(
                f"enhanced needs a GaussianNoise of known scale whose covariance can be added to, got {noise!r}"
            )
        predicted: npt.NDArray[np.bool_] = np.asarray(np.isfinite(corrected).any(axis=0))
        data = np.ravel(posterior.data)[predicted]
        if not np.isfinite(data).all():
            raise ValueError("enhanced needs complete data, got some that are missing")
        sds = np.broadcast_to(scale, posterior.data.shape).ravel()[predicted].astype(float)
        left = (fine - corrected)[:, predicted] / sds
        whole = np.eye(len(sds)) + np.cov(left, rowvar=False).reshape(len(sds), len(sds))
        root = np.linalg.cholesky(np.linalg.inv(whole))
        return cls(sds[:, None] * root.T / sds, data, predicted)

    def __call__(self, y: Array) -> Array:
        """Observations (n, m), NaN where none are predicted."""
        moved = np.full(y.shape, np.nan)
        moved[:, self.seen] = self.data + (y[:, self.seen] - self.data) @ self.factor.T
        return moved

    def of_map(self, found: Map | None) -> Map:
        """The map with this after it.

        Raises
        ------
        ValueError
            If a part of the data alone is predicted.
        """
        if not self.seen.all():
            raise ValueError("enhanced needs a model that predicts all data, or correct='affine', got a part of them")
        offset = np.zeros(len(self.data)) if found is None else found.offset
        inner = self.factor if found is None or found.factor is None else self.factor @ found.factor
        return Map(self.factor @ (offset - self.data) + self.data, inner)
