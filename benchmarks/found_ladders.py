"""Ladders that warm-up finds, on posteriors that a single chain does not sample; and evidence for two models.

    python benchmarks/found_ladders.py [--seeds 3] [--warmup 1500] [--draws 1000] [NAME ...]

For each posterior and seed: barrier and number of rungs, gradients of warm-up and of the draws, round trips, and the
largest R-hat. Where moments are known, also the worst error of a mean in sds; last the number of warnings. All chains
start at one point where that is the difficulty. "evidence" compares Lotka-Volterra's equations for the hare-lynx record
with those in which hares have a carrying capacity.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _battery_hard import regression

import invsamp as iv
from invsamp.problems import fitzhugh_nagumo, lotka_volterra
from invsamp.results.run import Run
from invsamp.solvers.ode import OdeModel

CAPACITY = ("u0", "v0")


class Known(NamedTuple):
    """A posterior, its starting points, and its known moments."""

    problem: iv.extending.Problem
    start: np.ndarray | None = None
    moments: dict[str, tuple[float, float]] | None = None


class Square:
    """y = (x^2, the other unknowns)."""

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return np.column_stack([theta[:, 0] ** 2, theta[:, 1:]])

    def linearize(self, theta: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Observations and the vector-Jacobian product."""

        def product(cotangent: np.ndarray) -> np.ndarray:
            found = cotangent.copy()
            found[:, 0] *= 2.0 * theta[:, 0]
            return found

        return self(theta), product


def modes(away: float) -> Known:
    """Two modes at +-away in the first of three unknowns, with a prior as wide; all chains start in the right one."""
    prior = iv.Prior(x=iv.Normal(np.array([0.3, 0.0, 0.0]), away))
    noise = iv.GaussianNoise([0.6 * away, 1.0, 1.0])
    x = np.linspace(-4.0 * away, 4.0 * away, 400_001)
    density = np.exp(-0.5 * ((x - 0.3) / away) ** 2 - 0.5 * ((x**2 - away**2) / (0.6 * away)) ** 2)
    density /= density.sum()
    mean = float(density @ x)
    sd = float(np.sqrt(density @ x**2 - mean**2))
    return Known(
        iv.Posterior(prior, Square(), [away**2, 0.0, 0.0], noise), np.array([away, 0.0, 0.0]), {"x[0]": (mean, sd)}
    )


def hare_lynx() -> Known:
    """Two fidelities; a single chain stays in false modes."""
    reference = {name: (one.mean, one.sd) for name, one in lotka_volterra.REFERENCE.items()}
    return Known(lotka_volterra.hare_lynx(), None, reference)


def uncentered() -> Known:
    """A thousand data, four regressors far from centered."""
    case = regression()
    return Known(case.problem, None, {name: one[:2] for name, one in case.known.items()})


POSTERIORS: dict[str, Callable[[], Known]] = {
    "modes at 5": lambda: modes(5.0),
    "modes at 10": lambda: modes(10.0),
    "hare-lynx": hare_lynx,
    "nerve": lambda: Known(fitzhugh_nagumo.nerve()),
    "regression": uncentered,
}


def with_capacity() -> iv.Posterior:
    """The hare-lynx record with a carrying capacity of hares ~ LogNormal(log 300, 1), otherwise as in `hare_lynx`."""

    def rhs(t: Any, x: Any, p: Any) -> tuple[Any, Any]:
        u, v = x
        alpha, beta, gamma, delta, capacity = p
        return (alpha * (1.0 - u / capacity) - beta * v) * u, (-gamma + delta * u) * v

    names = (*lotka_volterra.PARAMETERS, "capacity")
    model = OdeModel(rhs, lotka_volterra.STATES, names, method="RK45", rtol=1e-6, atol=1e-9, max_steps=5_000)
    prior = iv.Prior(
        alpha=iv.truncated(iv.Normal(1.0, 0.5), lower=0.0),
        beta=iv.truncated(iv.Normal(0.05, 0.05), lower=0.0),
        gamma=iv.truncated(iv.Normal(1.0, 0.5), lower=0.0),
        delta=iv.truncated(iv.Normal(0.05, 0.05), lower=0.0),
        capacity=iv.LogNormal(np.log(300.0), 1.0),
        u0=iv.LogNormal(np.log(10.0), 1.0),
        v0=iv.LogNormal(np.log(10.0), 1.0),
        sigma=iv.LogNormal(-1.0, 1.0, shape=2),
    )
    forward = model.observe(lotka_volterra.YEARS, CAPACITY)
    return iv.Posterior(prior, forward, lotka_volterra.PELTS, iv.LogNormalNoise("sigma"))


def made(problem: iv.extending.Problem, kernel: Any, seed: int, arguments: argparse.Namespace, **more: Any) -> Run:
    """One run."""
    sampler = iv.samplers.parallel_tempering(ladder="auto", kernel=kernel, fidelities=more.pop("fidelities", None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return iv.sample(
            problem, sampler, draws=arguments.draws, warmup=arguments.warmup, seed=seed, progress=False, **more
        )


def row(known: Known, run: Run) -> str:
    """The results of a run, in one line."""
    report, found = run.report, run.report["ladder"]
    summary = run.summary()
    warmup, total = (sum(report[name].values()) for name in ("warmup_evaluations", "evaluations"))
    errors = [abs(summary.loc[name, "mean"] - m) / sd for name, (m, sd) in (known.moments or {}).items()]
    barriers = " ".join(f"{one['barrier']:.1f}" for one in found["rounds"])
    return (
        f"barrier {barriers} rungs {run.rungs:2d} "
        f"worst rejection {max(report['swap_rejection']):.2f} solves {warmup:,} + {total - warmup:,} "
        f"trips {report['round_trips']} R-hat {summary['r_hat'].max():.3f} ESS {summary['ess_bulk'].min():.0f} "
        f"error {max(errors, default=float('nan')):.2f} sd; {len(run.warnings())} warnings"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[*POSTERIORS, "evidence"])
    for name, default in (("--seeds", 3), ("--warmup", 1500), ("--draws", 1000)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--kernel", choices=["mala", "mams"], default="mala")
    arguments = parser.parse_args()
    kernel = iv.kernels.Microcanonical() if arguments.kernel == "mams" else None
    for name in arguments.names:
        for seed in range(1, arguments.seeds + 1):
            if name == "evidence":
                models = {"Lotka-Volterra": lotka_volterra.hare_lynx(), "with a capacity": with_capacity()}
                for which, problem in models.items():
                    run = made(problem, kernel, seed, arguments, fidelities=[0])
                    print(f"{which}, seed {seed}: {run.log_evidence()}", flush=True)
                continue
            known = POSTERIORS[name]()
            run = made(known.problem, kernel, seed, arguments, start=known.start)
            print(f"{name}, seed {seed}: {row(known, run)}", flush=True)


if __name__ == "__main__":
    main()
