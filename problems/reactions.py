r"""Two reactions in a row, A -> B -> C, observed by the absorbance of B: which of the two is the slow one?

In each of 64 experiments a known concentration of A begins to react, and six readings are taken at times of its own.
Exchanged rates explain each experiment, and all together, equally well with another value of the unknown absorptivity.
This is the slow-fast ambiguity of consecutive reactions of first order. It makes two modes, whose weights the prior
determines. Data are made up with known parameters. Times are in minutes.

One experiment is one solve of its equations, a' = -k1 a, b' = k1 a - k2 b, which is solved in closed form. So what a
sampler costs is counted in solves, and the posterior is known by quadrature.

References
----------
Alcock, Benton and Moore (1970), "Kinetics of series first-order reactions", Trans. Faraday Soc. 66, 2210-2213, for the
ambiguity.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import boolean, integer, real
from invsamp.domains.constraints import constraint
from invsamp.posing.distributions.univariate import LogNormal
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior

Array = npt.NDArray[np.float64]

EXPERIMENTS, READINGS, NOISE = 64, 6, 0.02
#: Rates per minute, and the absorptivity of B.
TRUTH = MappingProxyType({"k1": float(np.exp(0.25)), "k2": float(np.exp(-0.25)), "absorptivity": 1.0})
#: Of the log-normal priors about 1.
PRIOR_SD = 0.5
#: The experiment of each reading.
GROUPS = np.repeat(np.arange(EXPERIMENTS), READINGS)
_rng = np.random.default_rng(3)
#: Of A at the start, in each experiment, and when readings are taken.
CONCENTRATION = np.repeat(_rng.uniform(0.5, 2.0, EXPERIMENTS), READINGS)
TIMES = np.sort(_rng.uniform(0.1, 6.0, (EXPERIMENTS, READINGS)), axis=1).ravel()
for _array in (GROUPS, CONCENTRATION, TIMES):
    _array.setflags(write=False)


class Absorbance:
    """The forward model: readings (n, 384), each with a row of its own, so that a minibatch solves its experiments."""

    parameters = tuple(TRUTH)
    n_observations = EXPERIMENTS * READINGS

    def __call__(self, theta: Array) -> Array:
        """Readings at theta (n, 3)."""
        return self.jacobian(theta)[0]

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Readings, and what multiplies their Jacobian from the left."""
        y, matrix = self.jacobian(theta)
        return y, lambda cotangent: np.einsum("nm,nmp->np", cotangent, matrix)

    def jacobian(self, theta: Array) -> tuple[Array, Array]:
        """Readings and their derivatives (n, 384, 3)."""
        every = np.broadcast_to(np.arange(self.n_observations), (len(theta), self.n_observations))
        return self.rows(theta, every)

    def rows(self, theta: Array, indices: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Readings ``indices`` (n, k), and their derivatives (n, k, 3)."""
        k1, k2, absorptivity = (column[:, None] for column in theta.T)
        t, seen = TIMES[indices], absorptivity * CONCENTRATION[indices]
        grown, by_slow, by_fast = _grown(np.minimum(k1, k2), np.maximum(k1, k2), t)
        swapped = k2 < k1
        first, second = np.where(swapped, by_fast, by_slow), np.where(swapped, by_slow, by_fast)
        y = seen * k1 * grown
        return y, np.stack([seen * (grown + k1 * first), seen * k1 * second, y / absorptivity], axis=2)


def _grown(slow: Array, fast: Array, t: Array) -> tuple[Array, Array, Array]:
    """(e^{-slow t} - e^{-fast t}) / (fast - slow), and its derivatives in both rates."""
    z = (fast - slow) * t
    near = z < 1e-2
    safe = np.where(near, 1.0, z)
    share = np.where(near, 1.0 - z * (0.5 - z * (1.0 / 6.0 - z * (1.0 / 24.0 - z / 120.0))), -np.expm1(-safe) / safe)
    series = -0.5 + z * (1.0 / 3.0 - z * (0.125 - z * (1.0 / 30.0 - z / 144.0)))
    slope = np.where(near, series, (np.exp(-safe) - share) / safe)
    left = t * np.exp(-slow * t)
    return left * share, -t * left * (share + slope), t * left * slope


def readings(seed: int = 1, noise: float = NOISE) -> Array:
    """The measurements, (64, 6), with Gaussian noise of an sd."""
    sd = real("noise", noise, above=0)
    clean = Absorbance()(np.array([list(TRUTH.values())]))[0]
    rng = np.random.default_rng(integer("seed", seed, least=0))
    noisy = clean + sd * rng.standard_normal(clean.size)
    return noisy.reshape(EXPERIMENTS, READINGS)


def slow_or_fast(seed: int = 1, noise: float = NOISE, *, fast_first: bool = False) -> Posterior:
    """Posterior of both rates and the absorptivity, each log-normal about 1; readings have Gaussian noise.

    Parameters
    ----------
    seed : int
        Of the data.
    noise : float, > 0
        Standard deviation of a reading.
    fast_first : bool
        Whether it is known that the first reaction is the fast one, k1 > k2: then there is one mode.
    """
    prior = Prior(**{name: LogNormal(0.0, PRIOR_SD) for name in TRUTH})
    domain = constraint("k1 > k2") if boolean("fast_first", fast_first) else None
    return Posterior(prior, Absorbance(), readings(seed, noise), GaussianNoise(noise), domain=domain)


class Known(NamedTuple):
    """Quantities of the posterior by quadrature."""

    fast_first: float  # probability of k1 > k2
    mean: Array  # (3,), of the logarithms
    sd: Array  # (3,)


def by_quadrature(seed: int = 1, points: int = 241) -> Known:
    """Probability of k1 > k2, and moments of log k1, log k2 and log absorptivity, of `slow_or_fast(seed)`.

    The misfit is quadratic in the absorptivity, so that two sums over the data do for each pair of rates.

    Parameters
    ----------
    seed : int
        Of the data.
    points : int
        Along the logarithm of each rate, between -1.2 and 1.2.
    """
    axis = np.linspace(-1.2, 1.2, integer("points", points, least=3))
    data, third = readings(seed).ravel(), np.linspace(-1.2, 1.2, 601)
    first, second = np.meshgrid(axis, axis, indexing="ij")
    theta = np.exp(np.stack([first.ravel(), second.ravel(), np.zeros(first.size)], axis=1))
    model, sums = Absorbance(), []
    for rows in np.array_split(theta, 64):
        y = model(rows)
        sums.append(np.stack([y @ data, (y**2).sum(axis=1)], axis=1))
    crossed, squared = np.concatenate(sums).T
    scale = np.exp(third)
    log_density = (crossed[:, None] * scale - 0.5 * squared[:, None] * scale**2) / NOISE**2
    log_density -= 0.5 * (first.ravel()[:, None] ** 2 + second.ravel()[:, None] ** 2 + third**2) / PRIOR_SD**2
    mass = np.exp(log_density - log_density.max())
    mass /= mass.sum()
    rates, scales = mass.sum(axis=1).reshape(points, points), mass.sum(axis=0)
    tie = np.diag(rates).sum()
    marginals = (rates.sum(axis=1), axis), (rates.sum(axis=0), axis), (scales, third)
    mean = np.array([share @ at for share, at in marginals])
    sd = np.sqrt([share @ (at - m) ** 2 for (share, at), m in zip(marginals, mean, strict=True)])
    return Known(float(np.tril(rates, -1).sum() + 0.5 * tie), mean, sd)
