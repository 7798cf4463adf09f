"""Sixty-four stiffnesses of a membrane from its deflection at 169 points: a published benchmark in 64 dimensions.

The posterior is far from normal: the deflection hardly knows a stiffness that is large, so that the prior rules there,
and wide flat parts lie beside narrow ones. There is no exact solution to compare with. What is checked is

- the forward model and the prior, against numbers that the benchmark's authors published (where dolfinx is installed,
  on their own discretisation: ten digits),
- the draws: the problem is symmetric in x and y, so the posterior means of the stiffnesses at (x, y) and (y, x) are the
  same number, and their difference is compared with its Monte Carlo error,
- Stein's identity: for the energy U and any c, the posterior mean of (log a_k - c) dU/dlog a_k is 1,
- the predicted deflections, which the noise has to explain.

The benchmark's tables of posterior means are not part of this package, and are not compared with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import options
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import invsamp as iv
from invsamp import diagnostics
from invsamp.problems import poisson64 as problem

CHAINS = 8
#: Log-likelihoods, without constant, that the benchmark's authors give for stiffnesses 1, ..., 1 and 1, 2, ..., 64.
PUBLISHED = {"ones": -228.510844004, "counted": -6412.82113914}


def main() -> iv.Run:
    """Draws, maps and checks."""
    given = options("poisson64", "Stiffness of a membrane in 8 x 8 squares.", draws=4000)
    posterior = problem.posterior()
    # from near the best fit: a draw of the prior is hundreds of energy units away, and the way there is no posterior
    centre = best_fit(posterior)
    rng = np.random.default_rng(given.seed)
    start = centre + 0.3 * rng.standard_normal((CHAINS, centre.size))
    run = iv.sample(posterior, iv.sghmc(), draws=given.draws, chains=CHAINS, seed=given.seed, start=start)
    print(run)

    log_a = run.theta.reshape(CHAINS, -1, problem.SIDE, problem.SIDE)
    asymmetry = symmetry(run.theta)
    predicted = posterior.predict(thinned(run.theta, 50).reshape(-1, posterior.dimension))
    identity = stein(posterior, run.theta)
    given.save("maps", draw_maps(log_a))
    given.save("marginals", draw_marginals(log_a))
    given.save("deflection", draw_deflection(predicted))
    given.save("trace", run.plot_trace(list(run.summary()["ess_bulk"].nsmallest(3).index)))
    summary = run.summary()
    given.save_summary(
        {
            "log_likelihood_minus_published": published_differences(),
            "ess_bulk": {"least": summary["ess_bulk"].min(), "median": summary["ess_bulk"].median()},
            "r_hat": summary["r_hat"].max(),
            "symmetry_z": {"largest": float(np.abs(asymmetry).max()), "of": len(asymmetry)},
            "stein": {"mean": identity.mean(), "standard_error": identity.std(ddof=1) / np.sqrt(CHAINS)},
            "misfit_per_datum": float(np.mean((predicted - problem.data()) ** 2) / problem.NOISE_SD**2),
            "log_a": {
                "mean": log_a.mean(axis=(0, 1)).round(2).tolist(),
                "sd": log_a.std(axis=(0, 1)).round(2).tolist(),
                "truth": np.log(problem.truth()).round(2).tolist(),
            },
            "mean_of_a": np.exp(log_a).mean(axis=(0, 1)).round(2).tolist(),
            "warnings": run.warnings(),
        }
    )
    return run


def best_fit(posterior: iv.Posterior) -> np.ndarray:
    """The largest posterior density, shape (64,), from the stiffnesses 1."""
    from scipy.optimize import minimize

    potential = posterior.potential()

    def energy(position: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = potential.energy_and_gradient(position[None])
        return value[0], gradient[0]

    found = minimize(energy, np.zeros(posterior.dimension), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    best: np.ndarray = found.x
    return best


def symmetry(theta: np.ndarray) -> np.ndarray:
    """Differences of the posterior means of log a at (x, y) and (y, x), in their Monte Carlo standard errors."""
    log_a = theta.reshape(*theta.shape[:2], problem.SIDE, problem.SIDE)
    x, y = np.triu_indices(problem.SIDE, k=1)
    difference = log_a[..., x, y] - log_a[..., y, x]
    error = difference.std(axis=(0, 1)) / np.sqrt(diagnostics.ess(difference, method="bulk"))
    z: np.ndarray = difference.mean(axis=(0, 1)) / error
    return z


def published_differences() -> dict[str, float | str]:
    """Log-likelihoods on the benchmark's own mesh less the published ones."""
    try:
        model = problem.squares()
    except ImportError as error:
        return {"not compared": str(error).split(",")[0]}
    differences: dict[str, float | str] = {}
    for name, a in (("ones", np.ones(64)), ("counted", np.arange(1.0, 65.0))):
        # published with x fastest
        misfit = model(np.log(a).reshape(8, 8).T.reshape(1, 64))[0] - problem.data()
        differences[name] = float(-0.5 * misfit @ misfit / problem.NOISE_SD**2 - PUBLISHED[name])
    return differences


def stein(posterior: iv.Posterior, theta: np.ndarray) -> np.ndarray:
    """The mean of (log a - its mean) . grad U / 64 in each chain, which is 1 for the posterior's own draws."""
    potential, some = posterior.potential(), thinned(theta, 250)
    centre = theta.mean(axis=(0, 1))
    products = [((chain - centre) * potential.energy_and_gradient(chain)[1]).mean() for chain in some]
    return np.array(products)


def thinned(theta: np.ndarray, number: int) -> np.ndarray:
    """About so many draws of each chain."""
    return theta[:, :: max(1, theta.shape[1] // number)]


def draw_maps(log_a: np.ndarray) -> Figure:
    """Truth, posterior mean and posterior sd of log a in the plane."""
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    axes = figure.subplots(1, 4)
    mean, sd = log_a.mean(axis=(0, 1)), log_a.std(axis=(0, 1))
    limit = max(np.abs(mean).max(), np.log(10.0))
    for ax, values, title in (
        (axes[0], np.log(problem.truth()), "truth"),
        (axes[1], np.median(log_a, axis=(0, 1)), "posterior median"),
        (axes[2], mean, "posterior mean"),
    ):
        show(figure, ax, values, title, cmap="RdBu_r", vmin=-limit, vmax=limit)
    show(figure, axes[3], sd, "posterior sd (prior: 2)", cmap="viridis", vmin=0.0)
    return figure


def show(figure: Figure, ax: Axes, values: np.ndarray, title: str, **colours: Any) -> None:
    """One map, indexed [x, y], with its numbers and the sensors."""
    image = ax.imshow(values.T, origin="lower", extent=(0, 1, 0, 1), **colours)
    ax.plot(*problem.POINTS.T, ".", color="black", ms=1.0, alpha=0.5)
    ax.set_title(f"log a: {title}", fontsize=10)
    ax.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    figure.colorbar(image, ax=ax, shrink=0.8)


def draw_marginals(log_a: np.ndarray) -> Figure:
    """Marginal densities along the diagonal, the prior and the truth."""
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    grid = np.linspace(-6, 10, 200)
    prior = np.exp(-0.5 * ((grid - problem.PRIOR_MEAN) / problem.PRIOR_SD) ** 2) / (
        problem.PRIOR_SD * np.sqrt(2 * np.pi)
    )
    for k, ax in enumerate(figure.subplots(2, 4).ravel()):
        ax.hist(log_a[..., k, k].ravel(), bins=np.linspace(-6, 10, 65), density=True, color="tab:orange", alpha=0.7)
        ax.plot(grid, prior, color="tab:blue", lw=1, label="prior")
        ax.axvline(np.log(problem.truth()[k, k]), color="black", lw=1, ls="--", label="truth")
        ax.set(title=f"log a[{k}, {k}]", yticks=(), xlim=(-6, 10))
    figure.axes[0].legend(fontsize=8)
    return figure


def draw_deflection(predicted: np.ndarray) -> Figure:
    """Data, and what the posterior leaves of them, in the noise's sd."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    shape, extent = (13, 13), (1 / 28, 27 / 28, 1 / 28, 27 / 28)
    image = left.imshow(problem.data().reshape(shape).T, origin="lower", extent=extent, cmap="magma")
    left.set_title("measured deflection")
    figure.colorbar(image, ax=left, shrink=0.8)
    residual = (predicted.mean(axis=0) - problem.data()) / problem.NOISE_SD
    limit = np.abs(residual).max()
    image = right.imshow(
        residual.reshape(shape).T, origin="lower", extent=extent, cmap="RdBu_r", vmin=-limit, vmax=limit
    )
    right.set_title("(posterior mean - data) / noise sd")
    figure.colorbar(image, ax=right, shrink=0.8)
    return figure


if __name__ == "__main__":
    main()
