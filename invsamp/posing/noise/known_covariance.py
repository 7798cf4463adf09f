"""The covariance of Gaussian noise that is known."""

from __future__ import annotations

import numpy as np

from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.noise.error_covariance import Matrix
from invsamp.protocols import Array


def gaussian_covariance(noise: object, shape: tuple[int, ...]) -> Array:
    """Variances (m,), or the covariance matrix (m, m), of Gaussian noise of all m data of this shape.

    Raises
    ------
    ValueError
        If the noise is no `GaussianNoise`, or its scale or covariance has unknown parameters.
    """
    if type(noise) is GaussianNoise and not isinstance(noise.scale, str):
        if isinstance(noise.covariance, Matrix):
            return np.array(noise.covariance.matrix)
        scale = np.asarray(noise.scale)
        if noise.covariance is None and scale.dtype.kind in "iuf":  # others have names among the scales
            return np.broadcast_to(scale.astype(float), shape).ravel() ** 2
    raise ValueError(
        "the posterior's noise must be a GaussianNoise of known numbers, with a covariance matrix or without, got "
        f"{noise!r}"
    )
