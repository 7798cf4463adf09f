"""How well does a plate conduct, at each of a thousand points? A Gaussian field on a mesh from 64 temperatures.

The unknown is the log conductivity at the 1,089 nodes of a mesh, with a Matern prior of range 0.4 and sd 1. The data
come from a finer mesh, with an error of 5%. The maps show the mean beside the truth, and the sds of posterior and
prior. The last figure shows what the first sensors would inform: chosen one by one, and taken at random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import options
from matplotlib.figure import Figure

import invsamp as iv
from invsamp.identifiability import choose_sensors
from invsamp.plots.figure import COLD, FAINT, clean, new_figure, title
from invsamp.solvers import fields
from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.heat import dirichlet
from invsamp.solvers.poisson import PoissonEquation, PoissonObservation

#: Squares along a side of the field's mesh, and of that of the data.
CELLS, FINER = 32, 64
RANGE, SD, ERROR = 0.4, 1.0, 0.05
CHAINS = 4
TICKS = (np.arange(8) + 0.5) / 8
SENSORS = np.stack(np.meshgrid(TICKS, TICKS), axis=-1).reshape(-1, 2)
#: How many sensors are chosen, and how many random sets they are compared with.
CHOSEN, SETS = 16, 50


def main() -> dict[str, Any]:
    """One run, its maps, and a choice of sensors."""
    given = options("field", "Log conductivity at the nodes of a mesh from 64 temperatures.", draws=400)
    mesh, finer = unit_square(CELLS), unit_square(FINER)
    field = fields.matern(mesh, range=RANGE, sd=SD)
    true_field = fields.matern(finer, range=RANGE, sd=SD)
    rng = np.random.default_rng(given.seed)
    truth = true_field.sample(rng, 1)
    exact = observed(finer)(truth)[0]
    noise = ERROR * float(np.sqrt(np.mean(exact**2)))
    readings = exact + noise * rng.standard_normal(len(exact))

    model = observed(mesh)
    posterior = iv.Posterior(iv.Prior(u=field), model, readings, iv.GaussianNoise(noise))
    run = iv.sample(posterior, draws=given.draws, chains=CHAINS, seed=given.seed)
    given.show(run)

    u = fields.Nodal("u", mesh)
    at_nodes = fields.Nodal("u", finer).at(mesh.points).values(truth)[0]
    settings = {"sensors": SENSORS, "truth": {"u": at_nodes}, "samples": 2, "prior": True, "label": "log conductivity"}
    given.save("maps", run.plot_field(u, mesh, **settings))
    drawn = run.field(u, mesh)
    design = choose_sensors(posterior, CHOSEN, at={"u": drawn.mean})
    random = random_information(posterior, drawn.mean, rng)
    given.save("sensors", draw_information(design.information, random))
    statistics = run.summary()
    summary = {
        "seed": given.seed,
        "unknowns": field.size,
        "draws_per_chain": given.draws,
        "chains": CHAINS,
        "ess_bulk": {"least": statistics["ess_bulk"].min(), "median": statistics["ess_bulk"].median()},
        "r_hat": statistics["r_hat"].max(),
        "evaluations": run.report["evaluations"],
        "seconds": run.report["seconds"],
        "warnings": run.warnings(),
        # 0.95 for a truth from the prior, on average over truths; neighboring nodes go together
        "share_of_nodes_within_two_sds": float((np.abs(drawn.mean - at_nodes) < 2 * drawn.sd).mean()),
        "share_of_variance_left": float((drawn.sd**2).mean() / SD**2),
        "information_of_chosen_sensors": float(design.information[-1]),
        "information_of_random_sensors": {"mean": float(random[:, -1].mean()), "most": float(random[:, -1].max())},
        "chosen_sensors": SENSORS[design.chosen].tolist(),
    }
    given.save_summary(summary)
    return summary


def observed(mesh: Mesh) -> PoissonObservation:
    """Temperatures of a plate that is heated everywhere and cooled on its left and right sides."""
    equation = PoissonEquation(
        mesh=mesh,
        conductivity=fields.LogField(fields.Nodal("u", mesh)),
        boundary={"left": dirichlet(0.0), "right": dirichlet(0.0)},
    )
    return equation.observe(SENSORS)


def random_information(posterior: iv.Posterior, at: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Expected information (sets, chosen + 1), in nats, of sensors that are taken at random, in their order."""
    every = choose_sensors(posterior, len(SENSORS), at={"u": at})
    return np.stack([every.information_of(rng.permutation(len(SENSORS))[:CHOSEN]) for _ in range(SETS)])


def draw_information(chosen: np.ndarray, random: np.ndarray) -> Figure:
    """Information of the first sensors, chosen one by one and at random."""
    figure = new_figure(6.4, 3.6)
    axes = clean(figure.subplots())
    count = np.arange(len(chosen))
    low, middle, high = np.quantile(random, (0.05, 0.5, 0.95), axis=0)
    axes.fill_between(count, low, high, color=FAINT, alpha=0.3, lw=0, label="at random, 90% of sets")
    axes.plot(count, middle, color=FAINT, label="at random, median")
    axes.plot(count, chosen, "o-", color=COLD, ms=4, label="chosen one by one")
    axes.set(xlabel="number of sensors", ylabel="expected information, nats")
    axes.legend(loc="upper left", fontsize=8, frameon=False)
    title(axes, "expected information of sensors about the conductivity")
    return figure


if __name__ == "__main__":
    main()
