"""Influenza in a boarding school, 1978: how fast it spread, and what the counts of boys in bed show.

Two rates of an epidemic from fourteen counts, under two distributions of how counts scatter. Poisson's takes every boy
in bed as an event by itself, and is sure of rates whose predictions miss half of the days. The negative binomial
distribution finds out how much more the counts scatter; cross-validation prefers it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import options

import invsamp as iv
from invsamp.problems import influenza as problem

NOISES = ("negative binomial", "poisson")


def main() -> dict[str, iv.Run]:
    """Sample under both distributions, draw predictions, and compare."""
    given = options("epidemic", "Influenza in a boarding school under two distributions of counts.", draws=1000)
    runs, summary = {}, {}
    for noise in NOISES:
        posterior = problem.outbreak(noise)
        runs[noise] = run = iv.sample(posterior, draws=given.draws, chains=4, seed=given.seed)
        given.show(run)
        predicted = run.posterior_predictive(posterior, seed=given.seed)["data"]
        low, high = np.quantile(predicted, (0.05, 0.95), axis=(0, 1))[:, :, 0]
        inside = (low <= problem.IN_BED) & (high >= problem.IN_BED)
        summary[noise] = estimates(run, posterior) | {"days_inside_90_percent_band": int(inside.sum())}
        name = noise.replace(" ", "_")
        given.save(f"{name}_days", run.plot_predictive(x=problem.DAYS, x_label="day", series=[f"boys in bed, {noise}"]))
        given.save(f"{name}_pairs", run.plot_pairs())
    given.save_summary(summary)
    return runs


def estimates(run: iv.Run, posterior: iv.Posterior) -> dict[str, Any]:
    """Means and sds, of what epidemiologists ask for too, and the expected log predictive density."""
    beta, gamma = run.draws("beta"), run.draws("gamma")
    values = {name: run.draws(name) for name in run.shapes}
    values |= {"cases_by_one_case": beta / gamma, "days_to_recovery": 1.0 / gamma}
    loo = run.loo(posterior)
    return {
        "parameters": {name: {"mean": float(v.mean()), "sd": float(v.std())} for name, v in values.items()},
        "elpd_loo": float(loo.elpd if hasattr(loo, "elpd") else loo.elpd_loo),
        "elpd_loo_se": float(loo.se),
        "warnings": run.warnings(),
    }


if __name__ == "__main__":
    main()
