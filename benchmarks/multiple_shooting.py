"""Lorenz from noisy states by multiple shooting: z-scores of the posterior means over independent data sets.

10, 28, 8/3 from (1, 1, 1); every state observed every 0.05 up to ``end``, with noise of 5% of its sd; segments of
0.5 with free starts. Each data set is fitted by least squares from (5, 15, 1) and then sampled by MALA from there.
The control fixes the starts at their noisy data.

    python benchmarks/multiple_shooting.py [end=100] [data sets=10] [draws=1000]
"""

from __future__ import annotations

import sys
import time
import warnings

import arviz as az
import numpy as np

import invsamp as iv
from invsamp.problems import lorenz
from invsamp.solvers.ode import MultipleShooting, OdeModel

TRUTH = np.array([10.0, 28.0, 8.0 / 3.0])


def main(end: float = 100.0, data_sets: int = 10, draws: int = 1000) -> None:
    """Print a row for each data set, then the rms of the z-scores."""
    times = np.arange(round(end / 0.05) + 1) * 0.05
    model = OdeModel(lorenz.rhs, lorenz.STATES, lorenz.PARAMETERS, method="RK45")
    path = model.solve(TRUTH[None], np.ones(3), times).states[0]
    sd = 0.05 * path.std(axis=0)
    shooting = MultipleShooting(model, times, segments=round(end / 0.5))
    segments = len(shooting.begins)
    prior = iv.Prior(
        sigma=iv.Uniform(0, 50),
        rho=iv.Uniform(0, 100),
        beta=iv.Uniform(0, 20),
        starts=iv.Normal(0, 50, shape=(segments, 3)),
    )
    print(f"{len(times)} times, {segments} segments, {prior.dimension} unknowns, noise sd {sd.round(3)}")
    print(
        "set    sigma     sd    rho     sd    beta      sd   z                     ESS  fit/s  run/s  mean-fit   sd/fit"
    )
    found, laplace, control = [], [], []
    for seed in range(data_sets):
        observed = path + sd * np.random.default_rng(seed).standard_normal(path.shape)
        began = time.perf_counter()
        fit = shooting.fit(observed, [5.0, 15.0, 1.0], sd)
        fitted = time.perf_counter()
        posterior = iv.Posterior(prior, shooting, observed, iv.GaussianNoise(sd))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # short chains for 603 unknowns; the table has their ESS
            run = iv.sample(
                posterior, iv.mala(), draws=draws, chains=4, warmup=500, seed=seed, progress=False,
                start=fit.start(np.random.default_rng(seed), 4),
            )  # fmt: skip
        seconds = time.perf_counter() - fitted
        theta = run.theta[:, :, :3]
        mean, spread = theta.mean(axis=(0, 1)), theta.std(axis=(0, 1))
        effective = min(float(az.ess(theta[:, :, k])) for k in range(3))
        found.append((mean - TRUTH) / spread)
        laplace.append((fit.values - TRUTH) / fit.sd)
        control.append(_fixed_starts(shooting, observed, sd))
        columns = "  ".join(f"{m:.4f} {s:.4f}" for m, s in zip(mean, spread, strict=True))
        z = " ".join(f"{value:6.2f}" for value in found[-1])
        apart, ratio = np.abs(found[-1] - laplace[-1]).max(), spread / fit.sd
        print(
            f"{seed:3d}  {columns}  {z}  {effective:6.0f} {fitted - began:6.2f} {seconds:6.1f}"
            f"  {apart:7.2f}  {ratio.min():.2f}-{ratio.max():.2f}",
            flush=True,
        )
    for name, scores in (("posterior", found), ("least squares", laplace), ("control", control)):
        by_parameter = np.sqrt(np.mean(np.square(scores), axis=0))
        print(f"rms of z, {name:14s} {np.sqrt(np.mean(np.square(scores))):8.3f}   by parameter {by_parameter.round(2)}")


def _fixed_starts(shooting: MultipleShooting, observed: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """z-scores of least squares with the starts fixed at their noisy data."""
    theta = np.concatenate([TRUTH, shooting.initial_guess(observed).ravel()])
    for _ in range(20):
        equations = shooting.equations(theta, shooting.data(observed), shooting.scale(sd))
        theta[:3] += np.linalg.solve(equations.corner, equations.descent_parameters)
    return (theta[:3] - TRUTH) / np.sqrt(np.diag(np.linalg.inv(equations.corner)))


if __name__ == "__main__":
    main(*(kind(value) for kind, value in zip((float, int, int), sys.argv[1:], strict=False)))
