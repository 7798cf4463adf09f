"""AWSGLD's function of the energy beside the distribution function that it should go to, in one dimension.

Deng (2021), thesis, section 7.2.1, figure 7.1. Targets are the standard normal distribution with zeta = 1, and the
mixture .4 N(-2, 1) + .6 N(1, 1) with zeta = 1 and 2. The temperature is 1, bins of energy have the width .01, and
gradients have noise of sd .1. The printed gain is .02 / (k^.6 + 100), with 1e7 steps and ten runs. The step size is not
printed; here it is .01. Ten chains learn one function together. The default of 1e5 steps is as many steps of all chains
as 1e6 of one.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from _common import options
from matplotlib.figure import Figure
from tqdm import tqdm

import invsamp as iv
from invsamp.problems.mixtures import GaussianMixture
from invsamp.problems.published import ENERGY_DISTRIBUTION as PRINTED

Array = npt.NDArray[np.float64]
STEP, THIN = 0.01, 100
NORMAL = GaussianMixture((1.0,), (0.0,), (1.0,))
MIXTURE = GaussianMixture(PRINTED["weights"], PRINTED["means"], (1.0, 1.0))
CASES = {"normal, zeta 1": (NORMAL, 1.0), "mixture, zeta 1": (MIXTURE, 1.0), "mixture, zeta 2": (MIXTURE, 2.0)}
#: The gains that are compared: the printed one, and one that forgets sooner.
GAINS = {
    "printed": iv.tempering.gain(PRINTED["gain_scale"], PRINTED["gain_offset"], PRINTED["gain_exponent"]),
    "larger": iv.tempering.gain(1.0, PRINTED["gain_offset"], PRINTED["gain_exponent"]),
}


def main() -> dict[str, Any]:
    """All cases with both gains, over seeds."""
    given = options("energy_distribution", "AWSGLD's function of the energy.", draws=1_000, seeds=True)
    return given.over_seeds(lambda seed: measured(given.draws, seed))


def measured(draws: int, seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Largest difference of theta^zeta and the distribution function, variances by weight."""
    summary: dict[str, Any] = {}
    figure = Figure(figsize=(11.5, 3.6), layout="constrained")
    for axes, (name, (mixture, zeta)) in zip(figure.subplots(1, len(CASES)), CASES.items(), strict=True):
        x = np.linspace(-12.0, 12.0, 400_001)
        energy, mass = mixture.energy(x[:, None]), mixture.density(x[:, None])
        order = np.argsort(energy)
        cumulated = np.cumsum(mass[order]) / mass.sum()
        ends = energy.min() + PRINTED["width"] * np.arange(1, PRINTED["bins"])
        truth = np.interp(ends, energy[order], cumulated)
        axes.plot(ends, truth, color="black", label="distribution function")
        rows = summary[name] = {}
        for gain in tqdm(GAINS, name):
            run = sample(mixture, ends, zeta, GAINS[gain], draws, seed)
            theta = np.exp(zeta * learned(run, ends))
            weight = np.ones_like(run.theta[..., 0]) if run.weights is None else run.weights
            axes.plot(ends, theta.mean(axis=0), lw=1.2, label=f"theta^zeta, gain {gain}")
            mean = np.average(run.theta[..., 0], weights=weight)
            variance = np.average((run.theta[..., 0] - mean) ** 2, weights=weight)
            true_mean = float((x * mass).sum() / mass.sum())
            true_variance = float(((x - true_mean) ** 2 * mass).sum() / mass.sum())
            rows[gain] = {
                "largest_difference": float(np.abs(theta - truth).max()),
                "variance_by_weight_over_truth": float(variance / true_variance),
            }
        axes.set(title=name, xlabel="energy", xlim=(ends[0] - 0.1, ends[0] + 5.0))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    return summary, {"distribution": figure}


def sample(mixture: GaussianMixture, ends: Array, zeta: float, gain: Any, draws: int, seed: int) -> iv.Run:
    """Ten chains that learn one function."""
    sampler = iv.samplers.awsgld(
        STEP,
        ends,
        estimator=iv.estimators.noisy(0.0, PRINTED["gradient_sd"]),
        zeta=zeta,
        temperature=PRINTED["temperature"],
        gain=gain,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        settings: dict[str, Any] = {"thin": THIN, "warmup": 0, "chains": PRINTED["runs"], "seed": seed}
        return iv.sample(iv.Target(mixture), sampler, draws=draws, progress=False, **settings)


def learned(run: iv.Run, ends: Array) -> Array:
    """Log theta (chains, ends), at the upper ends of the bins."""
    found: Any = run.report["learned_targets"][0]
    return np.array(found["log_psi"])[:, : len(ends)]


if __name__ == "__main__":
    main()
