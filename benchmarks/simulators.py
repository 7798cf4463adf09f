"""Number of simulations of `invsamp.emulate`, and its accuracy at its own stopping rule.

    python benchmarks/simulators.py --seeds 20 --problems "banana" "heat source"

Errors are in the sampler's coordinates: of means in sds, of sds relative. The truth is a long run with exact gradients.
A run is right if every mean is within 0.1 sd and every sd within 10%. Simulations include the mode search.

With ``--results FILE`` each seed is written as a line of JSON when it is done, and is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _simulator_problems import PROBLEMS, SimulatorProblem

import invsamp as iv

#: Means, in sds, and relative sds within which a run is right.
MEANS, SDS = 0.1, 0.1


def truth_of(problem: SimulatorProblem) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of the positions of 40,000 draws."""
    finest = problem.posterior.alone(problem.posterior.fidelities[-1])
    run = iv.sample(finest, draws=10000, seed=1, progress=False)
    position = problem.posterior.to_position(run.theta.reshape(-1, problem.posterior.dimension))
    return position.mean(axis=0), position.std(axis=0)


def one(problem: SimulatorProblem, truth: tuple[np.ndarray, np.ndarray], seed: int, most: int) -> dict[str, Any]:
    """The record of one seed."""
    posterior, box = problem.simulated(seed)
    began = time.process_time()
    run = iv.emulate(posterior, most, trend=problem.trend, seed=seed, progress=False)
    seconds = time.process_time() - began
    position = posterior.to_position(run.theta.reshape(-1, posterior.dimension))
    means = np.abs((position.mean(axis=0) - truth[0]) / truth[1]).max()
    sds = np.abs(position.std(axis=0) / truth[1] - 1.0).max()
    facts = run.report["emulation"]
    return {
        "seed": seed,
        "simulations": box.rows,
        "purposes": facts["purposes"],
        "rounds": len(facts["rounds"]),
        "mean": round(float(means), 3),
        "sd": round(float(sds), 3),
        "right": bool(means < MEANS and sds < SDS),
        "stopped": facts["stopped_by_rule"],
        "warnings": list(run.warnings()),
        "seconds": round(seconds, 1),
    }


def recorded(file: Path | None, name: str) -> Iterator[dict[str, Any]]:
    """Stored records of a problem."""
    for line in file.read_text().splitlines() if file is not None and file.exists() else ():
        entry = json.loads(line)
        if entry["problem"] == name:
            yield entry


def summary(name: str, found: list[dict[str, Any]], budget: int) -> str:
    """A line on all seeds of a problem."""
    made = sorted(entry["simulations"] for entry in found)
    right = [entry for entry in found if entry["right"]]
    silent = sum(not entry["right"] and not entry["warnings"] for entry in found)
    within = sum(entry["simulations"] <= budget for entry in right)
    purposes = {key: np.median([entry["purposes"].get(key, 0) for entry in found]) for key in found[0]["purposes"]}
    shares = ", ".join(f"{value:.0f} {key}" for key, value in purposes.items())
    return (
        f"{name}: {len(right)} of {len(found)} right, {within} of them within {budget} simulations; {made[0]} to "
        f"{made[-1]} simulations, median {made[len(made) // 2]} ({shares}); {silent} wrong without a warning; "
        f"{np.median([entry['seconds'] / max(entry['rounds'], 1) for entry in found]):.2g} s for each round"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS)[:3], choices=list(PROBLEMS))
    parser.add_argument("--most", type=float, default=1.5, help="largest number of simulations, in budgets")
    parser.add_argument("--results", type=Path, help="file of all seeds, to which new ones are added")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.problems:
        found = list(recorded(arguments.results, name))
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        missing = [seed for seed in seeds if all(entry["seed"] != seed for entry in found)]
        problem = PROBLEMS[name]()
        truth = truth_of(problem) if missing else (np.empty(0), np.empty(0))
        for seed in missing:
            found.append({"problem": name} | one(problem, truth, seed, int(arguments.most * problem.budget)))
            print(found[-1], flush=True)
            if arguments.results is not None:
                with open(arguments.results, "a") as file:
                    file.write(json.dumps(found[-1]) + "\n")
        print(summary(name, found, problem.budget), flush=True)


if __name__ == "__main__":
    main()
