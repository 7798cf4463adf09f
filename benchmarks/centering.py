"""Hierarchies sampled centered, non-centered, and as a run chooses, with default settings otherwise.

    python benchmarks/centering.py [--seeds 1 2 3] [--only "eight schools" "six patients"] [--draws 1000]

Least ESS over means, squares about them and the energy, per 1,000 gradients, of which all are counted. A star marks
R-hat above 1.05. The data sets of groups are estimates with known errors, y_j ~ N(theta_j, s_j), theta_j ~ N(mu, tau).
Those of patients are concentrations A exp(-k_j t) with log-normal k_j and noise.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

import invsamp as iv
from invsamp.diagnostics import ess, rhat
from invsamp.problems import pharmacokinetics
from invsamp.protocols import Array

TIMES = np.array([0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0])
FORMS = {"chosen": None, "centered": True, "non-centered": False}
Posed = Callable[[bool | None], iv.Posterior]


def groups(data: Array, errors: Array, width: float, centered: bool | None) -> iv.Posterior:
    """Estimates of groups whose mean and spread are unknown."""
    d = len(data)
    prior = iv.Prior(
        mu=iv.Normal(0, 5), tau=iv.HalfCauchy(width), theta=iv.Normal("mu", "tau", shape=d, centered=centered)
    )
    model = iv.with_jacobian(lambda t: t, lambda t: np.broadcast_to(np.eye(d), (len(t), d, d)), parameters=("theta",))
    return iv.Posterior(prior, model, data, iv.GaussianNoise(errors))


def patients(count: int, sd: float, centered: bool | None) -> iv.Posterior:
    """Concentrations of patients, each with a rate of its own."""
    rng = np.random.default_rng(0)
    rates = np.exp(-1.0 + 0.3 * rng.standard_normal(count))
    data = _decay(np.stack([np.full(count, 10.0), rates], axis=1)) * np.exp(sd * rng.standard_normal((count, 7)))
    prior = iv.Prior(
        mu=iv.Normal(-1, 1),
        tau=iv.HalfNormal(0.5),
        k=iv.LogNormal("mu", "tau", shape=count, centered=centered),
        A=iv.LogNormal(2, 0.5),
        sd=iv.HalfNormal(3 * sd),
    )
    one = iv.finite_differences(_decay, parameters=("A", "k"))
    return iv.Posterior(prior, iv.Population(one, count, individual=("k",)), data, iv.LogNormalNoise("sd"))


def cases() -> dict[str, Posed]:
    """By name."""
    rng, found = np.random.default_rng(3), {}
    schools = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18]), 5.0
    found["eight schools"] = partial(groups, *schools)
    for name, count, spread in (("20 groups of 40", np.full(20, 40), 0.5), ("1 to 2,000 data", UNEVEN, 0.5)):
        truth = 1.0 + spread * rng.standard_normal(len(count))
        found[name] = partial(groups, truth + rng.standard_normal(len(count)) / np.sqrt(count), count**-0.5, 2.0)
    count = np.full(20, 40)
    alike = 0.05 * rng.standard_normal(20)
    found["20 groups of 40, alike"] = partial(groups, alike + rng.standard_normal(20) * 40**-0.5, count**-0.5, 2.0)
    strong = rng.standard_normal(6)
    found["6 groups, strong data"] = partial(groups, strong + 0.05 * rng.standard_normal(6), np.full(6, 0.05), 1.0)
    found["six patients"], found["twenty patients"] = partial(patients, 6, 0.1), partial(patients, 20, 0.3)
    found["examples/population.py"] = lambda centered: pharmacokinetics.population(centered=centered)
    return found


UNEVEN = np.array([1, 1, 1, 2, 2, 3, 3, 5, 8, 10, 20, 50, 100, 200, 400, 1000, 1000, 2000])


def judged(run: iv.Run) -> tuple[float, int, float]:
    """Least ESS per 1,000 gradients, gradients, and the largest R-hat."""
    theta, energy = run.theta, run.data.sample_stats["energy"].values[..., None]
    values = np.concatenate([theta, np.square(theta - theta.mean(axis=(0, 1))), energy], axis=2)
    gradients = sum(run.report["evaluations"].values())
    return 1000.0 * float(np.nanmin(ess(values))) / gradients, gradients, float(np.nanmax(rhat(values)))


def main() -> None:
    """Print a line for each posterior and form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args()
    print("| posterior | form | ESS per 1,000 gradients | gradients | centered |\n|---|---|---|---|---|")
    for name, posed in cases().items():
        if given.only and name not in given.only:
            continue
        for form, centered in FORMS.items():
            rates, counts, entries = [], [], np.zeros(0)
            for seed in given.seeds:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    run = iv.sample(posed(centered), draws=given.draws, seed=seed, progress=False)
                rate, gradients, worst = judged(run)
                rates.append(f"{rate:.3g}{'*' if worst > 1.05 else ''}")
                counts.append(f"{gradients:,}")
                entries = np.concatenate([np.ravel(f["centered"]) for f in run.report["centering"].values()])
            which = f"{entries.sum():.0f} of {entries.size}"
            print(f"| {name} | {form} | {', '.join(rates)} | {', '.join(counts)} | {which} |", flush=True)


def _decay(theta: Array) -> Array:
    """A exp(-k t) of rows (A, k)."""
    return np.asarray(theta[:, :1] * np.exp(-theta[:, 1:] * TIMES))


if __name__ == "__main__":
    main()
