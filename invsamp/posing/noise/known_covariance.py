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
        If the noise is another, or something of it is unknown.
    """
    if type(noise) is GaussianNoise and not isinstance(noise.scale, str):
        if isinstance(noise.covariance, Matrix):
            return np.array(noise.covariance.matrix)
        if noise.covariance is None:
            try:
                return np.broadcast_to(np.asarray(noise.scale, dtype=float), shape).ravel() ** 2
            except ValueError:
                pass  # names among the scales
    raise ValueError(
        "the posterior's noise must be a GaussianNoise of known numbers, with a covariance matrix or without, got "
        f"{noise!r}"
    )
