"""Swaps by noisy energies: Gaussian noise, heavy tails, and a correction factor that trades bias for swaps.

The three examples of Deng (2021), thesis, section 2.5.1, at the printed settings (`invsamp.problems.published`):
mixtures in one dimension, temperatures 1 and 10, step .03, 100,000 steps. Energies have noise N(0, 2^2), Student's t
with 5 degrees of freedom, and 7 times one with 10. Gradients are exact; the print is not clear about them. The
correction of a swap uses the variance that warm-up estimates from several energies at each pilot state, and then
keeps; the thesis goes on estimating it every 100 steps.

32 chains of each seed stand for 32 runs. A run without swaps stays in the mode where it began: half of the chains begin
in each. The divergence is KL(truth || pooled draws) on bins of .1.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from _common import options
from matplotlib.figure import Figure
from tqdm import tqdm

import invsamp as iv
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request
from invsamp.problems.mixtures import GaussianMixture
from invsamp.problems.published import GAUSSIAN_SWAPS, STUDENT_SWAPS, WIDE_STUDENT_SWAPS, Setting

Array = npt.NDArray[np.float64]
CHAINS, THIN, WARMUP = 32, 10, 1000
EDGES = np.linspace(-10.0, 8.0, 181)
EXAMPLES = (GAUSSIAN_SWAPS, STUDENT_SWAPS, WIDE_STUDENT_SWAPS)


@dataclass(frozen=True)
class NoisyEnergies:
    """Energies with Student's t noise, Gaussian for infinite ``freedom``; gradients are exact."""

    scale: float
    freedom: float = math.inf

    def bind(self, source: Any, structure: Any) -> _BoundNoisyEnergies:
        """Join to a fidelity."""
        return _BoundNoisyEnergies(self, source.fidelity)


class _BoundNoisyEnergies:
    exact = exact_energy = False
    degrees_of_freedom = None

    def __init__(self, settings: NoisyEnergies, fidelity: str) -> None:
        self._settings, self._fidelity = settings, fidelity

    def estimate(self, rng: np.random.Generator, position: Array, gradient: Any = True) -> EvaluationRequests[Estimate]:
        """Energies and gradients; the variance of the noise is not stated."""
        (found,) = yield (Request(self._fidelity, position, gradient),)
        scale, freedom = self._settings.scale, self._settings.freedom
        noise = rng.standard_normal(len(position)) if math.isinf(freedom) else rng.standard_t(freedom, len(position))
        return found._replace(energy=found.energy + scale * noise)


def samplers(setting: Setting) -> dict[str, iv.ladder.Sampler]:
    """SGLD, and replica exchange with each of the factors; without a correction for an infinite one."""
    estimator = NoisyEnergies(setting["noise_scale"], setting.get("noise_freedom", math.inf))
    found = {"SGLD": iv.samplers.sgld(setting["step_size"], estimator=estimator)}
    for factor in dict.fromkeys((*setting["factors"], math.inf)):
        rule = iv.swaps.metropolis() if math.isinf(factor) else iv.swaps.noise_penalty(factor)
        found[f"reSGLD, F {factor:g}"] = iv.resgld(
            setting["temperatures"],
            setting["step_size"],
            estimator=estimator,
            swap=rule,
            energy_variance=iv.variances.running_average(),
            swap_fraction=1.0,
        )
    return found


def main() -> dict[str, Any]:
    """All three examples, over seeds."""
    given = options("swap_noise", "Swaps by noisy energies: three examples of the thesis.", draws=10_000, seeds=True)
    return given.over_seeds(lambda seed: measured(given.draws, seed))


def measured(draws: int, seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Divergence, weight of the right mode and swap rate of every sampler."""
    summary: dict[str, Any] = {}
    figure = Figure(figsize=(12.0, 3.4), layout="constrained")
    for axes, setting in zip(figure.subplots(1, len(EXAMPLES)), EXAMPLES, strict=True):
        mixture = GaussianMixture(setting["weights"], setting["means"], setting["sds"])
        truth = mixture.probabilities(EDGES)
        width, middles = EDGES[1] - EDGES[0], 0.5 * (EDGES[1:] + EDGES[:-1])
        axes.fill_between(middles, truth / width, color="#e3e8ed", label="truth")
        rows = summary[str(setting.place)] = {}
        for label, sampler in tqdm(samplers(setting).items(), setting.place):
            x, rate = sample(mixture, sampler, draws, seed)
            counts = np.histogram(x, EDGES)[0]
            axes.plot(middles, counts / x.size / width, lw=1.2, label=label)
            rows[label] = {
                "divergence": float(iv.diagnostics.divergence_on_grid(x.ravel(), truth, EDGES)),
                "right_weight": float((x > np.mean(setting["means"])).mean()),
                "swap_rate": rate,
            }
        axes.set(title=setting.place, xlabel="x")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    return summary, {"densities": figure}


def sample(mixture: GaussianMixture, sampler: iv.ladder.Sampler, draws: int, seed: int) -> tuple[Array, float | None]:
    """Draws (chains, draws) of the cold rung and the share of accepted swaps."""
    start = np.repeat(np.asarray(mixture.means, dtype=float), CHAINS // 2)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # chains without swaps do not agree: that is what is shown
        run = iv.sample(
            iv.Target(mixture, start=start),
            sampler,
            draws=draws,
            thin=THIN,
            warmup=WARMUP,
            chains=CHAINS,
            seed=seed,
            start=start,
            progress=False,
        )
    attempts = run.report["swap_attempts"]
    return run.theta[..., 0], run.report["swap_accepts"][0] / attempts[0] if attempts else None


if __name__ == "__main__":
    main()
