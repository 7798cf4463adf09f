"""How soon replicas come near the best of 25 modes: Langevin dynamics, cold and hot, beside replica exchange.

Chen et al. (2019), appendix E: Gaussians of variance .1 on the integer grid, whose weights rise, and the least energy
that was met so far in 10,000 steps of .01, at the published pairs of temperatures. The mode at (4, 4) is the highest;
starts are uniform over the grid. Told are how far the least energy so far, of both replicas where there are two, is
from the best there is, after 100, 1,000 and 10,000 steps, and the median number of steps until that is .05.

Replica exchange takes two gradients in each step. Chains are runs of their own, and errors are over them. The default
takes a minute.
"""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from _common import options
from matplotlib.figure import Figure

import invsamp as iv
from invsamp.problems.mixtures import gaussian_grid

CHAINS, STEP, NEAR = 64, 0.01, 0.05
PAIRS = ((0.01, 0.5), (0.01, 1.0), (0.1, 1.0))
GRID = gaussian_grid()


class Over:
    """The energy over a temperature: at temperature 1 the law is that of the energy at this one."""

    dimension = 2

    def __init__(self, temperature: float) -> None:
        self._over = temperature

    def energy(self, position: np.ndarray) -> np.ndarray:
        """Values (chains,)."""
        return GRID.energy(position) / self._over

    def energy_and_gradient(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same with gradients (chains, 2)."""
        energy, gradient = GRID.energy_and_gradient(position)
        return energy / self._over, gradient / self._over


def least() -> float:
    """Energy at the best mode."""
    axis = np.linspace(3.9, 4.1, 401)
    return float(GRID.energy(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)).min())


def gaps(cold: float, sampler: iv.ladder.Sampler, draws: int, seed: int) -> np.ndarray:
    """Least energy so far less the best there is, by chain and step (chains, draws)."""
    start = np.random.default_rng(seed).uniform(-0.5, 4.5, (CHAINS, 2))
    settings = {"warmup": 0, "chains": CHAINS, "start": start, "seed": seed, "progress": False}
    run = iv.sample(iv.Target(Over(cold)), sampler, draws=draws, **settings)
    energy = run.data.sample_stats.energy.to_numpy()
    if run.rungs > 1:
        energy = np.minimum(energy, run.data.hot_stats.energy.to_numpy().reshape(energy.shape))
    return np.asarray(np.minimum.accumulate(cold * energy, axis=1) - least())


def told(gap: np.ndarray) -> dict[str, Any]:
    """Means after some numbers of steps with their standard errors, and the median time."""
    draws, near = gap.shape[1], gap < NEAR
    arrived = np.where(near.any(axis=1), near.argmax(axis=1) + 1, draws + 1)
    after = [k for k in (100, 1000, 10_000) if k <= draws]
    means = {str(k): [float(gap[:, k - 1].mean()), float(gap[:, k - 1].std(ddof=1) / np.sqrt(CHAINS))] for k in after}
    return {"after": means, "median_steps": float(np.median(arrived)), "never": int((arrived > draws).sum())}


def main() -> dict[str, Any]:
    """Run all, show them, and save figure and summary."""
    chosen = options("best_so_far", __doc__.split("\n")[0], draws=10_000, seeds=True)

    def measured(seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
        figure, axes = plt.subplots(1, len(PAIRS), figsize=(12, 3.6), sharey=True, squeeze=False, layout="constrained")
        summary = {}
        for axis, (cold, hot) in zip(axes[0], PAIRS, strict=True):
            pair = iv.samplers.parallel_tempering((1.0, hot / cold), STEP * cold, adjusted=False, swap_fraction=0.1)
            samplers = {f"T = {t:g}": (t, iv.samplers.sgld(STEP * t)) for t in (cold, hot)} | {"both": (cold, pair)}
            found = {name: gaps(t, sampler, chosen.draws, seed) for name, (t, sampler) in samplers.items()}
            for name, gap in found.items():
                axis.loglog(np.arange(1, chosen.draws + 1), gap.mean(axis=0), label=name)
            axis.set(xlabel="steps", title=f"temperatures {cold:g} and {hot:g}")
            axis.legend()
            summary[f"{cold:g}, {hot:g}"] = {name: told(gap) for name, gap in found.items()}
        axes[0, 0].set_ylabel("least energy so far, over the best")
        return summary, {"best_so_far": figure}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return chosen.over_seeds(measured)


if __name__ == "__main__":
    main()
