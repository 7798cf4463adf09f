"""Hare and lynx: identify predator-prey dynamics from 21 years of pelt counts (Hudson's Bay Company, 1900-1920).

Eight unknowns: four rates of the Lotka-Volterra equations, two initial populations, two noise scales. The
posterior has false modes (orbits with the wrong period) in which a single chain from the prior gets stuck;
hot replicas on a loosely integrated model lead the cold one out.
"""

from __future__ import annotations

import numpy as np
from _common import options

import invsamp as iv
from invsamp.problems import lotka_volterra as problem


def main() -> None:
    """Sample, compare with the published posterior, draw."""
    given = options("hare_lynx", "Lotka-Volterra on the hare and lynx record.", draws=6000)
    posterior = problem.hare_lynx()
    sampler = iv.relangevin(temperatures=iv.geometric(27.0, 4))
    run = iv.sample(posterior, sampler, draws=given.draws, warmup=1500, chains=4, seed=given.seed)
    print(run)

    predictive = run.posterior_predictive(posterior, draws=500, seed=given.seed)
    given.save("populations", run.plot_predictive(posterior, x=problem.YEARS))
    given.save("pairs", run.plot_pairs())
    given.save("marginals", run.plot_marginals(truth={k: v.mean for k, v in problem.REFERENCE.items()}))
    given.save("trace", run.plot_trace())
    given.save("ladder", run.plot_ladder())
    given.save("swaps", run.plot_swaps())

    summary = run.summary()
    report = run.report
    given.save_summary(
        {
            "parameters": {
                name: {
                    "mean": row["mean"],
                    "sd": row["sd"],
                    "ess_bulk": row["ess_bulk"],
                    "r_hat": row["r_hat"],
                    "reference_mean": problem.REFERENCE[name].mean,
                    "reference_sd": problem.REFERENCE[name].sd,
                    "mean_error_in_sd": (row["mean"] - problem.REFERENCE[name].mean) / problem.REFERENCE[name].sd,
                    "sd_ratio": row["sd"] / problem.REFERENCE[name].sd,
                }
                for name, row in summary.iterrows()
            },
            "data_inside_90_percent_band": float(np.mean(predictive.attrs.get("coverage", np.nan))),
            "evaluations": report["evaluations"],
            "swap_rates": [a / n for a, n in zip(report["swap_accepts"], report["swap_attempts"], strict=True)],
            "round_trips": report["round_trips"],
            "seconds": report["seconds"],
            "warnings": run.warnings(),
        }
    )


if __name__ == "__main__":
    main()
