"""Errors of solves of random problems in units of their tolerance, against a reference at 1e-13.

    python benchmarks/ode_tolerances.py [--problems 200] [--methods auto Rodas5P] [--seed 1]

Each problem is one of eight systems with parameters drawn anew. The error is the largest over 20 times and all states
of |x - reference| / (atol + rtol max |x|), with `atol` a thousandth of `rtol`: the tolerance is that of one step, so
that some tens of it are what accumulates. The reference is DOP853, or Rodas5P where a system is stiff, at `rtol` 1e-13.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.solvers.ode import OdeModel

Array = npt.NDArray[np.float64]


class Problem(NamedTuple):
    """A system with its parameters."""

    system: str
    rhs: Callable[..., Any]
    parameters: Array
    start: Array
    until: float
    stiff: bool

    def solved(self, method: str, rtol: float, atol: float) -> tuple[Array, int]:
        """States (20, n) and the status."""
        n, q = len(self.start), len(self.parameters)
        names = [f"x{i}" for i in range(n)], [f"p{j}" for j in range(q)]
        model = OdeModel(self.rhs, *names, method, rtol=rtol, atol=atol, max_steps=1_000_000)
        times = np.linspace(0.0, self.until, 21)[1:]
        found = model.solve(self.parameters[None], self.start, times, t0=0.0)
        return found.states[0], int(found.status[0])

    def error(self, method: str, rtol: float, reference: Array) -> float:
        """In tolerances; infinite where there is no solution."""
        states, status = self.solved(method, rtol, 1e-3 * rtol)
        if status:
            return np.inf
        return float((np.abs(states - reference) / (1e-3 * rtol + rtol * np.abs(reference).max(axis=0))).max())

    def reference(self) -> Array:
        """States (20, n)."""
        return self.solved("Rodas5P" if self.stiff else "DOP853", 1e-13, 1e-16)[0]


def lotka_volterra(t: Any, x: Any, p: Any) -> Any:
    return (p[0] - p[1] * x[1]) * x[0], (p[2] * x[0] - p[3]) * x[1]


def lorenz(t: Any, x: Any, p: Any) -> Any:
    return p[0] * (x[1] - x[0]), x[0] * (p[1] - x[2]) - x[1], x[0] * x[1] - p[2] * x[2]


def fitzhugh_nagumo(t: Any, x: Any, p: Any) -> Any:
    return p[2] * (x[0] - x[0] ** 3 / 3 + x[1]), -(x[0] - p[0] + p[1] * x[1]) / p[2]


def epidemic(t: Any, x: Any, p: Any) -> Any:
    s, e, i = x
    return -p[0] * s * i, p[0] * s * i - p[1] * e, p[1] * e - p[2] * i


def driven(t: Any, x: Any, p: Any) -> Any:
    return x[1], -p[0] * np.sin(x[0]) - p[1] * x[1] + p[2] * np.cos(p[3] * t)


def van_der_pol(t: Any, x: Any, p: Any) -> Any:
    return x[1], p[0] * ((1 - x[0] ** 2) * x[1]) - x[0]


def robertson(t: Any, x: Any, p: Any) -> Any:
    a, b, c = x
    return -p[0] * a + p[1] * b * c, p[0] * a - p[1] * b * c - p[2] * b * b, p[2] * b * b


def chain(t: Any, x: Any, p: Any) -> Any:
    return [p[0] * (x[i - 1] if i else 1.0) ** 2 - p[i + 1] * x[i] for i in range(6)]


def problems(count: int, seed: int) -> Iterator[Problem]:
    """Random problems, the systems in turns."""
    rng = np.random.default_rng(seed)

    def around(*values: float) -> Array:
        return np.array(values) * rng.uniform(0.7, 1.4, len(values))

    for k in range(count):
        yield (
            lambda: Problem("Lotka-Volterra", lotka_volterra, around(0.6, 0.03, 0.02, 0.8), around(30, 5), 20, False),
            lambda: Problem("Lorenz", lorenz, around(10, 28, 8 / 3), around(1, 2, 15), 3, False),
            lambda: Problem("FitzHugh-Nagumo", fitzhugh_nagumo, around(0.3, 0.3, 3), around(-1, 1), 20, False),
            lambda: Problem("epidemic", epidemic, around(1.5, 0.5, 0.4), np.array([1.0, 0.0, 1e-6]), 60, False),
            lambda: Problem("driven pendulum", driven, around(1, 0.2, 0.8, 0.7), around(1, 0), 20, False),
            lambda: Problem("van der Pol", van_der_pol, 10 ** rng.uniform(1, 3, 1), np.array([2.0, 0.0]), 50, True),
            lambda: Problem("Robertson", robertson, around(0.04, 1e4, 3e7), np.array([1.0, 0.0, 0.0]), 1e3, True),
            lambda: Problem("chain", chain, np.append(1.0, 10 ** rng.uniform(-1, 5, 6)), np.ones(6), 10, True),
        )[k % 8]()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--methods", nargs="*", default=["auto", "Rodas5P"])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    errors: dict[tuple[str, str, float], list[float]] = {}
    for problem in problems(given.problems, given.seed):
        reference = problem.reference()
        for method in given.methods:
            for rtol in (1e-6, 1e-9):
                errors.setdefault((problem.system, method, rtol), []).append(problem.error(method, rtol, reference))
    print(f"{'':18s}{'method':>9s}{'rtol':>9s}{'problems':>10s}{'median':>9s}{'90%':>9s}{'largest':>9s}  tolerances")
    for (system, method, rtol), found in errors.items():
        median, most = np.quantile(found, [0.5, 0.9], method="higher")
        print(f"{system:18s}{method:>9s}{rtol:9.0e}{len(found):10d}{median:9.3g}{most:9.3g}{max(found):9.3g}")


if __name__ == "__main__":
    main()
