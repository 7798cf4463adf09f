"""Twenty patients and their drug: what each one's own, what all share, and what the next patient's will be.

Clearance and volume of each patient come from a population whose middle and spread are unknown too, so that patients
learn from each other; the rate of absorption is the same for all. Then one patient whose injection no one wrote down:
the measurements show between which two of them it was given, and how its amount changes with time.

Nothing is chosen for the population: descents find its mode, and the run finds that each patient has data enough to be
sampled centered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import options
from matplotlib.figure import Figure

import invsamp as iv
from invsamp.problems import pharmacokinetics as problem

#: Between the measurements that see nothing of the injection and those that do.
BEFORE = {"out": 0.3, "to_tissue": 0.3, "back": 0.3, "lag": 1.25, "dose": 60.0, "sd": 3.0}


def main() -> dict[str, iv.Run]:
    """Sample both posteriors, draw them, and hold them against the truth."""
    given = options("population", "A hierarchical population of patients, and an unknown injection.", draws=1000)
    posterior, lone = problem.population(), problem.two_compartments()
    run = iv.sample(posterior, draws=given.draws, chains=4, seed=given.seed)
    injected = iv.sample(lone, draws=2 * given.draws, chains=4, seed=given.seed, start=BEFORE)
    given.show(posterior.prior.graph), given.show(run), given.show(injected)

    own, data = problem.patients()
    given.save("patients", draw_patients(run, posterior, data, given.seed))
    given.save("clearances", draw_clearances(run, own["clearance"], data))
    given.save("injection", injected.plot_predictive(lone, x=problem.INJECTION_TIMES, x_label="hours", series=["mg"]))
    given.save("injection_pairs", injected.plot_pairs(truth=dict(problem.INJECTION)))
    known = dict(problem.POPULATION) | own
    truth = {name: value for name, value in known.items() if name in run.shapes}
    truth |= {f"log_{name}": np.log(problem.POPULATION[name]) for name in own}
    summary = {"population": scores(run, truth), "injection": scores(injected, dict(problem.INJECTION))}
    given.save_summary(summary | {"warnings": [*run.warnings(), *injected.warnings()]})
    return {"population": run, "injection": injected}


def scores(run: iv.Run, truth: dict[str, Any]) -> dict[str, Any]:
    """Means, sds, and how many of them the truth is away, of each parameter."""
    found = {}
    for name, value in truth.items():
        draws = run.draws(name)
        mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
        found[name] = {"mean": mean.tolist(), "sd": sd.tolist(), "z": ((mean - value) / sd).tolist()}
    return found


def draw_patients(run: iv.Run, posterior: iv.Posterior, data: np.ndarray, seed: int) -> Figure:
    """Measurements of each patient, with the band in which 90% of them were to be expected."""
    predicted = run.posterior_predictive(posterior, draws=400, seed=seed)["data"].to_numpy()
    low, middle, high = np.quantile(predicted, (0.05, 0.5, 0.95), axis=(0, 1))
    figure = Figure(figsize=(10.0, 7.6), layout="constrained")
    for k, axes in enumerate(figure.subplots(4, 5, sharex=True, sharey=True).ravel()):
        axes.fill_between(problem.TIMES, low[k], high[k], color="#cfe3f2")
        axes.plot(problem.TIMES, middle[k], color="#1f6fb2", lw=1.3)
        axes.plot(problem.TIMES, data[k], "o", color="#22303f", ms=3.5)
        axes.set_title(f"patient {k + 1}, {problem.DOSES[k]:g} mg", fontsize=8, loc="left")
        axes.set_yscale("log")
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("hours"), figure.supylabel("mg/l in the blood; 90% of the predictions")
    return figure


def draw_clearances(run: iv.Run, truth: np.ndarray, data: np.ndarray) -> Figure:
    """Each patient's clearance, and where the next patient's is to be expected."""
    values = run.draws("clearance")
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95), axis=(0, 1))
    rng = np.random.default_rng(0)
    spread = run.draws("spread_clearance")
    following = np.exp(run.draws("log_clearance") + spread * rng.standard_normal(spread.shape))
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.axhspan(*np.quantile(following, (0.05, 0.95)), color="#e6eaee", label="next patient, 90%")
    order = np.argsort(truth)
    where = np.arange(len(truth))
    axes.vlines(where, low[order], high[order], color="#1f6fb2", lw=2.5, label="posterior, 90%")
    axes.plot(where, middle[order], "o", color="#1f6fb2", ms=4)
    axes.plot(where, truth[order], "_", color="#e07a1f", ms=12, mew=2, label="truth")
    axes.set(xlabel="patient, by clearance", ylabel="clearance, l/h", xticks=where, xticklabels=order + 1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return figure


if __name__ == "__main__":
    main()
