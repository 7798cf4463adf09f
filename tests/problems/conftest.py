"""What the tests of several problems share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from invsamp.posing.posterior.posterior import Posterior


class Laplace(NamedTuple):
    """Normal approximation of a posterior, in positions."""

    mode: npt.NDArray[np.float64]  # (dimension,)
    covariance: npt.NDArray[np.float64]  # (dimension, dimension)

    @property
    def sd(self) -> npt.NDArray[np.float64]:
        return np.sqrt(np.diag(self.covariance))


@pytest.fixture
def laplace() -> Callable[..., Laplace]:
    """Mode by Newton's method from a theta near it, and the inverse of the energy's Hessian there."""

    def approximate(posterior: Posterior, theta: npt.ArrayLike, steps: int = 8) -> Laplace:
        potential = posterior.potential()
        mode = posterior.to_position(np.atleast_2d(np.asarray(theta, dtype=float)))
        offsets = 1e-4 * np.eye(posterior.dimension)
        for _ in range(steps):
            gradient = potential.energy_and_gradient(mode)[1][0]
            forward = potential.energy_and_gradient(mode + offsets)[1]
            hessian = (forward - potential.energy_and_gradient(mode - offsets)[1]) / 2e-4
            hessian = 0.5 * (hessian + hessian.T)
            mode = mode - np.linalg.solve(hessian, gradient)
        covariance = np.linalg.inv(hessian)
        newton = np.abs(gradient) @ covariance @ np.abs(gradient)
        assert newton < 1e-2, "the start is too far from the mode"
        return Laplace(mode[0], covariance)

    return approximate
