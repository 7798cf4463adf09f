"""Large stiff systems beside CVODE, and gradients by many parameters beside solves.

    python benchmarks/stiff_systems.py [--repeats 5] [--cells 500] [--side 100] [--parameters 1000]

CPU milliseconds, the least of several runs in turns. The Brusselator on a line until t = 10 at rtol 1e-6, states and
three sensitivities, beside SUNDIALS' CVODE with banded matrices where scikit-sundae is installed (its right-hand side
is NumPy's). Then a square of cells with diffusion, states and three sensitivities; last a gradient by the adjoint.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from _stiff_systems import bistable_square, brusselator

from invsamp.solvers.ode import OdeModel

TIMES = np.linspace(0.0, 10.0, 11)
VALUES = np.array([[1.0, 3.0, 0.02]])


def milliseconds(calls: dict[str, Callable[[], Any]], repeats: int) -> None:
    """Print the least CPU time of each call, in turns."""
    for call in calls.values():
        call()  # compiles
    least = dict.fromkeys(calls, np.inf)
    for _ in range(repeats):
        for name, call in calls.items():
            began = time.process_time()
            call()
            least[name] = min(least[name], 1e3 * (time.process_time() - began))
    for name, value in least.items():
        print(f"{name:58s}{value:10.1f} ms", flush=True)


def cvode(cells: int, start: Any) -> Callable[[], Any] | None:
    """CVODE's solve of the Brusselator; None if there is none."""
    try:
        from sksundae.cvode import CVODE
    except ImportError:
        print("CVODE is left out: scikit-sundae is not installed")
        return None
    a, b, rate = VALUES[0, 0], VALUES[0, 1], VALUES[0, 2] * (cells + 1) ** 2

    def rhs(t: float, y: Any, out: Any) -> None:
        u, v = (np.concatenate([[edge], y[first::2], [edge]]) for first, edge in ((0, 1.0), (1, 3.0)))
        made = u[1:-1] ** 2 * v[1:-1]
        out[0::2] = a + made - (b + 1.0) * u[1:-1] + rate * (u[:-2] - 2.0 * u[1:-1] + u[2:])
        out[1::2] = b * u[1:-1] - made + rate * (v[:-2] - 2.0 * v[1:-1] + v[2:])

    solver = CVODE(rhs, rtol=1e-6, atol=1e-9, linsolver="band", lband=2, uband=2, max_num_steps=100_000)
    return lambda: solver.solve(TIMES, start)


def model_of(rhs: Any, n: int, method: str, parameters: int = 3) -> OdeModel:
    return OdeModel(rhs, [f"x{i}" for i in range(n)], [f"p{j}" for j in range(parameters)], method)


def line(cells: int, repeats: int) -> None:
    rhs, start = brusselator(cells)
    calls: dict[str, Callable[[], Any]] = {}
    for method in ("Rodas5P", "auto", *(("CVODE",) if find_spec("sksundae") else ())):
        model = model_of(rhs, 2 * cells, method)
        calls[f"Brusselator, {2 * cells} states, {method}"] = lambda model=model: model.solve(VALUES, start, TIMES)
        calls[f"with 3 sensitivities, {method}"] = lambda model=model: model.solve_with_sensitivities(
            VALUES, start, TIMES, initial_states=()
        )
    if (peer := cvode(cells, start)) is not None:
        calls["Brusselator, CVODE, banded"] = peer
    milliseconds(calls, repeats)


def square(side: int, repeats: int) -> None:
    rhs, start = bistable_square(side)
    values, times = np.array([[1.0, 50.0, 0.25]]), np.linspace(0.0, 1.0, 6)
    model = model_of(rhs, side * side, "auto")
    milliseconds(
        {
            f"square, {side * side} states": lambda: model.solve(values, start, times),
            "with 3 sensitivities": lambda: model.solve_with_sensitivities(values, start, times, initial_states=()),
        },
        repeats,
    )


def gradient(parameters: int, repeats: int) -> None:
    """A chain of cells, each with a rate of diffusion and one of growth."""
    n = parameters // 2

    def rhs(t: Any, x: Any, p: Any) -> Any:
        x, p = np.asarray(x), np.asarray(p)
        ahead, behind = np.concatenate([x[1:], x[:1]]), np.concatenate([x[-1:], x[:-1]])
        return p[:n] * (ahead - 2.0 * x + behind) + p[n:] * x * (1.0 - x)

    start = np.exp(-30.0 * (np.arange(n) / n - 0.4) ** 2).tolist()
    theta = np.random.default_rng(1).uniform(0.5, 1.5, (1, 2 * n))
    for method in ("RK45", "DOP853", "Rodas5P"):
        observed = model_of(rhs, n, method, 2 * n).observe(np.linspace(0.0, 3.0, 7), start)

        def whole(observed: Any = observed) -> Any:
            y, product = observed.linearize(theta)
            return product(np.ones_like(y))

        calls = {
            f"{n} states, {method}": lambda observed=observed: observed(theta),
            f"with the gradient by {2 * n} parameters": whole,
        }
        milliseconds(calls, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("--repeats", 5), ("--cells", 500), ("--side", 100), ("--parameters", 1000)):
        parser.add_argument(name, type=int, default=value)
    given = parser.parse_args()
    line(given.cells, given.repeats)
    gradient(given.parameters, given.repeats)
    square(given.side, given.repeats)


if __name__ == "__main__":
    main()
