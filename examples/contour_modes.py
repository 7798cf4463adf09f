"""Nine modes and twenty-five in the plane: contour samplers as published beside replica exchange at equal gradients.

Nine modes are those of Deng's thesis, section 5.4.1, of his program's settings: step .001, noise of sd .32 on the
gradients, 100 bins of energy, a box that is left by no one. Twenty-five are those of its appendix E.4.2, with noise of
sd .25 and five chains of each sampler, which ICSGLD lets learn together; there all draws of five chains are judged as
one sample. SVGD moves five sets of 100 particles in 4,000 steps of .003, and where they end is its sample. Energies are
exact, as a contour distribution needs them; in the programs they have the same noise.

The results are the shares of the corner modes, and the divergence of the draws from the truth on 50 x 50 cells. Each
sampler has as many draws, and the same number of independent draws is the reference. The figures show the energies as
sampled and by weight, and the weights themselves.

Each chain (of twenty-five modes: each five chains) is a run of its own; spreads are over these. The default, 20,000
gradients for each, takes a minute; the documentation's table is that of ``--draws 20000``, 400,000 gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from _common import options
from matplotlib.figure import Figure

import invsamp as iv
from invsamp import diagnostics
from invsamp.problems.published import RUGGED

RUNS, BURN, THIN, HALF = 10, 5000, 20, 2.5
EDGES = np.linspace(-HALF, HALF, 51)
PARTICLES, PARTICLE_STEPS = 100, 4000
STARTS = np.array([[-2.0, -2.0], [-2.0, 2.0], [0.0, 0.0], [2.0, -2.0], [2.0, 2.0]])  # of five chains


def nine(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Energy and gradient of nine modes, at 0 and +-1.67 or so along each axis."""
    square = (x**2).sum(axis=1)
    energy = (0.1 * square - np.cos(1.2 * np.pi * x).sum(axis=1)) / 0.3
    gradient = (0.2 * x + 1.2 * np.pi * np.sin(1.2 * np.pi * x)) / 0.3
    return energy + np.maximum(square - 7.0, 0.0), gradient + 2.0 * x * (square > 7.0)[:, None]


def twenty_five(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Energy and gradient of twenty-five modes near whole numbers."""
    square = (x**2).sum(axis=1)
    energy = 0.2 * square - 2.0 * np.cos(2.0 * np.pi * x).sum(axis=1)
    gradient = 0.4 * x + 4.0 * np.pi * np.sin(2.0 * np.pi * x)
    return energy + np.maximum(square - 20.0, 0.0), gradient + 2.0 * x * (square > 20.0)[:, None]


def truth(energy: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], fine: int = 8) -> np.ndarray:
    """Probabilities of the cells, given that a point is in one of them: (50, 50), by the midpoint rule."""
    n = 50 * fine
    at = -HALF + 2.0 * HALF * (np.arange(n) + 0.5) / n
    value = energy(np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1).reshape(-1, 2))[0]
    density = np.exp(value.min() - value).reshape(50, fine, 50, fine).sum(axis=(1, 3))
    return density / density.sum()


def judged(theta: np.ndarray, weight: np.ndarray | None, cells: np.ndarray, corner: float) -> dict[str, list[float]]:
    """Divergences, and shares of the corner modes, of samples (runs, n, 2), with their sds over the runs."""
    weight = np.ones(theta.shape[:2]) if weight is None else weight
    inside = (np.abs(theta) < HALF).all(axis=2)
    share = np.where((np.abs(theta) > corner).all(axis=2) & inside, weight, 0.0).sum(axis=1)
    share /= np.where(inside, weight, 0.0).sum(axis=1)
    log_weight = np.log(np.where(inside, np.maximum(weight, 1e-300), 1e-300))
    clipped = np.clip(theta, -HALF, HALF)
    divergence = diagnostics.divergence_on_grid(clipped, cells, EDGES, log_weight=log_weight)
    return {
        name: [float(v.mean()), float(v.std(ddof=1))] for name, v in (("divergence", divergence), ("corners", share))
    }


def run_of(target: iv.Target, sampler: iv.ladder.Sampler, draws: int, seed: int, **more: Any) -> iv.Run:
    """So many draws after 5,000 steps."""
    settings = {"warmup": BURN, "thin": THIN, "seed": seed, "progress": False, "chains": RUNS} | more
    return iv.sample(target, sampler, draws=draws, **settings)


def falling(ends: np.ndarray) -> np.ndarray:
    """Logs of masses that fall linearly over the bins, as the programs begin."""
    masses = np.linspace(1.0, 0.01, len(ends) + 1)
    return np.log(masses / masses.sum())


def of_nine(draws: int, seed: int) -> tuple[dict[str, Any], dict[str, iv.Run]]:
    """Table and runs of nine modes: runs are chains."""
    cells = truth(nine)
    target = iv.Target(iv.extending.FunctionPotential(nine, 2), domain=iv.Box([-HALF] * 2, [HALF] * 2))
    at = np.stack(np.meshgrid(EDGES, EDGES), axis=-1).reshape(-1, 2)
    values = nine(at)[0]
    ends = np.linspace(values.min() - 1.0, values.max() + 1.0, 101)[1:-1]
    ends = ends[ends > values.min() + 0.1]  # a bin without any energy drives what is above it uphill for ever
    gain, noise = iv.tempering.gain(10.0, 100.0, 0.8, max_gain=0.003), iv.estimators.noisy(0.0, 0.32)
    cycle = max((BURN + THIN * draws) // 20, 2)
    contour: dict[str, Any] = {"gain": gain, "initial_log_psi": falling(ends), "estimator": noise}
    samplers = {
        "SGLD": (iv.samplers.sgld(1e-3, estimator=noise), THIN),
        "cyclic SGLD": (iv.samplers.cyclic_sgld(5e-3, cycles=20, estimator=noise), THIN // 2),
        "CSGLD, published weights": (iv.samplers.csgld(1e-3, ends, weights="published", **contour), THIN),
        "CSGLD": (iv.samplers.csgld(1e-3, ends, **contour), THIN),
        "reSGLD, T = 3": (iv.resgld((1.0, 3.0), 1e-3, estimator=noise, swap_fraction=0.1), THIN // 2),
        "reSGLD, T = 6": (iv.resgld((1.0, 6.0), 1e-3, estimator=noise), THIN // 2),
    }
    table: dict[str, Any] = {"independent draws": float(diagnostics.iid_floor(cells, draws, rng=0).mean())}
    runs = {}
    for name, (sampler, thin) in samplers.items():
        count = 2 * draws if name == "cyclic SGLD" else draws
        run = runs[name] = run_of(target, sampler, count, seed, thin=thin, start=np.array([2.0, 2.0]))
        kept = np.ones(count, dtype=bool)
        if name == "cyclic SGLD":  # the second half of each cycle, as published
            kept = (BURN + thin * np.arange(1, count + 1)) % cycle > cycle / 2
        weight = None if run.weights is None else run.weights[:, kept]
        table[name] = judged(run.theta[:, kept], weight, cells, 0.83)
    shares = cells[np.ix_(*[np.abs(0.5 * (EDGES[1:] + EDGES[:-1])) > 0.83] * 2)].sum()
    return table | {"true_share_of_corners": float(shares)}, runs


def of_twenty_five(draws: int, seed: int) -> tuple[dict[str, Any], dict[str, iv.Run]]:
    """Table and runs of twenty-five modes: each sample is of five chains, which have a fifth of the steps each."""
    cells, fifth = truth(twenty_five), max(draws // 5, 2)
    target = iv.Target(iv.extending.FunctionPotential(twenty_five, 2))
    ends = -3.9 + RUGGED["width"] * np.arange(1, RUGGED["bins"])
    decay = RUGGED["gain_offset"], RUGGED["gain_exponent"]
    gain, noise = iv.tempering.gain(1.0, *decay, max_gain=RUGGED["gain_most"]), iv.estimators.noisy(0.0, 0.25)
    step = RUGGED["step_size"]
    contour: dict[str, Any] = {"gain": gain, "initial_log_psi": falling(ends), "estimator": noise}
    five = {"chains": 5 * RUNS, "start": np.tile(STARTS, (RUNS, 1))}
    ladder = iv.resgld(RUGGED["temperatures"], RUGGED["rates"], estimator=noise)
    alone = {"start": np.array([0.0, 0.0])}
    cyclic = iv.samplers.cyclic_sgld(RUGGED["cyclic_rate"], cycles=RUGGED["cycles"], estimator=noise)
    samplers = {
        "SGLD, five chains": (iv.samplers.sgld(step, estimator=noise), fifth, five),
        "CSGLD, five chains": (iv.samplers.csgld(step, ends, **contour), fifth, five),
        "cyclic SGLD, one long chain": (cyclic, draws, alone),
        "CSGLD, one long chain": (iv.samplers.csgld(step, ends, **contour), draws, alone),
        "reSGLD, five rungs": (ladder, draws, alone | {"thin": THIN // 5}),
    }
    table: dict[str, Any] = {"independent draws": float(diagnostics.iid_floor(cells, draws, rng=0).mean())}
    runs = {}
    for name, (sampler, length, settings) in samplers.items():
        run = runs[name] = run_of(target, sampler, length, seed, **settings)
        pooled = (RUNS, -1)
        weight = None if run.weights is None else run.weights.reshape(pooled)
        table[name] = judged(run.theta.reshape(*pooled, 2), weight, cells, 1.5)
    sampler = iv.samplers.icsgld(step, ends, **contour)
    found = [run_of(target, sampler, fifth, 100 * seed + k, chains=5, start=STARTS) for k in range(RUNS)]
    runs["ICSGLD, five chains"] = found[0]
    theta = np.stack([run.theta.reshape(-1, 2) for run in found])
    weights = np.stack([run.weights.ravel() for run in found if run.weights is not None])
    table["ICSGLD, five chains"] = judged(theta, weights, cells, 1.5)
    particles = np.stack([stein(target, noise, min(draws, PARTICLE_STEPS), 1000 * seed + k) for k in range(RUNS)])
    table["SVGD, five sets of particles"] = judged(particles, None, cells, 1.5)
    table["as many independent draws as particles"] = float(diagnostics.iid_floor(cells, 5 * PARTICLES, rng=0).mean())
    shares = cells[np.ix_(*[np.abs(0.5 * (EDGES[1:] + EDGES[:-1])) > 1.5] * 2)].sum()
    return table | {"true_share_of_corners": float(shares)}, runs


def stein(target: iv.Target, noise: Any, steps: int, seed: int) -> np.ndarray:
    """Where five sets of particles from a uniform distribution over the modes come to rest, (particles, 2)."""
    start = np.random.default_rng(seed).uniform(-HALF, HALF, (5, PARTICLES, 2))
    settings = {"draws": 2, "thin": max(steps // 2, 1), "warmup": 0, "chains": PARTICLES, "progress": False}
    sampler = iv.samplers.svgd(RUGGED["step_size"], estimator=noise)
    ends = [iv.sample(target, sampler, start=each, seed=seed, **settings).theta[:, -1] for each in start]
    return np.concatenate(ends)


def energies(runs: dict[str, iv.Run], names: tuple[str, ...], contour: str, low: float, high: float) -> Figure:
    """Energies as sampled; those of a contour sampler by weight too; its weights; and its draws."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    bins = np.linspace(low, high, 70)
    run = runs[contour]
    assert run.weights is not None
    for name in names:
        energy = runs[name].data.sample_stats.energy.to_numpy().ravel()
        axes[0].hist(energy, bins, density=True, histtype="step", label=name)
    energy, weight = run.data.sample_stats.energy.to_numpy(), run.weights
    axes[0].hist(
        energy.ravel(),
        bins,
        density=True,
        histtype="step",
        color="k",
        weights=weight.ravel(),
        label=f"{contour}, by weight",
    )
    axes[0].set(xlabel="energy", ylabel="density", yscale="log", title="energies")
    axes[0].legend(fontsize=8)
    axes[1].semilogy(energy[0], weight[0] / weight[0].mean(), ".", ms=1)
    axes[1].set(xlabel="energy", ylabel="weight over its mean", title=f"{contour}: weights of one chain")
    theta = run.theta[0]
    shown = np.random.default_rng(0).choice(len(theta), min(len(theta), 4000), replace=False)
    axes[2].scatter(*theta[shown].T, s=2, c=np.log10(weight[0][shown] / weight[0].mean()), vmin=-2.0, vmax=0.5)
    axes[2].set(xlabel="x", ylabel="y", aspect="equal", title="its draws, by log10 weight")
    figure.colorbar(axes[2].collections[0], ax=axes[2])
    return figure


SHOWN: dict[str, tuple[Any, ...]] = {
    "nine": (of_nine, ("SGLD", "CSGLD", "reSGLD, T = 6"), "CSGLD", -7.0, 12.0),
    "twenty_five": (
        of_twenty_five,
        ("SGLD, five chains", "ICSGLD, five chains", "reSGLD, five rungs"),
        "ICSGLD, five chains",
        -4.0,
        8.0,
    ),
}


def main() -> dict[str, Any]:
    """Run both, or one, show them, and save figures and summary."""
    only = {"only": {"choices": list(SHOWN), "help": "one of the two"}}
    chosen = options("contour_modes", __doc__.split("\n")[0], draws=1000, more=only)
    summary = {}
    for name, (made, *shown) in SHOWN.items():
        if chosen.more["only"] in (None, name):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                summary[f"{name}_modes"], runs = made(chosen.draws, chosen.seed)
            figure = energies(runs, *shown)
            chosen.save(name, figure)
            plt.close(figure)
    chosen.save_summary(summary)
    return summary


if __name__ == "__main__":
    main()
