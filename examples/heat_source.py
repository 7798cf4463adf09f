"""Heat source: where did the heat start? One sensor leaves a ring of answers, two sensors leave two modes.

Hot replicas on a coarse mesh (16x16, 8 steps) carry the cold one (64x64, 64 steps) between the modes.
Delayed-acceptance swaps keep the cold rung's target exact with a fine solve at a fraction of the attempts; eq. (18)
of f-reSGLD on the same pair of meshes needs none, and is off. Truth is by quadrature on a grid.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from _common import options
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tqdm import tqdm

import invsamp as iv
from invsamp.problems import heat_source as problem

SEEDS, CHAINS = 8, 16
RULES = {
    "delayed acceptance": iv.swaps.delayed_acceptance(),
    "eq. (18), biased here": iv.swaps.state_dependent_penalty(assume_unbiased=True),
}
QUANTITIES = ("upper mode's weight", "upper sd of x", "upper sd of y", "lower sd of x", "lower sd of y")


def main() -> None:
    """Both problems, their figures, and the table of errors."""
    given = options("heat_source", "Unknown position of a heat source, one and two sensors.", draws=16_000)
    seeds = range(given.seed, given.seed + SEEDS)

    two = problem.two_modes()
    truth = {fidelity: problem.quadrature(two, fidelity) for fidelity in two.fidelities}
    with warnings.catch_warnings():
        # a single seed's weight of the modes has not converged; the mean over the seeds counts, with its error
        warnings.simplefilter("ignore", UserWarning)
        runs = {
            label: [sample(two, rule, given.draws, seed) for seed in tqdm(seeds, desc=label)]
            for label, rule in RULES.items()
        }
    ring = problem.ring(noise_sd=0.5)
    ring_truth = problem.quadrature(ring, points=1000)
    ring_run = sample(ring, RULES["delayed acceptance"], given.draws, given.seed)
    given.show(runs["delayed acceptance"][0])

    table = {label: compare(batch, truth["fine"]) for label, batch in runs.items()}
    given.save("two_sensors", draw_two(runs["delayed acceptance"], truth))
    given.save("errors", draw_errors(table))
    given.save("ring", draw_ring(ring_run, ring_truth))
    given.save("pairs", runs["delayed acceptance"][0].plot_pairs())
    given.save("swaps", runs["delayed acceptance"][0].plot_swaps())
    given.save_summary(
        {
            "seeds": list(seeds),
            "chains_per_seed": CHAINS,
            "draws_per_chain": given.draws,
            "truth": {name: value.item() for name, value in zip(QUANTITIES, targets(truth["fine"]), strict=True)},
            "coarse_posterior": {
                name: value.item() for name, value in zip(QUANTITIES, targets(truth["coarse"]), strict=True)
            },
            "rules": table,
            "solves": {label: count_solves(batch) for label, batch in runs.items()},
            "ring": {
                "radius": radii(ring_run.theta).mean().item(),
                "radius_truth": expectation(ring_truth, radii).item(),
                "radial_sd": radii(ring_run.theta).std().item(),
                "radial_sd_truth": np.sqrt(
                    expectation(ring_truth, lambda at: radii(at) ** 2) - expectation(ring_truth, radii) ** 2
                ).item(),
                "warnings": ring_run.warnings(),
            },
        }
    )


def sample(posterior: iv.Posterior, rule: Any, draws: int, seed: int) -> iv.Run:
    """One run: two rungs, swaps at a quarter of the steps."""
    sampler = iv.samplers.parallel_tempering(temperatures=(1.0, 8.0), swap=rule, swap_fraction=0.25)
    return iv.sample(posterior, sampler, draws=draws, warmup=1000, chains=CHAINS, seed=seed, progress=False)


def targets(truth: problem.Quadrature) -> np.ndarray:
    """The five `QUANTITIES` by quadrature."""
    lower, upper = truth.modes
    return np.array([upper.weight, *upper.sd, *lower.sd])


def moments(run: iv.Run) -> np.ndarray:
    """Draws, sums and sums of squares of (x, y) in the upper and the lower mode, shape (chains, 2, 5)."""
    upper = problem.is_upper(run.theta)[..., None]
    parts = [np.concatenate([side, side * run.theta, side * run.theta**2], axis=-1) for side in (upper, ~upper)]
    return np.stack(parts, axis=2).sum(axis=1)


def estimates(sums: np.ndarray) -> np.ndarray:
    """The five `QUANTITIES` from summed moments (..., 2, 5)."""
    count = sums[..., :1]
    sd = np.sqrt(sums[..., 3:] / count - (sums[..., 1:3] / count) ** 2)
    weight = count[..., 0, :] / count.sum(axis=-2)
    return np.concatenate([weight, sd[..., 0, :], sd[..., 1, :]], axis=-1)


def compare(runs: Iterable[iv.Run], truth: problem.Quadrature) -> dict[str, dict[str, float]]:
    """Estimates from all chains of all seeds, jackknife standard errors over chains, and the distance to the truth.

    Over chains and not over the seeds: eight values would leave the standard error itself uncertain by a quarter.
    """
    by_chain = np.concatenate([moments(run) for run in runs])
    total, n = by_chain.sum(axis=0), len(by_chain)
    without = estimates(total - by_chain)
    error = np.sqrt((n - 1) / n * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    return {
        name: {"estimate": value, "standard_error": se, "truth": right, "z": (value - right) / se}
        for name, value, se, right in zip(
            QUANTITIES, estimates(total).tolist(), error.tolist(), targets(truth).tolist(), strict=True
        )
    }


def count_solves(runs: Iterable[iv.Run]) -> dict[str, Any]:
    """Solves per fidelity over all seeds, and those that the swaps took per attempt."""
    reports = [run.report for run in runs]
    attempts = sum(sum(report["swap_attempts"]) for report in reports)
    return {
        "evaluations": {name: sum(report["evaluations"][name] for report in reports) for name in ("coarse", "fine")},
        "swap_attempts": attempts,
        "swap_rate": sum(sum(report["swap_accepts"]) for report in reports) / attempts,
        "per_attempt": {
            name: sum(report["swap_solves"][name] for report in reports) / attempts for name in ("coarse", "fine")
        },
    }


def radii(theta: np.ndarray) -> np.ndarray:
    """Distance of centers (..., 2) from the ring's sensor."""
    return np.hypot(theta[..., 0] - problem.RING_SENSOR[0], theta[..., 1] - problem.RING_SENSOR[1])


def expectation(truth: problem.Quadrature, function: Any) -> np.ndarray:
    """Expectation of a function of centers under a quadrature."""
    at = np.stack(np.meshgrid(truth.points, truth.points, indexing="ij"), axis=-1)
    return (function(at) * truth.density).mean()


def draw_two(runs: list[iv.Run], truth: Mapping[str, problem.Quadrature]) -> Figure:
    """Truth on both meshes, the cold rung's draws, and one chain's way between the modes."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 1.3))
    for ax, fidelity in zip(axes, ("fine", "coarse"), strict=False):
        outline(ax, truth[fidelity])
        ax.plot(*np.transpose(problem.SENSORS), "^", color="black", ms=7, label="sensor")
        ax.set(xlim=(0.28, 0.78), ylim=(0.13, 0.7), xlabel="x", ylabel="y")
    draws = runs[0].theta.reshape(-1, 2)[:: max(1, len(runs[0].theta) * runs[0].theta.shape[1] // 4000)]
    axes[0].plot(*draws.T, ".", ms=1.5, color="tab:orange", alpha=0.5, label="draws, cold rung")
    axes[0].set_title("fine mesh: draws over the truth")
    hot = runs[0].rung_theta(1).reshape(-1, 2)[:: max(1, runs[0].theta[..., 0].size // 4000)]
    axes[1].plot(*hot.T, ".", ms=1.5, color="tab:red", alpha=0.4, label="draws, hot rung")
    axes[1].set_title("coarse mesh: hot draws")
    for ax in axes[:2]:
        legend(ax, "lower left")
    axes[2].plot(runs[0].theta[0, :, 1], lw=0.5, color="tab:orange")
    axes[2].axhline(problem.SENSOR_LINE, color="black", lw=0.8, ls=":")
    axes[2].set(xlabel="draw", ylabel="y", title="one chain of the cold rung")
    axes[2].set_xlim(0, min(4000, runs[0].theta.shape[1]))
    return figure


def draw_errors(table: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Figure:
    """Distance to the truth in standard errors, by rule."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(-4, 4, color="tab:green", alpha=0.1, label="within 4 standard errors")
    axes.axvline(0, color="black", lw=0.8)
    for offset, (label, row) in zip((-0.12, 0.12), table.items(), strict=True):
        axes.plot([row[q]["z"] for q in QUANTITIES], np.arange(len(QUANTITIES)) + offset, "o", label=label)
    axes.set_yticks(range(len(QUANTITIES)), QUANTITIES)
    axes.invert_yaxis()
    axes.set_xlabel(f"(estimate from {SEEDS} seeds - quadrature) / standard error")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    return figure


def draw_ring(run: iv.Run, truth: problem.Quadrature) -> Figure:
    """Draws over the truth in the plane, and the distance from the sensor."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    plane, radial = figure.subplots(1, 2)
    outline(plane, truth)
    draws = run.theta.reshape(-1, 2)
    plane.plot(*draws[:: max(1, len(draws) // 4000)].T, ".", ms=1.5, color="tab:orange", alpha=0.5, label="draws")
    plane.plot(*problem.RING_SENSOR, "^", color="black", label="sensor")
    plane.set(xlim=(0.35, 0.65), ylim=(0.35, 0.65), aspect="equal", xlabel="x", ylabel="y", title="one sensor: a ring")
    legend(plane, "upper right")
    edges = np.linspace(0.075, 0.125, 41)
    at = np.stack(np.meshgrid(truth.points, truth.points, indexing="ij"), axis=-1)
    radial.hist(radii(draws), edges, density=True, color="tab:orange", alpha=0.5, label="draws")
    radial.hist(
        radii(at).ravel(), edges, weights=truth.density.ravel(), density=True, histtype="step", color="black",
        label="quadrature",
    )  # fmt: skip
    radial.set(xlabel="distance from the sensor", ylabel="density")
    radial.legend()
    return figure


def legend(axes: Axes, where: str) -> None:
    """A legend in which the small dots of draws can be seen."""
    for handle in axes.legend(loc=where, fontsize=8).legend_handles:
        if handle is not None:
            handle.set(markersize=6, alpha=1.0)


def outline(axes: Axes, truth: problem.Quadrature) -> None:
    """Contours that hold half and 95% of the quadrature's mass."""
    ordered = np.sort(truth.density.ravel())[::-1]
    share = np.cumsum(ordered) / ordered.sum()
    levels = [ordered[np.searchsorted(share, mass)] for mass in (0.95, 0.5)]
    axes.contour(
        truth.points, truth.points, truth.density.T, levels=levels, colors="tab:blue", linewidths=1.2, zorder=3
    )


if __name__ == "__main__":
    main()
