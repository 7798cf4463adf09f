"""A hundred thousand data in batches of two hundred: swaps between two modes by variance-reduced energies.

Section 5.1 of Deng et al. (2021): data from .5 N(b, 5^2) + .5 N(20 - b, 5^2), b = -5. The posterior at temperature 10
has two narrow modes, at -5 and 25, of equal weight by symmetry. A chain at temperature 1000 does not cross the barrier
of four hundred thousand either. So each run begins with one chain in each mode, and they change places by swaps alone.
The step is 1e-7, as published.

The first table is the noise of an energy at some distances from the snapshot. The second table shows its effect: how
many swaps are accepted, the weight of the right mode (.5), and the sd within a mode, by the curvature there. Each of
the ten chains is a run of its own, and errors are over these. The default, 1,000 steps, takes a minute and resolves no
weight. The documentation's table is that of ``--draws 1500 --seeds 2``, 30,000 steps.
"""

from __future__ import annotations

import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from _common import options
from matplotlib.figure import Figure
from scipy.interpolate import CubicHermiteSpline
from scipy.optimize import brentq

import invsamp as iv
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import answered
from invsamp.problems.published import SNAPSHOTS
from invsamp.protocols import Terms

DATA, SD, TAU = SNAPSHOTS["data"], SNAPSHOTS["sigma"], SNAPSHOTS["temperatures"][0]
MODES = np.array([[SNAPSHOTS["beta"]], [SNAPSHOTS["phi"] - SNAPSHOTS["beta"]]])
STEP, INTERVAL, FACTOR = SNAPSHOTS["step_size"], SNAPSHOTS["interval"], SNAPSHOTS["factors"][1]
#: Not printed.
BATCH, CHAINS, THIN = 200, 10, 20
#: Whole energies are interpolated between so many points: to 1e-7, as the energy's fourth derivative shows.
KNOTS = np.linspace(-8.0, 28.0, 2881)
#: From the snapshot, at which noise is measured.
DISTANCES = (0.01, 0.1, 0.5, 1.0)


class Symmetric:
    """Energy over temperature 10, by data: minus log of .5 N(b, 25) + .5 N(20 - b, 25) at each of them."""

    dimension = 1

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.size = data, len(data)
        values, slopes = (
            np.concatenate(parts)
            for parts in zip(*(self._sums(knots) for knots in np.array_split(KNOTS, 300)), strict=True)
        )
        self._whole = CubicHermiteSpline(KNOTS, values, slopes)
        self.slope = self._whole.derivative()

    def energy(self, position: np.ndarray) -> np.ndarray:
        """Of all data."""
        return self._whole(position[:, 0])

    def energy_and_gradient(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of all data."""
        return self._whole(position[:, 0]), self.slope(position)

    def terms(self, position: np.ndarray, indices: npt.NDArray[np.intp]) -> Terms:
        """Of some data."""
        energy, slope = self.each(position, self.data[indices])
        return Terms(np.zeros(len(position)), np.zeros(position.shape), energy, slope[:, :, None])

    def _sums(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        energy, slope = self.each(at[:, None], self.data)
        return energy.sum(axis=1), slope.sum(axis=1)

    @staticmethod
    def each(b: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Energies and slopes (chains, data) of each datum x at positions b."""
        left, right = (x - b) / SD, (x - 20.0 + b) / SD
        apart = 0.5 * (left * left - right * right)  # log of the right part over the left one
        small = np.exp(-np.abs(apart))
        energy = 0.5 * np.minimum(left * left, right * right) - np.log1p(small)
        share = np.where(apart > 0.0, small, 1.0) / (1.0 + small)  # of the left part
        return energy / TAU, ((1.0 - share) * right - share * left) / (SD * TAU)


def samplers() -> dict[str, iv.ladder.Sampler]:
    """Samplers to compare: at steps of 1e-7 in the energy, 1e-6 in the energy over 10."""
    pair: dict[str, Any] = {
        "temperatures": (1.0, SNAPSHOTS["temperatures"][1] / TAU),
        "step_size": TAU * STEP,
        "swap_fraction": 1.0,
    }
    plain = {**pair, "estimator": iv.estimators.minibatch(BATCH)}
    linear = iv.estimators.control_variate(BATCH, 500)
    groups = np.arange(DATA) // 20
    return {
        "exact energies": iv.resgld(**pair),
        "reSGLD, F = 1": iv.resgld(**plain, swap=iv.swaps.noise_penalty()),
        "reSGLD, F = 100": iv.resgld(**plain, swap=iv.swaps.noise_penalty(FACTOR)),
        "VR-reSGLD, m 40": iv.samplers.vr_resgld(**pair, size=BATCH, refresh=INTERVAL),
        "VR-reSGLD, m 40, adaptive": iv.samplers.vr_resgld(**pair, size=BATCH, refresh=INTERVAL, adaptive=True),
        "VR-reSGLD, m 40, penalty of eq. (6)": iv.samplers.vr_resgld(
            **pair, size=BATCH, refresh=INTERVAL, swap=iv.swaps.noise_penalty(0.5)
        ),
        "linear term, m 500": iv.resgld(**pair, estimator=linear, energy_variance=iv.variances.known()),
        "exact form: fixed references": iv.samplers.paired_resgld(MODES, **pair, size=BATCH // 20, groups=groups),
    }


def noise(potential: Symmetric, distances: tuple[float, ...], seed: int) -> dict[str, list[float]]:
    """Sds of energies, not over 10, at distances from the snapshot."""
    source, found = CountedPotential(potential, "model"), {}
    at = np.repeat(MODES[:1], 400, axis=0)
    for name, estimator in (
        ("plain", iv.estimators.minibatch(BATCH)),
        ("snapshot", iv.estimators.control_variate(BATCH, 1, order="constant")),
        ("linear term", iv.estimators.control_variate(BATCH, 1)),
        ("second order", iv.estimators.fixed_control(BATCH // 20, MODES, np.arange(DATA) // 20)),
    ):
        bound, rng, memory = estimator.bind(source, "isotropic"), np.random.default_rng(seed), ()
        if name != "plain":
            one = answered(bound.init(rng, at[:1]), source.answer_all)
            memory = ({what: np.repeat(values, len(at), axis=0) for what, values in one.items()},)
        energies = [answered(bound.estimate(rng, at + r, False, *memory), source.answer_all).energy for r in distances]
        found[name] = [float(TAU * energy.std(ddof=1)) for energy in energies]
    return found


def table_row(run: iv.Run, mode: float) -> dict[str, Any]:
    """Swaps, weight and sd within a mode with their errors over the runs; the other mode is at 20 less this one."""
    theta = run.theta[..., 0]
    right = theta > 10.0
    within = np.sqrt(np.mean((np.where(right, 20.0 - theta, theta) - mode) ** 2, axis=1))
    weight, error = right.mean(axis=1), np.sqrt(CHAINS)
    return {
        "swap_rate": run.report["swap_accepts"][0] / run.report["swap_attempts"][0],
        "right": [float(weight.mean()), float(weight.std(ddof=1) / error)],
        "sd": [float(within.mean()), float(within.std(ddof=1) / error)],
    }


def drawn(summary: dict[str, Any]) -> Figure:
    """Noise by distance, and the sd within a mode by sampler."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for name, sds in summary["energy_sd"].items():
        axes[0].loglog(summary["distances"], sds, "o-", label=name)
    axes[0].set(
        xlabel="distance from the snapshot", ylabel="sd of an energy", title=f"noise of {BATCH} of {DATA:,} data"
    )
    axes[0].legend()
    table, sd = summary["samplers"], summary["sd_of_the_curvature"]
    names = list(table)
    rows = np.arange(len(names))[::-1]
    axes[1].errorbar(
        [table[n]["sd"][0] for n in names], rows, xerr=[2.0 * table[n]["sd"][1] for n in names], fmt="o", capsize=3
    )
    axes[1].axvline(sd, color="k", lw=0.8)
    axes[1].set(yticks=rows, yticklabels=names, xlabel="sd within a mode, with two errors (line: truth)")
    return figure


def main() -> dict[str, Any]:
    """Run all, show them, and save figure and summary."""
    chosen = options("variance_reduced_swaps", __doc__.split("\n")[0], draws=50, seeds=True)
    rng = np.random.default_rng(0)
    potential = Symmetric(np.where(rng.random(DATA) < 0.5, -5.0, 25.0) + SD * rng.standard_normal(DATA))
    mode = float(brentq(potential.slope, -5.5, -4.5))
    sd = float(potential.slope(mode, 1) ** -0.5)
    # one chain of each run in each mode, the cold one in turn in either
    places = MODES[(np.arange(CHAINS) + np.arange(2)[:, None]) % 2]
    target = iv.Target(potential)

    def measured(seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
        start = places + sd * np.random.default_rng(seed).standard_normal(places.shape)
        settings = {"draws": chosen.draws, "thin": THIN, "warmup": min(500, THIN * chosen.draws), "chains": CHAINS}
        summary: dict[str, Any] = {"distances": DISTANCES, "energy_sd": noise(potential, DISTANCES, seed)}
        table = {}
        for name, sampler in samplers().items():
            run = iv.sample(target, sampler, seed=seed, start=start, progress=False, **settings)
            table[name] = table_row(run, mode)
            chosen.show({name: table[name]})
        summary |= {"sd_of_the_curvature": sd, "samplers": table}
        return summary, {"noise_and_law": drawn(summary)}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return chosen.over_seeds(measured)


if __name__ == "__main__":
    main()
