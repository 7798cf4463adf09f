r"""A radial map, for distributions with heavy tails in all directions alike.

.. math:: u = z\, s(|z|) / |z|, \qquad s(r) = \sqrt{\nu\,(e^{r^2 / (\nu + d)} - 1)},

which makes the energy of a multivariate Student distribution of :math:`\nu` degrees of freedom,
:math:`\tfrac{\nu + d}{2} \log(1 + |u|^2 / \nu)`, that of a standard normal one. Its Jacobian is
:math:`\log |\det| = (d - 1) \log (s / r) + \log s'`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from invsamp.protocols import Array
from invsamp.stored import stored
from invsamp.transport.triangular import Image

#: |z|^2 / (nu + d) up to which its exponential is taken.
_LARGEST = 600.0
#: Least squared distance from 0 at which quotients are formed.
_NEAR = 1e-150


class _Kept(NamedTuple):
    direction: Array
    stretch: Array
    slope: Array
    by_radius: Array


@stored
@dataclass(frozen=True, eq=False)
class Radial:
    """The map.

    Parameters
    ----------
    freedom : float, > 0
        Degrees of freedom.
    """

    freedom: float

    def forward(self, z: Array) -> Image:
        """Points z (n, d) mapped."""
        d, nu = z.shape[1], self.freedom
        square = np.maximum(np.square(z).sum(axis=1, keepdims=True), _NEAR)
        r, power = np.sqrt(square), np.minimum(square / (nu + d), _LARGEST)
        grown = np.expm1(power)
        stretch = np.sqrt(nu * grown) / r
        slope = nu * np.exp(power) / ((nu + d) * stretch)
        log_det = (d - 1) * np.log(stretch) + np.log(slope)
        # d log(s / r) / dr, by series where it would cancel
        small = np.minimum(power, 0.01)
        series = 0.5 + small / 12.0 - small**3 / 720.0
        excess = np.where(
            power < 0.01, series, 1.0 / -np.expm1(-np.maximum(power, 0.01)) - 1.0 / np.maximum(power, 0.01)
        )
        rate = r / (nu + d)
        kept = _Kept(z / r, stretch, slope, (d - 1) * rate * excess + rate * (2.0 - excess))
        return Image(z * stretch, log_det[:, 0], kept)

    def inverse(self, u: Array) -> Array:
        """Points z (n, d) that come to u."""
        nu = self.freedom
        size = np.maximum(np.linalg.norm(u, axis=1, keepdims=True), np.sqrt(_NEAR)) / np.sqrt(nu)
        log = np.where(size < 1.0, np.log1p(np.square(np.minimum(size, 1.0))), 2.0 * np.log(np.hypot(1.0, size)))
        return np.asarray(u / np.sqrt(nu) * np.sqrt((nu + u.shape[1]) * log) / size)

    def pull_back(self, image: Image, gradient: Array) -> Array:
        """The gradient in z of U(u(z)) - log |det|, from that of U in u (n, d)."""
        kept = image.kept
        assert isinstance(kept, _Kept)
        along = (gradient * kept.direction).sum(axis=1, keepdims=True)
        across = kept.stretch * (gradient - along * kept.direction)
        return across + (kept.slope * along - kept.by_radius) * kept.direction
