"""Cost of one pair-iteration (two rungs, each moved once, swaps after a tenth of the steps) on an analytic 2-D target.

    python benchmarks/overhead.py [--steps N] [--repeats N]

Prints medians of repeats in microseconds, and how much of them is the target's own evaluation. Goal: below 60
microseconds for one chain, below 5 per chain for 64.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import invsamp as iv
from invsamp.contract import Array
from invsamp.engine.engine import Engine
from invsamp.engine.plan import Plan
from invsamp.ladder import Sampler

GOALS = {1: 60.0, 64: 5.0}  # microseconds per chain


def double_well(position: Array) -> tuple[Array, Array]:
    """Energy (x^2 - 1)^2 + y^2 / 2 of positions (chains, 2), and its gradient."""
    x, y = position[:, 0], position[:, 1]
    well = x * x - 1.0
    gradient = np.empty_like(position)
    gradient[:, 0] = 4.0 * x * well
    gradient[:, 1] = y
    return well * well + 0.5 * y * y, gradient


SAMPLERS: dict[str, Sampler] = {
    "sgld": iv.relangevin((1.0, 4.0), (0.005, 0.01), adjusted=False),
    "sgld, noisy, known variances": iv.fast_resgld((1.0, 4.0), (0.005, 0.01), estimator=iv.noisy(0.5, 1.0)),
    "mala": iv.relangevin((1.0, 4.0), (0.1, 0.3)),
}


def pair(sampler: Sampler, chains: int) -> Callable[[], None]:
    """One pair-iteration of a running sampler, as the loop of `invsamp.sample` makes it."""
    target = iv.Target(iv.FunctionPotential(double_well, 2), iv.Unbounded())
    engine = Engine(target, sampler, Plan(draws=1, warmup=0, thin=1, chains=chains, seed=1))
    engine.begin(np.random.default_rng(0).standard_normal((chains, 2)))
    return engine.step


def microseconds(function: Callable[[], object], calls: int, repeats: int) -> float:
    """Median over repeats of the time of one call."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()  # other work on the machine does not count
        for _ in range(calls):
            function()
        times.append((time.process_time() - begin) / calls * 1e6)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="pair-iterations per repeat")
    parser.add_argument("--repeats", type=int, default=9)
    settings = parser.parse_args()
    print(f"{'microseconds per pair-iteration':32s} {'chains':>6s} {'all':>8s} {'per chain':>10s} {'target':>7s}  goal")
    for chains, goal in GOALS.items():
        points = np.random.default_rng(0).standard_normal((chains, 2))
        target = 2.0 * microseconds(lambda points=points: double_well(points), settings.steps, settings.repeats)
        for name, sampler in SAMPLERS.items():
            iterate = pair(sampler, chains)
            microseconds(iterate, 200, 1)
            spent = microseconds(iterate, settings.steps, settings.repeats)
            kept = "met" if spent / chains < goal else "missed"
            print(
                f"{name:32s} {chains:6d} {spent:8.1f} {spent / chains:10.2f} {target / spent:6.0%}   < {goal:g}: {kept}"
            )


if __name__ == "__main__":
    main()
