"""Fine solves per effective draw: a corrected coarse model that moves, and the fine model that only decides.

    python benchmarks/fine_solves.py [--seeds N] [--only NAME...] [--keep FOLDER] [--beside]

One call of `iv.sample` for each problem and seed. Every fine solve is counted, those of pairs and of warm-up too, an
energy as much as an energy with its gradient. ESS: bulk, the least over all unknowns, and for problems with two modes
that of the mode's indicator, whose weight is held against quadrature. With ``--keep`` each run leaves its figures in a
file, and is not made again. ``--beside`` takes what there is without a coarse model: `iv.ghmc()`, or the ladder.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import invsamp as iv
from invsamp.contract import Array
from invsamp.diagnostics import ess, rhat
from invsamp.problems import conductivity, heat_modes, heat_source, lotka_volterra

LADDER = (1.0, 3.0, 9.0, 27.0)


class Problem(NamedTuple):
    posterior: Callable[[], iv.Posterior]
    sampler: Callable[[], iv.Sampler | None]  # None: chosen
    chains: int
    draws: int
    mode: Callable[[Array], Array] | None = None  # whether theta (..., d) lies in it
    weight: Callable[[iv.Posterior], float] | None = None  # of the mode


def plate(coarse: Callable[[iv.ForwardModel], iv.ForwardModel] = lambda model: model) -> iv.Posterior:
    """The 64x64 mesh over the 16x16 one, or over what is made of that."""
    posed = conductivity.posterior({"coarse": 16, "fine": 64})
    return posed.with_forward({"coarse": coarse(posed.forward["coarse"]), "fine": posed.forward["fine"]})


class Elsewhere:
    """A coarse model whose first two unknowns are as they should be about where the data are, and wrong beyond."""

    def __init__(self, model: iv.ForwardModel) -> None:
        self.model, self.parameters, self.work = model, ("z",), 289.0

    def __call__(self, theta: Array) -> Array:
        """Observations (n, m)."""
        return self.model(self._bent(theta))

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        y, product = self.model.linearize(self._bent(theta))
        slope = np.ones(theta.shape)
        slope[:, :2] += 0.6 * np.cos(3.0 * theta[:, :2])
        return y, lambda cotangent: slope * product(cotangent)

    @staticmethod
    def _bent(theta: Array) -> Array:
        bent = theta.copy()
        bent[:, :2] += 0.2 * np.sin(3.0 * theta[:, :2])
        return bent


class Shifted:
    """A coarse model that is off by three standard deviations of the noise, everywhere."""

    def __init__(self, model: iv.ForwardModel) -> None:
        self.model, self.parameters, self.work = model, ("z",), 289.0

    def __call__(self, theta: Array) -> Array:
        return self.model(theta) + 3.0 * conductivity.NOISE_SD

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        y, product = self.model.linearize(theta)
        return y + 3.0 * conductivity.NOISE_SD, product


def coarsest_and_finest(posed: iv.Posterior) -> iv.Posterior:
    """Without the fidelities between."""
    return posed.with_forward({name: posed.forward[name] for name in (posed.fidelities[0], posed.fidelities[-1])})


def exchange() -> iv.Sampler:
    return iv.surrogate_exchange(LADDER, correct="auto", every=20)


PROBLEMS = {
    "conductivity": Problem(plate, lambda: None, 8, 250),
    "shifted": Problem(lambda: plate(Shifted), lambda: None, 8, 250),
    "shifted, not corrected": Problem(
        lambda: plate(Shifted), lambda: iv.surrogate_exchange(None, correct="none"), 8, 250
    ),
    "wrong elsewhere": Problem(lambda: plate(Elsewhere), lambda: None, 8, 250),
    "hare-lynx": Problem(lotka_volterra.hare_lynx, lambda: None, 8, 500),
    "heat source": Problem(
        heat_source.two_modes,
        exchange,
        24,
        125,
        heat_source.is_upper,
        lambda posed: heat_source.quadrature(posed).modes[1].weight,
    ),
    "heat modes": Problem(
        lambda: coarsest_and_finest(heat_modes.posterior()),
        exchange,
        24,
        125,
        heat_modes.on_the_right,
        lambda posed: heat_modes.quadrature(posed).right.weight,
    ),
}


def figures(name: str, seed: int, beside: bool) -> dict[str, Any]:
    """Of one run."""
    problem = PROBLEMS[name]
    posed, sampler, draws = problem.posterior(), problem.sampler(), problem.draws
    if beside:
        sampler, draws = iv.ghmc() if problem.mode is None else iv.relangevin(LADDER, friction=0.1), 300
    began = time.process_time()
    run = iv.sample(posed, sampler, draws=draws, chains=problem.chains, seed=seed, progress=False)
    theta, report = run.theta, run.report
    count = float(ess(theta).min()) if problem.mode is None else float(ess(problem.mode(theta).astype(float)))
    fine, learnt = report["evaluations"][posed.fidelities[-1]], report.get("correction")
    return {
        "fine": fine,
        "before": report["warmup_evaluations"][posed.fidelities[-1]],
        "coarse": sum(report["evaluations"].values()) - fine,
        "ess": count,
        "each": fine / count,
        "rhat": float(rhat(theta).max()),
        "weight": None if problem.mode is None else float(problem.mode(theta).mean()),
        "truth": None if problem.weight is None else float(problem.weight(posed)),
        "every": None if learnt is None else learnt["every"],
        "sd": None if learnt is None else learnt["sd"],
        "least": None if learnt is None else report["swap_least_chances"][0],
        "mean": theta.mean(axis=(0, 1)).tolist(),
        "standard_deviation": theta.std(axis=(0, 1)).tolist(),
        "sizes": ess(theta).tolist(),
        "decisions": report["decisions"],
        "warnings": run.warnings(),
        "seconds": time.process_time() - began,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--only", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--keep", type=Path, help="folder for a file of each run")
    parser.add_argument("--beside", action="store_true", help="what is done without a coarse model")
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print("| problem | seed | fine solves (before draws) | ESS | each | every | weight (truth) | least swaps |")
    print("|---|---:|---:|---:|---:|---:|---|---:|")
    for name in given.only:
        for seed in given.seeds:
            label = f"{name.replace(' ', '-').replace(',', '')}{'-beside' if given.beside else ''}-{seed}.json"
            kept = None if given.keep is None else given.keep / label
            if kept is not None and kept.exists():
                found = json.loads(kept.read_text())
            else:
                found = figures(name, seed, given.beside)
                if kept is not None:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    kept.write_text(json.dumps(found, indent=1))
            weight = "" if found["weight"] is None else f"{found['weight']:.3f} ({found['truth']:.3f})"
            least = "" if found["least"] is None else f"{found['least']:.2f}"
            solved = f"{found['fine']:,} ({found['before']:,}) | {found['ess']:,.0f} | {found['each']:.2f}"
            print(f"| {name} | {seed} | {solved} | {found['every'] or ''} | {weight} | {least} |", flush=True)


if __name__ == "__main__":
    main()
