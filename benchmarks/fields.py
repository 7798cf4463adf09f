"""Gaussian fields on meshes: effective draws per 1,000 solves against the number of nodes, exact posteriors and pCN.

Two problems on the unit square, each with a Matern field (range 0.4, sd 1, smoothness 1) by its values at the nodes of
(cells + 1)^2 meshes, and 64 sensors. The source of Poisson's equation is a linear problem, with 2% noise: draws are
compared with the exact posterior. The logarithm of its conductivity is a nonlinear one, with 5% or 1% noise. Its data
are made on 129 x 129 nodes, the same for all meshes. Results are for 20 averages over boxes, and the energy. A solve
is one of the equation, with or without its adjoint: a gradient counts as one, an energy alone too.

    python benchmarks/fields.py linear --cells 8 16 32 64 128
    python benchmarks/fields.py conductivity --cells 16 32 --noise 0.05 --seeds 1 2 3
    python benchmarks/fields.py maximum --cells 16 32 64 128
    python benchmarks/fields.py coarse --cells 64 --coarse 16 --noise 0.05 0.15
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sparse

import invsamp as iv
from invsamp.diagnostics.convergence import ess_bulk, rhat_rank
from invsamp.solvers import fields
from invsamp.solvers.fem.boundary import dirichlet
from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.space import Space
from invsamp.solvers.poisson import PoissonEquation

BOXES = (5, 4)
SIDES = {"left": dirichlet(0.0), "right": dirichlet(0.0)}


def sensors():
    """64 points of a staggered grid."""
    t = (np.arange(8) + 0.5) / 8
    return np.stack(np.meshgrid(t, t), axis=-1).reshape(-1, 2)


def averages(mesh):
    """Rows (20, n) that average nodal values over boxes."""
    place = np.minimum((mesh.points * BOXES).astype(int), np.subtract(BOXES, 1))
    weights = (Space(mesh).mass @ np.ones((len(mesh.points), 1)))[:, 0]
    rows = sparse.csr_matrix((weights, (place[:, 0] * BOXES[1] + place[:, 1], np.arange(len(mesh.points)))))
    return sparse.diags(1.0 / np.asarray(rows.sum(axis=1)).ravel()) @ rows


def prior_on(mesh):
    """The field, and its prior."""
    field = fields.matern(mesh, range=0.4, sd=1.0)
    return field, iv.Prior(u=field)


def conductivity_model(cells, of=None):
    """Mesh and forward model of the logarithm of the conductivity; a field on the finer mesh ``of``, if given."""
    mesh = unit_square(cells)
    equation = PoissonEquation(
        mesh=mesh,
        conductivity=fields.LogField(fields.Nodal("u", mesh if of is None else of)),
        source=1.0,
        boundary=SIDES,
    )
    return mesh, equation.observe(sensors())


def conductivity(cells, noise, fine=128):
    """The posterior, and its mesh."""
    finest, model = conductivity_model(fine)
    field, _ = prior_on(finest)
    y = model(field.coloring(np.empty(0)).color(np.random.default_rng(11).standard_normal((1, field.size))))[0]
    sd = noise * np.sqrt(np.mean(y**2))
    data = y + sd * np.random.default_rng(5).standard_normal(len(y))
    mesh, model = conductivity_model(cells)
    return mesh, iv.Posterior(prior_on(mesh)[1], model, data, iv.GaussianNoise(sd))


def linear(cells, noise=0.02):
    """The posterior of a source, its mesh, and the exact means and sds of the averages."""
    mesh = unit_square(cells)
    model = PoissonEquation(mesh=mesh, source=fields.Nodal("u", mesh), boundary=SIDES).observe(sensors())
    field, prior = prior_on(mesh)
    coloring = field.coloring(np.empty(0))
    rng = np.random.default_rng(3)
    u = coloring.color(rng.standard_normal((1, field.size)))
    y = model(u)[0]
    sd = noise * np.sqrt(np.mean(y**2))
    data = y + sd * rng.standard_normal(len(y))
    jacobian = model.jacobian(np.zeros_like(u))[1]
    rows = averages(mesh).toarray()
    white, wide = (coloring.pullback(np.zeros_like(u), part)[0][0] for part in (jacobian, rows[None]))
    gain = wide @ white.T @ np.linalg.inv(white @ white.T + sd**2 * np.eye(len(y)))
    variance = np.square(wide).sum(axis=1) - (gain * (wide @ white.T)).sum(axis=1)
    return mesh, iv.Posterior(prior, model, data, iv.GaussianNoise(sd)), gain @ data, np.sqrt(variance)


def sampled(posterior, mesh, sampler, draws, warmup, seed):
    """The run, its averages and energies (chains, draws, 21), and seconds."""
    rows = averages(mesh)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = iv.sample(
            posterior,
            sampler,
            draws=draws,
            warmup=warmup,
            seed=seed,
            progress=False,
            keep=False,
            record={"averages": lambda u: (rows @ u.T).T},
        )
    energies = np.asarray(run.data.sample_stats["energy"])[..., None]
    return run, np.concatenate([run.draws("averages"), energies], axis=2), time.perf_counter() - began


def row(name, n, run, values, seconds):
    """A row of the table; effective draws of all averages."""
    by_quantity = np.moveaxis(values, -1, 0)
    effective, worst = np.ravel(ess_bulk(by_quantity)), float(np.max(rhat_rank(by_quantity)))
    total = sum(run.report["evaluations"].values())
    before = sum(run.report["warmup_evaluations"].values())
    least, median = effective[:-1].min(), np.median(effective[:-1])
    per, all_in = 1e3 / (total - before), 1e3 / total
    print(
        f"| {name} | {n} | {total} | {before} | {per * least:.0f} / {per * median:.0f} / {per * effective[-1]:.0f} | "
        f"{all_in * least:.0f} / {all_in * median:.0f} | {least:.0f} | {worst:.3f} | {run.report['acceptance'][0]:.2f} "
        f"| {seconds:.0f} |",
        flush=True,
    )
    return effective


HEAD = (
    "| sampler | n | solves | of these before draws | least / median / energy per 1,000 | with warm-up | least | R-hat "
    "| acceptance | s |\n|---|---|---|---|---|---|---|---|---|---|"
)


HEADS = {
    "linear": "| n | seed | rms z | variance of means, of independent draws 1 | sds, largest error | acceptance "
    "| least effective |\n" + 7 * "|---" + "|",
    "conductivity": HEAD,
    "coarse": "| noise | seed | moves on | fine solves | of these draws | coarse solves | least / median effective | "
    "per 1,000 fine solves of draws | R-hat | s | coarse model |\n" + 11 * "|---" + "|",
    "maximum": "| n | noise | seed | factorizations | products | informed | energy | s |\n" + 8 * "|---" + "|",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", choices=("linear", "conductivity", "maximum", "coarse"))
    parser.add_argument("--cells", type=int, nargs="+", default=[16])
    parser.add_argument("--coarse", type=int, default=16, help="cells of the coarse mesh")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.05])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--pcn", type=int, default=2000, help="draws of generalized pCN; 0: none")
    given = parser.parse_args()
    print(HEADS[given.problem])
    for cells in given.cells:
        RUNS[given.problem](cells, given)


def on_linear(cells, given):
    """Errors of means, in their standard errors, and of sds.

    Paths are spread evenly, so that a mean is more accurate than that of as many independent draws. Estimates of
    effective draws from single chains do not show this. So standard errors are those among independent chains, with
    one factor for all averages.
    """
    mesh, posterior, mean, sd = linear(cells)
    n, found = len(mesh.points), []
    for seed in given.seeds:
        run, values, _ = sampled(posterior, mesh, None, given.draws, None, seed)
        own = values[..., :-1]
        effective = np.ravel(ess_bulk(np.moveaxis(own, -1, 0)))
        found.append(own)
        print(
            f"| {n} | {seed} | {_scores(own, mean, sd)} | {run.report['acceptance'][0]:.3f} | {effective.min():.0f} |",
            flush=True,
        )
    print(f"| {n} | all | {_scores(np.concatenate(found), mean, sd)} | | |", flush=True)


def _scores(own, mean, sd):
    """Rms z of the means of draws (chains, draws, k), their variance relative to independent draws, and worst sd."""
    chains, draws = own.shape[:2]
    factor = np.mean(own.mean(axis=1).var(axis=0, ddof=1) * draws / sd**2)
    score = (own.mean(axis=(0, 1)) - mean) / (sd * np.sqrt(factor / (chains * draws)))
    return f"{np.sqrt(np.mean(score**2)):.2f} | {factor:.2f} | {np.abs(own.std(axis=(0, 1)) / sd - 1.0).max():.3f}"


def on_conductivity(cells, given):
    """Effective draws, compared with those of generalized pCN."""
    for noise in given.noise:
        mesh, posterior = conductivity(cells, noise)
        n = len(mesh.points)
        for seed in given.seeds:
            row(
                f"default, noise {noise:g}, seed {seed}",
                n,
                *sampled(posterior, mesh, None, given.draws, None, seed),
            )
            if given.pcn:
                modes = iv.maximize(posterior, seed=seed)
                sampler = iv.pcn(reference=modes)
                row(
                    f"pCN about the mode, noise {noise:g}, seed {seed}",
                    n,
                    *sampled(posterior, mesh, sampler, given.pcn, given.pcn // 4, seed),
                )


def on_coarse(cells, given):
    """Whether moves on a coarser mesh are chosen, and what they save."""
    for noise in given.noise:
        mesh, fine = conductivity(cells, noise)
        models = {"coarse": conductivity_model(given.coarse, mesh)[1], "fine": fine.forward["model"]}
        posterior = iv.Posterior(fine.prior, models, fine.data, fine.noise)
        for seed in given.seeds:
            run, values, seconds = sampled(posterior, mesh, None, given.draws, None, seed)
            by_quantity = np.moveaxis(values[..., :-1], -1, 0)
            effective, worst = np.ravel(ess_bulk(by_quantity)), float(np.max(rhat_rank(by_quantity)))
            (learned,) = [line for line in run.report["decisions"] if "sd of the energy's error" in line]
            solves, before = (run.report[name] for name in ("evaluations", "warmup_evaluations"))
            drawn = solves["fine"] - before["fine"]
            print(
                f"| {noise:g} | {seed} | {' and '.join(run.report['fidelities'])} | {solves['fine']} | {drawn} | "
                f"{solves['coarse']} | {effective.min():.0f} / {np.median(effective):.0f} | "
                f"{1e3 * effective.min() / drawn:.0f} / {1e3 * np.median(effective) / drawn:.0f} | {worst:.3f} | "
                f"{seconds:.0f} | {learned} |",
                flush=True,
            )


def on_maximum(cells, given):
    """Cost of the mode."""
    for noise in given.noise:
        mesh, posterior = conductivity(cells, noise)
        for seed in given.seeds:
            began = time.perf_counter()
            modes = iv.maximize(posterior, seed=seed)
            solves, products = modes.evaluations["model"], modes.products["model"]
            print(
                f"| {len(mesh.points)} | {noise:g} | {seed} | {solves} | {products} | "
                f"{modes.gaussians[0].informed} | {modes.energies[0]:.4f} | {time.perf_counter() - began:.1f} |",
                flush=True,
            )


RUNS = {"linear": on_linear, "conductivity": on_conductivity, "maximum": on_maximum, "coarse": on_coarse}


if __name__ == "__main__":
    main()
