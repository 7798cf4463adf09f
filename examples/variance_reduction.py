"""Sixty-four experiments with a solve each: the noise of a batch of eight, and what less noise brings.

Two reactions in a row are seen by the absorbance of the product between them (`invsamp.problems.reactions`). All six
readings of an experiment come from one solve, so a minibatch draws experiments. The noise depends on what is subtracted
from each term before it is summed. That is nothing, its value at a snapshot (VR-reSGLD, Algorithm 1), or its
first-order expansion there. Or it is the expansion to second order about a mode, with the terms' own Hessians or with
Gauss-Newton matrices.

The first table is the noise of an energy, and of a whitened gradient, at one and three posterior sds from the mode. The
second is the same for a source in the wind (`invsamp.problems.plumes`), whose model is much closer to linear.
Gauss-Newton matrices omit the curvature of the model times the residuals. Their noise is proportional to the bending of
the model over a posterior sd, in sds of a reading, and halves with the noise of the readings. A third table shows it.

The fourth table is the gain where the first reaction is known to be the fast one and readings are four times as good.
Replica exchange uses such batches, one batch for both chains of a swap. It is compared with the same sampler with full
gradients, and with MALA, which needs full energies too. Solves are counted, by experiment, without warm-up. The
default, 400 steps of 16 chains, takes less than a minute. The documentation's figures are of ``--draws 600 --seeds 6``.
"""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from _common import options
from matplotlib.figure import Figure

import invsamp as iv
from invsamp import diagnostics
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import answered
from invsamp.problems import plumes
from invsamp.problems.reactions import EXPERIMENTS, GROUPS, Absorbance, slow_or_fast

BATCH, CHAINS, TEMPERATURES, FRICTION = 8, 16, (1.0, 2.0), 0.3
DISTANCES, DIRECTIONS, REPEATS = (1.0, 3.0), 100, 20
READING_NOISE = (0.02, 0.01, 0.005, 0.0025)


def noise(
    posterior: iv.Posterior,
    mode: np.ndarray,
    factor: np.ndarray,
    seed: int,
    names: tuple[str, ...] = (),
    groups: np.ndarray = GROUPS,
) -> dict[str, dict[str, list[float]]]:
    """Sds of energies and of whitened gradients, root mean squares over directions, by distance from the mode.

    Distances are in the norm of the mode's covariance: 1 is one posterior sd along any direction.
    """
    estimators = {
        "plain": iv.estimators.minibatch(BATCH, groups),
        "snapshot": iv.estimators.control_variate(BATCH, 1, groups, order="constant"),
        "linear": iv.estimators.fixed_control(BATCH, [mode], groups, order="linear"),
        "Gauss-Newton": iv.estimators.fixed_control(BATCH, [mode], groups, order="gauss_newton"),
        "quadratic": iv.estimators.fixed_control(BATCH, [mode], groups),
        "SAGA": iv.estimators.saga(BATCH, groups),
    }
    source, found = CountedPotential(posterior.potential(), "model"), {}
    directions = np.random.default_rng(seed).standard_normal((DIRECTIONS, len(mode)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for name in names or estimators:
        estimator = estimators[name]
        rows: dict[str, list[float]] = {"energy": [], "gradient": []}
        for distance in DISTANCES:
            at = np.repeat(mode + distance * directions @ factor.T, REPEATS, axis=0)
            bound, draws = estimator.bind(source, "isotropic"), np.random.default_rng(seed + 1)
            memory: tuple[dict[str, np.ndarray], ...] = ()
            if name != "plain":
                one = answered(bound.init(draws, mode[None]), source.answer_all)
                memory = ({what: np.repeat(values, len(at), axis=0) for what, values in one.items()},)
            estimate = answered(bound.estimate(draws, at, True, *memory), source.answer_all)
            energy = estimate.energy.reshape(DIRECTIONS, REPEATS)
            gradient = (estimate.gradient @ factor).reshape(DIRECTIONS, REPEATS, -1)
            rows["energy"].append(float(np.sqrt(energy.var(axis=1, ddof=1).mean())))
            rows["gradient"].append(float(np.sqrt(gradient.var(axis=1, ddof=1).mean())))
        found[name] = rows
    return found


def of_plumes(seed: int) -> dict[str, dict[str, list[float]]]:
    """The same of the source in the wind."""
    posterior = plumes.source()
    modes = iv.maximize(posterior, seed=1)
    return noise(posterior, modes.position[0], np.linalg.cholesky(modes.covariances[0]), seed, groups=plumes.GROUPS)


def bending(seed: int) -> dict[str, dict[str, float]]:
    """By the noise of a reading: how the model is bent, and the noise of energies, one posterior sd from the mode."""
    model, found = Absorbance(), {}
    for sd in READING_NOISE:
        posterior = slow_or_fast(noise=sd)
        modes = iv.maximize(posterior, seed=1)
        mode, factor = modes.position[0], np.linalg.cholesky(modes.covariances[0])
        along = np.random.default_rng(seed).standard_normal((DIRECTIONS, len(mode)))
        along = along / np.linalg.norm(along, axis=1, keepdims=True) @ factor.T
        before, here, after = (model(posterior.to_theta(mode + s * along)) for s in (-1.0, 0.0, 1.0))
        rows = noise(posterior, mode, factor, seed, ("Gauss-Newton", "quadratic"))
        found[f"{sd:g}"] = {name: row["energy"][0] for name, row in rows.items()} | {
            "bending": float(np.sqrt(np.mean((0.5 * (before + after) - here) ** 2)) / sd)
        }
    return found


def measured(
    posterior: iv.Posterior, sampler: iv.ladder.Sampler, solves: int, draws: int, start: np.ndarray, seed: int
) -> dict[str, Any]:
    """Means and sds of logarithms, and solves per effective draw; an evaluation takes so many solves."""
    settings = {"thin": 2, "warmup": 500, "chains": CHAINS, "seed": seed, "start": start, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run = iv.sample(posterior, sampler, draws=draws, **settings)
    theta, report = np.log(run.theta), run.report
    effective = diagnostics.ess(theta, method="mean")
    evaluations = sum(report["evaluations"].values()) - sum(report["warmup_evaluations"].values())
    sd = theta.std(axis=(0, 1))
    return {
        "mean": theta.mean(axis=(0, 1)).tolist(),
        "sd": sd.tolist(),
        "standard_error": (sd / np.sqrt(effective)).tolist(),
        "effective": float(effective.min()),
        "solves_per_effective_draw": float(evaluations * solves / effective.min()),
        "swap_rate": 1.0 - report["swap_rejection"][0],
        "step_sizes": report["step_sizes"],
    }


def compared(draws: int, seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
    """All tables with one seed, and the figure of the first and the last."""
    wide = slow_or_fast()
    modes = iv.maximize(wide, seed=1)
    table = noise(wide, modes.position[0], np.linalg.cholesky(modes.covariances[0]), seed)
    posterior = slow_or_fast(noise=0.005, fast_first=True)
    start = iv.maximize(posterior, seed=1).theta[0]
    batches: dict[str, Any] = {"size": BATCH, "groups": GROUPS, "friction": FRICTION}
    reference = posterior.to_position(start[None])
    samplers = {
        "MALA, full gradients": (iv.samplers.parallel_tempering(TEMPERATURES), EXPERIMENTS),
        "full gradients": (iv.resgld(TEMPERATURES, friction=FRICTION), EXPERIMENTS),
        "quadratic": (iv.samplers.paired_resgld(reference, TEMPERATURES, **batches), BATCH),
        "Gauss-Newton": (iv.samplers.paired_resgld(reference, TEMPERATURES, **batches, order="gauss_newton"), BATCH),
    }
    runs = {}
    for name, (sampler, solves) in samplers.items():
        runs[name] = measured(posterior, sampler, solves, draws, start, seed)
    exact, full = runs["MALA, full gradients"], runs["full gradients"]
    for run in runs.values():
        error = np.hypot(run["standard_error"], exact["standard_error"])
        run["z"] = ((np.array(run["mean"]) - np.array(exact["mean"])) / error).tolist()
        run["sd_over_exact"] = (np.array(run["sd"]) / np.array(exact["sd"])).tolist()
        run["gain"] = full["solves_per_effective_draw"] / run["solves_per_effective_draw"]
    summary = {"noise": table, "plumes": of_plumes(seed), "bending": bending(seed), "runs": runs}
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for axis, what in zip(axes[:2], ("energy", "gradient"), strict=True):
        for name, rows in table.items():
            axis.loglog(DISTANCES, rows[what], "o--" if name == "SAGA" else "o-", label=name)
        axis.set(xlabel="distance from the mode (posterior sds)", ylabel=f"sd of {what}")
        axis.set_xticks(DISTANCES, [f"{distance:g}" for distance in DISTANCES])
        axis.minorticks_off()
    axes[0].set_title(f"noise of {BATCH} of {EXPERIMENTS} experiments")
    axes[1].legend(fontsize=8)
    axes[2].barh(list(runs), [run["solves_per_effective_draw"] for run in runs.values()])
    axes[2].invert_yaxis()
    axes[2].set(xlabel="solves per effective draw")
    return summary, {"noise_and_cost": figure}


def main() -> dict[str, Any]:
    """Make the tables, show them, and save figure and summary."""
    chosen = options("variance_reduction", __doc__.split("\n")[0], draws=200, seeds=True)
    return chosen.over_seeds(lambda seed: compared(chosen.draws, seed))


if __name__ == "__main__":
    main()
