"""Common parts of `card_heat.py` and `card_ode.py`: noisy fidelities, three samplers, their distance from the truth."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

import invsamp as iv

Array = npt.NDArray[np.float64]

#: The cold rung samples the posterior of the fine fidelity, the hot one a flatter distribution on the coarse fidelity.
FIDELITIES = ("fine", "coarse")
SWAP_FRACTION, PROBES = 0.2, 10


@dataclass(frozen=True)
class Rising:
    """Standard deviation of a noise that rises from ``low`` to ``high`` with one unknown, as in 5.1 of f-reSGLD."""

    low: float
    high: float
    unknown: int
    middle: float
    width: float

    def __call__(self, position: Array, energy: Array | None = None) -> Array:
        """Standard deviations (n,) at positions (n, d)."""
        rise = 1.0 / (1.0 + np.exp((self.middle - position[:, self.unknown]) / self.width))
        return np.asarray(self.low + (self.high - self.low) * rise)


@dataclass(frozen=True)
class Noise:
    """Noise of one fidelity, of its energies and of each entry of its gradients."""

    energy: Rising
    gradient: Rising


@dataclass(frozen=True)
class Reference:
    """The exact posterior as weighted points."""

    points: Array  # (n, p)
    weights: Array  # (n,), of sum 1


#: Means and standard deviations by name, of points (n, p) with weights (n,).
Statistics = Callable[[Array, Array], Mapping[str, float]]


@dataclass(frozen=True)
class Case:
    """A posterior with its noise by fidelity, the samplers' steps, and what is known of it."""

    posterior: iv.Posterior
    noise: Mapping[str, Noise]
    temperatures: tuple[float, float]
    step_sizes: tuple[float, float]
    preconditioner: str | None
    truth: Mapping[str, float]
    reference: Reference
    statistics: Statistics
    start: Array | None = None  # (chains, p)


def samplers(case: Case) -> dict[str, iv.ladder.Sampler]:
    """f-reSGLD with either model of the variances, and m-reSGLD, on the same rungs with the same noise."""
    noise = [case.noise[fidelity] for fidelity in FIDELITIES]
    rungs: dict[str, Any] = {
        "temperatures": case.temperatures,
        "step_size": case.step_sizes,
        "fidelities": FIDELITIES,
        "estimator": [iv.estimators.noisy(each.energy, each.gradient) for each in noise],
        "preconditioner": case.preconditioner,
        "swap_fraction": SWAP_FRACTION,
    }
    return {
        "f-reSGLD, kernel ridge": iv.samplers.fast_resgld(**rungs, variance=iv.variances.kernel_ridge(), probes=PROBES),
        "f-reSGLD, running average": iv.samplers.fast_resgld(
            **rungs, variance=iv.variances.running_average(), probes=PROBES
        ),
        "m-reSGLD": iv.samplers.multi_variance_resgld(**rungs, assume_unbiased=True),
    }


def run_all(
    case: Case, title: str, draws: int, warmup: int, chains: int, thin: int, seed: int, only: int = 3
) -> dict[str, iv.Run]:
    """One run of each sampler, or of the first ones."""
    settings: dict[str, Any] = {"draws": draws, "warmup": warmup, "chains": chains, "thin": thin, "seed": seed}
    start = None if case.start is None else case.start[:chains]
    chosen = list(samplers(case).items())[:only]
    runs = {}
    with warnings.catch_warnings():
        # they stand in the table
        warnings.simplefilter("ignore", UserWarning)
        for name, sampler in tqdm(chosen, desc=title):
            runs[name] = iv.sample(case.posterior, sampler, start=start, progress=False, **settings)
    return runs


def compare(case: Case, run: iv.Run) -> dict[str, Any]:
    """One run beside the exact posterior: every statistic, what it cost, and what it warns of."""
    report = run.report
    exact = case.statistics(case.reference.points, case.reference.weights)
    found, error = with_errors(case.statistics, run.theta)
    sd = {name: exact[f"sd of {name}"] for name in case.posterior.names}
    mean = run.theta.mean(axis=(0, 1))
    steps = (report["draws"] * report["thin"] + report["warmup"]) * report["chains"]
    return {
        "statistics": {
            name: {"found": found[name], "error": error[name], "exact": exact[name]} for name in exact
        },
        "off_the_true_parameters_in_sds": {
            name: float((mean[k] - case.truth[name]) / sd[name]) for k, name in enumerate(case.posterior.names)
        },
        "outside_the_constraints": float(1.0 - case.posterior.domain.contains(run.theta.reshape(-1, mean.size)).mean()),
        "reflections_per_step": [count / steps for count in report["reflections"]],
        "evaluations": report["evaluations"],
        "seconds_by_fidelity": {name: round(value, 2) for name, value in report["evaluation_seconds"].items()},
        "swap_rate": sum(report["swap_accepts"]) / sum(report["swap_attempts"]),
        "step_sizes": report["step_sizes"],
        "beyond_the_noise_budget": report["clipped_noise"],
        "extrapolated_variances": report["uncovered_variance"],
        "warnings": run.warnings(),
        "digest": hashlib.sha256(np.ascontiguousarray(run.theta).tobytes()).hexdigest(),
    }  # fmt: skip


def with_errors(statistics: Statistics, theta: Array) -> tuple[Mapping[str, float], dict[str, float]]:
    """Statistics of draws (chains, n, p), and their jackknife standard errors over the chains."""
    chains, n, p = theta.shape
    equal = np.ones(chains * n) / (chains * n)
    found = statistics(theta.reshape(-1, p), equal)
    without = [statistics(np.delete(theta, k, axis=0).reshape(-1, p), equal[n:]) for k in range(chains)]
    spread = {name: np.std([each[name] for each in without]) for name in found}
    return found, {name: float(np.sqrt(chains - 1.0) * value) for name, value in spread.items()}


def moments(points: Array, weights: Array) -> tuple[Array, Array]:
    """Mean and standard deviation (p,) of weighted points."""
    share = weights / weights.sum()
    mean = share @ points
    return mean, np.sqrt(share @ (points - mean) ** 2)


def variance_estimates(case: Case, run: iv.Run, seed: int, states: int = 200) -> dict[str, Any]:
    """Errors of both models of the variance of noisy gradients, from the same ``states`` of each rung, ten probes each.

    Root mean square errors of the log variance at other states of the same rung; 0.1 is 10% of a variance.
    """
    found = {}
    for rung, fidelity in enumerate(FIDELITIES):
        rng = np.random.default_rng([seed, rung])
        theta = run.rung_theta(rung).reshape(-1, run.theta.shape[-1])
        seen, others = (theta[rng.integers(len(theta), size=states)] for _ in range(2))
        sd = case.noise[fidelity].gradient
        probes = sd(seen) * rng.standard_normal((PROBES, states))
        truth = sd(others) ** 2
        row: dict[str, Any] = {"true_sds_5_50_95": np.quantile(np.sqrt(truth), (0.05, 0.5, 0.95)).tolist()}
        for model in (iv.variances.running_average(), iv.variances.kernel_ridge()):
            state = model.update(model.init(()), seen, probes.var(axis=0, ddof=1), PROBES - 1)
            predicted = model.predict(state, others)
            row[type(model).__name__] = {
                "sds_5_50_95": np.quantile(np.sqrt(predicted), (0.05, 0.5, 0.95)).tolist(),
                "log_error": float(np.sqrt(np.mean(np.log(predicted / truth) ** 2))),
            }
        found[fidelity] = row
    return found


def table(title: str, rows: Mapping[str, Mapping[str, Any]], estimates: Mapping[str, Any]) -> str:
    """Rows to print for one problem."""
    names = list(next(iter(rows.values()))["statistics"])
    width = max(map(len, names)) + 2
    lines = [title, " " * width + "exact     " + "".join(f"{name:<28s}" for name in rows)]
    for name in names:
        cells = [row["statistics"][name] for row in rows.values()]
        values = [f"{c['found']:.4g} ± {c['error']:.2g} ({(c['found'] / c['exact'] - 1):+.1%})" for c in cells]
        lines.append(f"{name:<{width}s}{cells[0]['exact']:<10.4g}" + "".join(f"{value:<28s}" for value in values))
    off = {k: [f"{v:+.2f}" for v in row["off_the_true_parameters_in_sds"].values()] for k, row in rows.items()}
    lines.append(f"{'mean - true parameters':<{width + 10}s}" + "".join(f"{' '.join(v):<28s}" for v in off.values()))
    for key in ("evaluations", "seconds_by_fidelity"):
        costs = [" ".join(f"{name} {value:,}" for name, value in row[key].items()) for row in rows.values()]
        lines.append(f"{key:<{width + 10}s}" + "".join(f"{cost:<28s}" for cost in costs))
    lines.append(f"{'swap rate':<{width + 10}s}" + "".join(f"{row['swap_rate']:<28.3f}" for row in rows.values()))
    for fidelity, row in estimates.items():
        lines.append(
            f"sd of the gradients' noise, {fidelity}: 5%, 50%, 95% over states " + sds(row["true_sds_5_50_95"])
        )
        for model in ("RunningAverage", "KernelRidge"):
            lines.append(
                f"  {model}: {sds(row[model]['sds_5_50_95'])}; log variance off by {row[model]['log_error']:.2f}"
            )
    for name, row in rows.items():
        lines += [f"{name}: {warning}" for warning in row["warnings"]] or [f"{name}: no warnings"]
    return "\n".join(lines)


def sds(values: list[float]) -> str:
    """Three standard deviations."""
    return ", ".join(f"{value:.3g}" for value in values)
