r"""The exact distribution of a two-rung chain in one dimension, without Monte Carlo: the chain as a matrix on a grid.

The joint distribution P of (cold, hot) lives on a grid of n x n points. One step of both kernels is

.. math:: P \leftarrow K_c^T P K_h,

and one round of swaps, with F = P A the mass that accepts,

.. math:: P \leftarrow P - F + F^T.

A, the acceptance of the pair of positions averaged over the noise of the energies, is known in closed form for
Gaussian noise: with the log ratio N(m, v),

.. math:: E[\min(1, e^R)] = \Phi(m / \sqrt v) + e^{m + v / 2} \Phi(-(m + v) / \sqrt v).

The leading eigenvectors give the invariant distribution and the relaxation time. Rules, budgets, discrepancies are
the objects of the package; what it does with them at a swap is written here a second time.

On a uniform grid the error of the kernels' row sums falls like exp(-2 pi^2 r^2), r the sd of a step in cells: at one
cell it is 3e-9. The kink of a noise-free acceptance leaves an error of second order in the cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator, eigs
from scipy.special import log_ndtr, ndtr

from invsamp.kernels.proposals import propose
from invsamp.protocols import Potential
from invsamp.swaps.rules import SwapRule

Array = npt.NDArray[np.float64]
#: A number, or a function of (position (n, 1), energy (n,)) -> (n,), as `invsamp.estimators.noisy` takes it.
Noise = float | Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Level:
    """One rung of the chain.

    Parameters
    ----------
    potential : Potential
        In one dimension: the mean of its noisy energies.
    temperature : float
    step_size : float, or function of position (n, 1) -> (n,)
        A step size that depends on the state is one that a kernel shrinks.
    energy_sd, gradient_sd : float, or function of (position, energy)
        True noise.
    energy_variance : optional
        The energy's variance that swaps are given, as a number or a function; the truth by default.
    subtracted : optional
        What the kernel takes for the gradient's variance and out of the noise that it injects. None: nothing.
    swap_temperature : float, optional
        Temperature in the swap, where it is not that of the kernel.
    adjusted : bool
        A Metropolis-adjusted kernel: the tempered distribution on the grid exactly, whatever the step size.
    prior : Potential, optional
        The prior's part of the potential's energy: the target is prior and misfit / temperature, for adjusted kernels.
    """

    potential: Potential
    temperature: float = 1.0
    step_size: float | Callable[[Array], Array] = 0.03
    energy_sd: Noise = 0.0
    gradient_sd: Noise = 0.0
    energy_variance: Noise | None = None
    subtracted: Noise | None = None
    swap_temperature: float | None = None
    adjusted: bool = False
    prior: Potential | None = None

    def value(self, position: Array, energy: Array) -> Array:
        """The target's value of an energy (n,) at a position, as used by a swap."""
        temperature = self.swap_temperature or self.temperature
        prior = 0.0 if self.prior is None else self.prior.energy(position)
        return np.asarray(prior + (energy - prior) / temperature)


def grid(lower: float = -15.0, upper: float = 12.0, points: int = 200) -> Array:
    """Points (n,) of a uniform grid, the middles of its cells."""
    edges = np.linspace(lower, upper, points + 1)
    return 0.5 * (edges[1:] + edges[:-1])


@dataclass(frozen=True)
class TwoRungs:
    """The chain of a cold and a hot rung that attempt a swap after a ``fraction`` of the steps.

    Parameters
    ----------
    discrepancy : function of position (n, 1) -> (n,), optional
        What the rule has learned of cold energy less hot energy, for rules that use it.
    """

    cold: Level
    hot: Level
    rule: SwapRule
    fraction: float = 1.0
    discrepancy: Callable[[Array], Array] | None = None
    points: Array = field(default_factory=grid)

    @cached_property
    def kernels(self) -> tuple[Array, Array]:
        """Transition matrices (n, n) of both rungs, rows sum to one."""
        return transition(self.cold, self.points), transition(self.hot, self.points)

    @cached_property
    def stage_acceptance(self) -> list[Array]:
        """Mean acceptance (n cold, n hot) of each stage."""
        return acceptance(self.rule, self.cold, self.hot, self.points, self.discrepancy)

    def step(self, target: Array) -> Array:
        """Distribution (n, n) after one step and one round of swaps."""
        cold, hot = self.kernels
        target = cold.T @ target @ hot
        swapped = self.fraction * self._accepted * target
        return np.asarray(target - swapped + swapped.T)

    @cached_property
    def _accepted(self) -> Array:
        return np.prod(self.stage_acceptance, axis=0)

    @cached_property
    def _leading(self) -> tuple[Array, Array]:
        n = len(self.points)
        flat = LinearOperator(
            (n * n, n * n), matvec=lambda target: self.step(target.reshape(n, n)).ravel(), dtype=float
        )
        start = np.outer(*(on_grid(r.potential, self.points, r.temperature, r.prior) for r in (self.cold, self.hot)))
        values, vectors = eigs(flat, k=2, which="LM", ncv=30, v0=start.ravel(), tol=1e-6)
        order = np.argsort(-np.abs(values))
        return values[order], vectors[:, order]

    @property
    def relaxation(self) -> float:
        """Steps in which the slowest mode of the chain falls by e."""
        return float(-1.0 / np.log(np.abs(self._leading[0][1])))

    @cached_property
    def target(self) -> Array:
        """Invariant distribution (n cold, n hot) at the end of a step, its sum one."""
        n = len(self.points)
        vector = self._leading[1][:, 0].reshape(n, n)
        # ARPACK's phase is arbitrary; a stochastic matrix has a positive vector at one
        return np.asarray(np.real(vector / vector.sum()))

    @property
    def rates(self) -> list[float]:
        """Share of the attempts that pass the first stage, the first two, ... : the last is the swap rate."""
        cold, hot = self.kernels
        target, passed, rates = cold.T @ self.target @ hot, np.ones_like(self.target), []
        for stage in self.stage_acceptance:
            passed = passed * stage
            rates.append(float((target * passed).sum()))
        return rates

    @property
    def marginal(self) -> Array:
        """Probabilities (n,) of the cold rung's cells."""
        return self.target.sum(axis=1)

    def summary(self) -> dict[str, float]:
        """Distances of the cold rung's distribution from its target, weight and sd of what lies right of 0, rates."""
        truth = on_grid(self.cold.potential, self.points)
        right = self.points > 0.0
        weight = float(self.marginal[right].sum())
        mean = float((self.marginal * self.points)[right].sum()) / weight
        variance = float((self.marginal * (self.points - mean) ** 2)[right].sum()) / weight
        return {
            "W1": wasserstein(self.points, self.marginal, truth),
            "KL": divergence(self.marginal, truth),
            "right": weight,
            "sd": float(np.sqrt(variance)),
            "swaps": self.rates[-1],
            "relaxation": self.relaxation,
        }


def transition(level: Level, points: Array) -> Array:
    """Transition matrix (n, n) of one rung's kernel: from row to column."""
    position = points[:, None]
    energy, gradient = level.potential.energy_and_gradient(position)
    step = level.step_size(position) if callable(level.step_size) else np.full(len(points), level.step_size)
    noise = _values(level.gradient_sd, position, energy)
    reported = np.zeros_like(noise) if level.subtracted is None else _values(level.subtracted, position, energy)
    ones = np.ones_like(position)
    # of the reduced energy, whose steps are as many times as long
    longer, reduced = step[:, None] * level.temperature, reported / level.temperature**2
    injected = propose(0.0 * ones, ones, longer, reduced)[0][:, 0]
    variance = injected**2 + (step * noise) ** 2
    away = points - (points - step * gradient[:, 0])[:, None]
    proposal = np.exp(-0.5 * away**2 / variance[:, None])
    proposal /= proposal.sum(axis=1, keepdims=True)
    if not level.adjusted:
        return proposal
    value = replace(level, swap_temperature=None).value(position, energy)
    log_ratio = value[:, None] - value
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = log_ratio + np.log(proposal.T) - np.log(proposal)
    moves = proposal * np.exp(np.minimum(np.nan_to_num(log_ratio, nan=0.0), 0.0))
    np.fill_diagonal(moves, 0.0)
    return moves + np.diag(1.0 - moves.sum(axis=1))


def acceptance(
    rule: SwapRule, cold: Level, hot: Level, points: Array, discrepancy: Callable[[Array], Array] | None = None
) -> list[Array]:
    """Acceptance (n cold, n hot) of each stage of a rule, averaged over the energies' noise.

    Every stage draws its energies afresh, so that the stages are independent given the positions.
    """
    position = points[:, None]
    terms: dict[str, tuple[Array, Array, Array]] = {}  # mean, true variance, reported variance; each (n,)
    for name, level in (("cold", cold), ("hot", hot)):
        energy = level.potential.energy(position)
        true = _values(level.energy_sd, position, energy) ** 2
        reported = true if level.energy_variance is None else _values(level.energy_variance, position, energy)
        terms[name] = energy, true, reported
    none = np.zeros(len(points))
    terms["learned"] = (none if discrepancy is None else discrepancy(position)), none, none
    return [_mean_acceptance(stage, terms, rule, (cold, hot), position) for stage in rule.stages()]


def _mean_acceptance(
    stage: Any,
    terms: dict[str, tuple[Array, Array, Array]],
    rule: SwapRule,
    levels: tuple[Level, Level],
    position: Array,
) -> Array:
    n = len(terms["cold"][0])
    mean, true, reported = (np.zeros((n, n)) for _ in range(3))
    slopes = [1.0 / (level.swap_temperature or level.temperature) for level in levels]
    for name, weights in stage._asdict().items():
        rung, at = name.split("_at_")
        energy, variance, reported_variance = terms[rung]
        if rung == "learned":
            coefficient, value = weights * slopes[0], weights * slopes[0] * energy
        else:
            coefficient = sum(w * slope for w, slope in zip(weights, slopes, strict=True))
            value = sum(w * level.value(position, energy) for w, level in zip(weights, levels, strict=True))
        along = (slice(None), None) if at == "cold" else (None, slice(None))
        mean = mean + np.broadcast_to(value, (n,))[along]
        true = true + (coefficient**2 * variance)[along]
        reported = reported + (coefficient**2 * reported_variance)[along]
    if rule.equalize:
        added = np.maximum(reported, reported.T) - reported
        true, reported = true + added, reported + added
    return mean_of_least(mean - reported / (2.0 * rule.factor), true)


def mean_of_least(mean: Array, variance: Array) -> Array:
    """E[min(1, exp(R))] for R ~ N(mean, variance)."""
    sd = np.sqrt(np.maximum(variance, 1e-300))
    low = np.exp(np.minimum(mean + 0.5 * variance + log_ndtr(-(mean + variance) / sd), 0.0))
    noisy = ndtr(mean / sd) + low
    return np.where(variance > 0.0, noisy, np.exp(np.minimum(mean, 0.0)))


def on_grid(potential: Potential, points: Array, temperature: float = 1.0, prior: Potential | None = None) -> Array:
    """Probabilities (n,) of the grid's points under the potential, all of it tempered or all but a prior."""
    energy = Level(potential, temperature, prior=prior).value(points[:, None], potential.energy(points[:, None]))
    target = np.exp(energy.min() - energy)
    return np.asarray(target / target.sum())


def wasserstein(points: Array, target: Array, truth: Array) -> float:
    """Wasserstein-1 distance between two distributions on the grid."""
    return float((points[1] - points[0]) * np.abs(np.cumsum(target - truth)).sum())


def divergence(target: Array, truth: Array) -> float:
    """Kullback-Leibler divergence (nats) of a distribution on the grid from the truth."""
    seen = truth > 1e-15
    return float((truth[seen] * np.log(truth[seen] / np.maximum(target[seen], 1e-300))).sum())


def _values(value: Noise, position: Array, energy: Array) -> Array:
    if callable(value):
        return np.asarray(value(position, energy), dtype=float)
    return np.full(len(position), float(value))
