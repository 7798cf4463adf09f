"""Open questions of the papers about swaps, by the operator of two rungs in one dimension: nothing here is Monte Carlo.

``heavy_tails``: noise of energies has Student's t distribution where the correction of a swap is that of Gaussian noise
(Deng's thesis, 2.3.2). The weight of a mode says what is wrong, with one energy at a swap and with the mean of four.

``noise``: the spectral gap by the variance of a swap's noise (thesis, appendix B.2). That variance depends on the
interval m of the snapshot, the step eta and the batch n, as `snapshot_variance.py` shows.

``bounded``: the gain in spectral gap by exchange in an interval with reflecting ends (r2SGLD, remark 1.1), by the
barrier between two wells and the hot temperature, beside the bound pi^2 / diameter^2.

Both rungs are reflected random walks that accept or refuse, so that the invariant distribution is exact but for the
noise of swaps. A swap is attempted after each step. All takes ten seconds. There is no random number in it, so that
``--draws`` and ``--seed`` do nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from _common import options
from matplotlib.figure import Figure
from scipy.sparse.linalg import LinearOperator, eigs
from scipy.stats import norm, t

from invsamp.problems.mixtures import GaussianMixture

Array = npt.NDArray[np.float64]
PARTS = ["heavy_tails", "noise", "bounded"]
MIXTURE = GaussianMixture((0.4, 0.6), (-4.0, 3.0), (0.7, 0.5))
STEP, HOT = 0.05, 10.0
FREEDOMS, ENERGY_SDS, PROBES = (np.inf, 10.0, 5.0, 3.0), (1.0, 2.0), (1, 4)
VARIANCES = (0.0, 0.1, 1.0, 4.0, 16.0, 64.0)
BARRIERS, HOTTEST, LENGTHS = (2.0, 5.0, 10.0), (3.0, 10.0, 30.0, 100.0), (1.3, 2.0)
#: Noise of a log ratio, from -SPAN to SPAN.
SPAN, CELLS = 400.0, 2**17


def grid(lower: float, upper: float, points: int) -> Array:
    """Middles of cells."""
    edges = np.linspace(lower, upper, points + 1)
    return np.asarray(0.5 * (edges[1:] + edges[:-1]))


def kernel(energy: Array, points: Array, temperature: float, step: float) -> Array:
    """Transition matrix of a reflected random walk of variance 2 step T that accepts or refuses."""
    cell = points[1] - points[0]
    width, lower = cell * len(points), points[0] - 0.5 * cell
    images = [points + 2.0 * k * width for k in (-1, 0, 1)] + [2.0 * (lower + k * width) - points for k in (-1, 0, 1)]
    proposal = sum(np.exp(-0.25 * (image - points[:, None]) ** 2 / (step * temperature)) for image in images)
    proposal = proposal / np.max(proposal.sum(axis=1))  # symmetric; what is missing stays
    moves = proposal * np.exp(np.minimum((energy[:, None] - energy) / temperature, 0.0))
    np.fill_diagonal(moves, 0.0)
    return np.asarray(moves + np.diag(1.0 - moves.sum(axis=1)))


def noise(sd: float, freedom: float, probes: int) -> tuple[Array, Array]:
    """Values of a log ratio's noise and their probabilities: two means of noisy energies of sd ``sd`` and 1 / T - 1."""
    values = np.linspace(-SPAN, SPAN, CELLS, endpoint=False)
    scale = sd * (1.0 - 1.0 / HOT) / probes
    one = norm.pdf(values / scale) if np.isinf(freedom) else t.pdf(values / scale * tail(freedom), freedom)
    one /= one.sum()
    together = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(one)) ** (2 * probes), CELLS)
    return values, np.maximum(np.fft.fftshift(together), 0.0)


def tail(freedom: float) -> float:
    """Sd of Student's t."""
    return float(np.sqrt(freedom / (freedom - 2.0)))


def accepted(log_ratio: Array, values: Array, probabilities: Array, correction: float) -> Array:
    """Mean acceptance at each log ratio."""
    at = np.linspace(-60.0, 60.0, 1201)
    seen = probabilities > 1e-14
    mean = [probabilities[seen] @ np.exp(np.minimum(x + values[seen] - correction, 0.0)) for x in at]
    return np.asarray(np.exp(np.interp(np.clip(log_ratio, -60.0, 60.0), at, np.log(np.maximum(mean, 1e-300)))))


def pair(cold: Array, hot: Array, acceptance: Array | None) -> tuple[Array, float]:
    """Invariant joint distribution (n, n) and the gap, minus the log of the second eigenvalue."""
    n = len(cold)

    def step(flat: Array) -> Array:
        joint = cold.T @ flat.reshape(n, n) @ hot
        if acceptance is not None:
            swapped = acceptance * joint
            joint = joint - swapped + swapped.T
        return np.asarray(joint.ravel())

    operator = LinearOperator((n * n, n * n), matvec=step, dtype=float)
    start = np.random.default_rng(0).uniform(0.5, 1.5, n * n)  # of no symmetry, or odd modes are missed
    values, vectors = eigs(operator, k=2, which="LR", ncv=40, v0=start, tol=1e-8)
    order = np.argsort(-values.real)
    joint = np.real(vectors[:, order[0]]).reshape(n, n)
    return joint / joint.sum(), float(-np.log(values[order[1]].real))


def two_modes(points: int = 120) -> tuple[Array, Array, Array, Array]:
    """Points of the mixture of f-reSGLD, kernels at temperatures 1 and 10, and log ratios of swaps (cold, hot)."""
    x = grid(-9.0, 8.0, points)
    energy = MIXTURE.energy(x[:, None])
    cold, hot = kernel(energy, x, 1.0, STEP), kernel(energy, x, HOT, STEP)
    return x, cold, hot, (1.0 - 1.0 / HOT) * (energy[:, None] - energy)


def heavy_tails() -> dict[str, Any]:
    """Weight of the right mode and swap rate by the noise's tail, its sd and the energies at a swap."""
    x, cold, hot, log_ratio = two_modes()
    found: dict[str, Any] = {}
    for sd in ENERGY_SDS:
        for freedom in FREEDOMS:
            for probes in PROBES:
                values, probabilities = noise(sd, freedom, probes)
                correction = 0.5 * float(probabilities @ values**2)
                acceptance = accepted(log_ratio, values, probabilities, correction)
                joint, gap = pair(cold, hot, acceptance)
                after = cold.T @ joint @ hot
                found[f"sd {sd:g}, freedom {freedom:g}, energies {probes}"] = {
                    "right_weight": float(joint.sum(axis=1)[x > 0.0].sum()),
                    "swap_rate": float((after * acceptance).sum()),
                    "gap": gap,
                }
    return found


def by_noise() -> dict[str, Any]:
    """Gap by the variance of a swap's log ratio, over that of exact swaps."""
    _, cold, hot, log_ratio = two_modes()
    found = {"no swaps": pair(cold, hot, None)[1]}
    for variance in VARIANCES:
        sd = np.sqrt(0.5 * variance) / (1.0 - 1.0 / HOT)
        values, probabilities = noise(sd, np.inf, 1) if variance else (np.zeros(1), np.ones(1))
        found[f"variance {variance:g}"] = pair(cold, hot, accepted(log_ratio, values, probabilities, 0.5 * variance))[1]
    return found


def bounded(points: int = 90) -> dict[str, Any]:
    """Gaps for each unit of time in (-length, length), of two wells at -1 and 1."""
    found: dict[str, Any] = {}
    for length in LENGTHS:
        x, step = grid(-length, length, points), 2e-3
        bound = (np.pi / (2.0 * length)) ** 2
        for barrier in BARRIERS:
            energy = barrier * (x**2 - 1.0) ** 2
            cold = kernel(energy, x, 1.0, step)
            alone = float(-np.log(np.sort(np.linalg.eigvals(cold).real)[-2]))
            row = {"bound": bound, "cold alone": alone / step}
            for temperature in HOTTEST:
                hot = kernel(energy, x, temperature, step)
                ratio = (1.0 - 1.0 / temperature) * (energy[:, None] - energy)
                row[f"T = {temperature:g}"] = pair(cold, hot, np.exp(np.minimum(ratio, 0.0)))[1] / step
            found[f"length {2 * length:g}, barrier {barrier:g}"] = row
    return found


def main() -> dict[str, Any]:
    """Run a part or all, show them, and save figure and summary."""
    only = {"only": {"choices": PARTS, "help": "one part of the three"}}
    given = options("exchange_gap", __doc__.split("\n")[0], draws=0, more=only)
    parts = {"heavy_tails": heavy_tails, "noise": by_noise, "bounded": bounded}
    summary = {name: part() for name, part in parts.items() if given.more["only"] in (None, name)}
    if "noise" in summary:
        figure = Figure(figsize=(4.6, 3.6), layout="constrained")
        axes = figure.subplots()
        gaps = [summary["noise"][f"variance {variance:g}"] for variance in VARIANCES]
        axes.plot(VARIANCES, gaps, "o-", label="with the correction")
        axes.axhline(summary["noise"]["no swaps"], color="black", ls=":", label="no swaps")
        axes.set(xlabel="variance of a swap's log ratio", ylabel="gap", yscale="log", xscale="symlog")
        axes.legend(frameon=False)
        given.save("gap", figure)
    given.save_summary(summary)
    return summary


if __name__ == "__main__":
    main()
