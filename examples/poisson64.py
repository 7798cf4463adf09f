"""Sixty-four stiffnesses of a membrane from its deflection at 169 points: a published benchmark in 64 dimensions.

The posterior is far from normal: the deflection hardly knows a stiffness that is large, so that the prior rules there,
and wide flat parts lie beside narrow ones. Chains with momentum get through; `iv.mala()` needs tens of times the
solves. There is no exact solution to compare with. What is checked is

- the forward model and the prior, against numbers that the benchmark's authors published: ten digits, as the default
  discretization is their own, bilinear elements on 32 x 32 squares,
- the draws: the problem is symmetric in x and y, so the posterior means of the stiffnesses at (x, y) and (y, x) are
  equal. Their difference is compared with its Monte Carlo error,
- Stein's identity: for the energy U and any c, the posterior mean of (log a_k - c) dU/dlog a_k is 1 for each k,
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
from invsamp.plots.figure import COLD, INK, TRUTH, clean, new_figure, title
from invsamp.problems import poisson64 as problem

#: Few and long: what takes long is the way through the wide parts, which every chain has to go.
CHAINS, THIN = 4, 5
#: From the prior, thousands of energy units away, the posterior is reached after some 5,000 steps.
WARMUP = 8000
#: Log-likelihoods, without constant, that the benchmark's authors give for stiffnesses 1, ..., 1 and 1, 2, ..., 64.
PUBLISHED = {"ones": -228.510844004, "counted": -6412.82113914}


def main() -> iv.Run:
    """Draws, maps and checks."""
    given = options("poisson64", "Stiffness of a membrane in 8 x 8 squares.", draws=4000)
    posterior = problem.posterior()
    given.show(f"Sampled: bilinear elements on {posterior.fidelities[-1]} squares, the benchmark's own discretization.")
    run = iv.sample(
        posterior,
        iv.samplers.ghmc(friction=0.025),
        draws=given.draws,
        thin=THIN,
        warmup=WARMUP,
        chains=CHAINS,
        seed=given.seed,
    )
    given.show(run)

    log_a = run.theta.reshape(CHAINS, -1, problem.SIDE, problem.SIDE)
    predicted = posterior.predict(thinned(run.theta, 100).reshape(-1, posterior.dimension))
    asymmetry, (stein, stein_error) = symmetry(run.theta), stein_identity(posterior, run.theta)
    summary = run.summary()
    given.save("maps", draw_maps(log_a))
    given.save("marginals", draw_marginals(log_a))
    given.save("deflection", draw_deflection(predicted))
    given.save("trace", run.plot_trace(list(summary["ess_bulk"].nsmallest(3).index)))
    given.save_summary(
        {
            "seed": given.seed,
            "draws_per_chain": given.draws,
            "discretization": f"bilinear elements on {posterior.fidelities[-1]} squares",
            "log_likelihood_minus_published": published_differences(),
            "evaluations": run.report["evaluations"],
            "seconds": run.report["seconds"],
            "ess_bulk": {"least": summary["ess_bulk"].min(), "median": summary["ess_bulk"].median()},
            "ess_tail": {"least": summary["ess_tail"].min(), "median": summary["ess_tail"].median()},
            "r_hat": summary["r_hat"].max(),
            "symmetry_z": {"largest": float(np.abs(asymmetry).max()), "of": len(asymmetry)},
            "stein": {
                "mean": stein.mean(),
                "largest_z": float(np.abs((stein - 1.0) / stein_error).max()),
                "of": len(stein),
            },
            "misfit_per_datum": float(np.mean((predicted - problem.data()) ** 2) / problem.NOISE_SD**2),
            "log_a": {
                "mean": summary["mean"].tolist(),
                "mcse_mean": summary["mcse_mean"].tolist(),
                "sd": summary["sd"].tolist(),
                "mcse_sd": summary["mcse_sd"].tolist(),
                "truth": np.log(problem.truth()).ravel().round(4).tolist(),
            },
            "warnings": run.warnings(),
        }
    )
    return run


def symmetry(theta: np.ndarray) -> np.ndarray:
    """Differences of the posterior means of log a at (x, y) and (y, x), in their Monte Carlo standard errors."""
    log_a = theta.reshape(*theta.shape[:2], problem.SIDE, problem.SIDE)
    x, y = np.triu_indices(problem.SIDE, k=1)
    mean, error = mean_and_error(log_a[..., x, y] - log_a[..., y, x])
    return mean / error


def stein_identity(posterior: iv.Posterior, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of (log a_k - c_k) dU/dlog a_k, which are 1 in the posterior, and their standard errors, (64,) each."""
    some = thinned(theta, 400)
    gradient = posterior.potential().energy_and_gradient(some.reshape(-1, posterior.dimension))[1]
    # any center will do; this one makes the errors small
    return mean_and_error((some - some.mean(axis=(0, 1))) * gradient.reshape(some.shape))


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of (chains, draws, k) and their Monte Carlo standard errors, (k,) each."""
    return values.mean(axis=(0, 1)), values.std(axis=(0, 1)) / np.sqrt(diagnostics.ess(values, method="bulk"))


def published_differences() -> dict[str, float]:
    """Log-likelihoods less the published ones."""
    model, differences = problem.squares(), {}
    for name, a in (("ones", np.ones(64)), ("counted", np.arange(1.0, 65.0))):
        # published with x fastest
        misfit = model(np.log(a).reshape(8, 8).T.reshape(1, 64))[0] - problem.data()
        differences[name] = float(-0.5 * misfit @ misfit / problem.NOISE_SD**2 - PUBLISHED[name])
    return differences


def thinned(theta: np.ndarray, number: int) -> np.ndarray:
    """About so many draws of each chain."""
    return theta[:, :: max(1, theta.shape[1] // number)]


def draw_maps(log_a: np.ndarray) -> Figure:
    """Truth, posterior median, mean and sd of log a in the plane."""
    figure = new_figure(12.5, 3.5)
    panels = figure.subplots(1, 4, sharey=True)
    truth, mean, sd = np.log(problem.truth()), log_a.mean(axis=(0, 1)), log_a.std(axis=(0, 1))
    limit = max(np.abs(mean).max(), np.abs(truth).max())
    scale = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    show(panels[0], "log a: truth", truth, (0.0, 1.0), **scale)
    show(panels[1], "posterior median", np.median(log_a, axis=(0, 1)), (0.0, 1.0), **scale)
    shown = show(panels[2], "posterior mean", mean, (0.0, 1.0), **scale)
    figure.colorbar(shown, ax=panels[:3], shrink=0.85, pad=0.01, label="log a")
    shown = show(panels[3], f"posterior sd (prior: {problem.PRIOR_SD:g})", sd, (0.0, 1.0), cmap="viridis", vmin=0.0)
    figure.colorbar(shown, ax=panels[3], shrink=0.85, pad=0.03, label="sd of log a")
    panels[0].set_ylabel("y")
    return figure


def show(axes: Axes, name: str, values: np.ndarray, extent: tuple[float, float], **colors: Any) -> Any:
    """One map of values [x, y], with the points where the deflection is read."""
    image = axes.imshow(values.T, origin="lower", extent=2 * extent, **colors)
    axes.plot(*problem.POINTS.T, ".", color=INK, markersize=1.5)
    title(axes, name)
    clean(axes).set(xlabel="x", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    return image


def draw_marginals(log_a: np.ndarray) -> Figure:
    """Marginal densities along the diagonal, the prior and the truth."""
    figure = new_figure(12.0, 4.6)
    grid = np.linspace(-4.0, 10.0, 200)
    z = (grid - problem.PRIOR_MEAN) / problem.PRIOR_SD
    prior = np.exp(-0.5 * z**2) / (problem.PRIOR_SD * np.sqrt(2 * np.pi))
    panels = figure.subplots(2, 4, sharex=True).ravel()
    for k, axes in enumerate(panels):
        axes.hist(log_a[..., k, k].ravel(), bins=np.linspace(-4, 10, 71), density=True, color=COLD, label="posterior")
        axes.plot(grid, prior, color=INK, linewidth=1.2, label="prior")
        axes.axvline(np.log(problem.truth()[k, k]), color=TRUTH, linewidth=1.5, label="truth")
        title(clean(axes, yticks=False), f"log a[{k}, {k}]")
    for axes in panels[4:]:
        axes.set_xlabel("log a")
    panels[0].legend(fontsize=8, frameon=False)
    return figure


def draw_deflection(predicted: np.ndarray) -> Figure:
    """Data, and what the posterior leaves of them, in the noise's sd."""
    figure = new_figure(9.0, 3.8)
    left, right = figure.subplots(1, 2, sharey=True)
    extent, shape = (1 / 28, 27 / 28), (13, 13)
    image = show(left, "measured deflection", problem.data().reshape(shape), extent, cmap="magma")
    figure.colorbar(image, ax=left, shrink=0.85)
    residual = (predicted.mean(axis=0) - problem.data()) / problem.NOISE_SD
    limit = np.abs(residual).max()
    scale = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    image = show(right, "(posterior mean - data) / noise sd", residual.reshape(shape), extent, **scale)
    figure.colorbar(image, ax=right, shrink=0.85)
    left.set_ylabel("y")
    return figure


if __name__ == "__main__":
    main()
