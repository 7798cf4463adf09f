"""Time from a plain function to the first solve of networks of 200 states: sparse ones, `A @ x`, and dense sums.

    python benchmarks/ode_networks.py [--states 200]

Each runs in a process of its own, with new coefficients, so that none of its code is in the cache. The march, which all
models share, is compiled before. Printed are CPU seconds until the first states, and from there until the first
sensitivities to the parameters. Then follow the method of differentiation of the right-hand side, and milliseconds of a
solve with sensitivities.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Any

import numpy as np

CASES = ("sparse sums", "sparse A @ x", "dense A @ x", "dense, each with a rate of its own", "dense products")
NAMES = ("a", "b", "c")


def right_hand_side(case: str, n: int) -> tuple[Any, tuple[str, ...]]:
    """Function and parameters."""
    rng = np.random.default_rng(time.time_ns())
    few = [rng.integers(0, n, 4) for _ in range(n)]
    sparse, dense = np.zeros((n, n)), rng.normal(size=(n, n)) / n
    for row, columns in enumerate(few):
        sparse[row, columns] = rng.uniform(0.2, 0.4, 4)
    scale = rng.uniform(0.2, 0.4)
    own = tuple(f"k{i}" for i in range(n))

    def sums(t: Any, x: Any, p: Any) -> Any:
        return [
            p[0] * scale * sum(x[j] for j in few[i]) / (1 + x[i] ** 2) - p[1] * x[i] * x[i - 1] - x[i] for i in range(n)
        ]

    def product(matrix: Any) -> Any:
        def rhs(t: Any, x: Any, p: Any) -> Any:
            x = np.array(x)
            return p[0] * (matrix @ x) / (1 + x**2) + p[1] * np.sin(t) - p[2] * x

        return rhs

    def rates(t: Any, x: Any, p: Any) -> Any:
        return np.asarray(p) * (dense @ np.array(x)) - np.array(x)

    def products(t: Any, x: Any, p: Any) -> Any:
        x = np.array(x)
        return p[0] * x * (dense @ (x * x)) - p[1] * x + p[2]

    return {
        "sparse sums": (sums, NAMES),
        "sparse A @ x": (product(sparse), NAMES),
        "dense A @ x": (product(dense), NAMES),
        "dense, each with a rate of its own": (rates, own),
        "dense products": (products, NAMES),
    }[case]


def measured(case: str, n: int) -> None:
    """Print one row."""
    from invsamp.solvers.ode import OdeModel

    def warm(t: Any, x: Any, p: Any) -> Any:
        return (-p[0] * x[0],)

    shared = OdeModel(warm, ("x",), ("p",), method="RK45")
    shared.solve_with_sensitivities([[1.0]], [1.0], [0.0, 1.0])
    function, parameters = right_hand_side(case, n)
    values, start, times = np.full((1, len(parameters)), 0.5), np.ones(n), [0.0, 0.5]
    began = time.process_time()
    model = OdeModel(function, [f"x{i}" for i in range(n)], parameters, method="RK45")
    model.solve(values, start, times)
    states = time.process_time()
    solution = model.solve_with_sensitivities(values, start, times, initial_states=())
    both = time.process_time()
    model.solve_with_sensitivities(values, start, times, initial_states=())
    again = 1e3 * (time.process_time() - both)
    print(
        f"{case:36s} {states - began:6.1f} s + {both - states:6.1f} s, {model.derivatives}, {again:.1f} ms, "
        f"status {int(solution.status[0])}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=200)
    parser.add_argument("--case", choices=CASES)
    given = parser.parse_args()
    if given.case:
        measured(given.case, given.states)
        return
    for case in CASES:
        subprocess.run([sys.executable, __file__, "--states", str(given.states), "--case", case], check=True)


if __name__ == "__main__":
    main()
