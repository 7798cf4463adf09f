"""Taylor's method against heyoka and our explicit pairs: smooth systems, 51 outputs, tolerances from 1e-3 to 1e-12.

    python benchmarks/ode_taylor.py [--repeats N] [--systems Lorenz ...] [--tolerances 1e-6 ...]

Least CPU milliseconds of one trajectory with its sensitivities to all parameters, and of its states alone, in turns on
one thread. In brackets are the largest error of the states in tolerances, and the number of steps. "Loop alone" is the
compiled part of a solve by Taylor's method. heyoka is included for Lorenz' system if it is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.problems import lorenz, lotka_volterra
from invsamp.solvers.ode import OdeModel
from invsamp.solvers.ode.integrators.adaptive_step import march, scratch_of
from invsamp.solvers.ode.integrators.methods import INTEGRATORS
from invsamp.solvers.ode.integrators.taylor import TAYLOR
from invsamp.solvers.ode.integrators.trajectories import Outcome

Array = npt.NDArray[np.float64]
TOLERANCES = (1e-3, 1e-4, 1e-6, 1e-7, 1e-9, 1e-12)
METHODS = ("Taylor", "RK45", "DOP853")
#: Calls of a contestant in one turn.
CALLS = 50


class System(NamedTuple):
    """An initial value problem until some time."""

    rhs: Callable[..., Any]
    p: tuple[float, ...]
    start: tuple[float, ...]
    until: float


def neuron(t: Any, x: Any, p: Any) -> Any:
    """FitzHugh and Nagumo."""
    return p[2] * (x[0] - x[0] ** 3 / 3 + x[1]), -(x[0] - p[0] + p[1] * x[1]) / p[2]


def pendulum(t: Any, x: Any, p: Any) -> Any:
    """Damped and driven."""
    return x[1], -p[0] * np.sin(x[0]) - p[1] * x[1] + p[2] * np.cos(p[3] * t)


def bodies(t: Any, x: Any, p: Any) -> Any:
    """Three bodies in a plane: positions, then velocities."""
    rates: list[Any] = [0.0] * 6
    for i in range(3):
        for j in range(i + 1, 3):
            apart = [x[2 * j + k] - x[2 * i + k] for k in range(2)]
            cube = (apart[0] ** 2 + apart[1] ** 2) ** 1.5
            for k in range(2):
                rates[2 * i + k] = rates[2 * i + k] + p[j] * apart[k] / cube
                rates[2 * j + k] = rates[2 * j + k] - p[i] * apart[k] / cube
    return [*x[6:], *rates]


#: The figure of eight (Chenciner and Montgomery 2000).
EIGHT = (
    *(0.97000436, -0.24308753, -0.97000436, 0.24308753, 0.0, 0.0),
    *(0.466203685, 0.43236573, 0.466203685, 0.43236573, -0.93240737, -0.86473146),
)
SYSTEMS = {
    "Lorenz": System(lorenz.rhs, tuple(lorenz.TRUTH[name] for name in lorenz.PARAMETERS), lorenz.INITIAL, 5.0),
    "Lotka-Volterra": System(
        lotka_volterra.rhs,
        tuple(lotka_volterra.TRUTH[name] for name in lotka_volterra.PARAMETERS),
        lotka_volterra.INITIAL,
        20.0,
    ),
    "FitzHugh-Nagumo": System(neuron, (0.2, 0.2, 3.0), (-1.0, 1.0), 20.0),
    "pendulum": System(pendulum, (1.0, 0.1, 0.5, 0.7), (1.0, 0.0), 20.0),
    "three bodies": System(bodies, (1.0, 1.0, 1.0), EIGHT, 6.3),
}


class Contestant(NamedTuple):
    """Functions without arguments that return states (n_times, n) and the number of steps."""

    with_sensitivities: Callable[[], tuple[Array, int]]
    states: Callable[[], tuple[Array, int]]


def ours(system: System, method: str, rtol: float, atol: float) -> Contestant:
    """One of our methods."""
    names = [f"x{i}" for i in range(len(system.start))], [f"p{i}" for i in range(len(system.p))]
    model = OdeModel(system.rhs, *names, method, rtol=rtol, atol=atol, max_steps=100_000)  # type: ignore[arg-type]
    p, start, times = np.array([system.p]), np.array(system.start), np.linspace(0.0, system.until, 51)

    def slopes() -> tuple[Array, int]:
        found = model.solve_with_sensitivities(p, start, times, initial_states=())
        return found.states[0], int(found.steps[0])

    def states() -> tuple[Array, int]:
        found = model.solve(p, start, times)
        return found.states[0], int(found.steps[0])

    return Contestant(slopes, states)


def loop_alone(system: System, rtol: float, atol: float) -> Contestant:
    """The compiled loop of Taylor's method with the arrays of a solve, without Python's part."""
    method = INTEGRATORS["Taylor"]

    def caught(solve: Callable[[], tuple[Array, int]]) -> Callable[[], tuple[Array, int]]:
        given: list[Any] = []

        def kept(*arguments: Any) -> Outcome:
            given[:] = arguments
            return method(*arguments)

        INTEGRATORS["Taylor"] = kept
        try:
            answer = solve()
        finally:
            INTEGRATORS["Taylor"] = method
        *_, control = given
        scratch, outcome = scratch_of(TAYLOR, control, given[2].shape[1], 0), method(*given)
        loop = march(TAYLOR, False, False)

        def run() -> tuple[Array, int]:
            loop(*given, outcome, scratch, 0, 1)
            return answer

        return run

    return Contestant(*map(caught, ours(system, "Taylor", rtol, atol)))


def heyoka(system: System, tolerance: float) -> Contestant:
    """heyoka's adaptive integrator of Lorenz' system and of its variational equations."""
    import heyoka as package

    x, y, z = package.make_vars("x", "y", "z")
    sigma, rho, beta = (package.par[k] for k in range(3))
    rhs = [(x, sigma * (y - x)), (y, x * (rho - z) - y), (z, x * y - beta * z)]
    times = np.linspace(0.0, system.until, 51)

    def solver(equations: Any) -> Callable[[], tuple[Array, int]]:
        made = package.taylor_adaptive(equations, list(system.start), pars=list(system.p), tol=tolerance, time=0.0)
        start = made.state.copy()

        def solve() -> tuple[Array, int]:
            made.time = 0.0
            made.state[:] = start
            out = made.propagate_grid(times)
            return out[5][:, :3], int(out[3])

        return solve

    return Contestant(solver(package.var_ode_sys(rhs, [sigma, rho, beta], order=1)), solver(rhs))


def seconds(solve: Callable[[], Any]) -> float:
    """CPU time of one call."""
    begin = time.process_time()
    for _ in range(CALLS):
        solve()
    return (time.process_time() - begin) / CALLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--tolerances", nargs="+", type=float, default=TOLERANCES)
    given = parser.parse_args()
    for name in given.systems:
        system = SYSTEMS[name]
        exact = ours(system, "Taylor", 1e-13, 1e-15).states()[0]
        for tolerance in given.tolerances:
            atol = tolerance if name == "Lorenz" else 1e-3 * tolerance  # heyoka has one tolerance
            all_of_them = {method: ours(system, method, tolerance, atol) for method in METHODS}
            all_of_them["Taylor, loop alone"] = loop_alone(system, tolerance, atol)
            if name == "Lorenz":
                try:
                    all_of_them["heyoka"] = heyoka(system, tolerance)
                except ImportError as error:
                    print(f"  skipped: {error.name} is not installed")
            notes = {}
            for who, contestant in all_of_them.items():
                states, _ = contestant.states()
                error = np.abs(states - exact) / (atol + tolerance * np.abs(exact).max(axis=0))
                notes[who] = f"({error.max():.2g}; {contestant.with_sensitivities()[1]})"
            best = {who: [np.inf, np.inf] for who in all_of_them}
            for _ in range(given.repeats):
                for who, contestant in all_of_them.items():
                    for k, solve in enumerate(contestant):
                        best[who][k] = min(best[who][k], 1e3 * seconds(solve))
            shown = (f"{who} {both[0]:.3f} / {both[1]:.3f} {notes[who]}" for who, both in best.items())
            print(f"{name:16s} {tolerance:g}: {', '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
