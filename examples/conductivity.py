"""How well does a plate conduct, and where? A map of log conductivity from 25 temperatures.

Twenty Karhunen-Loeve modes of a Matern field, the same unknowns on three meshes. The cold rung runs on the 64x64 mesh,
hotter ones on 32x32 and 16x16, which hand it states through delayed acceptance. All rungs move with momentum, which
takes them along the curved posterior. The maps show the mean beside the truth, and where the sensors inform little:
downstream, where temperatures are low, and along the insulated bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import options
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

import invsamp as iv
from invsamp.plots.figure import COLD, GRID, INK, TRUTH, clean, new_figure, title
from invsamp.problems import conductivity as problem

CHAINS = 4
#: Steps before the first draw; fewer in short runs.
WARMUP = 1000
#: The posterior has one mode, but a curved one: mild temperatures, so that swaps are taken.
TEMPERATURES = (1.0, 1.4, 2.0)


def main() -> dict[str, Any]:
    """One run, its maps and coefficients."""
    given = options("conductivity", "Log conductivity of a plate from 25 temperatures.", draws=6000)
    posterior = problem.posterior()
    sampler = iv.samplers.parallel_tempering(TEMPERATURES, friction=0.1, fidelities=["fine", "middle", "coarse"])
    warmup = max(400, min(WARMUP, given.draws))
    run = iv.sample(posterior, sampler, draws=given.draws, warmup=warmup, chains=CHAINS, seed=given.seed)
    given.show(run)

    truth = problem.true_coefficients()
    draws = run.theta.reshape(-1, problem.MODES)
    fields = problem.log_conductivity(draws[:: max(1, len(draws) // 4000)], grid(65))
    true_field = problem.log_conductivity(truth, grid(65))
    away = np.abs(fields.mean(axis=0) - true_field) / fields.std(axis=0)
    given.save("maps", draw_maps(true_field, fields))
    given.save("coefficients", draw_coefficients(draws, truth))
    given.save("swaps", run.plot_swaps())
    report, statistics = run.report, run.summary()
    summary = {
        "seed": given.seed,
        "draws_per_chain": given.draws,
        "chains": CHAINS,
        "unknowns": problem.MODES,
        "share_of_variance_in_modes": problem.modes().share,
        "ess_bulk": {"least": statistics["ess_bulk"].min(), "median": statistics["ess_bulk"].median()},
        "ess_tail": {"least": statistics["ess_tail"].min(), "median": statistics["ess_tail"].median()},
        "r_hat": statistics["r_hat"].max(),
        "swap_rates": np.divide(report["swap_accepts"], np.maximum(1, report["swap_attempts"])).tolist(),
        "evaluations": report["evaluations"],
        "seconds_per_solve": {name: model.cost for name, model in posterior.forward.items()},
        "seconds": report["seconds"],
        "warnings": run.warnings(),
        # 0.95 for a truth from the prior, on average over truths; neighboring points go together
        "share_of_map_within_two_sds": float((away < 2).mean()),
        "sd_of_log_conductivity": {"least": float(fields.std(axis=0).min()), "most": float(fields.std(axis=0).max())},
        "z": {
            "mean": statistics["mean"].tolist(),
            "mcse_mean": statistics["mcse_mean"].tolist(),
            "sd": statistics["sd"].tolist(),
            "mcse_sd": statistics["mcse_sd"].tolist(),
            "truth": truth.tolist(),
        },
    }
    given.save_summary(summary)
    return summary


def grid(side: int) -> np.ndarray:
    """Points (side^2, 2) of the plate for maps, x slowest."""
    along = np.linspace(0.0, 1.0, side)
    return np.stack(np.meshgrid(along, along, indexing="ij"), axis=-1).reshape(-1, 2)


def draw_maps(truth: np.ndarray, fields: np.ndarray) -> Figure:
    """Truth, posterior mean and sd of log conductivity, with the sensors."""
    mean, sd = fields.mean(axis=0), fields.std(axis=0)
    figure = new_figure(11.5, 3.9)
    panels = figure.subplots(1, 3, sharey=True)
    largest = max(np.abs(truth).max(), np.abs(mean).max())
    scale = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
    draw_map(panels[0], "log conductivity: truth, and sensors", truth, **scale)
    shown = draw_map(panels[1], "posterior mean", mean, **scale)
    figure.colorbar(shown, ax=panels[:2], shrink=0.85, pad=0.02, label="log conductivity")
    shown = draw_map(panels[2], "posterior sd", sd, cmap="viridis", vmin=0.0)
    figure.colorbar(shown, ax=panels[2], shrink=0.85, pad=0.04, label="sd of log conductivity")
    panels[0].set_ylabel("y")
    return figure


def draw_map(axes: Axes, name: str, values: np.ndarray, **colors: Any) -> AxesImage:
    """One field on the points of `grid`."""
    side = round(len(values) ** 0.5)
    square = values.reshape(side, side).T
    image = axes.imshow(square, origin="lower", extent=(0, 1, 0, 1), interpolation="bilinear", **colors)
    axes.plot(*problem.SENSORS.T, "o", color=INK, markerfacecolor="white", markersize=4, markeredgewidth=0.8)
    title(axes, name)
    clean(axes).set_xlabel("x")
    return image


def draw_coefficients(draws: np.ndarray, truth: np.ndarray) -> Figure:
    """Posterior of every coefficient beside its prior and the truth."""
    figure = new_figure(9.0, 3.4)
    axes = clean(figure.subplots())
    number = np.arange(1, len(truth) + 1)
    low, middle, high = np.quantile(draws, (0.025, 0.5, 0.975), axis=0)
    axes.axhspan(-1.96, 1.96, color=GRID, label="prior, 95%", zorder=0)
    bars = {"fmt": "o", "color": COLD, "markersize": 4, "capsize": 2}
    axes.errorbar(number, middle, [middle - low, high - middle], **bars, label="posterior, 95%")
    axes.plot(number, truth, "x", color=TRUTH, markeredgewidth=1.8, label="truth")
    axes.set(xlabel="mode, from the largest variance down", ylabel="coefficient", xticks=number)
    title(axes, "information of 25 readings on each mode")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize=8, frameon=False)
    return figure


if __name__ == "__main__":
    main()
