"""PyVBMC, GPry and emcee on the problems of `simulators.py`: their simulations, and the accuracy at their own stop.

    python benchmarks/simulator_peers.py --tools pyvbmc --problems "banana" --seeds 3

A tool that is not installed is skipped by name. Each is given more than `invsamp.emulate`: all begin at the exact
posterior mode, except on the heat source, which has two, and with the widths of the Gaussian there. Simulations do not
include a search for the mode. A run that takes longer than ``--limit`` seconds is stopped.

With ``--results FILE`` each run is written as a line of JSON when it is done, and is not run again.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import multiprocessing
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _simulator_problems import PROBLEMS, SimulatorProblem
from simulators import MEANS, SDS, recorded, truth_of

import invsamp as iv

#: Steps of emcee's ensemble, and how many walkers there are for each unknown.
STEPS, WALKERS = 250, 4
#: Half-width of GPry's box, in sds of the Gaussian at the mode.
BOX = 6.0


class Density:
    """The log density at a position, which counts calls."""

    def __init__(self, posterior: iv.Posterior) -> None:
        self._posterior, self.calls = posterior, 0

    def __call__(self, position: np.ndarray) -> float:
        self.calls += 1
        return float(-self._posterior.potential().energy(np.atleast_2d(np.asarray(position, dtype=float)))[0])


class Start(NamedTuple):
    """Center, sds and bounds (dimension,) of positions."""

    center: np.ndarray
    sds: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


Drawn = tuple[np.ndarray, bool]


def by_pyvbmc(density: Density, start: Start, seed: int) -> Drawn:
    """Draws, and whether the tool reports success."""
    from pyvbmc import VBMC

    np.random.seed(seed)  # noqa: NPY002  # the generator that it uses
    inner = np.clip(start.center + np.array([[-2.0], [2.0]]) * start.sds, start.lower + 0.01, start.upper - 0.01)
    tool = VBMC(
        density, start.center[None], start.lower[None], start.upper[None], inner[:1], inner[1:], {"display": "off"}
    )
    found, results = tool.optimize()
    return np.asarray(found.sample(20_000)[0]), bool(results["success_flag"])


def by_gpry(density: Density, start: Start, seed: int) -> Drawn:
    """Draws, and whether the tool reports success."""
    from gpry import Runner

    np.random.seed(seed)  # noqa: NPY002  # the generator that it uses
    lower = np.maximum(start.center - BOX * start.sds, start.lower)
    bounds = np.stack([lower, np.minimum(start.center + BOX * start.sds, start.upper)], axis=1)
    names = [f"x_{i + 1}" for i in range(len(bounds))]

    def log_density(*x: float) -> float:
        return density(np.array(x))

    # it reads the number of unknowns from the signature
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    log_density.__signature__ = inspect.Signature([inspect.Parameter(one, keyword) for one in names])  # type: ignore[attr-defined]
    tool = Runner(log_density, bounds=bounds.tolist(), seed=seed, verbose=1)
    tool.run()
    tool.generate_mc_sample()
    drawn = tool.last_mc_samples()
    weight = np.asarray(drawn["w"], dtype=float)
    rows = np.random.default_rng(seed).choice(len(weight), 20_000, p=weight / weight.sum())
    return np.asarray(drawn["X"])[rows], bool(tool.has_converged)


def by_emcee(density: Density, start: Start, seed: int) -> Drawn:
    """Draws after a half of the steps; the tool reports no success."""
    import emcee

    rng, d = np.random.default_rng(seed), len(start.center)
    begun = start.center + start.sds * rng.standard_normal((WALKERS * d, d))
    tool = emcee.EnsembleSampler(len(begun), d, density)
    tool.run_mcmc(np.clip(begun, start.lower + 0.01, start.upper - 0.01), STEPS)
    return tool.get_chain(discard=STEPS // 2, flat=True), False


TOOLS: dict[str, Callable[[Density, Start, int], Drawn]] = {
    "pyvbmc": by_pyvbmc,
    "gpry": by_gpry,
    "emcee": by_emcee,
}


def start_of(problem: SimulatorProblem, name: str) -> Start:
    """Where a tool begins."""
    finest = problem.posterior.alone(problem.posterior.fidelities[-1])
    if name == "heat source":
        prior = finest.sample_start(np.random.default_rng(1), 2000)
        return Start(prior.mean(axis=0), prior.std(axis=0), np.zeros(2), np.ones(2))
    modes = iv.maximize(finest, 32, seed=1)
    wide = np.full(finest.dimension, np.inf)
    return Start(modes.position[0], np.sqrt(np.diagonal(modes.covariances[0])), -wide, wide)


def one(name: str, tool: str, seed: int, truth: tuple[np.ndarray, np.ndarray], answer: Any) -> None:
    """Send the record of one run."""
    warnings.simplefilter("ignore")
    problem = PROBLEMS[name]()
    density = Density(problem.simulated(seed)[0])
    began = time.monotonic()
    position, success = TOOLS[tool](density, start_of(problem, name), seed)
    means = float(np.abs((position.mean(axis=0) - truth[0]) / truth[1]).max())
    sds = float(np.abs(position.std(axis=0) / truth[1] - 1.0).max())
    answer.send(
        {
            "simulations": density.calls,
            "mean": round(means, 3),
            "sd": round(sds, 3),
            "right": means < MEANS and sds < SDS,
            "success": success,
            "seconds": round(time.monotonic() - began),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tools", nargs="*", default=list(TOOLS), choices=list(TOOLS))
    parser.add_argument("--problems", nargs="*", default=["heat source", "banana"], choices=list(PROBLEMS))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of a run")
    parser.add_argument("--results", type=Path, help="file of all runs, to which new ones are added")
    arguments = parser.parse_args()
    for tool in arguments.tools:
        if importlib.util.find_spec(tool) is None:
            print(f"{tool}: not installed")
            continue
        for name in arguments.problems:
            known = [entry["seed"] for entry in recorded(arguments.results, name) if entry["tool"] == tool]
            missing = sorted(set(range(arguments.seeds)) - set(known))
            truth = truth_of(PROBLEMS[name]()) if missing else None
            for seed in missing:
                here, there = multiprocessing.Pipe(duplex=False)
                process = multiprocessing.Process(target=one, args=(name, tool, seed, truth, there))
                process.start()
                there.close()
                record = {"problem": name, "tool": tool, "seed": seed}
                try:
                    record |= here.recv() if here.poll(arguments.limit) else {"stopped after": arguments.limit}
                except EOFError:
                    record |= {"failed": True}
                process.kill()
                process.join()
                print(record, flush=True)
                if arguments.results is not None:
                    with open(arguments.results, "a") as file:
                        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
