"""Cost of one pair-iteration (two rungs, each moved once, swaps after a tenth of the steps) on cheap targets.

    python benchmarks/overhead.py [--steps N] [--turns N] [--beside CHECKOUT]

Prints microseconds of CPU per pair-iteration: the least and the median of many short turns. Goal: below 60 microseconds
for one chain on a bare potential, below 5 per chain for 64. With ``--beside``, another checkout of invsamp is measured
in turns with this one, each in a process of its own, so that other load affects both. Ratios are those of the least
times and of the medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import invsamp as iv
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.ladder import Sampler
from invsamp.protocols import Array

GOALS = {1: 60.0, 64: 5.0}  # microseconds per chain, for a bare potential
UNKNOWNS = 10
TENTH = 0.1  # of the steps, after which swaps are attempted
SERVE = "serve"


def double_well(position: Array) -> tuple[Array, Array]:
    """Energy (x^2 - 1)^2 + y^2 / 2 of positions (chains, 2), and its gradient."""
    x, y = position[:, 0], position[:, 1]
    well = x * x - 1.0
    gradient = np.empty_like(position)
    gradient[:, 0] = 4.0 * x * well
    gradient[:, 1] = y
    return well * well + 0.5 * y * y, gradient


class Identity:
    """The forward model whose observations are its parameters: nothing but the posterior's own cost."""

    def __call__(self, theta: Array) -> Array:
        """Theta itself, (batch, p)."""
        return theta.copy()

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """With its derivative, the identity."""
        return theta.copy(), lambda cotangent: cotangent


def ten_unknowns() -> iv.Posterior:
    """Ten positive unknowns, each observed."""
    prior = iv.Prior(**{f"x{k}": iv.LogNormal(0.0, 1.0) for k in range(UNKNOWNS)})
    return iv.Posterior(prior, Identity(), np.linspace(0.5, 2.0, UNKNOWNS), iv.GaussianNoise(0.5))


WELL: dict[str, Sampler] = {
    "sgld": iv.samplers.parallel_tempering((1.0, 4.0), (0.005, 0.01), adjusted=False, swap_fraction=TENTH),
    "sgld, noisy, known variances": iv.samplers.fast_resgld(
        (1.0, 4.0), (0.005, 0.01), estimator=iv.estimators.noisy(0.5, 1.0), swap_fraction=TENTH
    ),
    "mala": iv.samplers.parallel_tempering((1.0, 4.0), (0.1, 0.3), swap_fraction=TENTH),
    "mala, swaps after each step": iv.samplers.parallel_tempering((1.0, 4.0), (0.1, 0.3), swap_fraction=1.0),
    "ghmc": iv.samplers.parallel_tempering((1.0, 4.0), (0.1, 0.3), friction=0.1, swap_fraction=TENTH),
}
POSTERIOR: dict[str, Sampler] = {
    "posterior of ten, sgld": iv.samplers.parallel_tempering(
        (1.0, 4.0), (0.002, 0.005), adjusted=False, swap_fraction=TENTH
    ),
    "posterior of ten, mala": iv.samplers.parallel_tempering((1.0, 4.0), (0.02, 0.05), swap_fraction=TENTH),
}


def cases() -> Iterator[tuple[str, int]]:
    """Samplers by name, and numbers of chains."""
    return ((name, chains) for chains in GOALS for name in (*WELL, *POSTERIOR))


def pair(name: str, chains: int) -> Callable[[], None]:
    """One pair-iteration of a running sampler, as the loop of `invsamp.sample` makes it."""
    posed = name in POSTERIOR
    problem = (
        ten_unknowns() if posed else iv.Target(iv.extending.FunctionPotential(double_well, 2), iv.domains.Unbounded())
    )
    engine = Engine(
        problem, (POSTERIOR if posed else WELL)[name], Plan(draws=1, warmup=0, thin=1, chains=chains, seed=1)
    )
    engine.begin(np.random.default_rng(0).standard_normal((chains, problem.dimension)))
    return engine.step


def serve() -> None:
    """Read numbers of cases, line by line, and answer with the microseconds of their iterations."""
    made: dict[int, Callable[[], None]] = {}
    known = list(cases())
    for line in sys.stdin:
        case, steps = map(int, line.split())
        if case not in made:
            made[case] = pair(*known[case])
            for _ in range(200):
                made[case]()
        step, begin = made[case], time.process_time()  # other work on the machine does not count
        for _ in range(steps):
            step()
        print((time.process_time() - begin) / steps * 1e6, flush=True)


class Server:
    """This script with the invsamp of a checkout, in a process of its own."""

    def __init__(self, checkout: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-P", __file__, SERVE]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.communicate()

    def microseconds(self, case: int, steps: int) -> float:
        """Per iteration of a case."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(case, steps, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500, help="pair-iterations per turn")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turns with this one")
    parser.add_argument("serve", nargs="?", choices=[SERVE], help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.serve:
        serve()
        return
    here = Path(__file__).resolve().parents[1]
    with ExitStack() as open_ones:
        servers = [
            open_ones.enter_context(Server(checkout)) for checkout in (here, settings.beside) if checkout is not None
        ]
        beside = "  beside: least  median  ratios" if len(servers) > 1 else ""
        print(f"{'microseconds per pair-iteration':30s} {'chains':>6s} {'least':>7s} {'median':>7s}{beside}")
        for case, (name, chains) in enumerate(cases()):
            turns = [[server.microseconds(case, settings.steps) for server in servers] for _ in range(settings.turns)]
            least, median = ([of(times) for times in zip(*turns, strict=True)] for of in (min, statistics.median))
            row = f"{name:30s} {chains:6d} {least[0]:7.1f} {median[0]:7.1f}"
            if len(servers) > 1:
                row += f"  {least[1]:13.1f} {median[1]:7.1f}  {least[0] / least[1]:.2f} {median[0] / median[1]:.2f}"
            elif name in WELL:
                row += f"  {'met' if least[0] / chains < GOALS[chains] else 'missed'} (< {GOALS[chains]:g} per chain)"
            print(row, flush=True)


if __name__ == "__main__":
    main()
