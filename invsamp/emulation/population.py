"""A population of many chains that samples an emulated posterior, without any simulation.

There are two kinds of moves. Hamiltonian moves have the population's covariance as their metric (Neal 2011, "MCMC using
Hamiltonian dynamics"). Independent proposals come from a mixture of Gaussians, one for each mode, and carry the weights
of modes (Tierney 1994, "Markov chains for exploring posterior distributions", section 2.3.3). The chains begin at
weighted draws of the posterior's square root (Del Moral, Doucet and Jasra 2006, "Sequential Monte Carlo samplers",
section 2.3). These draws choose where to simulate next. Paths are reflected at bounds. The reported draws come from the
same engine as those of `invsamp.sample`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from invsamp.diagnostics import weights
from invsamp.domains.contract import Domain
from invsamp.posing.posterior.negative_log_posterior import PosteriorPotential
from invsamp.protocols import Array

#: Chains; steps from one kept draw to the next; draws kept of a chain before the first look, from one look to the next,
#: and at most.
CHAINS, STEPS, FIRST, NEXT, MOST = 128, 2, 36, 18, 120
#: Halves of the draws agree if means differ by less than this, in sds, and sds by less than that, in logs.
MEANS, SDS = 0.1, 0.07
#: Acceptance for which step sizes aim, and by how much proposals of modes are wider than these.
ACCEPTANCE, WIDER = 0.8, 1.2
#: Leapfrog steps of a move, at most.
LONGEST = 12
#: How often the way from a mode to a start outside the domain is halved, at most.
HALVINGS = 50
#: Of the wide draws.
TEMPERATURE = 2.0


class Mode(NamedTuple):
    """A Gaussian of the mixture."""

    center: Array
    covariance: Array


class Population(NamedTuple):
    """Draws.

    Attributes
    ----------
    draws : ndarray, shape (n, dimension)
        Of the emulated posterior, in positions.
    wide : ndarray, shape (k, dimension)
        Of its square root.
    modes : list of Mode
    energy : ndarray, shape (n,)
    converged : bool
        Whether halves of the draws agree.
    """

    draws: Array
    wide: Array
    modes: list[Mode]
    energy: Array
    converged: bool


def sampled(
    potential: PosteriorPotential, domain: Domain, modes: list[Mode], start: Array, rng: np.random.Generator
) -> Population:
    """Draws of the posterior of a potential, from starts (CHAINS, dimension) within its domain."""
    chains = _Chains(potential, domain, modes, rng)
    wide, _ = chains.moved(start, 20, TEMPERATURE)
    position, energy = chains.moved(_weighty(potential, np.concatenate([start, wide])), 15, 1.0)
    kept, energies, converged = [], [], False
    for k in range(1, MOST + 1):
        position, energy = chains.moved(position, STEPS, 1.0)
        kept.append(position)
        energies.append(energy)
        if k >= FIRST and k % NEXT == 0:
            third = len(kept) // 3
            if converged := _agree(np.concatenate(kept[third : 2 * third]), np.concatenate(kept[2 * third :])):
                break
    draws = np.concatenate(kept[len(kept) // 3 :])
    return Population(draws, wide, _refitted(draws, modes), np.concatenate(energies[len(kept) // 3 :]), converged)


def starts(modes: list[Mode], masses: Array, domain: Domain, rng: np.random.Generator) -> Array:
    """Starts (CHAINS, dimension) from the modes' Gaussians; those outside the domain are moved towards their mode."""
    number = rng.choice(len(modes), size=CHAINS, p=masses / masses.sum())
    noise = rng.standard_normal((CHAINS, len(modes[0].center)))
    factors = [np.linalg.cholesky(mode.covariance) for mode in modes]
    away = np.array([factors[k] @ e for k, e in zip(number, noise, strict=True)])
    center = np.array([modes[k].center for k in number])
    for _ in range(HALVINGS):
        outside = ~domain.contains(center + away)
        if not outside.any():
            break
        away[outside] *= 0.5
    return np.asarray(center + away)


def _weighty(potential: PosteriorPotential, position: Array) -> Array:
    """Starts (CHAINS, dimension) among positions: chains that a minimum of no mass has caught have no weight.

    None has more weight than the median one: where the emulator alone has a deep minimum, not all chains go there.
    """
    energy = potential.energy(position)
    good = np.isfinite(energy)
    if not good.any():
        return position[:CHAINS]
    above = np.where(good, np.maximum(energy - np.median(energy[good]), 0.0), np.inf)
    weight = np.exp(-(1.0 - 1.0 / TEMPERATURE) * above)
    return np.asarray(position[weights.resampled(weight, CHAINS)])


def _agree(one: Array, other: Array) -> bool:
    spread = 0.5 * (one.std(axis=0) + other.std(axis=0))
    means = np.abs(one.mean(axis=0) - other.mean(axis=0)) / spread
    return bool(means.max() < MEANS and np.abs(np.log(one.std(axis=0) / other.std(axis=0))).max() < SDS)


def _refitted(draws: Array, modes: list[Mode]) -> list[Mode]:
    """The modes' Gaussians from the draws that are nearest to each."""
    away = [draws - mode.center for mode in modes]
    distance = [np.einsum("ni,ij,nj->n", a, np.linalg.inv(m.covariance), a) for a, m in zip(away, modes, strict=True)]
    label = np.argmin(distance, axis=0)
    found = []
    for k, mode in enumerate(modes):
        own = draws[label == k]
        if len(own) > 20 * draws.shape[1]:
            mode = Mode(own.mean(axis=0), np.cov(own.T).reshape(mode.covariance.shape))
        found.append(mode)
    return found


@dataclass
class _Chains:
    potential: PosteriorPotential
    domain: Domain
    modes: list[Mode]
    rng: np.random.Generator
    step_size: float = 0.45

    def __post_init__(self) -> None:
        self._covariance = np.mean([mode.covariance for mode in self.modes], axis=0)
        self._metric = np.linalg.cholesky(self._covariance)
        self._factors = [np.linalg.cholesky(WIDER * mode.covariance) for mode in self.modes]

    def moved(self, position: Array, steps: int, temperature: float) -> tuple[Array, Array]:
        """Where chains are after so many steps, and their energies."""
        energy, slope = self._evaluate(position, temperature)
        for _ in range(steps):
            position, energy, slope = self._hamiltonian(position, energy, slope, temperature)
        if len(self.modes) > 1 and temperature == 1.0:
            for _ in range(3):
                position, energy = self._jumped(position, energy)
        return position, energy * temperature

    def _evaluate(self, position: Array, temperature: float) -> tuple[Array, Array]:
        energy, slope = self.potential.energy_and_gradient(position)
        return energy / temperature, slope / temperature

    def _hamiltonian(
        self, position: Array, energy: Array, slope: Array, temperature: float
    ) -> tuple[Array, Array, Array]:
        step = self.step_size * self.rng.uniform(0.7, 1.3)
        momentum = self.rng.standard_normal(position.shape)
        there, value, gradient = position, energy, slope
        moving = momentum - 0.5 * step * slope @ self._metric
        # a quarter of the period of a Gaussian, in units of its sd, makes the next draw independent
        count = int(np.clip(np.round(self.rng.uniform(0.5, 1.5) * 0.5 * np.pi / step), 1, LONGEST))
        lost = np.zeros(len(position), dtype=bool)
        for k in range(count):
            there, moving, failed = self._drifted(there, moving, step)
            lost |= failed
            value, gradient = self._evaluate(there, temperature)
            moving = moving - (step if k < count - 1 else 0.5 * step) * gradient @ self._metric
        with np.errstate(invalid="ignore", over="ignore"):
            change = value - energy + 0.5 * np.square(moving).sum(axis=1) - 0.5 * np.square(momentum).sum(axis=1)
        change = np.where(np.isfinite(change) & ~lost, change, np.inf)
        taken = np.log(self.rng.random(len(position))) < -change
        self.step_size *= np.exp(0.3 * (np.exp(-np.maximum(change, 0.0)).mean() - ACCEPTANCE))
        rows = taken[:, None]
        return np.where(rows, there, position), np.where(taken, value, energy), np.where(rows, gradient, slope)

    def _drifted(self, position: Array, moving: Array, step: float) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
        """Ends of straight moves, reflected at bounds; momenta there; which paths could not be followed."""
        found = self.domain.reflect(position, step * moving @ self._metric.T, self._covariance)
        if found.bounces.any():
            turned = found.bounces > 0
            moving = moving.copy()
            moving[turned] = np.linalg.solve(self._metric, found.move[turned].T).T / step
        return found.position, moving, found.failed

    def _jumped(self, position: Array, energy: Array) -> tuple[Array, Array]:
        number = self.rng.integers(len(self.modes), size=len(position))
        noise = self.rng.standard_normal(position.shape)
        there = np.array([self.modes[k].center + self._factors[k] @ e for k, e in zip(number, noise, strict=True)])
        value = self.potential.energy(there)
        ratio = energy - value + self._log_mixture(position) - self._log_mixture(there)
        taken = np.log(self.rng.random(len(position))) < np.nan_to_num(ratio, nan=-np.inf)
        return np.where(taken[:, None], there, position), np.where(taken, value, energy)

    def _log_mixture(self, position: Array) -> Array:
        parts = []
        for mode, factor in zip(self.modes, self._factors, strict=True):
            away = np.linalg.solve(factor, (position - mode.center).T)
            parts.append(-0.5 * np.square(away).sum(axis=0) - np.log(np.diag(factor)).sum())
        return np.asarray(logsumexp(parts, axis=0))
