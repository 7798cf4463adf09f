"""25 modes on a flower, a heart, an octagon and a cross: reflected replica exchange against its baselines.

Published as figures 5, 10 and 11 of Zheng et al. (2024), "Constrained exploration via reflected replica exchange
SGLD" (r2SGLD): temperatures 1 and 10, noise of sd 0.05 on energies and gradients. The published length is
``--draws 50000`` (500,000 iterations thinned by 10; about an hour); the default is a tenth of it.

10 chains in one run stand for 10 seeds: they share nothing but the code, each has its own noise, start and swaps. The
two rungs of replica exchange attempt a swap after a quarter of their steps, for which they evaluate two more energies.
A single chain makes 25 steps for every 10 of theirs, so that all samplers spend the same number of evaluations. Truth
is by integration over each cell of a 50 x 50 grid. The divergence KL(truth || draws) has a floor, that of as many
independent draws. A last figure holds the specular path against projection, on a target without energy.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from _common import options
from _mixture_figures import (
    Case,
    Outcome,
    draw_boundary_distances,
    draw_convergence,
    draw_densities,
    draw_diameter,
    draw_divergences,
    half_band,
)
from tqdm import tqdm

import invsamp as iv
from invsamp.problems import constrained_mixtures as problem
from invsamp.problems.published import DIAMETERS, DOMAINS

CHAINS, THIN, THIN_SINGLE, BINS, EXTENT = 10, 10, 25, 50, 2.5
NOISE = problem.noise()
LADDER: dict[str, Any] = {"estimator": NOISE, "energy_variance": iv.variances.known(), "swap_fraction": 0.25}
SINGLE: dict[str, Any] = {"step_size": DOMAINS["single_rate"], "estimator": NOISE}
CYCLIC: dict[str, Any] = {"step_size": DOMAINS["cyclic_rate"], "cycles": DOMAINS["cycles"], "estimator": NOISE}
RATES = ((1.0, 10.0), DOMAINS["rates"])  # the temperatures are not printed
#: The strength of the penalty is not printed: a chain goes a tenth of a length unit beyond the boundary.
PENALIZED = iv.domains.penalized(100.0)
METHODS = {
    "SGLD": iv.samplers.sgld(**SINGLE, boundary="ignore"),
    "cycSGLD": iv.samplers.cyclic_sgld(**CYCLIC, boundary="ignore"),
    "P-SGLD": iv.samplers.sgld(**SINGLE, boundary=PENALIZED),
    "P-cycSGLD": iv.samplers.cyclic_sgld(**CYCLIC, boundary=PENALIZED),
    "P-reSGLD": iv.resgld(*RATES, **LADDER, boundary=PENALIZED),
    "R-cycSGLD": iv.samplers.cyclic_sgld(**CYCLIC),
    "R-SGLD": iv.samplers.sgld(**SINGLE),
    "reSGLD": iv.resgld(*RATES, **LADDER, boundary="ignore"),
    "r2SGLD": iv.samplers.r2sgld(*RATES, **LADDER),
}
DIAMETER_RADII = (1.5, 2.0, 2.5, 3.0)


def main() -> dict[str, Any]:
    """All samplers on all domains, then the octagon's diameter, then the bounds."""
    given = options("constrained_mixtures", "25 modes on four domains, nine samplers.", draws=5000)
    cases = {name: explore(name, given.draws, given.seed) for name in problem.RADII}
    diameters = [diameter(radius, given.draws, given.seed) for radius in tqdm(DIAMETER_RADII, desc="octagon's size")]
    distances = {boundary: boundary_distances(boundary, given.draws, given.seed) for boundary in ("reflect", "project")}
    given.save("densities", draw_densities(cases, EXTENT))
    given.save("convergence", draw_convergence(cases, THIN))
    given.save("divergences", draw_divergences(cases))
    given.save("diameter", draw_diameter(diameters))
    given.save("walls", draw_boundary_distances(distances))
    summary = summarize(cases, diameters, given.draws, given.seed)
    given.save_summary(summary)
    return summary


def summarize(cases: Mapping[str, Case], diameters: Sequence[Any], draws: int, seed: int) -> dict[str, Any]:
    """Numbers of the figures."""
    return {
        "seed": seed,
        "chains": CHAINS,
        "iterations": draws * THIN,
        "kept_draws_per_chain": draws - draws // 5,
        "domains": {name: describe(case) for name, case in cases.items()},
        "diameter": diameters,
    }


def explore(name: str, draws: int, seed: int) -> Case:
    """Every sampler on one domain."""
    probabilities, _ = problem.cell_probabilities(problem.domain(name), BINS, EXTENT)
    checkpoints = np.unique(np.geomspace(max(50, draws // 50), draws, 12).astype(int))
    floor = np.array([iv.diagnostics.iid_floor(probabilities, k - k // 5, 30, seed).mean() for k in checkpoints])
    outcomes = {}
    for method, sampler in tqdm(METHODS.items(), desc=name):
        run = sample(problem.target(name), sampler, draws, seed)
        outcomes[method] = measure(run, name, probabilities, checkpoints)
    return Case(probabilities, checkpoints, floor, outcomes)


def sample(target: iv.Target, sampler: iv.ladder.Sampler, draws: int, seed: int, chains: int = CHAINS) -> iv.Run:
    """One run, with more steps for single chains; the first draws are kept, for the curves."""
    thin = THIN if len(sampler.rungs) > 1 else THIN_SINGLE
    with warnings.catch_warnings():
        # the baselines' chains leave the domain and do not agree with each other: that is what the figures show
        warnings.simplefilter("ignore", UserWarning)
        return iv.sample(target, sampler, draws=draws, thin=thin, warmup=0, chains=chains, seed=seed, progress=False)


def measure(run: iv.Run, name: str, probabilities: np.ndarray, checkpoints: Sequence[int]) -> Outcome:
    """Divergences of one run from the truth."""
    edges = np.linspace(-EXTENT, EXTENT, BINS + 1)
    theta = run.theta
    inside = problem.domain(name).contains(theta.reshape(-1, 2)).reshape(theta.shape[:2])

    def divergence(chain: int, k: int) -> float:
        part = slice(k // 5, k)
        feasible = theta[chain, part][inside[chain, part]]
        # a chain that has never been inside is as far off as a guess without draws
        return float(
            iv.diagnostics.divergence_on_grid(feasible if len(feasible) else [[9.0, 9.0]], probabilities, edges)
        )

    curve = np.array([[divergence(chain, k) for chain in range(CHAINS)] for k in checkpoints])
    kept = theta[:, theta.shape[1] // 5 :]
    # of one chain: ten together would hide that each of them is stuck somewhere else
    density, _, _ = np.histogram2d(*kept[0].T, bins=(edges, edges))
    density /= len(kept[0]) * (edges[1] - edges[0]) ** 2
    everything = iv.diagnostics.divergence_on_grid(kept, probabilities, edges)
    return Outcome(curve, everything, density, float(inside[:, theta.shape[1] // 5 :].mean()), run.report)


def diameter(radius: float, draws: int, seed: int) -> dict[str, float]:
    """r2SGLD with small steps on an octagon: autocorrelation time in iterations, divergence over its floor."""
    extent = max(EXTENT, radius)
    bins = round(2.0 * extent / 0.1)
    region = problem.domain("octagon", radius)
    probabilities, edges = problem.cell_probabilities(region, bins, extent)
    run = sample(
        problem.target("octagon", radius), iv.samplers.r2sgld(RATES[0], DIAMETERS["rates"], **LADDER), draws, seed
    )
    kept = run.theta[:, run.theta.shape[1] // 5 :]
    # of each chain by itself, for the spread; the two coordinates have one distribution
    times = np.array([kept.shape[1] * THIN / iv.diagnostics.ess(chain[None]).mean() for chain in kept])
    divergence = iv.diagnostics.divergence_on_grid(kept, probabilities, edges)
    floor = iv.diagnostics.iid_floor(probabilities, kept.shape[1], 30, seed).mean()
    return {
        "diameter": 2.0 * radius,
        "autocorrelation_time": float(times.mean()),
        "autocorrelation_time_error": half_band(times),
        "divergence_over_floor": float(divergence.mean() / floor),
        "divergence_over_floor_error": half_band(divergence) / float(floor),
        "divergence": float(divergence.mean()),
    }


def boundary_distances(boundary: str, draws: int, seed: int) -> np.ndarray:
    """Distances of draws from the boundary of the octagon, without an energy: the distribution should be uniform."""
    region = problem.domain("octagon")
    nothing = iv.extending.FunctionPotential(lambda position: (np.zeros(len(position)), np.zeros_like(position)), 2)
    target = iv.Target(nothing, domain=region, start=region.sample_uniform)
    # moves of the hot rung's size
    run = sample(target, iv.samplers.sgld(0.015, boundary=boundary), max(1, draws // 5), seed, chains=100)
    middle = np.cos(np.pi / 8.0)  # of a side, at radius one
    sides = np.pi * (np.arange(8) + 0.5) / 4.0
    levels = run.theta.reshape(-1, 2) @ np.array([np.cos(sides), np.sin(sides)])
    return problem.RADII["octagon"] * middle - levels.max(axis=1)


def describe(case: Case) -> dict[str, Any]:
    """Divergences by sampler, and the ratios that count."""
    means = {method: float(outcome.curve[-1].mean()) for method, outcome in case.outcomes.items()}
    table = {
        method: {
            "divergence_inside": means[method],
            "sd_over_chains": float(outcome.curve[-1].std(ddof=1)),
            "half_95_percent_band": half_band(outcome.curve[-1]),
            "divergence_of_all_draws": float(outcome.divergence.mean()),
            "inside": outcome.inside,
            "evaluations": sum(outcome.report["evaluations"].values()),
            "swap_rate": sum(outcome.report["swap_accepts"]) / max(1, sum(outcome.report["swap_attempts"])),
            "seconds": outcome.report["seconds"],
        }
        for method, outcome in case.outcomes.items()
    }
    return {
        "cells": int((case.probabilities > 0.0).sum()),
        "floor": float(case.floor[-1]),
        "r2SGLD_over_floor": means["r2SGLD"] / float(case.floor[-1]),
        "r2SGLD_over_reSGLD": means["r2SGLD"] / means["reSGLD"],
        "r2SGLD_over_R-SGLD": means["r2SGLD"] / means["R-SGLD"],
        "samplers": table,
    }


if __name__ == "__main__":
    main()
