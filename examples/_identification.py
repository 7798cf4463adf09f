"""Common parts of `lorenz.py` and `lotka_volterra.py`: the samplers side by side, the exact posterior, the tables.

Gradient matching is linear regression, so under Gaussian noise its posterior is a Gaussian cut off by the constraints:
independent draws of it, by rejection, are the truth. The energies come from sufficient statistics, which give those
of all the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import wasserstein_distance
from tqdm import tqdm

import invsamp as iv
from invsamp.domains.contract import Domain
from invsamp.kernels.schedules import cyclic_cosine, exponential
from invsamp.problems.published import Setting as Published
from invsamp.solvers.ode import OdeModel

Array = npt.NDArray[np.float64]

THIN, CHAINS = 10, 16
EXACT_DRAWS = 400_000


@dataclass(frozen=True)
class Setting:
    """A gradient-matching posterior with its exact draws."""

    posterior: iv.Posterior
    exact: Array  # (n, p) independent draws of the truncated Gaussian
    cut_off: float  # share of the Gaussian outside the constraints
    true_values: Array  # (p,)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return tuple(self.posterior.names)

    @property
    def domain(self) -> Domain:
        """The constraints."""
        return self.posterior.domain


def setting(
    full: iv.Posterior, sd: float, true_values: Mapping[str, float], seed: int, prior_sds: float | None = None
) -> Setting:
    """Sufficient statistics and exact draws of a gradient-matching posterior with derivatives known up to ``sd``.

    The prior stays that of ``full``; with ``prior_sds`` it is uniform over that many posterior sds to either side,
    outside the domain too, so that samplers without bounds can leave it.
    """
    model: Any = full.forward["model"]
    small, gaussian = model.compressed(sd), model.gaussian(sd)
    spread = np.sqrt(np.diag(gaussian.covariance))
    prior = full.prior
    if prior_sds is not None:
        ends = zip(full.names, gaussian.mean - prior_sds * spread, gaussian.mean + prior_sds * spread, strict=True)
        prior = iv.Prior(**{name: iv.Uniform(low, high) for name, low, high in ends})
    posterior = iv.Posterior(prior, small, small.data, iv.GaussianNoise(1.0), domain=full.domain)
    exact, cut_off = exact_draws(gaussian.mean, gaussian.covariance, full.domain, EXACT_DRAWS, seed)
    return Setting(posterior, exact, cut_off, np.array([true_values[name] for name in full.names]))


def exact_draws(mean: Array, covariance: Array, domain: Domain, n: int, seed: int) -> tuple[Array, float]:
    """Independent draws (n, p) of the Gaussian inside the domain, and the share of it outside."""
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    while sum(map(len, found)) < n:
        draws = rng.multivariate_normal(mean, covariance, size=n)
        found.append(draws[domain.contains(draws)])
    inside = np.concatenate(found)
    return inside[:n], 1.0 - len(inside) / (n * len(found))


def published(setting: Published, iterations: int, faster: float = 1.0) -> dict[str, iv.ladder.Sampler]:
    """The samplers as published; with ``faster``, rates larger and schedules shorter in the same proportion."""
    factor = setting["iterations"] / iterations

    def decaying(rate: float) -> Any:
        return exponential(faster * rate, setting["decay"] ** factor, round(setting["decay_from"] / factor))

    cycle = cyclic_cosine(faster * setting["cyclic_rate"], cycles=setting["cycles"])
    rates = [decaying(rate) for rate in setting["rates"]]
    return _side_by_side(decaying(setting["single_rate"]), cycle, rates, None, 1.0)


def steady(cold: float, hot: float) -> dict[str, iv.ladder.Sampler]:
    """The samplers with constant rates, in units of the posterior's width: preconditioned by warm-up."""
    return _side_by_side(cold, cyclic_cosine(2.0 * cold, cycles=5), [cold, hot], "dense", 0.1)


def _side_by_side(
    single: Any, cycle: Any, rates: Sequence[Any], preconditioner: str | None, swap_fraction: float
) -> dict[str, iv.ladder.Sampler]:
    ladder: dict[str, Any] = {
        "temperatures": (1.0, 10.0),
        "step_size": rates,
        "preconditioner": preconditioner,
        "swap_fraction": swap_fraction,
    }
    return {
        "SGLD": iv.samplers.sgld(single, preconditioner=preconditioner, boundary="ignore"),
        "R-SGLD": iv.samplers.sgld(single, preconditioner=preconditioner),
        "R-cycSGLD": iv.samplers.sgld(cycle, preconditioner=preconditioner),
        "reSGLD": iv.resgld(**ladder, boundary="ignore"),
        "r2SGLD": iv.samplers.r2sgld(**ladder),
    }


def run_all(
    title: str,
    where: Setting,
    samplers: Mapping[str, iv.ladder.Sampler],
    draws: int,
    warmup: int,
    chains: int,
    seed: int,
    start: Array | None = None,
) -> dict[str, iv.Run]:
    """One run of every sampler, each draw after `THIN` steps."""
    settings: dict[str, Any] = {"draws": draws, "thin": THIN, "warmup": warmup, "chains": chains, "seed": seed}
    return {
        label: sample(where.posterior, sampler, start=start, **settings)
        for label, sampler in tqdm(samplers.items(), desc=title)
    }


def sample(posterior: iv.Posterior, sampler: iv.ladder.Sampler, **settings: Any) -> iv.Run:
    """A run whose warnings are not shown: the baselines' chains do not agree, as the tables show."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return iv.sample(posterior, sampler, progress=False, **settings)


def compare(run: iv.Run, where: Setting) -> dict[str, Any]:
    """One sampler beside the exact posterior; everything in units of the exact sds."""
    draws = run.theta.reshape(-1, run.theta.shape[-1])
    mean, sd = where.exact.mean(axis=0), where.exact.std(axis=0)
    ess = iv.diagnostics.ess(run.theta, method="mean")
    exact = where.exact[: len(draws)]
    distance = [wasserstein_distance(a, b) / c for a, b, c in zip(draws[: len(exact)].T, exact.T, sd, strict=True)]

    def by_name(values: Any) -> dict[str, float]:
        return dict(zip(where.names, np.asarray(values).tolist(), strict=True))

    attempts = sum(run.report["swap_attempts"])
    return {
        "bias_in_sd": by_name((draws.mean(axis=0) - mean) / sd),
        "bias_standard_error": by_name(run.theta.std(axis=(0, 1)) / sd / np.sqrt(ess)),
        "sd_ratio": by_name(draws.std(axis=0) / sd),
        "sd_ratio_within_chains": by_name(run.theta.std(axis=1).mean(axis=0) / sd),
        "wasserstein_in_sd": by_name(distance),
        "infeasible": float(1.0 - where.domain.contains(draws).mean()),
        "swap_rate": sum(run.report["swap_accepts"]) / attempts if attempts else None,
        "seconds": run.report["seconds"],
    }


def describe(where: Setting, runs: Mapping[str, iv.Run]) -> dict[str, Any]:
    """The exact posterior, and every sampler beside it."""
    mean, sd = where.exact.mean(axis=0), where.exact.std(axis=0)
    return {
        "exact": {
            name: {"mean": float(mean[k]), "sd": float(sd[k]), "true_value": float(where.true_values[k])}
            for k, name in enumerate(where.names)
        },
        "cut_off_by_the_constraints": where.cut_off,
        "samplers": {label: compare(run, where) for label, run in runs.items()},
    }


def batch_noise(model: Any, where: Setting, sd: float, size: int, rate: float) -> float:
    """Variance that a minibatch adds to a step over the injected variance, at most over directions; mean over draws.

    Without noise in the derivatives the residuals are what theta is off by, and small: so is their sampling noise.
    """
    total = len(model.data)
    scale = total**2 / size * (1.0 - size / total)
    shares = []
    for theta in where.exact[:50]:
        terms = model.design * (model.design @ theta + model.known - model.data)[:, None] / sd**2
        shares.append(np.linalg.eigvalsh(scale * np.cov(terms.T))[-1] * rate / 2.0)
    return float(np.mean(shares))


def resimulate(model: OdeModel, draws: Array, initial: Any, times: Array, count: int, seed: int) -> Array:
    """Trajectories (count, T, n) of some of the draws (..., p)."""
    flat = draws.reshape(-1, draws.shape[-1])
    chosen = np.random.default_rng(seed).choice(len(flat), count, replace=len(flat) < count)
    return model.solve(flat[chosen], np.asarray(initial, dtype=float), times).states


def shoot(
    posterior: iv.Posterior, observed: Any, begin: Mapping[str, float], draws: int, chains: int, seed: int
) -> tuple[iv.Run, Any]:
    """Least squares from ``begin``, then draws of the posterior of parameters and segment starts."""
    shooting: Any = posterior.forward["fine"]
    fit = shooting.fit(observed.states, begin, observed.noise_sd)
    start = fit.start(np.random.default_rng(seed), chains)
    return sample(posterior, iv.mala(), draws=draws, thin=2, chains=chains, seed=seed, start=start), fit


def calibration(make: Callable[[int], tuple[iv.Posterior, Any]], truth: Mapping[str, float], sets: int) -> Any:
    """Root mean square over data sets of (least squares - truth) / Laplace sd; 1 if calibrated."""
    z = []
    for seed in tqdm(range(sets), desc="calibration"):
        posterior, observed = make(seed)
        shooting: Any = posterior.forward["fine"]
        fit = shooting.fit(observed.states, truth, observed.noise_sd)
        z.append((fit.values - [truth[name] for name in fit.names]) / fit.sd)
    return {"data_sets": sets} | dict(zip(truth, np.sqrt(np.mean(np.square(z), axis=0)).tolist(), strict=True))


def from_first_start(run: iv.Run, model: OdeModel, times: Array, seed: int) -> Array:
    """Trajectories (200, T, n) of draws of the parameters, each from its draw of the first segment's start alone."""
    starts = run.draws("starts")[:, :, 0]
    starts = starts.reshape(-1, starts.shape[-1])
    parameters = np.column_stack([run.draws(name).ravel() for name in model.parameters])
    chosen = np.random.default_rng(seed).choice(len(starts), 200)
    return model.solve(parameters[chosen], starts[chosen], times).states


def describe_shooting(run: iv.Run, fit: Any, true_values: Mapping[str, float]) -> dict[str, Any]:
    """Posterior of the parameters beside the truth."""
    summary = run.summary()
    return {
        "fit_iterations": fit.iterations,
        "fit_converged": bool(fit.converged),
        "chi_square_per_degree": fit.chi_square / fit.degrees_of_freedom,
        "unknowns": run.theta.shape[-1],
        "parameters": {
            name: {
                "true_value": value,
                "mean": float(summary.loc[name, "mean"]),
                "sd": float(summary.loc[name, "sd"]),
                "z": float((summary.loc[name, "mean"] - value) / summary.loc[name, "sd"]),
                "laplace_sd": float(fit.sd[fit.names.index(name)]),
                "ess_bulk": float(summary.loc[name, "ess_bulk"]),
                "r_hat": float(summary.loc[name, "r_hat"]),
            }
            for name, value in true_values.items()
        },
        "seconds": run.report["seconds"],
        "warnings": run.warnings(),
    }
