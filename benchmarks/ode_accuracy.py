"""Global errors of states and sensitivities of random ODEs, in tolerances.

    python benchmarks/ode_accuracy.py [--each N] [--seed S] [--methods ...]

Random problems of several kinds, and two relaxation oscillators. Some states begin at values far below the absolute
tolerance (the default, 1e-9), or decrease to such. The reference is solved at a relative tolerance of 1e-13 (1e-12
where stiff) and a negligible absolute one (1e-15 where stiff). Errors are the largest over 20 times. Those of states
are in units of ``atol + rtol |x|``, those of sensitivities to the parameters p in units of ``atol / max(|p|, 1) + rtol
s``, where s is the largest value of each.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np

from invsamp.solvers.ode import OdeModel, Status


class Problem(NamedTuple):
    """A right-hand side with its parameters, start and end time."""

    rhs: Any
    p: list[float]
    start: list[float]
    until: float
    stiff: bool = False


def logistic(t: Any, x: Any, p: Any) -> Any:
    """Growth to a capacity."""
    return (p[0] * x[0] * (1 - x[0] / p[1]),)


def epidemic(t: Any, x: Any, p: Any) -> Any:
    """Susceptible, exposed, infected."""
    caught = p[0] * x[0] * x[2]
    return -caught, caught - p[1] * x[1], p[1] * x[1] - p[2] * x[2]


def predators(t: Any, x: Any, p: Any) -> Any:
    """Lotka and Volterra."""
    return x[0] * (p[0] - p[1] * x[1]), x[1] * (p[1] * x[0] - p[2])


def cascade(t: Any, x: Any, p: Any) -> Any:
    """A chain of compartments, of which only the first is filled."""
    rates = [p[0], p[1], p[2], 0.7, 1.3, 0.1]
    return [(rates[i - 1] * x[i - 1] if i else 0.0) - rates[i] * x[i] for i in range(6)]


def neuron(t: Any, x: Any, p: Any) -> Any:
    """FitzHugh and Nagumo."""
    return p[2] * (x[0] - x[0] ** 3 / 3 + x[1]), -(x[0] - p[0] + p[1] * x[1]) / p[2]


def oscillator(t: Any, x: Any, p: Any) -> Any:
    """Van der Pol."""
    return x[1], p[0] * (1 - x[0] ** 2) * x[1] - x[0]


def autocatalysis(t: Any, x: Any, p: Any) -> Any:
    """A + X -> 2 X, with a slow reaction from A to X and decay of X."""
    a, b, c = p
    return -a * x[0] * x[1] - 1e-3 * b * x[0], a * x[0] * x[1] + 1e-3 * b * x[0] - c * x[1]


def oregonator(t: Any, x: Any, p: Any) -> Any:
    """Field and Noyes (Hairer and Wanner, "Solving Ordinary Differential Equations II", IV.10)."""
    s, w, q = p
    return s * (x[1] - x[0] * x[1] + x[0] - q * x[0] ** 2), (-x[1] - x[0] * x[1] + x[2]) / s, w * (x[0] - x[2])


def problems(each: int, seed: int) -> dict[str, list[Problem]]:
    """Random problems by kind."""
    rng = np.random.default_rng(seed)

    def around(*values: float) -> list[float]:
        return [float(value * np.exp(0.3 * rng.standard_normal())) for value in values]

    def tiny(least: float, most: float) -> float:
        return float(10.0 ** rng.uniform(least, most))

    kinds = {
        "growth": lambda: Problem(logistic, around(1.0, 1.0), [tiny(-14, -3)], 30.0),
        "epidemic": lambda: Problem(epidemic, around(2.0, 0.5, 0.5), [1.0, 0.0, tiny(-12, -4)], 40.0),
        "predators": lambda: Problem(predators, around(1.0, 1.0, 1.0), [tiny(0, 1.5), 1.0], 30.0),
        "cascade": lambda: Problem(cascade, around(1.0, 2.0, 0.5), [1.0, 0, 0, 0, 0, 0], 10.0),
        "neuron": lambda: Problem(neuron, around(0.2, 0.2, 3.0), [-1.0, 1.0], 20.0),
        "oscillator from rest": lambda: Problem(oscillator, around(1.0), [tiny(-13, -6), 0.0], 60.0),
        "autocatalysis": lambda: Problem(autocatalysis, around(3.0, 1.0, 0.5), [1.0, tiny(-12, -3)], 20.0),
        "relaxation": lambda: Problem(oscillator, [tiny(2, 3.5)], [2.0, 0.0], 0.0, stiff=True),
        "Oregonator": lambda: Problem(oregonator, around(77.27, 0.161, 8.375e-6), [1.0, 2.0, 3.0], 360.0, stiff=True),
    }
    found = {name: [draw() for _ in range(each)] for name, draw in kinds.items()}
    found["relaxation"] = [each._replace(until=2 * each.p[0]) for each in found["relaxation"]]
    return found


def solved(problem: Problem, method: str, rtol: float, atol: float) -> Any:
    """States and sensitivities at 20 times, without the first."""
    names = [f"x{i}" for i in range(len(problem.start))], [f"p{i}" for i in range(len(problem.p))]
    model = OdeModel(problem.rhs, *names, method, rtol=rtol, atol=atol, max_steps=2_000_000)
    times = np.linspace(0.0, problem.until, 21)
    return model.solve_with_sensitivities([problem.p], problem.start, times, initial_states=())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--methods", nargs="+", default=["auto", "RK45", "DOP853", "Taylor", "Rodas5P", "LSODA"])
    given = parser.parse_args()
    print("median and largest error of states (tolerances) | of sensitivities | failed | evaluations of all")
    for name, some in problems(given.each, given.seed).items():
        tight = ("Rodas5P", 1e-12, 1e-15) if some[0].stiff else ("DOP853", 1e-13, 1e-24)
        exact = [solved(each, *tight) for each in some]
        for method in given.methods:
            if some[0].stiff and method in ("RK45", "DOP853", "Taylor"):
                continue
            for rtol in (1e-6, 1e-9):
                errors, failed, spent, began = [], 0, 0, time.process_time()
                for problem, truth in zip(some, exact, strict=True):
                    found = solved(problem, method, rtol, 1e-9)
                    spent += int(found.evaluations[0])
                    if found.status[0] != Status.OK or truth.status[0] != Status.OK:
                        failed += 1
                        continue
                    states = np.abs(found.states - truth.states) / (1e-9 + rtol * np.abs(truth.states))
                    unit = 1e-9 / np.maximum(np.abs(problem.p), 1.0) + rtol * np.abs(truth.sensitivities).max(axis=1)
                    slopes = np.abs(found.sensitivities - truth.sensitivities).max(axis=1) / unit
                    errors.append((states.max(), slopes.max()))
                middle, worst = np.median(errors, axis=0), np.max(errors, axis=0)
                print(
                    f"{name:20s} {method:8s} {rtol:g} {middle[0]:9.2g} {worst[0]:9.2g} | {middle[1]:9.2g} "
                    f"{worst[1]:9.2g} | {failed:2d} | {spent:9d} {time.process_time() - began:6.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
