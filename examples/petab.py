"""A published model as a posterior: which of its parameters do the data inform, and which only the bounds?

Boehm et al. (2014, J. Proteome Res. 13, 5685) followed a protein's two forms, STAT5A and STAT5B, into the nucleus and
out of it. Six rates and three noise levels were fitted to 48 data; an optimum alone does not say which of the rates are
known. The files are those of the PEtab benchmark collection, read as they are.

The script has the name of the package that reads the formulas, and a script's folder is the first in which Python
looks: so its folder goes to the end of the path. A script that is itself called petab.py is refused.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from _common import options
from matplotlib import pyplot as plt

import invsamp as iv

sys.path.sort(key=lambda folder: Path(folder).resolve() == Path(__file__).resolve().parent)
NAME = "Boehm_JProteomeRes2014"
FILE = Path(__file__).parents[1] / "tests" / "data" / "petab" / NAME / f"{NAME}.yaml"
#: A parameter whose draws spread over more than this part of what its bounds allow is not informed by the data.
UNIDENTIFIED = 0.25


def main() -> iv.Run:
    """Check the posterior against the published fit, sample with that fit as one of the starts, and print results."""
    given = options("petab", "A published model of signalling, read from its PEtab files.", draws=1000)
    problem = iv.petab.load(FILE)
    posterior = problem.posterior
    fit = float(posterior.log_likelihood(problem.nominal).sum())
    run = iv.sample(posterior, draws=given.draws, chains=4, seed=given.seed, start=problem.start)
    given.show(run), given.show(iv.information(posterior, problem.start))
    given.save("data", shown(run, posterior, problem))
    given.save_summary({"log_likelihood_at_nominal": fit, **identified(run, posterior), "warnings": run.warnings()})
    return run


def identified(run: iv.Run, posterior: iv.Posterior) -> dict[str, Any]:
    """Spread of each parameter in decades beside what the bounds allow, and the direction that is informed least."""
    decades = np.log10(run.theta.reshape(-1, posterior.dimension))
    allowed = np.log10(posterior.prior.support[1] / posterior.prior.support[0]) / np.sqrt(12.0)
    spread = decades.std(axis=0)
    values, directions = np.linalg.eigh(np.cov(decades.T))
    return {
        "decades": {
            name: {"mean": float(mean), "sd": float(sd), "of_what_bounds_allow": float(sd / most)}
            for name, mean, sd, most in zip(posterior.labels, decades.mean(axis=0), spread, allowed, strict=True)
        },
        "not_told": [
            name for name, part in zip(posterior.labels, spread / allowed, strict=True) if part > UNIDENTIFIED
        ],
        "stiff_to_sloppy_sds": np.sqrt(np.maximum(values, 0.0)).tolist(),
        "sloppiest": dict(zip(posterior.labels, directions[:, -1].round(3).tolist(), strict=True)),
    }


def shown(run: iv.Run, posterior: iv.Posterior, problem: iv.petab.PetabProblem) -> Any:
    """Data and predictions of each observable."""
    predicted = np.asarray(run.posterior_predictive(posterior, seed=0)["data"]).reshape(-1, len(posterior.data))
    low, middle, high = np.quantile(predicted, (0.05, 0.5, 0.95), axis=0)
    rows = problem.tables.measurements
    figure, axes = plt.subplots(1, len(problem.tables.observables), figsize=(11, 3.2), sharex=True)
    for axis, name in zip(axes, problem.tables.observables, strict=True):
        own = [k for k, row in enumerate(rows) if row.observable == name]
        times = [rows[k].time for k in own]
        axis.fill_between(times, low[own], high[own], alpha=0.3)
        axis.plot(times, middle[own])
        axis.plot(times, [rows[k].value for k in own], "k.")
        axis.set(title=name, xlabel="minutes")
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    main()
