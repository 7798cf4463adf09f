"""Heat ring: one sensor leaves a ring of answers, seen by replica exchange with noisy energies and gradients.

1. As printed in Li, Lin, Zhang and Zhou (2023), "Fast replica exchange SGLD" (f-reSGLD), section 5.2, figures 3 and 4:
   temperatures .08 and .5. Energies have noise of sd .1 (s-reSGLD) or .8 (f- and l-reSGLD), gradients of sd .1 or 2.
   Some settings are not printed and were chosen here. These are the likelihood's sd of 5, the datum of a center at
   distance .1, and the step size 1e-3 (the longest stable one is 5.7e-3). All samplers solve on the fine mesh.
2. Ours, with two meshes: s-reSGLD moves both rungs on the fine mesh, l-reSGLD both on the coarse one. f-reSGLD moves
   the cold rung on the fine and the hot one on the coarse mesh. The cold temperature is .04. The gradients' noise has
   80% of the variance of the noise that a cold step injects. Where it is left in, the ring is as wide as at 1.8 times
   the temperature. Energies have noise of sd .1 temperatures.

A posterior of sd 5 at temperature tau is one of sd 5 sqrt(tau) at temperature 1, and a step size h one of tau h: both
are given so here. Coverage of the ring does not distinguish the samplers, as a wider distribution moves faster along
it: the radial sd and the mass off the ring do. 24 chains of one run stand for 24 runs; their one warm-up settles the
variance to about half a percent.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from _common import options
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm
from tqdm import tqdm

import invsamp as iv
from invsamp.problems import heat_source as problem
from invsamp.problems.published import HEAT_RING

CHAINS, WARMUP = 24, 1000
COLD_TEMPERATURE = 0.04
STEP_SIZE = 2.5e-4 * COLD_TEMPERATURE
LADDER: tuple[tuple[float, float], float] = ((1.0, 10.0), STEP_SIZE)
#: Everything that is farther from the ring's radius is off the ring.
RADIUS, OFF = 0.1, 0.05
SECTORS = 12

ENERGY_SD = 0.1
NOISE = iv.estimators.noisy(ENERGY_SD, math.sqrt(0.8 * 2.0 / STEP_SIZE))
LEFT_IN: dict[str, Any] = {"estimator": NOISE, "energy_variance": iv.variances.known()}
TAKEN_OUT: dict[str, Any] = {
    "estimator": NOISE,
    "variance": iv.variances.running_average(),
    "energy_variance": iv.variances.known(),
    "probes": 100,
}
EQ_18 = iv.swaps.state_dependent_penalty(assume_unbiased=True)
METHODS = {
    "s-reSGLD": iv.resgld(
        *LADDER,
        estimator=iv.estimators.noisy(ENERGY_SD),
        energy_variance=iv.variances.known(),
        fidelities=("fine", "fine"),
    ),
    "f-reSGLD": iv.samplers.fast_resgld(*LADDER, **TAKEN_OUT, fidelities=("fine", "coarse")),
    "l-reSGLD": iv.resgld(*LADDER, **LEFT_IN, fidelities=("coarse", "coarse")),
    # the effect of each part of f-reSGLD: the swaps as published, and no correction of the gradients' noise
    "f-reSGLD, swaps by eq. (18)": iv.samplers.fast_resgld(
        *LADDER, **TAKEN_OUT, fidelities=("fine", "coarse"), swap=EQ_18
    ),
    "f-reSGLD, noise left in": iv.resgld(
        *LADDER, **LEFT_IN, fidelities=("fine", "coarse"), swap=iv.swaps.delayed_acceptance()
    ),
}
SHOWN = ("s-reSGLD", "f-reSGLD", "l-reSGLD")
COLORS = dict(zip(SHOWN, ("#8794a1", "#1f6fb2", "#d1495b"), strict=True))

#: Chosen where the paper prints nothing.
PRINTED_STEP, LIKELIHOOD_SD = 1e-3, 5.0
COLD, HOT = HEAT_RING["temperatures"]
TITLES = {
    "": ("both rungs fine", "fine and coarse, noise taken out", "both rungs coarse"),
    "printed_": ("small noise", "large noise, taken out", "large noise, left in"),
}


class Truth(NamedTuple):
    """The fine posterior by quadrature."""

    grid: problem.Quadrature
    radial_sd: float  # on the ring
    off: float  # mass off the ring
    sectors: np.ndarray  # masses by angle


def main() -> dict[str, Any]:
    """Both parts, the figures and the table."""
    given = options("heat_ring", "A ring of heat sources: s-, f- and l-reSGLD.", draws=48_000)
    summary = {
        "seed": given.seed,
        "runs": CHAINS,
        "as_printed": compared(given, COLD, printed(), "printed_"),
        "two_meshes": compared(given, COLD_TEMPERATURE, METHODS, ""),
    }
    given.save_summary(summary)
    return summary


def compared(given: Any, temperature: float, samplers: Mapping[str, iv.ladder.Sampler], prefix: str) -> dict[str, Any]:
    """All samplers of one part beside the posterior by quadrature."""
    posterior = problem.ring(noise_sd=LIKELIHOOD_SD * math.sqrt(temperature))
    truths = {
        fidelity: integrate(problem.quadrature(posterior, fidelity, points=800)) for fidelity in posterior.fidelities
    }
    truth = truths["fine"]
    runs = {
        label: sample(posterior, sampler, given.draws, given.seed) for label, sampler in tqdm(samplers.items(), "runs")
    }
    given.save(f"{prefix}rings", draw_rings(runs, truth, TITLES[prefix]))
    given.save(f"{prefix}radii", draw_radii(runs, truth))
    return {
        "truth": {name: {"radial_sd": value.radial_sd, "off_the_ring": value.off} for name, value in truths.items()},
        "samplers": {
            label: {str(draws): measure(run, truth, draws) for draws in (given.draws // 4, given.draws)} | costs(run)
            for label, run in runs.items()
        },
        "noise": {label: noise(sampler) for label, sampler in samplers.items()},
    }


def printed() -> dict[str, iv.ladder.Sampler]:
    """The samplers of section 5.2, in units of the cold temperature."""
    ladder: dict[str, Any] = {
        "temperatures": (1.0, HOT / COLD),
        "step_size": COLD * PRINTED_STEP,
        "fidelities": ("fine", "fine"),
    }
    small, large = (
        iv.estimators.noisy(HEAT_RING[f"energy_sd_{size}"] / COLD, HEAT_RING[f"gradient_sd_{size}"] / COLD)
        for size in ("small", "large")
    )
    known = {"energy_variance": iv.variances.known()}
    return {
        "s-reSGLD": iv.resgld(**ladder, estimator=small, **known),
        "f-reSGLD": iv.samplers.fast_resgld(
            **ladder, estimator=large, variance=iv.variances.running_average(), probes=100, **known
        ),
        "l-reSGLD": iv.resgld(**ladder, estimator=large, **known),
    }


def sample(posterior: iv.Posterior, sampler: iv.ladder.Sampler, draws: int, seed: int) -> iv.Run:
    """24 chains that start from one point of the ring."""
    with warnings.catch_warnings():
        # swaps that never happen are what the literal noise shows
        warnings.simplefilter("ignore", UserWarning)
        x, y = problem.RING_SENSOR
        settings: dict[str, Any] = {"warmup": WARMUP, "chains": CHAINS, "seed": seed, "start": [x + RADIUS, y]}
        return iv.sample(posterior, sampler, draws=draws, progress=False, **settings)


def noise(sampler: iv.ladder.Sampler) -> dict[str, float]:
    """Variance of the gradient's noise over the injected one, and sd of a swap's log ratio, with log10 of its chance.

    The chance is that of equal energies, 2 Phi(-sd / 2).
    """
    cold, hot = sampler.rungs
    gap = cold.target.factors[0] - hot.target.factors[0]
    sd = gap * math.hypot(*(rung.estimator.energy_sd for rung in sampler.rungs))
    share = 0.5 * cold.step_size * cold.estimator.gradient_sd**2
    log_chance = (math.log(2.0) + norm.logcdf(-0.5 * sd)) / math.log(10.0)
    return {"share_of_injected_noise": share, "sd_of_log_ratio": sd, "log10_chance_of_equals": float(log_chance)}


def polar(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances of centers (..., 2) from the sensor, and the sectors of the ring that they lie in."""
    x, y = np.moveaxis(theta - problem.RING_SENSOR, -1, 0)
    sector = np.floor((np.arctan2(y, x) / (2.0 * np.pi) % 1.0) * SECTORS).astype(int)
    return np.hypot(x, y), np.minimum(sector, SECTORS - 1)


def integrate(grid: problem.Quadrature) -> Truth:
    """Quantities of the exact posterior, for comparison with the draws."""
    at = np.stack(np.meshgrid(grid.points, grid.points, indexing="ij"), axis=-1)
    radius, sector = polar(at)
    mass = grid.density / grid.density.sum()
    on = np.abs(radius - RADIUS) <= OFF
    mean = np.average(radius[on], weights=mass[on])
    sd = math.sqrt(np.average((radius[on] - mean) ** 2, weights=mass[on]))
    sectors = np.bincount(sector.ravel(), mass.ravel(), SECTORS)
    return Truth(grid, sd, float(mass[~on].sum()), sectors)


def measure(run: iv.Run, truth: Truth, draws: int) -> dict[str, float]:
    """Means over the runs of their first draws, with standard errors over the runs."""
    radius, sector = polar(run.theta[:, :draws])
    on = np.abs(radius - RADIUS) <= OFF
    found = {
        "radial_sd_over_truth": np.array([r[k].std() for r, k in zip(radius, on, strict=True)]) / truth.radial_sd,
        "off_the_ring": 1.0 - on.mean(axis=1),
        "distance_of_angles": np.array(
            [0.5 * np.abs(np.bincount(s, minlength=SECTORS) / draws - truth.sectors).sum() for s in sector]
        ),
    }
    table = {}
    for name, values in found.items():
        table[name] = float(values.mean())
        table[f"{name}_error"] = float(values.std(ddof=1) / math.sqrt(len(values)))
    return table


def costs(run: iv.Run) -> dict[str, Any]:
    """Swaps and solves."""
    report = run.report
    return {"swap_rate": report["swap_accepts"][0] / report["swap_attempts"][0], "evaluations": report["evaluations"]}


def draw_rings(runs: Mapping[str, iv.Run], truth: Truth, titles: Sequence[str]) -> Figure:
    """The first chain of each sampler, a quarter of its draws and all, over the truth."""
    figure = Figure(figsize=(10.2, 7.0), layout="constrained")
    grid = figure.subplots(2, len(SHOWN), sharex=True, sharey=True)
    for row, share in zip(grid, (4, 1), strict=True):
        for axes, label in zip(row, SHOWN, strict=True):
            theta = runs[label].theta[0, : runs[label].theta.shape[1] // share]
            x, y = (theta - problem.RING_SENSOR).T
            axes.plot(x, y, ".", ms=2.0, mew=0, color=COLORS[label], alpha=0.25, rasterized=True)
            outline(axes, truth)
            off = float(np.mean(np.abs(np.hypot(x, y) - RADIUS) > OFF))
            axes.annotate(f"{off:.2%} off the ring", (0.5, 0.03), xycoords="axes fraction", ha="center", fontsize=9)
            axes.plot(0.0, 0.0, "^", color="black", ms=5)
            axes.set(aspect="equal", xlim=(-0.22, 0.22), ylim=(-0.22, 0.22), xticks=(-0.1, 0, 0.1))
            axes.set_yticks((-0.1, 0, 0.1))
        row[0].set_ylabel(f"{len(theta):,} samples", fontsize=11)
    for axes, label, title in zip(grid[0], SHOWN, titles, strict=True):
        axes.set_title(f"{label}\n{title}", fontsize=11)
    figure.supxlabel("center of the heat from the sensor; lines hold 50% and 99% of the truth", fontsize=10)
    return figure


def outline(axes: Axes, truth: Truth) -> None:
    """Contours that hold half and 99% of the mass."""
    density = truth.grid.density
    ordered = np.sort(density.ravel())[::-1]
    share = np.cumsum(ordered) / ordered.sum()
    levels = [ordered[np.searchsorted(share, mass)] for mass in (0.99, 0.5)]
    x, y = (truth.grid.points - center for center in problem.RING_SENSOR)
    axes.contour(x, y, density.T, levels=levels, colors="black", linewidths=0.9)


def draw_radii(runs: Mapping[str, iv.Run], truth: Truth) -> Figure:
    """Density of the distance from the sensor, plain and on a logarithmic scale that shows the tails."""
    figure = Figure(figsize=(9.6, 3.7), layout="constrained")
    edges = np.linspace(0.0, 0.24, 81)
    width = edges[1] - edges[0]
    at = np.stack(np.meshgrid(truth.grid.points, truth.grid.points, indexing="ij"), axis=-1)
    right = np.histogram(polar(at)[0], edges, weights=truth.grid.density / truth.grid.density.sum())[0] / width
    for axes, scale in zip(figure.subplots(1, 2), ("linear", "log"), strict=True):
        axes.stairs(right, edges, fill=True, color="#e3e8ed", label="quadrature, fine mesh")
        for label in SHOWN:
            radius, _ = polar(runs[label].theta)
            heights = np.histogram(radius, edges)[0] / radius.size / width
            # two of them lie on each other
            axes.stairs(heights, edges, color=COLORS[label], lw=3.0 if label == "s-reSGLD" else 1.5, label=label)
        for edge in (RADIUS - OFF, RADIUS + OFF):
            axes.axvline(edge, color="black", ls=":", lw=1.0)
        axes.set(xlabel="distance from the sensor", yscale=scale, xlim=(0.0, 0.24))
        axes.spines[["top", "right"]].set_visible(False)
        if scale == "log":
            axes.set_ylim(1e-4 / width * 0.05, None)
        else:
            axes.set_ylabel("density")
            axes.legend(frameon=False, fontsize=9, loc="upper right")
    return figure


if __name__ == "__main__":
    main()
