"""Compiled ODE solver against C, SciPy, diffrax and others: Lorenz and Lotka-Volterra, 10,001 outputs, rtol 1e-6.

    python benchmarks/ode.py [--repeats N] [--no-first-call] [--with-c-alone] [--first-call-alone]

All solvers are measured in one run, in turns, on one thread, in CPU time; the table has medians and their ratios to C.
The C program is compiled by `gcc -O3`. It is the same algorithm as SciPy's RK45 and ours, so the three must agree to
rounding. The others must agree to their tolerance; numbalsoda, diffrax and torchdiffeq are included if installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _ode_contestants import (
    ATOL,
    BATCH,
    RTOL,
    SYSTEMS,
    TIMES,
    Array,
    Solve,
    System,
    compiled_c,
    diffrax,
    numbalsoda,
    ours,
    scipy,
    torchdiffeq,
)
from scipy.integrate import solve_ivp

#: Longest that a contestant may take for all its repeats, in seconds.
PATIENCE = 5.0
#: Measurements of a fast contestant in each repeat.
ROUNDS = 7

OPTIONAL = (numbalsoda, diffrax, torchdiffeq)


def collect(
    system: System, folder: Path, with_c_alone: bool
) -> tuple[dict[tuple[str, str], Solve], dict[tuple[str, str], float]]:
    """All contestants, checked, and the CPU seconds of the packages' first calls; prints the skipped ones."""
    reference = precise(system)
    found: dict[tuple[str, str], Solve] = {}
    first: dict[tuple[str, str], float] = {}
    for make in (ours, compiled_c(folder), *(() if with_c_alone else (scipy, *OPTIONAL))):
        try:
            for kind, name, solve in make(system):
                begin = time.process_time()
                check(system, kind, name, solve(), reference)
                if make in OPTIONAL:
                    first[kind, name] = time.process_time() - begin
                found[kind, name] = solve
        except ImportError as error:
            print(f"  skipped: {error.name} is not installed")
        except Exception as error:  # whatever a package that is not ours may raise
            if make not in OPTIONAL:
                raise
            print(f"  skipped: {make.__name__}: {type(error).__name__}: {str(error).splitlines()[0]}")
    return found, first


def precise(system: System) -> tuple[Array, Array]:
    """States (T', n) by DOP853 up to the comparable time, and their sensitivities by central differences."""
    times = TIMES[system.comparable >= TIMES]

    def solve(p: Array) -> Array:
        span = (times[0], times[-1])
        out = solve_ivp(lambda t, x: system.rhs(t, x, p), span, system.initial, "DOP853", times, rtol=1e-13, atol=1e-13)
        return out.y.T

    p = np.array(system.values)
    steps = 1e-5 * np.diag(p)
    slopes = [(solve(p + step) - solve(p - step)) / (2.0 * step.sum()) for step in steps]
    return solve(p), np.stack(slopes, axis=-1)


def check(system: System, kind: str, name: str, result: Any, reference: tuple[Array, Array]) -> None:
    """Every result must be right: to 1e-3 of a state's range (global error at rtol 1e-6), sensitivities to 1e-2."""
    parts = result if kind in ("sensitivities", "partial") else (result,)
    for part, exact, bound in zip(parts, reference, (1e-3, 1e-2), strict=False):
        part = np.asarray(part)
        assert part.shape == (len(TIMES), *exact.shape[1:]), f"{name}: shape {part.shape}"
        assert np.isfinite(part).all(), f"{name}: not finite"
        error = float((np.abs(part[: len(exact)] - exact).max(axis=0) / np.abs(exact).max(axis=0)).max())
        assert error < bound, f"{name} on {system.name}: {kind} differ by {error:.1e} of their range"


def agree_to_rounding(system: System, solves: dict[tuple[str, str], Solve]) -> None:
    """Ours, C and SciPy's RK45 take the same steps: the largest difference, over the comparable time."""
    rows = system.comparable >= TIMES
    mine, c = (solves["states", name]()[rows] for name in ("invsamp", "C, gcc -O3"))
    slopes, partial = (
        [solves[kind, name]()[1][rows] for name in ("invsamp", "C, gcc -O3")] for kind in ("sensitivities", "partial")
    )
    differences = {
        "C": float(np.abs(mine - c).max() / np.abs(c).max()),
        "C, sensitivities": float(np.abs(slopes[0] - slopes[1]).max() / np.abs(slopes[1]).max()),
        "C, states alone controlled": float(np.abs(partial[0] - partial[1]).max() / np.abs(partial[1]).max()),
    }
    if python := solves.get(("states", "SciPy solve_ivp RK45")):
        differences["SciPy RK45"] = float(np.abs(mine - np.asarray(python())[rows]).max() / np.abs(c).max())
    print(f"  up to time {system.comparable:g} invsamp differs from", end=" ")
    print(", ".join(f"{name} by {value:.1e}" for name, value in differences.items()))
    # where the states alone are controlled in C, sensitivities have larger tolerances here: not the same steps
    same = [value for name, value in differences.items() if name != "C, states alone controlled"]
    assert max(same) < 1e-9, "the same algorithm must give the same numbers"


def measure(
    solves: dict[tuple[str, str], Solve], first: dict[tuple[str, str], float], repeats: int
) -> dict[tuple[str, str], tuple[float, int]]:
    """Median CPU milliseconds of each contestant and how many repeats it got; the repeats are taken in turns.

    A package whose first call took longer than all repeats may take is not called again.
    """
    times = {
        key: [first[key] if first.get(key, 0.0) > PATIENCE else _seconds(solve, 1)] for key, solve in solves.items()
    }
    once = {key: spent[0] for key, spent in times.items()}
    # the clock is precise, but a call of 0.1 ms is short compared with other load
    calls = {key: max(1, int(0.005 / spent)) for key, spent in once.items()}
    turns = {key: min(repeats, int(PATIENCE / spent)) for key, spent in once.items()}
    for turn in range(1, repeats + 1):
        # a busy neighbor core slows all for a while: fast contestants are measured often, side by side
        for round_ in range(ROUNDS):
            for key, solve in solves.items():
                if turn <= turns[key] and (round_ == 0 or once[key] < 0.02):
                    # the first time is kept only where there is no other
                    times[key] = [*times[key][turn + round_ == 1 :], _seconds(solve, calls[key])]
    return {key: (1e3 * statistics.median(spent), len(spent)) for key, spent in times.items()}


def _seconds(solve: Solve, calls: int) -> float:
    begin = time.process_time()  # other work on the machine does not count
    for _ in range(calls):
        solve()
    return (time.process_time() - begin) / calls


def report(system: System, medians: dict[tuple[str, str], tuple[float, int]]) -> None:
    """The table of one system, and the goals."""
    titles = {
        "states": "states",
        "sensitivities": "states + sensitivities to parameters",
        "partial": "the same, errors of states controlled",
    }
    for kind, title in titles.items():
        yardstick = medians[kind, "C, gcc -O3"][0]
        print(f"  {title:42s} {'ms':>10s} {'/ C':>9s} {'repeats':>8s}")
        for (which, name), (spent, count) in sorted(medians.items(), key=lambda item: item[1]):
            if which == kind:
                print(f"    {name:40s} {spent:10.3f} {spent / yardstick:9.2f} {count:8d}")

    def ratio(kind: str, name: str, other: str) -> float:
        return medians[kind, name][0] / medians[kind, other][0]

    goal("states / C", ratio("states", "invsamp", "C, gcc -O3"), 1.3)
    goal("states + sensitivities / C", ratio("sensitivities", "invsamp", "C, gcc -O3"), 1.5)
    goal("the same, states controlled / C", ratio("partial", "invsamp", "C, gcc -O3"), 2.5)
    if ("states", "SciPy solve_ivp RK45") in medians:
        goal("SciPy RK45 / states", ratio("states", "SciPy solve_ivp RK45", "invsamp"), 100.0, least=True)
    goal(
        f"batch of {BATCH} / {BATCH} calls",
        ratio("batch", f"invsamp, batch of {BATCH}", f"invsamp, {BATCH} calls"),
        1.3,
    )


def goal(name: str, value: float, bound: float, unit: str = "", least: bool = False) -> None:
    """One line: the figure, its bound, and whether it is kept."""
    verdict = "met" if (value >= bound if least else value <= bound) else "MISSED"
    print(f"  {name:34s} {value:8.2f}{unit}   goal {'>=' if least else '<='} {bound:g}{unit}: {verdict}")


FIRST_CALL = """
import sys, time
from invsamp.solvers.ode import OdeModel
capacity = float(sys.argv[1])
def growth(t, x, p):
    return p[0] * x[0] * (1 - x[0] / capacity) - p[1] * x[0] * x[1], p[1] * x[0] * x[1] - p[2] * x[1]
model = OdeModel(growth, ("prey", "predators"), ("birth", "catch", "death"))
arguments = [[1.0, 0.1, 1.0]], [10.0, 5.0], range(21)
assert model.solve(*arguments).status[0] == 0
print(time.process_time())
assert model.solve_with_sensitivities(*arguments).status[0] == 0
print(time.process_time())
"""


def first_calls(folder: Path, repeats: int) -> None:
    """CPU seconds of a whole script, imports included, until its first states, and until its first sensitivities."""

    def fresh(capacity: int, cache: str) -> Array:
        command = [sys.executable, "-c", FIRST_CALL, str(capacity)]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / cache)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"a fresh process failed: {done.stderr}")
        return np.array(done.stdout.split(), dtype=float)

    fresh(9, "bytecode")  # Python compiles its own sources once
    rows = {
        "nothing compiled yet": [fresh(1, f"cache{k}") for k in range(repeats)],
        "a new right-hand side": [fresh(2 + k, "cache0") for k in range(repeats)],
        "compiled earlier": [fresh(1, "cache0") for _ in range(repeats)],
    }
    print("A script from its start, in CPU seconds, medians (least to most)")
    print(f"  {'':34s} {'states':>20s} {'+ sensitivities':>20s}")
    for name, spent in rows.items():
        figures = zip(np.median(spent, axis=0), np.min(spent, axis=0), np.max(spent, axis=0), strict=True)
        print(f"  {name:34s}", *(f"{middle:6.2f} ({least:.2f} to {most:.2f})" for middle, least, most in figures))
    goal("nothing compiled yet, states", float(np.median(rows["nothing compiled yet"], axis=0)[0]), 6.0, " s")
    goal("a new right-hand side, states", float(np.median(rows["a new right-hand side"], axis=0)[0]), 1.5, " s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="repeats of every measurement; at least 7 for the goals")
    parser.add_argument("--no-first-call", action="store_true", help="leave the fresh processes out")
    parser.add_argument("--first-call-alone", action="store_true", help="measure the fresh processes only")
    parser.add_argument("--with-c-alone", action="store_true", help="compare with the C program only")
    settings = parser.parse_args()
    if shutil.which("gcc") is None:
        sys.exit("gcc is not installed: there is nothing to compare with")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for system in () if settings.first_call_alone else SYSTEMS:
            print(f"{system.name}: {len(TIMES):,} outputs up to time {TIMES[-1]:g}, rtol {RTOL:g}, atol {ATOL:g}")
            solves, first = collect(system, folder, settings.with_c_alone)
            agree_to_rounding(system, solves)
            report(system, measure(solves, first, settings.repeats))
        if not settings.no_first_call:
            first_calls(folder, min(settings.repeats, 5))


if __name__ == "__main__":
    main()
