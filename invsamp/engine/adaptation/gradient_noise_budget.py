r"""Warm-up of one rung's noise budget: what is done where gradients are noisier than the noise that a step injects.

A Langevin step of size :math:`\eta` at temperature :math:`\tau` has room for gradient noise of variance

.. math:: s^2 \le 2 \alpha \tau / \eta,

:math:`\alpha` the friction, 1 without momentum; other targets as `invsamp.tempering.checks.noise_room` says. See
`invsamp.ladder.GradientNoise` for what can be done beyond it.
"""

from __future__ import annotations

import math

import numpy as np

from invsamp.diagnostics.limits import CLIPPED_NOISE_LIMIT, CLIPPED_NOISE_REFUSED
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.kernels.metric import Metric
from invsamp.protocols import Array
from invsamp.tempering.checks import noise_room
from invsamp.tempering.linear_targets import Tempered

#: Fraction of the states met at the end of warm-up whose noise must fit: others are a tenth of what a run warns of.
FITTING = 1.0 - 0.1 * CLIPPED_NOISE_LIMIT
#: States of each chain, at most, that are kept for that.
KEPT = 300


class NoiseBudget(Lasting, lasting=("_positions", "_stated", "_before", "_every")):
    """Observes a rung in warm-up and determines its budget."""

    def __init__(self, rung: RungChains) -> None:
        self._rung = rung
        self._positions: list[Array] = []
        self._stated: list[Array | None] = []
        self._before, self._every = (0, 0), 1

    def open(self, length: int) -> None:
        """Begin a window of that many steps: the budget is for the states where the chains are."""
        self._every = max(1, length // KEPT)
        counts = self._rung.counts
        self._positions, self._stated, self._before = [], [], (counts.steps, counts.clipped)
        variance = self._rung.gradient_variance()
        if variance is not None:
            self._fit(float(largest_whitened(self._rung.metric, variance).max()))

    def record(self) -> None:
        """After a step of the last window: keep its states, unless enough are kept."""
        rung = self._rung
        if not rung.estimator.exact and (rung.counts.steps - self._before[0]) % self._every == 0:
            self._positions.append(rung.position)
            self._stated.append(rung.estimate.gradient_variance)

    def settle(self) -> None:
        """After warm-up: fix step size or temperature by the states that were kept.

        Raises
        ------
        RuntimeError
            If the last window exceeded the budget more often than ``on_noise_overflow`` lets it.
        """
        rung, noise = self._rung, self._rung.settings.gradient_noise
        if noise is None or not self._positions or rung.gradient_variance() is None:
            return
        found = [rung.noise.gradient_variance(*pair) for pair in zip(self._positions, self._stated, strict=True)]
        largest = np.concatenate(
            [largest_whitened(self._rung.metric, variance) for variance in found if variance is not None]
        )
        variance = float(np.quantile(largest, FITTING, method="higher"))
        self._fit(variance)
        counts = rung.counts
        steps = (counts.steps - self._before[0]) * len(rung.position)
        clipped = (counts.clipped - self._before[1]) / steps
        allowed = {"refuse": CLIPPED_NOISE_LIMIT, "clip": CLIPPED_NOISE_REFUSED}.get(noise.on_noise_overflow, math.inf)
        if clipped > allowed:
            raise RuntimeError(
                f"the gradient noise of the rung of target {rung.target} exceeded the noise that a step "
                f"injects in {clipped:.1%} of the last steps of warm-up, above {allowed:.0%}. Take a "
                f"step_size of at most {self._longest(variance):.3g} (now "
                f"{float(np.max(rung.step_size)):.3g}), gradients of less noise, or on_noise_overflow='shrink'"
            )

    def uncovered(self) -> float | None:
        """Fraction of the kept states that the pilot of a variance model does not cover; None without a pilot."""
        return self._rung.noise.uncovered(np.concatenate(self._positions)) if self._positions else None

    def _fit(self, variance: float) -> None:
        rung, noise = self._rung, self._rung.settings.gradient_noise
        assert noise is not None  # there are variances
        if noise.on_noise_overflow == "shrink":
            rung.longest_step = self._longest(variance)
            given = rung.settings.step_size
            if given is None:
                rung.step_size = np.minimum(rung.step_size, rung.longest_step)[()]
            elif not callable(given):  # a schedule is held back at every step
                rung.step_size = min(float(given), rung.longest_step)
        elif noise.on_noise_overflow == "effective_temperature":
            affords = float(np.max(rung.step_size)) * variance / (2.0 * rung.settings.kernel.friction)
            target = rung.settings.target
            assert isinstance(target, Tempered)  # or the rung is refused
            rung.target = Tempered(max(target.temperature, affords))

    def _longest(self, variance: float) -> float:
        budget = 2.0 * self._rung.settings.kernel.friction * noise_room(self._rung.settings.target)
        return budget / variance if variance > 0.0 else math.inf


def largest_whitened(metric: Metric, variance: Array) -> Array:
    """Largest eigenvalues (n,) of covariances of gradients in whitened coordinates."""
    white = metric.whiten_covariance(variance)
    if white.ndim == 3:
        return np.asarray(np.linalg.eigvalsh(white)[:, -1])
    return white if white.ndim == 1 else white.max(axis=1)
