r"""A source in the wind: where is it, how strong, and how does what it gives off spread?

Ten sensors stand around the middle of a square of side 1, and read concentrations on 64 days, each with a steady wind
of its own, from all sides. Day after day the plume is the solution, in the plane, of

.. math:: v \cdot \nabla c - D \Delta c = q\, \delta(x - s), \qquad
          c(x) = \frac{q}{2 \pi D} \exp\Bigl(\frac{v \cdot r}{2 D}\Bigr) K_0\Bigl(\frac{|v| |r|}{2 D}\Bigr),
          \qquad r = x - s.

All readings of a day come of one solve, so that a minibatch draws days. Days inform about as much as each other, and
the model is hardly bent over the posterior's width: what control variates take from the terms is nearly all of them.
Data are made up with known parameters.

References
----------
Carslaw and Jaeger (1959), "Conduction of Heat in Solids", 2nd edition, section 10.7: a line source in a moving medium.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from scipy.special import k0e, k1e

from invsamp.arguments import integer, real
from invsamp.posing.distributions.univariate import LogNormal, Normal
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior

Array = npt.NDArray[np.float64]

DAYS, SENSORS, NOISE = 64, 10, 0.02
#: Place and rate of the source, and the diffusivity.
TRUTH = MappingProxyType({"x": 0.4, "y": 0.55, "rate": 1.0, "diffusivity": 0.15})
#: The day of each reading.
GROUPS = np.repeat(np.arange(DAYS), SENSORS)
_turn = 2.0 * np.pi * (np.arange(SENSORS) + 0.5) / SENSORS
#: Where each reading is taken, (640, 2), and the wind of its day, (640, 2).
PLACES = np.tile(0.5 + 0.7 * np.stack([np.cos(_turn), np.sin(_turn)], axis=1), (DAYS, 1))
_from = 2.0 * np.pi * np.arange(DAYS) / DAYS
_speed = np.random.default_rng(5).uniform(0.5, 2.0, DAYS)
WIND = np.repeat(_speed[:, None] * np.stack([np.cos(_from), np.sin(_from)], axis=1), SENSORS, axis=0)
for _array in (GROUPS, PLACES, WIND):
    _array.setflags(write=False)


class Concentration:
    """The forward model: readings (n, 640), each with a row of its own, so that a minibatch solves its days."""

    parameters = tuple(TRUTH)
    n_observations = DAYS * SENSORS

    def __call__(self, theta: Array) -> Array:
        """Readings at theta (n, 4); not finite where the source is at a sensor."""
        return self.jacobian(theta)[0]

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Readings, and what multiplies their Jacobian from the left."""
        y, matrix = self.jacobian(theta)
        return y, lambda cotangent: np.einsum("nm,nmp->np", cotangent, matrix)

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Readings and their derivatives (n, 640, 4)."""
        every = np.broadcast_to(np.arange(self.n_observations), (len(theta), self.n_observations))
        return self.rows(theta, every)

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Readings ``indices`` (n, k), and their derivatives (n, k, 4)."""
        away, wind = PLACES[indices] - theta[:, None, :2], WIND[indices]
        rate, twice = theta[:, 2:3], 2.0 * theta[:, 3:4]
        with np.errstate(all="ignore"):
            distance, speed = np.linalg.norm(away, axis=2), np.linalg.norm(wind, axis=2)
            along, z = (away * wind).sum(axis=2) / twice, speed * distance / twice
            y = rate * np.exp(along - z) * k0e(z) / (np.pi * twice)
            ratio = k1e(z) / k0e(z)  # minus the slope of log K_0
            by_place = (ratio * speed / distance / twice)[:, :, None] * away - wind / twice[:, :, None]
            by_diffusivity = 2.0 * (z * ratio - along - 1.0) / twice
            slopes = np.concatenate(
                [by_place, np.broadcast_to(1.0 / rate[:, :, None], (*y.shape, 1)), by_diffusivity[:, :, None]], axis=2
            )
            return y, y[:, :, None] * slopes


def readings(seed: int = 1, noise: float = NOISE) -> Array:
    """The measurements, (64, 10), with Gaussian noise of an sd."""
    sd = real("noise", noise, above=0)
    clean = Concentration()(np.array([list(TRUTH.values())]))[0]
    rng = np.random.default_rng(integer("seed", seed, least=0))
    return (clean + sd * rng.standard_normal(clean.size)).reshape(DAYS, SENSORS)


def source(seed: int = 1, noise: float = NOISE) -> Posterior:
    """Posterior of place and rate of the source, and of the diffusivity; readings have Gaussian noise.

    Parameters
    ----------
    seed : int
        Of the data.
    noise : float, > 0
        Standard deviation of a reading; clean ones are .2 on average.
    """
    prior = Prior(x=Normal(0.5, 0.5), y=Normal(0.5, 0.5), rate=LogNormal(0.0, 1.0), diffusivity=LogNormal(-2.0, 1.0))
    return Posterior(prior, Concentration(), readings(seed, noise), GaussianNoise(noise))
