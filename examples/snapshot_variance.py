"""Noise of variance-reduced energies: by the interval of the snapshot, the step size, the batch and the correlation.

Deng et al. (2021), "Accelerating convergence of replica exchange SGMCMC via variance reduction": figures 2(c) and 2(d),
lemma 1, and the adaptive coefficient of algorithm 2. The target is the mixture of section 5.1
(`variance_reduced_swaps.py`) at temperature 10. A chain takes m Langevin steps of size eta with exact gradients from
its snapshot. Then an energy is estimated from a batch of n data with the snapshot as a control variate. Its variance
over batches is exact here: N^2 / n times that of the differences over the data.

Lemma 1 bounds it by O(m^2 eta / n). Slopes in log m, log eta and log n are fitted where chains begin in the posterior,
and where they begin five units away and descend, as early in a run. The best coefficient c is minus the regression
coefficient. With correlation rho of the energies at the two places it leaves (1 - rho^2) of the variance. If both have
the same variance, c = -1 leaves 2 (1 - rho) of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from _common import options
from matplotlib.figure import Figure
from variance_reduced_swaps import DATA, MODES, TAU, Symmetric

Array = npt.NDArray[np.float64]

INTERVALS, STEPS, BATCHES = (10, 20, 40, 80, 160), (2.5e-8, 5e-8, 1e-7, 2e-7), (50, 100, 200, 400)
#: As printed.
M, ETA, N = 40, 1e-7, 200
STARTS = {"in the posterior": 0.0, "five units away": -5.0}
DISTANCES = (0.01, 0.1, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
#: Data of which variances are taken.
SUBSET = 20_000


def main() -> dict[str, Any]:
    """Both tables and the figure, over seeds."""
    given = options("snapshot_variance", "Noise of variance-reduced energies.", draws=200, seeds=True)
    return given.over_seeds(lambda seed: measured(given.draws, seed))


def measured(chains: int, seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
    """Of one set of data: sds by interval, step and batch, their slopes, and what each coefficient leaves."""
    rng = np.random.default_rng(seed)
    signs = np.where(rng.random(DATA) < 0.5, 1.0, -1.0)
    data = 10.0 + signs * 15.0 + 5.0 * rng.standard_normal(DATA)  # means -5 and 25
    potential = Symmetric(data)
    kept = data[:: DATA // SUBSET]
    summary: dict[str, Any] = {"plain_sd": plain_sd(potential, kept)}
    figure = Figure(figsize=(11.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for label, offset in STARTS.items():
        by_interval = [variance(potential, kept, offset, m, ETA, N, chains, rng) for m in INTERVALS]
        by_step = [variance(potential, kept, offset, M, eta, N, chains, rng) for eta in STEPS]
        by_batch = [variance(potential, kept, offset, M, ETA, n, chains, rng) for n in BATCHES]
        summary[label] = {
            "sd_by_interval": dict(zip(map(str, INTERVALS), np.sqrt(by_interval).tolist(), strict=True)),
            "slope_in_m": slope(INTERVALS, by_interval),
            "slope_in_eta": slope(STEPS, by_step),
            "slope_in_n": slope(BATCHES, by_batch),
        }
        left.loglog(INTERVALS, np.sqrt(by_interval), "o-", label=label)
    left.axhline(summary["plain_sd"], color="black", ls=":", label="no snapshot")
    left.set(xlabel="steps since the snapshot", ylabel="sd of an energy", title=f"{N} of {DATA:,} data")
    rows = coefficients(potential, kept)
    summary["coefficients"] = rows
    correlation = [row["correlation"] for row in rows.values()]
    right.plot(correlation, [row["left_by_minus_one"] for row in rows.values()], "o-", label="c = -1")
    right.plot(correlation, [row["left_by_the_best"] for row in rows.values()], "o-", label="best c")
    right.axhline(1.0, color="black", ls=":")
    right.set(xlabel="correlation with the snapshot", ylabel="variance left", title="coefficient of the snapshot")
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    return summary, {"variance": figure}


def variance(
    potential: Symmetric, data: Array, offset: float, m: int, eta: float, n: int, chains: int, rng: np.random.Generator
) -> float:
    """Mean variance over chains, m steps after the snapshot, of energies at temperature 1."""
    x = MODES[0, 0] + offset + (0.05 * rng.standard_normal((chains, 1)) if offset == 0.0 else np.zeros((chains, 1)))
    first = x.copy()
    for _ in range(m):
        x = x - eta * TAU * potential.slope(x) + np.sqrt(2.0 * eta * TAU) * rng.standard_normal(x.shape)
    change = energies(x, data) - energies(first, data)
    return float(DATA**2 / n * change.var(axis=1).mean())


def energies(at: Array, data: Array) -> Array:
    """Of each datum (chains, data), at temperature 1."""
    return TAU * Symmetric.each(at, data)[0]


def plain_sd(potential: Symmetric, data: Array) -> float:
    """Of an energy at the mode without a snapshot."""
    return float(DATA / np.sqrt(N) * energies(MODES[:1], data).std())


def slope(values: tuple[float, ...], variances: list[float]) -> float:
    """Of the log of variances."""
    return float(np.polyfit(np.log(values), np.log(variances), 1)[0])


def coefficients(potential: Symmetric, data: Array) -> dict[str, dict[str, float]]:
    """By distance from the snapshot, which lies at the mode: correlation, and shares of the variance that are left."""
    found = {}
    for distance in DISTANCES:
        here, there = energies(MODES[:1] + distance, data)[0], energies(MODES[:1], data)[0]
        rho = float(np.corrcoef(here, there)[0, 1])
        found[str(distance)] = {
            "correlation": rho,
            "left_by_minus_one": float((here - there).var() / here.var()),
            "left_by_the_best": 1.0 - rho**2,
        }
    return found


if __name__ == "__main__":
    main()
