"""Round trips are not correctness: DEO*-SGD beside honest parallel tempering on the same noise.

The comparison of Deng's thesis, section 4.5.1: U = .2 |b|^2 - 2 (cos 2 pi b1 + cos 2 pi b2), noise of sd 2 on energies
and gradients. DEO*-SGD runs 16 processes at learning rates from .003 to .6, without a window and with one of 8.
Parallel tempering has six temperatures from 1 to 10, steps of .003 times the temperature, swaps with the penalty of
their noise, and takes the gradients' noise out of what it injects.

The table has the round trips from the cold end to the hot one and back, and two errors of the draws. These are the
total variation over the 25 modes, and the share of the four corner modes, .052 by quadrature. Each chain is a run of
its own. The errors are over chains. The default, 1,000 draws of 5 steps, takes half a minute. The published length, and
the documentation's table, is that of ``--draws 4000 --seeds 5``.

``--only targets`` varies the target swap rate from .2 to .6 (figure 4.3), ``--only windows`` the window at .4 (figure
4.4), with the share of pairs that would swap in the second half of the run. ``--only single`` runs SGLD x P16, sixteen
chains together, and cycSGLD x T16, one chain of sixteen times the length with 100 cycles (figure 4.5). Not printed, and
chosen here: starts of SGLD, which are uniform over the modes, and the first rate of a cycle, .01 as in E.4.2.
"""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from _common import options
from matplotlib.figure import Figure

import invsamp as iv
from invsamp.problems.published import TEMPERING

CHAINS, THIN, PROCESSES, CYCLES = 6, 5, TEMPERING["processes"], TEMPERING["cycles"]
TARGETS, WINDOWS = TEMPERING["targets"], (1, 2, 4, 8, 16)
NOISE = iv.estimators.noisy(TEMPERING["energy_sd"], TEMPERING["gradient_sd"])
GRID = np.linspace(-6.0, 6.0, 1201)


def waves(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Energy and gradient."""
    phase = 2.0 * np.pi * position
    energy = 0.2 * (position**2).sum(axis=1) - 2.0 * np.cos(phase).sum(axis=1)
    return energy, 0.4 * position + 4.0 * np.pi * np.sin(phase)


TARGET = iv.Target(iv.extending.FunctionPotential(waves, 2))


def shares(theta: np.ndarray) -> np.ndarray:
    """Of the draws (chains, n, 2) in the unit cells about the 25 modes, with what is outside last: (chains, 26)."""
    cell = np.rint(theta).astype(int)
    inside = (np.abs(cell) <= 2).all(axis=2)
    index = np.where(inside, 5 * (cell[..., 0] + 2) + cell[..., 1] + 2, 25)
    return np.stack([np.bincount(row, minlength=26) / len(row) for row in index])


def truth() -> np.ndarray:
    """The same of the density: a product, by quadrature."""
    density = np.exp(-0.2 * GRID**2 + 2.0 * np.cos(2.0 * np.pi * GRID))
    one = np.array([density[np.rint(GRID) == k].sum() for k in range(-2, 3)]) / density.sum()
    both = np.outer(one, one).ravel()
    return np.append(both, 1.0 - both.sum())


def figures_of(theta: np.ndarray, trips: np.ndarray | None = None, steps: int = 1) -> dict[str, list[float]]:
    """Means over the chains with their standard errors."""
    found, wanted = shares(theta), truth()
    corners = [0, 4, 20, 24]
    by_chain = {} if trips is None else {"round_trips_per_1000": 1000.0 * trips / steps}
    by_chain |= {
        "total_variation": 0.5 * np.abs(found - wanted).sum(axis=1),
        "corners": found[:, corners].sum(axis=1),
    }
    return {name: [float(v.mean()), float(v.std(ddof=1) / np.sqrt(len(v)))] for name, v in by_chain.items()}


def measured(draws: int, seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
    """All samplers with one seed, and the index paths of their first chains."""
    settings = {"draws": draws, "thin": THIN, "chains": CHAINS, "seed": seed, "progress": False}
    steps, wanted = draws * THIN, truth()
    summary: dict[str, Any] = {"truth": {"corners": float(wanted[[0, 4, 20, 24]].sum())}, "samplers": {}}
    figure, axes = plt.subplots(3, 1, figsize=(9, 6), layout="constrained")
    for axis, window in zip(axes, (1, 8), strict=False):
        run = iv.sample(TARGET, iv.samplers.deo_sgd(0.003, window=window, estimator=NOISE), warmup=0, **settings)
        stats = run.data.sample_stats
        trips = stats.process_round_trips.to_numpy()[:, -1]
        summary["samplers"][f"DEO*-SGD, window {window}"] = figures_of(run.theta, trips, steps)
        axis.plot(stats.first_process.to_numpy()[0], lw=0.6)
        axis.set(title=f"DEO*-SGD, window {window}: where the first process is", ylabel="process")
    sampler = iv.samplers.fast_resgld(
        iv.ladder.geometric(10.0, 6), 0.003, estimator=NOISE, variance=iv.variances.known(), swap_fraction=1.0
    )
    run = iv.sample(TARGET, sampler, warmup=500, **settings)
    replica, hot = run.data.sample_stats.replica.to_numpy(), run.data.hot_stats.replica.to_numpy()
    trips = np.full(CHAINS, run.report["round_trips"] / CHAINS)
    summary["samplers"]["parallel tempering, 6 rungs"] = figures_of(run.theta, trips, steps)
    at = np.where(replica[0] == 0, 0, 1 + np.argmax(np.moveaxis(hot, -1, 0)[:, 0] == 0, axis=0))
    axes[2].plot(at, lw=0.6)
    axes[2].set(title="parallel tempering: where the first walker is", ylabel="rung", xlabel="draw")
    return summary, {"index_paths": figure}


def by_target(draws: int, seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
    """DEO*-SGD with a window of 8 at each target swap rate."""
    return {f"{rate:g}": of_deo(draws, seed, rate, 8) for rate in TARGETS}, {}


def by_window(draws: int, seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
    """DEO*-SGD at the target swap rate .4 with each window."""
    return {str(window): of_deo(draws, seed, 0.4, window) for window in WINDOWS}, {}


def of_deo(draws: int, seed: int, rate: float, window: int) -> dict[str, list[float]]:
    """Round trips, errors, and the share of pairs that would swap in the second half."""
    sampler = iv.samplers.deo_sgd(0.003, target=rate, window=window, estimator=NOISE)
    run = iv.sample(TARGET, sampler, draws=draws, thin=THIN, warmup=0, chains=CHAINS, seed=seed, progress=False)
    stats = run.data.sample_stats
    trips, swaps = stats.process_round_trips.to_numpy()[:, -1], stats.swap_rate.to_numpy()[:, draws // 2 :]
    return figures_of(run.theta, trips, draws * THIN) | {"swap_rate": [float(swaps.mean())]}


def single(draws: int, seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
    """SGLD by sixteen chains together and cyclic SGLD by one of their total length."""
    count = CHAINS * PROCESSES
    start = np.random.default_rng(seed).uniform(-2.5, 2.5, (count, 2))
    settings: dict[str, Any] = {"warmup": 0, "seed": seed, "progress": False}
    parallel = iv.sample(
        TARGET, iv.samplers.sgld(0.003, estimator=NOISE), draws=draws, thin=THIN, chains=count, start=start, **settings
    )
    cyclic = iv.samplers.cyclic_sgld(0.01, cycles=CYCLES, estimator=NOISE)
    long = iv.sample(TARGET, cyclic, draws=draws, thin=THIN * PROCESSES, chains=CHAINS, **settings)
    return {
        "SGLD x P16": figures_of(parallel.theta.reshape(CHAINS, -1, 2)),
        "cycSGLD x T16": figures_of(long.theta),
    }, {}


PARTS = {"exchange": measured, "targets": by_target, "windows": by_window, "single": single}


def main() -> dict[str, Any]:
    """Run a part, show it, and save figures and summary."""
    only = {"only": {"choices": list(PARTS), "default": "exchange", "help": "the part that is run (default exchange)"}}
    chosen = options("tempering", __doc__.split("\n")[0], draws=1000, seeds=True, more=only)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return chosen.over_seeds(lambda seed: PARTS[chosen.more["only"]](chosen.draws, seed))


if __name__ == "__main__":
    main()
