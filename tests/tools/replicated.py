"""Many replicates of a posterior as the chains of one run: each chain has data of its own.

The posterior holds the data of all replicates, and an estimator gives each chain the energy of its own: prior and the
terms of its data, by the package's own noise and coordinates. It remembers which they are, and that stays with the
chain at swaps. So one run of 256 chains is a calibration of 256 replicates, which share a warm-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import invsamp as iv
from invsamp.diagnostics import weights
from invsamp.estimators.exact_energies import Exact
from invsamp.evaluate.requests import Batch, Request


@dataclass(frozen=True)
class OwnData(Exact):
    """Energy of each chain's own replicate, of so many data; divided by a temperature, for a wrong sampler.

    ``zeros``: where each replicate's energies begin.
    """

    size: int
    temperature: float = 1.0
    zeros: tuple[float, ...] | None = None

    def bind(self, source, structure):
        return _Bound(source.fidelity, self.size, self.temperature, self.zeros)


class _Bound:
    exact = exact_energy = True
    degrees_of_freedom = None
    moves = False

    def __init__(self, fidelity, size, temperature, zeros):
        self._fidelity, self._size, self._temperature = fidelity, size, temperature
        self._zeros = None if zeros is None else np.array(zeros)

    def init(self, rng, position):
        return {"replicate": np.arange(len(position), dtype=float)}
        yield

    def updated(self, rng, memory, position, iteration):
        return memory
        yield

    def estimate(self, rng, position, gradient, memory):
        replicate = memory["replicate"].astype(np.intp)
        members = self._size * replicate[:, None] + np.arange(self._size)
        batch = Batch(members, None, self._size, "isotropic")  # all of its data: nothing is random
        (found,) = yield (Request(self._fidelity, position, gradient, batch),)
        energy, slope = found.energy / self._temperature, found.gradient / self._temperature
        if self._zeros is not None:
            energy -= self._zeros[replicate]
        return found._replace(energy=energy, gradient=slope, energy_variance=None, gradient_variance=None)


class Tiled:
    """The model of one replicate, m data, as that of all; only ``rows`` is asked for.

    ``function`` gives observations (batch, m) and their Jacobian (batch, m, p).
    """

    def __init__(self, function, replicates, size):
        self._function, self._replicates, self._size = function, replicates, size
        self.n_observations = replicates * size

    def __call__(self, theta):
        return np.tile(self._function(theta)[0], (1, self._replicates))

    def linearize(self, theta):
        raise AssertionError("all replicates at once are never differentiated")

    def rows(self, theta, indices):
        y, jacobian = self._function(theta)
        at, row = indices % self._size, np.arange(len(theta))[:, None]
        return y[row, at], jacobian[row, at]


@dataclass(frozen=True)
class Family:
    """A posterior of ``size`` data: prior, models by fidelity, noise, domain."""

    prior: iv.Prior
    forward: Mapping[str, Callable]
    size: int
    noise: iv.extending.Noise
    domain: Any = None

    def posterior(self, data):
        """That of some replicates, data (replicates, size)."""
        forward = {name: Tiled(function, len(data), self.size) for name, function in self.forward.items()}
        return iv.Posterior(self.prior, forward, data, self.noise, self.domain)


def ranks(family, sampler, draw, *, temperature=1.0, noise=None, replicates=256, draws=15, seed=1, **plan):
    """Ranks (replicates, d + 1) of the true parameters and energies among each chain's ``draws``.

    ``temperature`` other than 1 makes the sampler wrong, ``noise`` that of the data.
    """
    rng = np.random.default_rng(seed)
    posterior, truth, energy = _drawn(family, rng, replicates, temperature, noise)
    values, _ = _sampled(posterior, sampler, OwnData(family.size, temperature), draw, draws=draws, seed=seed, **plan)
    return (values < np.column_stack([truth, energy])[:, None]).sum(axis=1)


def weighted_ranks(family, sampler, draw, *, temperature=1.0, replicates=256, draws=60, ranked=15, seed=1, **plan):
    """The same of draws with weights, of which ``ranked`` stand for all; and as if they had none.

    Energies begin at those of the true parameters, so that bins of the energy can be those of all replicates.
    """
    rng = np.random.default_rng(seed)
    posterior, truth, energy = _drawn(family, rng, replicates, temperature, None)
    own = OwnData(family.size, temperature, tuple(energy.tolist()))
    values, weight = _sampled(posterior, sampler, own, draw, draws=draws, seed=seed, **plan)
    true = np.column_stack([truth, np.zeros(replicates)])[:, None]
    found = []
    for each in (weight, np.ones_like(weight)):
        rows = np.array([weights.resampled(chain, ranked) for chain in each])
        found.append((np.take_along_axis(values, rows[..., None], axis=1) < true).sum(axis=1))
    return found


def _drawn(family, rng, replicates, temperature, noise):
    """The posterior of all replicates' data, their parameters, and energies there."""
    truth = (family if noise is None else replace(family, noise=noise)).posterior(np.zeros((1, family.size)))
    theta = truth.sample_prior(rng, replicates)
    posterior = family.posterior(truth.sample_data(rng, theta)[:, 0])
    members = np.arange(replicates * family.size).reshape(replicates, -1)
    terms = posterior.potential().terms(posterior.to_position(theta), members)
    return posterior, theta, (terms.prior_energy + terms.energies.sum(axis=1)) / temperature


def _sampled(posterior, sampler, own, draw, **plan):
    """Parameters and energies (replicates, draws, d + 1), and weights."""
    sampler = replace(sampler, rungs=tuple(replace(rung, estimator=own) for rung in sampler.rungs))
    replicates = posterior.data.size // own.size
    run = draw(posterior, sampler, chains=replicates, check_gradient=False, **plan)
    values = np.concatenate([run.theta, run.data.sample_stats["energy"].values[..., None]], axis=2)
    return values, np.ones(values.shape[:2]) if run.weights is None else run.weights
