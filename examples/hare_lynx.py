"""Hare and lynx: identify predator-prey dynamics from 21 years of pelt counts (Hudson's Bay Company, 1900-1920).

Eight unknowns: four rates of the Lotka-Volterra equations, two initial populations, two noise scales. The
posterior has false modes (orbits with the wrong period) in which a single chain from the prior gets stuck;
hot replicas on a loosely integrated model lead the cold one out. The result is compared with the published
posterior of the same model.
"""

from __future__ import annotations

import numpy as np
from _common import options

import invsamp as iv
from invsamp.problems import lotka_volterra as problem


def main() -> iv.Run:
    """Sample, draw, and compare with the published posterior."""
    given = options("hare_lynx", "Lotka-Volterra on the hare and lynx record.", draws=4000)
    posterior = problem.hare_lynx()
    sampler = iv.samplers.parallel_tempering(temperatures=iv.ladder.geometric(8.0, 5))
    run = iv.sample(posterior, sampler, draws=given.draws, warmup=1500, chains=4, seed=given.seed)
    given.show(run)

    predictive = run.posterior_predictive(posterior, draws=1000, seed=given.seed)
    low, high = np.quantile(predictive["data"], (0.05, 0.95), axis=(0, 1))
    species = ("hares (thousands)", "lynxes (thousands)")
    figures = {
        "populations": run.plot_predictive(posterior, x=problem.YEARS, x_label="year", series=species),
        "marginals": run.plot_marginals(
            truth={name: value.mean for name, value in problem.REFERENCE.items()}, truth_label="published mean"
        ),
        "pairs": run.plot_pairs(),
        "trace": run.plot_trace(),
        "ladder": run.plot_ladder(),
        "swaps": run.plot_swaps(),
    }
    for name, figure in figures.items():
        given.save(name, figure)

    report = run.report
    given.save_summary(
        {
            "parameters": {name: against_reference(row, name) for name, row in run.summary().iterrows()},
            "data_inside_90_percent_band": float(np.mean((low <= problem.PELTS) & (high >= problem.PELTS))),
            "evaluations": report["evaluations"],
            "swap_rates": [a / n for a, n in zip(report["swap_accepts"], report["swap_attempts"], strict=True)],
            "round_trips": report["round_trips"],
            "step_sizes": report["step_sizes"],
            "seconds": report["seconds"],
            "warnings": run.warnings(),
        }
    )
    return run


def against_reference(row: dict[str, float], name: str) -> dict[str, float]:
    """One parameter's posterior beside the published one."""
    reference = problem.REFERENCE[name]
    return {
        "mean": row["mean"],
        "sd": row["sd"],
        "reference_mean": reference.mean,
        "reference_sd": reference.sd,
        "mean_error_in_sd": (row["mean"] - reference.mean) / reference.sd,
        "sd_ratio": row["sd"] / reference.sd,
        "ess_bulk": row["ess_bulk"],
        "r_hat": row["r_hat"],
    }


if __name__ == "__main__":
    main()
