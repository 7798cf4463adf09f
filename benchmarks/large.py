"""Memory and time of a run with very many parameters, of its warnings and of its report.

    python benchmarks/large.py [--dimension N] [--draws N] [--thin N] [--parameters N] [--normal N] [--tasks NAME ...]

Runs `iv.samplers.sgld(h)` on a Gaussian of a million parameters with 4 chains, thinned. Diagnoses 4 chains of 1000
draws of 1000 parameters. Makes a `MultivariateNormal` of 4096. Each runs in a process of its own, whose peak memory is
reported. Goals: 2 GB besides the draws, and one second. ``stepping`` compares CPU milliseconds of a step of one chain
with a plain loop of NumPy, in turns; it also gives the seconds after the last step. ``reporting`` is the page of
`Run.report_html` of a million draws of 10 parameters, and of 40 draws of 10 and of a million.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import invsamp as iv
from invsamp.results.run import Run

GIGABYTE = 2**30
CHAINS = 4


def energy(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Energy and gradient of a standard normal distribution."""
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


def stepping(dimension: int, steps: int) -> dict[str, float]:
    """Milliseconds of a step of one chain, least of five; those of a plain loop; seconds after the last step."""
    target = iv.Target(iv.extending.FunctionPotential(energy, dimension))
    sampler = iv.samplers.sgld(0.5, preconditioner=None)

    def run(**settings: Any) -> None:
        iv.sample(target, sampler, warmup=0, chains=1, seed=1, progress=False, check_gradient=False, **settings)

    def loop() -> None:
        rng, x = np.random.default_rng(1), np.zeros((1, dimension))
        for _ in range(steps):
            _, slope = energy(x)
            x = x - 0.5 * slope + rng.standard_normal(x.shape)

    def seconds(call: Callable[[], None]) -> float:
        begin = time.process_time()
        call()
        return time.process_time() - begin

    run(draws=2)  # compiles and imports
    least: dict[str, float] = {}
    for _ in range(5):
        for name, call in (
            ("short", lambda: run(draws=2, thin=1)),
            ("long", lambda: run(draws=2, thin=1 + steps // 2)),
            ("plain", loop),
        ):
            least[name] = min(least.get(name, np.inf), seconds(call))
    step = (least["long"] - least["short"]) / (2 * (steps // 2))
    return {"step": 1e3 * step, "plain": 1e3 * least["plain"] / steps, "besides": least["short"] - 2 * step}


def reporting(parameters: int, draws: int) -> dict[str, float]:
    """Seconds of the page of a run of many draws, least of three."""
    theta = np.random.default_rng(0).standard_normal((1, CHAINS, draws // CHAINS, parameters))
    found = np.inf
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            size = {"chains": CHAINS, "draws": draws // CHAINS}
            run = Run.from_arrays(None, {"theta": (parameters,)}, theta, {}, size)
            begin = time.process_time()
            run.report_html(Path(folder) / "report.html")
            found = min(found, time.process_time() - begin)
    return {"seconds": found}


def judging(parameters: int) -> dict[str, float]:
    """Seconds for a run's warnings, its summary, and its text."""
    theta = np.random.default_rng(0).standard_normal((1, CHAINS, 1000, parameters))
    run = Run.from_arrays(None, {"theta": (parameters,)}, theta, {}, {"chains": CHAINS, "draws": 1000})
    run.summary()  # imports pandas
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


TASKS = {"stepping": stepping, "reporting": reporting, "sampling": sampling, "judging": judging, "normal": normal}


def alone(task: str, *numbers: int) -> dict[str, float]:
    """The results of a task, in a process of its own."""
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
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.task:
        task, *numbers = settings.task
        print(json.dumps(TASKS[task](*map(int, numbers))))
        return
    if "stepping" in settings.tasks:
        found = alone("stepping", settings.dimension, 20)
        print(
            f"sgld, {settings.dimension:,} parameters, one chain: {found['step']:.1f} ms a step, plain loop "
            f"{found['plain']:.1f} ms; {found['besides']:.2f} s before the first and after the last step"
        )
    if "reporting" in settings.tasks:
        for parameters, draws in ((10, 1_000_000), (10, 40), (settings.dimension, 40)):
            found = alone("reporting", parameters, draws)
            print(f"report of {draws:,} draws of {parameters:,} parameters: {found['seconds']:.1f} s (goal: 3)")
    if "sampling" in settings.tasks:
        found = alone("sampling", settings.dimension, settings.draws, settings.thin)
        print(
            f"sgld, {settings.dimension:,} parameters, {CHAINS} chains, {settings.draws} draws: "
            f"{found['seconds']:.0f} s, "
            f"{found['draws']:.2f} GB of draws, {found['besides']:.2f} GB besides (goal: 2)"
        )
    if "judging" in settings.tasks:
        found = alone("judging", settings.parameters)
        print(
            f"{settings.parameters:,} parameters, {CHAINS} chains of 1000 draws: "
            + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items())
            + f" (goal: {settings.parameters / 1000:g})"
        )
    if "normal" in settings.tasks:
        found = alone("normal", settings.normal)
        print(
            f"MultivariateNormal({settings.normal}): {found['made']:.1f} s to make, {found['used']:.1f} s to first "
            f"density and draw, {found['gigabytes']:.2f} GB"
        )


if __name__ == "__main__":
    main()
