"""Initial temperatures and sources around an unknown centre, as sums of separable nodal fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

#: Orders of differentiation (in x, in y) of a Gaussian -> coefficient of that separable field.
Expansion = Mapping[tuple[int, int], float]


@dataclass(frozen=True)
class GaussianBump:
    """Initial temperature height * exp(-|x - c|^2 / (2 width^2)) around an unknown centre c, and no source."""

    width: float = 0.1
    height: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(width=self.width)
        if not math.isfinite(self.height) or self.height == 0:
            raise ValueError(f"height must be finite and not zero, got {self.height}")

    def initial(self) -> Expansion:
        """Initial field in terms of exp(-|x - c|^2 / (2 width^2)) and its derivatives to c."""
        return {(0, 0): self.height}

    def source(self, conductivity: float) -> Expansion:
        """Source field in the same terms."""
        return {}

    def profile(self, times: Array) -> Array:
        """Factor of source and boundary values at ``times``."""
        return np.ones_like(times)


@dataclass(frozen=True)
class DecayingGaussian:
    r"""Manufactured solution of the f-reSGLD paper, around an unknown centre c.

    .. math:: u^*(x, t) = \frac{e^{-t}}{2\pi s^2} \exp\Bigl(-\frac{|x-c|^2}{2 s^2}\Bigr), \qquad
              f = u^*_t - \kappa \Delta u^*,

    with :math:`u^*` as boundary values: use it with ``boundary="exact"``.

    Notes
    -----
    For the setting of Li, Lin, Zhang and Zhou (2023), section 5.2. The closed form is inferred from their datum: with
    s = 0.1, at distance 0.1 and time 0.03, it is 9.368, as published.
    """

    width: float = 0.1

    def __post_init__(self) -> None:
        _check_positive(width=self.width)

    def value(self, distance: npt.ArrayLike, when: npt.ArrayLike) -> Array:
        """The solution at a distance from the centre and a time."""
        s2 = self.width**2
        return np.exp(-np.asarray(when) - np.square(distance) / (2 * s2)) / (2 * math.pi * s2)

    def initial(self) -> Expansion:
        """As `GaussianBump.initial`."""
        return {(0, 0): 1 / (2 * math.pi * self.width**2)}

    def source(self, conductivity: float) -> Expansion:
        """As `GaussianBump.source`."""
        height = 1 / (2 * math.pi * self.width**2)
        return {(0, 0): -height, (2, 0): -conductivity * height, (0, 2): -conductivity * height}

    def profile(self, times: Array) -> Array:
        """As `GaussianBump.profile`."""
        return np.exp(-times)


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {value}")
