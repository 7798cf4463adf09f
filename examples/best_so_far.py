"""How soon replicas come near the best of 25 modes: Langevin dynamics, cold and hot, beside replica exchange.

Chen et al. (2019), appendix E: Gaussians of variance kappa on the integer grid, whose weights rise. The quantity is the
best value met so far in 10,000 steps of .01. Figure 2 has kappa = .1 and three pairs of temperatures. Figure 3
(``--vary kappa``) has the temperatures .01 and 1 and kappa from .05 to .3, and is shown at three intensities of swaps.
The print gives a step of 1 there (``--step 1``). Here it is .01. The mode at (4, 4) has the largest weight. Starts
are uniform over the grid. The results are the gaps between the best log density met so far and the maximum, after 100,
1,000 and 10,000 steps, and the median number of steps until the gap is .05. With two replicas, both count.

The printed energy is minus the density (``--energy printed``), which is flat away from the modes and does not confine:
by default it is minus the log density. Replica exchange takes two gradients in each step. Chains are runs of their own,
and errors are over them. The default takes a minute.
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
from invsamp.problems.published import GRID

CHAINS, STEP, NEAR = 64, GRID["step_size"], 0.05
#: Figure 2 at kappa = .1, and figure 3 at the temperatures .01 and 1.
PAIRS, KAPPA = GRID["pairs"], GRID["variance"]
(COLD, HOT), KAPPAS = GRID["temperatures"], GRID["variances"]
#: Attempts at a swap in a unit of time; the print has 1, and at 100 there is one in each step.
INTENSITIES = (1.0, 10.0, 100.0)
AXIS = np.linspace(-0.2, 4.2, 441)


class Energy:
    """Minus the log density of the mixture, or minus the density itself as printed, over a temperature.

    At temperature 1 the distribution is that of the energy at this one.
    """

    dimension = 2

    def __init__(self, kappa: float, temperature: float = 1.0, *, printed: bool = False) -> None:
        self.mixture, self._over, self._printed = gaussian_grid(kappa), temperature, printed

    def energy(self, position: np.ndarray) -> np.ndarray:
        """Values (chains,)."""
        return self.energy_and_gradient(position)[0]

    def energy_and_gradient(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same with gradients (chains, 2)."""
        energy, gradient = self.mixture.energy_and_gradient(position)
        if self._printed:
            density = np.exp(-energy)
            energy, gradient = -density, density[:, None] * gradient
        return energy / self._over, gradient / self._over

    def log_density(self, energy: np.ndarray) -> np.ndarray:
        """Of the mixture, from energies over the temperature."""
        value = self._over * energy
        return np.log(np.maximum(-value, 1e-300)) if self._printed else -value

    def highest(self) -> float:
        """Log density at the best mode, which where modes overlap is not the one of the largest weight."""
        at = np.stack(np.meshgrid(AXIS, AXIS), axis=-1).reshape(-1, 2)
        return float(-self.mixture.energy(at).min())


def gaps(energy: Energy, sampler: iv.ladder.Sampler, draws: int, seed: int) -> np.ndarray:
    """Log density at the best mode less the highest so far, by chain and step (chains, draws)."""
    start = np.random.default_rng(seed).uniform(-0.5, 4.5, (CHAINS, 2))
    settings = {"warmup": 0, "chains": CHAINS, "start": start, "seed": seed, "progress": False}
    run = iv.sample(iv.Target(energy), sampler, draws=draws, **settings)
    found = run.data.sample_stats.energy.to_numpy()
    if run.rungs > 1:
        found = np.minimum(found, run.data.hot_stats.energy.to_numpy().reshape(found.shape))
    return np.asarray(energy.highest() - np.maximum.accumulate(energy.log_density(found), axis=1))


def arrivals(gap: np.ndarray) -> dict[str, Any]:
    """Means after some numbers of steps with their standard errors, and the median time."""
    draws, near = gap.shape[1], gap < NEAR
    arrived = np.where(near.any(axis=1), near.argmax(axis=1) + 1, draws + 1)
    after = [k for k in (100, 1000, 10_000) if k <= draws]
    means = {str(k): [float(gap[:, k - 1].mean()), float(gap[:, k - 1].std(ddof=1) / np.sqrt(CHAINS))] for k in after}
    return {"after": means, "median_steps": float(np.median(arrived)), "never": int((arrived > draws).sum())}


def compared(
    kappa: float,
    cold: float,
    hot: float,
    intensities: tuple[float, ...],
    draws: int,
    seed: int,
    *,
    printed: bool,
    step: float,
) -> dict[str, np.ndarray]:
    """Gaps of either temperature alone and of both with swaps."""
    found = {}
    for temperature in (cold, hot):
        energy = Energy(kappa, temperature, printed=printed)
        found[f"T = {temperature:g}"] = gaps(energy, iv.samplers.sgld(step * temperature), draws, seed)
    for intensity in intensities:
        if intensity * step > 1.0:
            continue
        name = "both" if len(intensities) == 1 else f"both, a = {intensity:g}"
        pair = iv.samplers.parallel_tempering(
            (1.0, hot / cold), step * cold, adjusted=False, swap_fraction=intensity * step
        )
        found[name] = gaps(Energy(kappa, cold, printed=printed), pair, draws, seed)
    return found


def drawn(cases: dict[str, dict[str, np.ndarray]]) -> Figure:
    """Mean gaps by step."""
    figure, axes = plt.subplots(
        1, len(cases), figsize=(4 * len(cases), 3.6), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, (title, found) in zip(axes[0], cases.items(), strict=True):
        for name, gap in found.items():
            axis.loglog(np.arange(1, gap.shape[1] + 1), gap.mean(axis=0), label=name)
        axis.set(xlabel="steps", title=title)
        axis.legend(fontsize=8)
    axes[0, 0].set_ylabel("log density below the best")
    return figure


def main() -> dict[str, Any]:
    """Run all, show them, and save figure and summary."""
    more: dict[str, dict[str, Any]] = {
        "vary": {"choices": ["temperatures", "kappa"], "default": "temperatures", "help": "figure 2 or figure 3"},
        "energy": {"choices": ["log", "printed"], "default": "log", "help": "minus log density, or minus density"},
        "step": {"type": float, "default": STEP, "help": f"step size (default {STEP:g})"},
    }
    chosen = options("best_so_far", __doc__.split("\n")[0], draws=10_000, seeds=True, more=more)
    how = {"printed": chosen.more["energy"] == "printed", "step": chosen.more["step"]}

    def measured(seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
        if chosen.more["vary"] == "temperatures":
            cases = {
                f"{cold:g}, {hot:g}": compared(KAPPA, cold, hot, (10.0,), chosen.draws, seed, **how)
                for cold, hot in PAIRS
            }
        else:
            cases = {
                f"kappa {kappa:g}": compared(kappa, COLD, HOT, INTENSITIES, chosen.draws, seed, **how)
                for kappa in KAPPAS
            }
        summary = {case: {name: arrivals(gap) for name, gap in found.items()} for case, found in cases.items()}
        return summary, {"best_so_far": drawn(cases)}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return chosen.over_seeds(measured)


if __name__ == "__main__":
    main()
