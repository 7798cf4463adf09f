"""Contours: two modes ten apart, by published contour samplers, by replica exchange, and by a contour rung beside the
posterior's.

The first target is the mixture of Deng's thesis, section 5.4.1, .4 N(-6, 1) + .6 N(4, 1), with its step of .1. Results
are the Kullback-Leibler divergence of the draws from the truth and the weight of the right mode. The absolute error of
a chain's mean is given after a tenth of the draws and after all. Samplers are SGLD, CSGLD with the published weights
and with those of the target that it simulates, KSGLD, which knows the bins' masses from the start, and replica exchange
at the same number of gradients.

The second has two Gaussians ten apart in ten dimensions, by a fine model and a coarse one whose weights are wrong.
Results are the errors of the weight, at about equal numbers of fine solves. The samplers have three contour rungs, one,
one that moves by long paths, or a coarse ladder of four temperatures or two. All are exact on the cold rung. The last
target is the two-mode heat source of `heat_source.py`: contour rungs on its coarse mesh beside the ladder that warm-up
finds, at about equal numbers of fine solves.

Chains are runs of their own, and errors are over them. The default takes a minute; the documentation's table is that of
``--draws 2000 --seeds 5``, of ten dimensions ``--draws 7500 --chains 40``; ``--only`` makes one of its parts. The
published length is a hundred times as long.
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
from invsamp.problems import heat_source
from invsamp.problems.mixtures import GaussianMixture, far_modes
from invsamp.problems.published import FAR_MODES

THIN, STEP = 10, FAR_MODES["step_size"]
PARTS = ["mixture", "ten_dimensions", "heat_source"]
ENDS = np.arange(2.5, 50.0)  # of bins one wide; the lowest energies are 1.43 and 1.84
EDGES = np.linspace(-11.0, 9.0, 81)
MIXTURE = far_modes()
PATHS = iv.kernels.Microcanonical(2.0)
HEIGHTS = {"coarse": (0.6, 0.4), "fine": (0.4, 0.6)}  # from the coarsest to the finest
APART = {
    name: GaussianMixture(weights, np.array([[-5.0, *[0.0] * 9], [5.0, *[0.0] * 9]]), (1.0, 1.0))
    for name, weights in HEIGHTS.items()
}


def spread(values: np.ndarray) -> list[float]:
    """Mean over the chains, and its standard error."""
    return [float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))]


def of_mixture(run: iv.Run) -> dict[str, Any]:
    """Divergence of all draws together, and the right mode's weight by chain."""
    theta = run.theta[..., 0]
    weight = np.ones(theta.shape) if run.weights is None else run.weights
    right = (weight * (theta > -1.0)).sum(axis=1) / weight.sum(axis=1)
    truth = MIXTURE.probabilities(EDGES)
    divergence = diagnostics.divergence_on_grid(
        theta.ravel(), truth / truth.sum(), EDGES, log_weight=np.log(weight.ravel())
    )
    errors = {}
    for name, count in (("tenth", max(theta.shape[1] // 10, 1)), ("all", theta.shape[1])):
        mean = np.average(theta[:, :count], axis=1, weights=weight[:, :count])
        errors[name] = spread(np.abs(mean - np.dot(MIXTURE.weights, MIXTURE.means)))
    return {
        "divergence": float(divergence),
        "right": spread(right),
        "error_of_mean": errors,
        "weighted": run.weights is not None,
    }


def bin_masses() -> np.ndarray:
    """Logs of the posterior masses of the bins of energy, by quadrature; at least 1e-300."""
    x = np.linspace(-25.0, 25.0, 2_000_001)[:, None]
    mass = np.bincount(np.searchsorted(ENDS, MIXTURE.energy(x)), MIXTURE.density(x), minlength=len(ENDS) + 1)
    return np.log(np.maximum(mass / mass.sum(), 1e-300))[: len(ENDS) + 1]


def mixture(draws: int, chains: int, seed: int) -> tuple[dict[str, Any], iv.Run]:
    """The samplers of the thesis, at equal gradients; the run of CSGLD for the figure."""
    target = iv.Target(MIXTURE, start=lambda rng, n: np.where(rng.random((n, 1)) < 0.5, -6.0, 4.0))
    gain = iv.tempering.gain(1.0, 100.0, 0.6)
    found, kept, masses = {}, None, bin_masses()
    for name, sampler, share in (
        ("SGLD", iv.samplers.sgld(STEP), 1.0),
        ("CSGLD, published weights", iv.samplers.csgld(STEP, ENDS, gain=gain, weights="published"), 1.0),
        ("CSGLD", iv.samplers.csgld(STEP, ENDS, gain=gain), 1.0),
        ("KSGLD, published weights", iv.samplers.csgld(STEP, ENDS, log_psi=masses, weights="published"), 1.0),
        ("KSGLD", iv.samplers.csgld(STEP, ENDS, log_psi=masses), 1.0),
        ("ICSGLD", iv.samplers.icsgld(STEP, ENDS, gain=gain), 1.0),
        ("reSGLD, T = 10", iv.resgld((1.0, 10.0), STEP, swap_fraction=1.0), 0.5),
    ):
        count = int(draws * share)
        run = iv.sample(
            target, sampler, draws=count, thin=THIN, warmup=count * THIN // 4, chains=chains, seed=seed, progress=False
        )
        found[name] = of_mixture(run)
        kept = run if name == "CSGLD" else kept
    assert kept is not None
    return found, kept


def exchange(draws: int, chains: int, seed: int) -> dict[str, Any]:
    """Rms error of the fine weight, .6, by samplers whose cold rung takes as many fine solves."""
    target = iv.Target(APART, start=lambda rng, n: np.where(rng.random((n, 1)) < 0.5, -5.0, 5.0) * np.eye(10)[0])
    found = {}
    for name, sampler in (
        ("three contour rungs", iv.samplers.contour_exchange(8.0, swap_fraction=0.5)),
        ("one contour rung", iv.samplers.contour_exchange(8.0, rungs=1, swap_fraction=0.5)),
        ("one by long paths", iv.samplers.contour_exchange(8.0, rungs=1, kernel=PATHS, swap_fraction=0.5)),
        (
            "ladder 1, 2, 4, 8",
            iv.samplers.parallel_tempering((1.0, 2.0, 4.0, 8.0), fidelities=(0, 1, 1, 1), swap_fraction=0.5),
        ),
        ("ladder 1, 6", iv.samplers.parallel_tempering((1.0, 6.0), fidelities=(0, 1), swap_fraction=0.5)),
    ):
        run = iv.sample(target, sampler, draws=draws, thin=4, warmup=2000, chains=chains, seed=seed, progress=False)
        found[name] = against(0.6, (run.theta[..., 0] > 0.0).mean(axis=1), run)
    return found


def heat(draws: int, chains: int, seed: int) -> dict[str, Any]:
    """The same of the upper mode's weight of the heat source, by quadrature .735, on the coarse mesh .742."""
    posterior = heat_source.two_modes()
    truth = heat_source.quadrature(posterior).modes[1].weight
    found = {}
    for name, sampler in (
        ("ladder that warm-up finds", iv.samplers.parallel_tempering(ladder="auto", fidelities=(0, 1))),
        ("three contour rungs, T = 10", iv.samplers.contour_exchange(10.0)),
        ("three contour rungs, T = 30", iv.samplers.contour_exchange(30.0)),
        ("ladder 1, 8", iv.samplers.parallel_tempering((1.0, 8.0), swap_fraction=0.1)),
    ):
        run = iv.sample(posterior, sampler, draws=draws, thin=4, warmup=2000, chains=chains, seed=seed, progress=False)
        found[name] = against(truth, heat_source.is_upper(run.theta).mean(axis=1), run)
    return found


def against(truth: float, weight: np.ndarray, run: iv.Run) -> dict[str, Any]:
    """A mode's weight by chain, and what a chain took of both models after warm-up."""
    after = {key: count - run.report["warmup_evaluations"][key] for key, count in run.report["evaluations"].items()}
    return {
        "weight": spread(weight),
        "rms_error": float(np.sqrt(np.mean((weight - truth) ** 2))),
        "rungs": run.rungs,
        "solves_per_chain": {key: count / len(weight) for key, count in after.items()},
    }


def drawn(run: iv.Run) -> Figure:
    """Energies and draws of CSGLD, as sampled and by weight."""
    assert run.weights is not None
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    energy, weights = run.data.sample_stats.energy.to_numpy().ravel(), run.weights.ravel()
    for axis, values, bins in zip(axes, (energy, run.theta.ravel()), (np.linspace(1.0, 20.0, 39), EDGES), strict=True):
        axis.hist(values, bins, density=True, histtype="step", label="as sampled")
        axis.hist(values, bins, density=True, histtype="step", weights=weights, label="by weight")
    x = np.linspace(-11.0, 9.0, 400)
    axes[1].plot(x, MIXTURE.density(x[:, None]), "k", lw=0.8, label="truth")
    axes[0].set(xlabel="energy", ylabel="density", yscale="log", title="CSGLD: energies")
    axes[1].set(xlabel="x", title="CSGLD: draws")
    for axis in axes:
        axis.legend()
    return figure


def main() -> dict[str, Any]:
    """Run what is asked for, show it, and save figure and summary."""
    more: dict[str, dict[str, Any]] = {
        "only": {"choices": PARTS, "help": "one part of the three"},
        "chains": {"type": int, "default": 20, "help": "each a run of its own (default 20)"},
    }
    chosen = options("contours", __doc__.split("\n")[0], draws=300, seeds=True, more=more)
    parts = [chosen.more["only"]] if chosen.more["only"] else PARTS
    chains = chosen.more["chains"]

    def measured(seed: int) -> tuple[dict[str, Any], dict[str, Figure]]:
        summary, figures = {}, {}
        if "mixture" in parts:
            summary["mixture"], run = mixture(chosen.draws, chains, seed)
            figures["weights"] = drawn(run)
        if "ten_dimensions" in parts:
            summary["ten_dimensions"] = exchange(chosen.draws, chains, seed)
        if "heat_source" in parts:
            summary["heat_source"] = heat(max(chosen.draws // 2, 4), chains, seed)
        return summary, figures

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return chosen.over_seeds(measured)


if __name__ == "__main__":
    main()
