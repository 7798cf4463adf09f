"""A program in C as the forward model: a cooling fin, four programs at a time, killed and resumed without losing a run.

``fin.c`` is compiled by ``cc`` into the folder of the figures. It solves for the temperature along a fin whose base is
heated by 5 W; eight sensors see it with noise of unknown size. Conductivity and heat transfer are unknown. The program
has no derivatives, so its outputs are emulated, and 32 further simulations check the posterior.

Every simulation goes to a database in the folder. Kill the script, with ``kill -9`` if you like, and start it again: it
goes on where it stood, and no program runs twice with the same parameters. Beyond a heat transfer of 200 W/(m^2 K) the
program fails, so that the posterior has no mass there.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from _common import options
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import invsamp as iv
from invsamp.emulation import EmulatedRun

SOURCE = Path(__file__).with_name("fin.c")
#: Eight sensors along 0.4 m.
PLACES = 0.4 * (2 * np.arange(8) + 1) / 16
TRUTH = {"conductivity": 150.0, "transfer": 30.0, "noise": 0.3}
PRIOR = iv.Prior(
    conductivity=iv.LogNormal(np.log(100.0), 0.5), transfer=iv.LogNormal(np.log(20.0), 0.7), noise=iv.HalfNormal(1.0)
)
#: The most simulations, and those of the check.
BUDGET, CHECKS = 100, 32


def fin(theta: np.ndarray) -> np.ndarray:
    """The exact temperatures (batch, 8) of conductivity and transfer (batch, 2), to compare with."""
    conductivity, transfer = theta[:, :1], theta[:, 1:2]
    slope = np.sqrt(transfer * 0.04 / (conductivity * 1e-4))
    return np.asarray(
        20.0 + 5.0 / (conductivity * 1e-4 * slope) * np.cosh(slope * (0.4 - PLACES)) / np.sinh(slope * 0.4)
    )


def data() -> np.ndarray:
    """Data of the sensors."""
    truth = fin(np.array([[TRUTH["conductivity"], TRUTH["transfer"]]]))[0]
    return np.asarray(truth + np.random.default_rng(0).normal(0.0, TRUTH["noise"], 8))


def compiled(folder: Path) -> Path:
    """The program."""
    program = folder.resolve() / "fin"
    subprocess.run(["cc", "-O2", "-o", program, SOURCE, "-lm"], check=True)
    return program


def posed(folder: Path) -> iv.Posterior:
    """The posterior of the program."""
    model = iv.executable(
        [compiled(folder), "input.txt"],
        outputs=lambda run: np.loadtxt(run / "stdout.txt"),
        templates={"input.txt": "conductivity = {{conductivity}}\ntransfer = {{transfer}}\n"},
        workers=4,
        time_limit=10.0,
        version="1",
    )
    return iv.Posterior(PRIOR, model, data(), iv.GaussianNoise("noise"), simulations=folder / "simulations")


def emulated(posterior: iv.Posterior, draws: int, seed: int, folder: Path) -> EmulatedRun:
    """The emulation in the folder: begun, or taken up where it stood."""
    return iv.emulate(posterior, BUDGET, draws=draws, seed=seed, directory=folder / "emulation")


def drawn(run: EmulatedRun) -> Figure:
    """Residuals of the data, and the positions of the simulations."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    predicted = run.posterior.predict(run.theta.reshape(-1, 3)[::10])
    low, middle, high = np.quantile(predicted, (0.05, 0.5, 0.95), axis=0)
    left.fill_between(PLACES, low - middle, high - middle, alpha=0.4, label="central 90% of the predictions")
    left.errorbar(PLACES, data() - middle, TRUTH["noise"], fmt="k.", label="data, with the sd of their noise")
    left.set(xlabel="distance from the base, m", ylabel="temperature less the median prediction, °C")
    left.margins(y=0.35)  # room for the legend
    left.legend(loc="upper center")
    made = run.simulations
    right.plot(run.draws("conductivity").ravel(), run.draws("transfer").ravel(), ".", ms=1, color="0.8")
    for purpose, rows in made[made["succeeded"]].groupby("purpose", sort=False):
        right.plot(rows["conductivity"], rows["transfer"], ".", ms=5, label=purpose)
    failed = made[~made["succeeded"]]
    if len(failed):
        right.plot(failed["conductivity"], failed["transfer"], "rx", ms=5, label="failed")
    right.plot(TRUTH["conductivity"], TRUTH["transfer"], "k+", ms=12, label="truth")
    right.set(xlabel="conductivity, W/(m K)", ylabel="heat transfer, W/(m² K)", xscale="log", yscale="log")
    right.legend(fontsize="small")
    return figure


def main() -> dict[str, Any]:
    """Compile, emulate, check and draw."""
    given = options("simulator", __doc__ or "", draws=1000)
    posterior = posed(given.out)
    run = emulated(posterior, given.draws, given.seed, given.out)
    given.show(run)
    certificate = run.certify(CHECKS)
    given.show(certificate)
    model = posterior.forward["model"]
    given.save("simulator", drawn(run))
    given.save("pairs", run.plot_pairs(truth=TRUTH))
    given.save("emulation", run.plot_emulation())
    given.save("error_sd", run.plot_error_sd())
    np.save(given.out / "theta.npy", run.theta)
    summary = {
        "simulations": len(run.simulations),
        "by_this_process": model.simulated,
        "failed": int((~run.simulations["succeeded"]).sum()),
        "seconds_of_programs": float(model.database.table().seconds.sum()),
        "certificate": {
            "passed": certificate.passed,
            "efficiency": certificate.efficiency,
            "pareto_k": certificate.pareto_k,
        },
        "parameters": run.summary()[["mean", "sd", "ess_bulk", "r_hat"]].to_dict("index"),
    }
    given.save_summary(summary)
    return summary


if __name__ == "__main__":
    main()
