"""Sixty-four experiments with a solve each: how much noise a batch of eight leaves, and what that is worth.

A source spreads in a steady wind, another one in each experiment; six sensors see it. Where is it, how strong, how
diffusive? All six readings of an experiment come of one solve, so a minibatch draws experiments. What is taken from
each term before it is summed decides over the noise: nothing, its value at a snapshot (VR-reSGLD, Algorithm 1), its
first-order expansion there, or its quadratic expansion about the mode.

The first table is the noise of an energy, and of a whitened gradient, at one and three posterior sds from the mode;
the second a run of replica exchange by such batches, with one batch for both chains of a swap, against full gradients:
its law, and the solves that an effective draw takes. The default takes about a minute.
"""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from _common import options
from scipy.special import k0e, k1e

import invsamp as iv
from invsamp import diagnostics
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import answered

EXPERIMENTS, SENSORS, BATCH, SEED = 64, 6, 8, 5
GROUPS = np.repeat(np.arange(EXPERIMENTS), SENSORS)
TRUTH = {"x": 0.4, "y": 0.55, "log_rate": 0.0, "log_diffusivity": np.log(0.15)}
rng = np.random.default_rng(SEED)
ANGLE, SPEED = rng.uniform(0.0, 2.0 * np.pi, EXPERIMENTS), rng.uniform(0.5, 2.0, EXPERIMENTS)
WIND = np.repeat(SPEED[:, None] * np.stack([np.cos(ANGLE), np.sin(ANGLE)], axis=1), SENSORS, axis=0)
PLACES = rng.uniform(-1.0, 2.0, (EXPERIMENTS * SENSORS, 2))


def plume(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Concentrations (n, 384) of a point source in a steady wind, and their derivatives (n, 384, 4)."""
    with np.errstate(all="ignore"):  # far out in the prior solves fail, and that is told
        away = PLACES - theta[:, None, :2]
        distance, speed = np.linalg.norm(away, axis=2), np.linalg.norm(WIND, axis=1)
        twice = 2.0 * np.exp(theta[:, 3:4])
        along, z = (away * WIND).sum(axis=2) / twice, speed * distance / twice
        value = np.exp(theta[:, 2:3] + along - z) * k0e(z) / (np.pi * twice)
        ratio = k1e(z) / k0e(z)
        towards = (ratio * speed / distance / twice)[:, :, None] * away - WIND / twice[:, :, None]
        slopes = np.concatenate([towards, np.ones((*z.shape, 1)), (z * ratio - along - 1.0)[:, :, None]], axis=2)
        return value, value[:, :, None] * slopes


def posed() -> iv.Posterior:
    """The posterior of data that the truth makes."""
    prior = iv.Prior(
        x=iv.Normal(0.5, 0.5), y=iv.Normal(0.5, 0.5), log_rate=iv.Normal(0, 1), log_diffusivity=iv.Uniform(-4, 0)
    )
    clean = plume(np.array([list(TRUTH.values())]))[0][0]
    data = clean + 0.02 * np.random.default_rng(SEED + 1).standard_normal(len(clean))
    model = iv.with_jacobian(lambda theta: plume(theta)[0], lambda theta: plume(theta)[1])
    return iv.Posterior(prior, model, data, iv.GaussianNoise(0.02))


def noise(posterior: iv.Posterior, mode: np.ndarray, factor: np.ndarray) -> dict[str, dict[str, list[float]]]:
    """Sds of energies and of whitened gradients at one and three posterior sds from the mode."""
    estimators = {
        "plain": iv.minibatch(BATCH, GROUPS),
        "snapshot": iv.control_variate(BATCH, 1, GROUPS, order="constant"),
        "linear": iv.control_variate(BATCH, 1, GROUPS),
        "quadratic": iv.fixed_control(BATCH, [mode], GROUPS),
        "SAGA": iv.saga(BATCH, GROUPS),
    }
    source, found = CountedPotential(posterior.potential(), "model"), {}
    directions = np.random.default_rng(1).standard_normal((20, len(mode)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for name, estimator in estimators.items():
        rows = {"energy": [], "gradient": []}
        for distance in (1.0, 3.0):
            at = np.repeat(mode + distance * directions @ factor.T, 40, axis=0)
            bound, draws = estimator.bind(source, "isotropic"), np.random.default_rng(2)
            memory = ()
            if name != "plain":
                one = answered(bound.init(draws, mode[None]), source.answer_all)
                memory = ({what: np.repeat(values, len(at), axis=0) for what, values in one.items()},)
            told = answered(bound.estimate(draws, at, True, *memory), source.answer_all)
            energy, gradient = told.energy.reshape(20, 40), (told.gradient @ factor).reshape(20, 40, -1)
            rows["energy"].append(float(np.sqrt(energy.var(axis=1, ddof=1).mean())))
            rows["gradient"].append(float(np.sqrt(gradient.var(axis=1, ddof=1).mean())))
        found[name] = rows
    return found


def measured(
    posterior: iv.Posterior, sampler: iv.Sampler, cost: float, draws: int, start: np.ndarray
) -> dict[str, Any]:
    """Means, sds and solves per effective draw of one sampler; an evaluation costs so many solves of an experiment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        run = iv.sample(
            posterior, sampler, draws=draws, thin=4, warmup=500, chains=8, seed=1, start=start, progress=False
        )
    effective = diagnostics.ess(run.theta, method="mean")
    # the cold rung's steps and the swaps', without warm-up; the tables of expansions once
    evaluations = sum(run.report["evaluations"].values()) - sum(run.report["warmup_evaluations"].values())
    attempts, accepts = run.report["swap_attempts"][0], run.report["swap_accepts"][0]
    theta = run.theta
    return {
        "mean": theta.mean(axis=(0, 1)).tolist(),
        "sd": theta.std(axis=(0, 1)).tolist(),
        "standard_error": (theta.std(axis=(0, 1)) / np.sqrt(effective)).tolist(),
        "effective": float(effective.min()),
        "solves_per_effective_draw": float(evaluations * cost / effective.min()),
        "swap_rate": accepts / max(1, attempts),
    }


def main() -> dict[str, Any]:
    """Run both parts, show them, and save figures and summary."""
    chosen = options("variance_reduction", __doc__.split("\n")[0], draws=1000)
    posterior = posed()
    with np.errstate(all="ignore"):  # descents try points at which no plume is
        modes = iv.maximize(posterior, seed=chosen.seed)
    mode, factor = modes.position[0], np.linalg.cholesky(modes.covariances[0])
    table = noise(posterior, mode, factor)
    # in coordinates that warm-up whitens
    steps = (0.1, 0.1)
    samplers = {
        "full gradients": (iv.resgld((1.0, 4.0), steps, preconditioner="dense"), EXPERIMENTS),
        "batches of 8": (
            iv.paired_resgld([mode], (1.0, 4.0), steps, size=BATCH, groups=GROUPS, preconditioner="dense"),
            BATCH,
        ),
    }
    start = modes.draws(8, chosen.seed)
    runs = {name: measured(posterior, *one, chosen.draws, start) for name, one in samplers.items()}
    full, batches = runs.values()
    error = np.hypot(full["standard_error"], batches["standard_error"])
    z = (np.array(batches["mean"]) - np.array(full["mean"])) / error
    summary = {
        "noise": table,
        "runs": runs,
        "largest_z": float(np.abs(z).max()),
        "sd_ratios": (np.array(batches["sd"]) / np.array(full["sd"])).tolist(),
        "gain": full["solves_per_effective_draw"] / batches["solves_per_effective_draw"],
        "modes": len(modes),
    }
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, what in zip(axes, ("energy", "gradient"), strict=True):
        for name, rows in table.items():
            axis.loglog((1.0, 3.0), rows[what], "o-", label=name)
        axis.set(xlabel="distance from the mode (posterior sds)", ylabel=f"sd of {what}", xticks=(1, 3))
        axis.set_xticklabels(["1", "3"])
        axis.minorticks_off()
    axes[0].legend()
    figure.suptitle("noise of 8 of 64 experiments")
    chosen.save("noise", figure)
    plt.close(figure)
    chosen.save_summary(summary)
    return summary


if __name__ == "__main__":
    main()
