"""Two modes under noisy energies and gradients: the effect of each correction of f-reSGLD, and when it shows.

The mixture of figures 1 and 2 of Li, Lin, Zhang and Zhou (2023), "Fast replica exchange SGLD", section 5.1. The
temperatures are 1 and 10, the step size is 0.03. Constant noise has the sds 1 and 3 on the two rungs' energies, and 2
and 5 on their gradients. Noise that depends on the state has the sds 1.5 sigmoid(U) and 5 sigmoid(x).

The samplers' distributions differ by a few percent of a mode's sd. In a single run of 1,000 steps the chain changes
modes a handful of times, so its error is far larger than that. No figure of one run distinguishes two samplers. So the
table pools 128 runs, with standard errors. They are 4 batches of 32 runs: the runs of a batch share one warm-up and the
variances fitted in it, so the jackknife leaves out one batch at a time. The default of 10,000 draws is 100,000 steps;
it takes about a quarter of an hour.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _common import options
from _noisy_figures import draw_densities, draw_divergences, draw_single_runs
from tqdm import tqdm

import invsamp as iv
from invsamp.problems import mixtures as problem
from invsamp.problems.published import MIXTURE

BATCHES, CHAINS, THIN, WARMUP = 4, 32, 10, 2000
LADDER = (MIXTURE["temperatures"], MIXTURE["step_size"])
EDGES = np.linspace(-8.0, 6.0, 141)
TARGET = iv.Target(problem.two_modes(), start=lambda rng, n: rng.uniform(-8.0, 8.0, (n, 1)))
#: Estimators of the cold and the hot rung.
NOISES = {
    "constant noise": tuple(
        iv.estimators.noisy(*sds) for sds in zip(MIXTURE["energy_sd"], MIXTURE["gradient_sd"], strict=True)
    ),
    "state-dependent noise": (iv.estimators.noisy(problem.sigmoid_noise_energy, problem.sigmoid_noise_gradient),) * 2,
}


class Estimate(NamedTuple):
    """A pooled estimate with its jackknife standard error."""

    value: float
    error: float


def samplers(noise: tuple[Any, Any]) -> dict[str, iv.ladder.Sampler]:
    """The published samplers."""
    both: dict[str, Any] = {"estimator": noise}
    return {
        "SGLD": iv.samplers.sgld(LADDER[1], estimator=noise[0]),
        "reSGLD": iv.resgld(*LADDER, **both),
        "m-reSGLD": iv.samplers.multi_variance_resgld(*LADDER, **both),
        "f-reSGLD, constant": iv.samplers.fast_resgld(*LADDER, **both, variance=iv.variances.running_average()),
        "f-reSGLD, kernel ridge": iv.samplers.fast_resgld(
            *LADDER, **both, variance=iv.variances.kernel_ridge(), probes=10
        ),
        "f-reSGLD, true": iv.samplers.fast_resgld(*LADDER, **both, variance=iv.variances.known()),
    }


def main() -> dict[str, Any]:
    """Every sampler under both noises, the table and its figures."""
    given = options("noisy_mixture", "Noisy replica exchange on two modes.", draws=10_000)
    draws = {
        noise: {
            label: sample(sampler, given.draws, given.seed)
            for label, sampler in tqdm(samplers(estimators).items(), noise)
        }
        for noise, estimators in NOISES.items()
    }
    checkpoints = sorted({max(10, given.draws // 100), max(10, given.draws // 10), given.draws})
    table = {
        noise: {label: [describe(x[..., :n]) for n in checkpoints] for label, x in row.items()}
        for noise, row in draws.items()
    }
    distances = {
        noise: {label: [distances_of_runs(x[..., :n]) for n in checkpoints] for label, x in row.items()}
        for noise, row in draws.items()
    }
    steps = [n * THIN for n in checkpoints]
    given.save("densities", draw_densities(draws, EDGES, problem.two_modes()))
    given.save("divergences", draw_divergences(table, steps))
    given.save("single_runs", draw_single_runs(distances, steps))
    summary = {
        "seed": given.seed,
        "batches": BATCHES,
        "runs": BATCHES * CHAINS,
        "steps": steps,
        "floor_of_independent_draws": [
            float(iv.diagnostics.iid_floor(truth(), BATCHES * CHAINS * n, 20, given.seed).mean()) for n in checkpoints
        ],
        "samplers": {
            noise: {label: [row._asdict() for row in rows] for label, rows in by_label.items()}
            for noise, by_label in table.items()
        },
        "single_runs": {
            noise: {
                "distance": {label: [float(np.median(d)) for d in rows] for label, rows in by_label.items()},
                "kernel_ridge_closer_than_reSGLD": [
                    closer(*pair) for pair in zip(by_label["f-reSGLD, kernel ridge"], by_label["reSGLD"], strict=True)
                ],
            }
            for noise, by_label in distances.items()
        },
    }
    given.save_summary(summary)
    return summary


def sample(
    sampler: iv.ladder.Sampler, draws: int, seed: int, batches: int = BATCHES, chains: int = CHAINS
) -> np.ndarray:
    """Draws (batches, chains, draws) of the cold rung, every batch with its own warm-up."""
    with warnings.catch_warnings():
        # single chains do not agree on the modes' weights, and that is what is to be seen
        warnings.simplefilter("ignore", UserWarning)
        settings: dict[str, Any] = {"thin": THIN, "warmup": WARMUP, "chains": chains, "progress": False}
        runs = [iv.sample(TARGET, sampler, draws=draws, seed=1000 * seed + k, **settings) for k in range(batches)]
    return np.stack([run.theta[..., 0] for run in runs])


class Row(NamedTuple):
    """One sampler after so many steps, all runs pooled: value and standard error of each."""

    divergence: Estimate  # KL(truth || draws) on bins of 0.1
    weight: Estimate  # of the right mode
    sd: Estimate  # of the right mode


def describe(x: np.ndarray) -> Row:
    """Pooled estimates of draws (batches, chains, n)."""
    probabilities = truth()
    measures: tuple[Callable[[np.ndarray], float], ...] = (
        lambda pooled: float(iv.diagnostics.divergence_on_grid(pooled, probabilities, EDGES)),
        lambda pooled: float((pooled > 0.0).mean()),
        lambda pooled: float(pooled[pooled > 0.0].std()),
    )
    return Row(*(jackknife(measure, x) for measure in measures))


def jackknife(measure: Callable[[np.ndarray], float], x: np.ndarray) -> Estimate:
    """Estimate from draws (groups, ...) pooled, with the error of leaving out one group at a time."""
    n = len(x)
    without = np.array([measure(np.delete(x, k, axis=0).ravel()) for k in range(n)])
    return Estimate(measure(x.ravel()), math.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum()))


def truth() -> np.ndarray:
    """Probabilities of the bins."""
    return problem.two_modes().probabilities(EDGES)


def distances_of_runs(x: np.ndarray) -> np.ndarray:
    """Wasserstein distance of every run (batches, chains, n) from the truth, by the bins' distribution functions."""
    right = np.cumsum(truth())
    runs = x.reshape(-1, x.shape[-1])
    ours = np.stack([np.cumsum(np.histogram(run, EDGES)[0]) for run in runs]) / runs.shape[1]
    return np.asarray(np.abs(ours - right).sum(axis=1) * (EDGES[1] - EDGES[0]))


def closer(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Share of the pairs of runs in which ours is closer to the truth."""
    return float((ours[:, None] < theirs).mean())


if __name__ == "__main__":
    main()
