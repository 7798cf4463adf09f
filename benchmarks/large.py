"""Memory and time of a run of very many parameters, and of what is told of it.

    python benchmarks/large.py [--dimension N] [--draws N] [--thin N] [--parameters N] [--normal N]

Runs `iv.samplers.sgld(h)` on a Gaussian of a million parameters with 4 chains, thinned; judges 4 chains of 1000 draws
of 1000 parameters; makes a `MultivariateNormal` of 4096. Each in a process of its own, whose largest memory is told.
Goals: 2 GB besides the draws, and one second.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

import invsamp as iv
from invsamp.results.run import Run

GIGABYTE = 2**30
CHAINS = 4


def energy(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of a standard normal law."""
    return 0.5 * np.einsum("ij,ij->i", position, position), position


def sampling(dimension: int, draws: int, thin: int) -> dict[str, float]:
    """A run in memory: seconds, and gigabytes with and without the draws."""
    begin = time.perf_counter()
    target = iv.Target(iv.extending.FunctionPotential(energy, dimension))
    iv.sample(
        target, iv.samplers.sgld(0.5), draws=draws, thin=thin, warmup=draws, chains=CHAINS, seed=1, progress=False
    )
    held = 8 * CHAINS * draws * dimension / GIGABYTE
    return {"seconds": time.perf_counter() - begin, "draws": held, "besides": _peak() - held}


def judging(parameters: int) -> dict[str, float]:
    """Seconds for a run's warnings, its summary, and its text."""
    theta = np.random.default_rng(0).standard_normal((1, CHAINS, 1000, parameters))
    run = Run.from_arrays(None, {"theta": (parameters,)}, theta, {}, {"chains": CHAINS, "draws": 1000})
    run.summary()  # pandas is imported
    found = {}
    for name, tell in (("warnings", run.warnings), ("summary", run.summary), ("print", run.__repr__)):
        begin = time.process_time()
        tell()
        found[name] = time.process_time() - begin
    return found


def normal(size: int) -> dict[str, float]:
    """Seconds and gigabytes for a dense normal prior, and for its first density and draw."""
    points = np.arange(size) / size
    covariance = np.exp(-np.abs(points[:, None] - points)) + 1e-6 * np.eye(size)
    before, begin = _peak(), time.process_time()
    target = iv.MultivariateNormal(np.zeros(size), covariance)
    made = time.process_time()
    target.log_density(target.sample(np.random.default_rng(0), 1))
    return {"made": made - begin, "used": time.process_time() - made, "gigabytes": _peak() - before}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIGABYTE


TASKS = {"sampling": sampling, "judging": judging, "normal": normal}


def alone(task: str, *numbers: int) -> dict[str, float]:
    """What a task found, in a process of its own."""
    command = [sys.executable, __file__, "--task", task, *map(str, numbers)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimension", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--thin", type=int, default=2)
    parser.add_argument("--parameters", type=int, default=1000)
    parser.add_argument("--normal", type=int, default=4096)
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.task:
        task, *numbers = settings.task
        print(json.dumps(TASKS[task](*map(int, numbers))))
        return
    found = alone("sampling", settings.dimension, settings.draws, settings.thin)
    print(
        f"sgld, {settings.dimension:,} parameters, {CHAINS} chains, {settings.draws} draws: {found['seconds']:.0f} s, "
        f"{found['draws']:.2f} GB of draws, {found['besides']:.2f} GB besides (goal: 2)"
    )
    found = alone("judging", settings.parameters)
    print(
        f"{settings.parameters:,} parameters, {CHAINS} chains of 1000 draws: "
        + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items())
        + f" (goal: {settings.parameters / 1000:g})"
    )
    found = alone("normal", settings.normal)
    print(
        f"MultivariateNormal({settings.normal}): {found['made']:.1f} s to make, {found['used']:.1f} s to first density "
        f"and draw, {found['gigabytes']:.2f} GB"
    )


if __name__ == "__main__":
    main()
