"""A program in C as the forward model: a cooling fin, four programs at a time, killed and resumed without losing a run.

``fin.c`` is compiled by ``cc`` into the folder of the figures. It solves for the temperature along a fin whose base is
heated by 5 W; eight sensors see it with noise of unknown size. Conductivity and heat transfer are unknown. The program
has no derivatives, so differential evolution samples.

Every simulation goes to a database beside the run. Kill the script, with ``kill -9`` if you like, and start it again:
it resumes the run, and looks up what it had simulated since the last checkpoint. Beyond a heat transfer of
200 W/(m^2 K) the program fails, so that the posterior has no mass there. The default takes some minutes.
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

SOURCE = Path(__file__).with_name("fin.c")
#: Eight sensors along 0.4 m.
PLACES = 0.4 * (2 * np.arange(8) + 1) / 16
TRUTH = {"conductivity": 150.0, "transfer": 30.0, "noise": 0.3}
PRIOR = iv.Prior(
    conductivity=iv.LogNormal(np.log(100.0), 0.5), transfer=iv.LogNormal(np.log(20.0), 0.7), noise=iv.HalfNormal(1.0)
)
WARMUP = 500


def fin(theta: np.ndarray) -> np.ndarray:
    """The exact temperatures (batch, 8) of conductivity and transfer (batch, 2), to compare with."""
    conductivity, transfer = theta[:, :1], theta[:, 1:2]
    slope = np.sqrt(transfer * 0.04 / (conductivity * 1e-4))
    return np.asarray(
        20.0 + 5.0 / (conductivity * 1e-4 * slope) * np.cosh(slope * (0.4 - PLACES)) / np.sinh(slope * 0.4)
    )


def data() -> np.ndarray:
    """What the sensors saw."""
    truth = fin(np.array([[TRUTH["conductivity"], TRUTH["transfer"]]]))[0]
    return np.asarray(truth + np.random.default_rng(0).normal(0.0, TRUTH["noise"], 8))


def compiled(folder: Path) -> Path:
    """The program."""
    program = folder.resolve() / "fin"
    subprocess.run(["cc", "-O2", "-o", program, SOURCE, "-lm"], check=True)
    return program


def posed(folder: Path) -> iv.Posterior:
    """The posterior of the program, with its database in the folder."""
    model = iv.executable(
        [compiled(folder), "input.txt"],
        outputs=lambda run: np.loadtxt(run / "stdout.txt"),
        templates={"input.txt": "conductivity = {{conductivity}}\ntransfer = {{transfer}}\n"},
        workers=4,
        time_limit=10.0,
        version="1",
    )
    return iv.Posterior(PRIOR, model, data(), iv.GaussianNoise("noise"), simulations=folder / "simulations")


def sampled(posterior: iv.Posterior, draws: int, seed: int, folder: Path) -> iv.Run:
    """The run in the folder: begun, or resumed where it stood."""
    directory = folder / "run"
    if directory.exists():
        return iv.resume(directory, posterior, draws=draws)
    sampler = iv.samplers.differential_evolution()
    return iv.sample(posterior, sampler, draws=draws, warmup=WARMUP, seed=seed, directory=directory)


def drawn(run: iv.Run, posterior: iv.Posterior) -> Figure:
    """What the data have beyond the predictions, and where the simulations were."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    predicted = posterior.predict(run.theta.reshape(-1, 3)[::10])  # looked up: draws have been simulated
    low, middle, high = np.quantile(predicted, (0.05, 0.5, 0.95), axis=0)
    left.fill_between(PLACES, low - middle, high - middle, alpha=0.4, label="central 90% of the predictions")
    left.errorbar(PLACES, data() - middle, TRUTH["noise"], fmt="k.", label="data, with the sd of their noise")
    left.set(xlabel="distance from the base, m", ylabel="temperature less the median prediction, °C")
    left.margins(y=0.35)  # room for the legend
    left.legend(loc="upper center")
    table = posterior.forward["model"].database.table()
    points = right.scatter(*table.theta.T, c=np.arange(len(table.theta)), s=4, cmap="viridis")
    right.plot(*table.theta[table.failed].T, "rx", ms=5, label="failed")
    right.plot(TRUTH["conductivity"], TRUTH["transfer"], "k+", ms=12, label="truth")
    right.set(xlabel="conductivity, W/(m K)", ylabel="heat transfer, W/(m² K)", xscale="log", yscale="log")
    right.legend()
    figure.colorbar(points, ax=right, label="simulations so far")
    return figure


def main() -> dict[str, Any]:
    """Compile, sample and draw."""
    given = options("simulator", __doc__ or "", draws=2000)
    posterior = posed(given.out)
    run = sampled(posterior, given.draws, given.seed, given.out)
    given.show(run)
    model = posterior.forward["model"]
    table = model.database.table()
    given.save("simulator", drawn(run, posterior))
    given.save("pairs", run.plot_pairs(truth=TRUTH))
    summary = {
        "simulations": len(table.theta),
        "by_this_process": model.simulated,
        "failed": int(table.failed.sum()),
        "seconds_of_programs": float(table.seconds.sum()),
        "parameters": run.summary()[["mean", "sd", "ess_bulk", "r_hat"]].to_dict("index"),
    }
    given.save_summary(summary)
    return summary


if __name__ == "__main__":
    main()
