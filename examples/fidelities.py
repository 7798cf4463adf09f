"""Meshes as fidelities: which swap rule is right, and what does it cost?

A thousand readings of 56 sensors leave two modes (`invsamp.problems.heat_modes`). The cold rung runs on the 64x64 mesh,
hot ones on 8x8 and 16x16, whose energies are off by units. Every swap rule beside every other: the modes' weight and
sds against quadrature, and the solves that an effective draw costs.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from _common import options
from _fidelities_figures import draw_accuracy, draw_cost, draw_problem
from tqdm import tqdm

import invsamp as iv
from invsamp.diagnostics import ess
from invsamp.estimators.coupled_sums import coupled_sum
from invsamp.fidelities.comparison import compare
from invsamp.kernels import Langevin
from invsamp.ladder import GradientNoise, Rung, Sampler, Swap
from invsamp.problems import heat_modes as problem
from invsamp.variances.models import running_average

CHAINS, WARMUP, THIN = 64, 1000, 2
TWO, FOUR = (1.0, 16.0), (1.0, 2.5, 6.3, 16.0)
FINE, MIDDLE, COARSE = "64x64", "16x16", "8x8"
#: Probabilities of the levels 8x8 .. 64x64, about the cheapest for a gradient noise of four times the precision.
COUPLED = (1.0, 0.45, 0.06, 0.008)
#: Step of the cold rung with coupled sums, in whitened coordinates: its own bias is 1.3% of a sd.
COUPLED_STEP = 0.05
#: Readings in a batch, and the steps of both rungs: the noise of a batch takes half of what a cold step injects.
BATCH, COLD_STEP, HOT_STEP = 30, 0.03, 0.1


@dataclass(frozen=True)
class Case:
    """A row of the table: a sampler, and the row of one fidelity with the same ladder."""

    sampler: Sampler
    baseline: str | None = None
    readings: bool = False  # all 1,000 instead of the sensors' means
    levels: tuple[int, ...] = problem.LEVELS


def cases() -> dict[str, Case]:
    """All rows, by name."""
    found = {"one fidelity, 2 rungs": Case(iv.samplers.parallel_tempering(TWO, fidelities=[FINE] * 2))}
    rules = {
        "delayed acceptance": None,
        "product target": iv.swaps.product_target(),
        "eq. (11), a1 = 1": iv.swaps.multi_variance(1.0, assume_unbiased=True),
        "eq. (11), a1 = 1/2": iv.swaps.multi_variance(0.5, assume_unbiased=True),
        "eq. (18)": iv.swaps.state_dependent_penalty(assume_unbiased=True),
    }
    for hot in (MIDDLE, COARSE):
        for name, rule in rules.items():
            sampler = iv.samplers.parallel_tempering(TWO, fidelities=[FINE, hot], swap=rule)
            found[f"{name}, hot {hot}"] = Case(sampler, "one fidelity, 2 rungs")
    graded = [FINE, MIDDLE, MIDDLE, COARSE]
    found["one fidelity, 4 rungs"] = Case(iv.samplers.parallel_tempering(FOUR, fidelities=[FINE] * 4))
    found["delayed acceptance, 4 rungs"] = Case(
        iv.samplers.parallel_tempering(FOUR, fidelities=graded), "one fidelity, 4 rungs"
    )
    noise = GradientNoise(running_average(), "full")
    cold = Rung(1.0, FINE, coupled_sum(None, COUPLED), Langevin(), COUPLED_STEP, gradient_noise=noise)
    hot_rungs = [Rung(t, f, kernel=Langevin(adjusted=True)) for t, f in zip(FOUR[1:], graded[1:], strict=True)]
    found["coupled sum, 4 rungs"] = Case(
        Sampler((cold, *hot_rungs), Swap(), "dense"), "one fidelity, 4 rungs", levels=(8, 16, 32, 64)
    )
    batches: dict[str, Any] = {
        "estimator": iv.estimators.minibatch(BATCH), "fidelities": [FINE, MIDDLE], "preconditioner": "dense",
        "swap_energies": "exact", "swap": iv.swaps.delayed_acceptance(),
    }  # fmt: skip
    steps = (COLD_STEP, HOT_STEP)
    corrected = iv.samplers.fast_resgld(TWO, steps, variance=running_average(), structure="full", **batches)
    found[f"batches of {BATCH}, corrected"] = Case(corrected, readings=True)
    found[f"batches of {BATCH}, as they are"] = Case(iv.resgld(TWO, steps, **batches), readings=True)
    return found


def sample(case: Case, draws: int, seed: int) -> iv.Run:
    """One run of a row."""
    posterior = problem.posterior(case.levels, averaged=not case.readings)
    with warnings.catch_warnings():
        # some rows are there to be wrong, and the weight is judged over all chains, by its standard error
        warnings.simplefilter("ignore", UserWarning)
        return iv.sample(
            posterior, case.sampler, draws=draws, warmup=WARMUP, thin=THIN, chains=CHAINS, seed=seed, progress=False
        )


def estimates(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weight of the right mode and its sds, and their jackknife standard errors over chains, each (3,)."""
    right = problem.on_the_right(theta)[..., None]
    parts = np.concatenate([np.ones_like(right), right, right * theta, right * theta**2], axis=-1, dtype=float)
    sums = parts.sum(axis=1)  # (chains, 6)

    def of(totals: np.ndarray) -> np.ndarray:
        mean, square = totals[..., 2:4] / totals[..., 1:2], totals[..., 4:] / totals[..., 1:2]
        return np.concatenate([totals[..., 1:2] / totals[..., :1], np.sqrt(square - mean**2)], axis=-1)

    total, n = sums.sum(axis=0), len(sums)
    without = of(total - sums)
    return of(total), np.sqrt((n - 1) / n * ((without - without.mean(axis=0)) ** 2).sum(axis=0))


def row(run: iv.Run, truth: np.ndarray) -> dict[str, Any]:
    """Row of the table for one run; solves are those of the draws, warm-up left out."""
    value, error = estimates(run.theta)
    report = run.report
    effective = float(ess(problem.on_the_right(run.theta).astype(float)))
    solves = {name: count - report["warmup_evaluations"][name] for name, count in report["evaluations"].items()}
    equivalents = {name: count * problem.relative_cost(int(name.split("x")[0])) for name, count in solves.items()}
    steps = report["draws"] * report["thin"] * report["chains"]
    attempts = sum(report["swap_attempts"])
    return {
        "weight": value[0].item(), "weight_error": error[0].item(), "weight_z": ((value - truth) / error)[0].item(),
        "sds": value[1:].tolist(), "sd_errors": error[1:].tolist(), "sds_z": ((value - truth) / error)[1:].tolist(),
        "swap_rate": sum(report["swap_accepts"]) / attempts,
        "fine_per_attempt": report["swap_solves_per_attempt"].get(FINE, 0.0),
        "steps_per_effective_draw": steps / effective,
        "fine_per_effective_draw": solves[FINE] / effective,
        "equivalents_per_effective_draw": sum(equivalents.values()) / effective,
        "equivalents_by_level": {name: count / effective for name, count in equivalents.items()},
        "equivalents_per_step": sum(equivalents.values()) / steps,
        "clipped_noise": report["clipped_noise"][0],
        "step_sizes": report["step_sizes"],
        "seconds": report["seconds"],
    }  # fmt: skip


def print_table(table: dict[str, dict[str, Any]], truth: np.ndarray) -> None:
    """The table, with standard errors in the last digits' place and distances to quadrature in standard errors."""
    heads = ("right weight", "100 sd of x", "100 sd of y")
    print(" " * 34 + "".join(f"{head:<22s}" for head in heads) + "fine solves    solves")
    quadrature = "".join(f" {value:<21.4f}" for value in (truth[0], 1e2 * truth[1], 1e2 * truth[2]))
    print(f"{'quadrature':34s}{quadrature}/attempt  /draw  /draw  gain")
    for name, entry in table.items():
        sds = zip(entry["sds"], entry["sd_errors"], entry["sds_z"], strict=True)
        widths = "".join(f"  {1e2 * sd:.4f}+-{1e2 * error:.4f} {z:+5.1f}" for sd, error, z in sds)
        gain = f"{entry['gain']:5.1f}" if "gain" in entry else ""
        print(
            f"{name:34s} {entry['weight']:.4f}+-{entry['weight_error']:.4f} {entry['weight_z']:+5.1f}{widths}"
            f"  {entry['fine_per_attempt']:.3f} {entry['fine_per_effective_draw']:8.0f}"
            f" {entry['equivalents_per_effective_draw']:8.0f} {gain}"
        )


def main() -> dict[str, Any]:
    """The comparison of the meshes, all rows, their figures."""
    given = options("fidelities", "Swap rules between meshes beside each other.", draws=2500)
    posterior = problem.posterior()
    truth = {fidelity: problem.quadrature(posterior, fidelity) for fidelity in posterior.fidelities}
    right = truth[FINE].right
    exact = np.array([right.weight, *right.sd])

    runs: dict[str, iv.Run] = {}
    rows = cases()
    for name, case in tqdm(rows.items()):
        runs[name] = sample(case, given.draws, given.seed)
    table = {name: row(run, exact) for name, run in runs.items()}
    for name, case in rows.items():
        if case.baseline is not None:
            units = [table[key]["equivalents_per_effective_draw"] for key in (case.baseline, name)]
            table[name]["gain"] = units[0] / units[1]
    comparison = compare(posterior, runs["delayed acceptance, 4 rungs"])
    print(comparison)
    print_table(table, exact)

    given.save("levels", comparison.plot())
    given.save("problem", draw_problem(truth, runs[f"delayed acceptance, hot {COARSE}"]))
    given.save("accuracy", draw_accuracy(table, exact))
    given.save("cost", draw_cost(table))
    summary = {
        "seed": given.seed,
        "chains": CHAINS,
        "steps_per_chain": given.draws * THIN,
        "truth": exact.tolist(),
        "coarse": {name: [q.right.weight, *q.right.sd] for name, q in truth.items() if name != FINE},
        "rows": table,
        "advice": list(comparison.advice),
    }
    given.save_summary(summary)
    return summary


if __name__ == "__main__":
    main()
