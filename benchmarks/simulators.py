"""How many simulations `invsamp.emulate` takes, and how right it is where it stops by its own rule.

    python benchmarks/simulators.py --seeds 20 --problems "banana" "heat source"

Errors are in the sampler's coordinates: of means in sds, of sds relative. The truth is a long run with exact gradients.
A run counts as right if every mean is within 0.1 sd and every sd within 10%. Simulations include the search for modes.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from _simulator_problems import PROBLEMS, SimulatorProblem

import invsamp as iv

#: Means, in sds, and relative sds within which a run is right.
MEANS, SDS = 0.1, 0.1


def truth_of(problem: SimulatorProblem) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of the positions of 8,000 draws."""
    run = iv.sample(problem.posterior, draws=2000, seed=1, progress=False)
    position = problem.posterior.to_position(run.theta.reshape(-1, problem.posterior.dimension))
    return position.mean(axis=0), position.std(axis=0)


def one(problem: SimulatorProblem, truth: tuple[np.ndarray, np.ndarray], seed: int, most: int) -> dict[str, object]:
    """What one seed gives."""
    posterior, box = problem.simulated(seed)
    began = time.process_time()
    run = iv.emulate(posterior, most, seed=seed, progress=False)
    seconds = time.process_time() - began
    position = posterior.to_position(run.theta.reshape(-1, posterior.dimension))
    means = np.abs((position.mean(axis=0) - truth[0]) / truth[1]).max()
    sds = np.abs(position.std(axis=0) / truth[1] - 1.0).max()
    facts = run.report["emulation"]
    return {
        "seed": seed,
        "simulations": box.rows,
        "rounds": len(facts["rounds"]),
        "mean": round(float(means), 3),
        "sd": round(float(sds), 3),
        "right": bool(means < MEANS and sds < SDS),
        "stopped": facts["stopped_by_rule"],
        "warnings": len(run.warnings()),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS)[:3], choices=list(PROBLEMS))
    parser.add_argument("--most", type=float, default=1.5, help="simulations at the most, in budgets")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.problems:
        problem = PROBLEMS[name]()
        truth, found = truth_of(problem), []
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            found.append(one(problem, truth, seed, int(arguments.most * problem.budget)))
            print(name, found[-1], flush=True)
        made = sorted(int(entry["simulations"]) for entry in found)
        right = sum(bool(entry["right"]) for entry in found)
        silent = sum(not entry["right"] and not entry["warnings"] for entry in found)
        within = sum(bool(entry["right"]) and int(entry["simulations"]) <= problem.budget for entry in found)
        print(
            f"{name}: {right} of {len(found)} right, {within} of them within {problem.budget} simulations; "
            f"{made[0]} to {made[-1]} simulations, median {made[len(made) // 2]}; {silent} wrong without a warning",
            flush=True,
        )


if __name__ == "__main__":
    main()
