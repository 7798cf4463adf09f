"""Large stiff systems compared with CVODE, and gradients with respect to many parameters compared with solves.

    python benchmarks/stiff_systems.py [--repeats 5] [--cells 500] [--side 100] [--parameters 1000] [--parts NAME ...]

CPU milliseconds, the least of several runs in turns. First the Brusselator on a line until t = 10 at rtol 1e-6, states
and three sensitivities. It is compared with SUNDIALS' CVODE with banded matrices if scikit-sundae is installed (its
right-hand side is NumPy's). Then gradients by the adjoint on a line of cells. Last a square of cells with diffusion:
states, three sensitivities, and a gradient with respect to many parameters.
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
PARTS = ("line", "chain", "square")
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


def cvode(cells: int, start: Any) -> dict[str, Callable[[], Any]]:
    """CVODE's solves of the Brusselator, from its Python package: states, and with the variational equations."""
    if not find_spec("sksundae"):
        print("CVODE is left out: scikit-sundae is not installed")
        return {}
    from sksundae.cvode import CVODE

    a, b, d = VALUES[0]
    scale = float((cells + 1) ** 2)

    def spread(w: Any, edge: float) -> Any:
        out = -2.0 * w
        out[1:] += w[:-1]
        out[:-1] += w[1:]
        out[0] += edge
        out[-1] += edge
        return scale * out

    def rhs(t: float, y: Any, out: Any) -> None:
        u, v = y[0::2], y[1::2]
        made = u * u * v
        out[0::2] = a + made - (b + 1.0) * u + d * spread(u, 1.0)
        out[1::2] = b * u - made + d * spread(v, 3.0)

    def variational(t: float, y: Any, out: Any) -> None:
        """States and sensitivities of a cell next to each other, so that bands stay narrow."""
        y, out = y.reshape(cells, 2, 4), out.reshape(cells, 2, 4)
        u, v, su, sv = y[:, 0, 0], y[:, 1, 0], y[:, 0, 1:], y[:, 1, 1:]
        made, moved, lu, lv = u * u * v, (2.0 * u * v)[:, None] * su + (u * u)[:, None] * sv, spread(u, 1), spread(v, 3)
        out[:, 0, 0], out[:, 1, 0] = a + made - (b + 1.0) * u + d * lu, b * u - made + d * lv
        out[:, 0, 1:] = moved - (b + 1.0) * su + d * spread(su, 0.0)
        out[:, 1, 1:] = b * su - moved + d * spread(sv, 0.0)
        out[:, 0, 1] += 1.0
        out[:, 0, 2] -= u
        out[:, 1, 2] += u
        out[:, 0, 3] += lu
        out[:, 1, 3] += lv

    settings = {"rtol": 1e-6, "atol": 1e-9, "linsolver": "band", "max_num_steps": 100_000}
    states = CVODE(rhs, lband=2, uband=2, **settings)
    both = CVODE(variational, lband=11, uband=11, **settings)
    first = np.zeros((2 * cells, 4))
    first[:, 0] = start
    return {
        "Brusselator, CVODE alone, banded": lambda: states.solve(TIMES, start),
        "with 3 sensitivities, CVODE alone, banded": lambda: both.solve(TIMES, first.ravel()),
    }


def model_of(rhs: Any, n: int, method: str, parameters: int = 3) -> OdeModel:
    return OdeModel(rhs, [f"x{i}" for i in range(n)], [f"p{j}" for j in range(parameters)], method)


def line(cells: int, repeats: int, height: float) -> None:
    rhs, start = brusselator(cells, height)
    calls: dict[str, Callable[[], Any]] = {}
    for method in ("Rodas5P", "auto", *(("CVODE",) if find_spec("sksundae") else ())):
        model = model_of(rhs, 2 * cells, method)
        calls[f"Brusselator, {2 * cells} states, {method}"] = lambda model=model: model.solve(VALUES, start, TIMES)
        calls[f"with 3 sensitivities, {method}"] = lambda model=model: model.solve_with_sensitivities(
            VALUES, start, TIMES, initial_states=()
        )
    milliseconds(calls | cvode(cells, start), repeats)


def square(side: int, patches: int, repeats: int) -> None:
    """Three sensitivities, and a gradient with respect to many rates of growth."""
    times, n = np.linspace(0.0, 1.0, 6), side * side
    calls: dict[str, Callable[[], Any]] = {}
    rhs, start = bistable_square(side)
    values = np.array([[1.0, 50.0, 0.25]])
    for method in ("auto", *(("CVODE",) if find_spec("sksundae") else ())):
        model = model_of(rhs, n, method)
        calls[f"square, {n} states, {method}"] = lambda model=model: model.solve(values, start, times)
        calls[f"with 3 sensitivities, {method}"] = lambda model=model: model.solve_with_sensitivities(
            values, start, times, initial_states=()
        )
    rhs, _ = bistable_square(side, patches)
    observed = model_of(rhs, n, "auto", patches + 2).observe(times, start.tolist())
    rates = np.random.default_rng(1).uniform(40.0, 60.0, patches)
    theta = np.concatenate([[1.0], rates, [0.25]])[None]
    calls[f"{patches} rates, auto"] = lambda: observed(theta)
    calls[f"with the gradient by {patches + 2} parameters"] = lambda: _whole(observed, theta)
    milliseconds(calls, repeats)


def _whole(observed: Any, theta: Any) -> Any:
    """A gradient of the sum of all observations."""
    y, product = observed.linearize(theta)
    return product(np.ones_like(y))


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

        calls = {
            f"{n} states, {method}": lambda observed=observed: observed(theta),
            f"with the gradient by {2 * n} parameters": lambda observed=observed: _whole(observed, theta),
        }
        milliseconds(calls, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("--repeats", 5), ("--cells", 500), ("--side", 100), ("--parameters", 1000)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    for height in (0.5, 1.0) if "line" in given.parts else ():
        print(f"from 1 + {height:g} sin")
        line(given.cells, given.repeats, height)
    if "chain" in given.parts:
        gradient(given.parameters, given.repeats)
    if "square" in given.parts:
        square(given.side, given.parameters, given.repeats)


if __name__ == "__main__":
    main()
