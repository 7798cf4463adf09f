"""Orders five and eight against the true error: Lorenz up to time 5, and Lotka-Volterra up to time 20.

    python benchmarks/ode_orders.py [--repeats N]

The true solution is Taylor's series of order 30 in 40 digits. Errors are the largest over outputs and states, relative
to the state's range. Each method is run over a range of tolerances. Printed are medians of CPU time per trajectory of a
batch: at a true error of 1e-11, by interpolation, and at rtol 1e-6. Both methods are measured in turns in one run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from decimal import Decimal, getcontext

import numpy as np
from _ode_contestants import SYSTEMS, Array, System

UNTIL = {"lorenz": 5.0, "lotka_volterra": 20.0}
TOLERANCES = 10.0 ** -np.arange(4.0, 13.25, 0.5)
DEGREE, STEPS_PER_UNIT = 30, 100
METHODS = ("RK45", "DOP853")
#: Equal trajectories that are solved at once, so that the cost of a call is negligible.
BATCH = 20


def exact(system: System, times: Array) -> Array:
    """States (n_times, n) by Taylor's series; the outputs lie on its steps."""
    getcontext().prec = 40
    values = [Decimal(repr(value)) for value in map(float, system.values)]
    x = [Decimal(repr(float(value))) for value in system.initial]
    step, out = Decimal(1) / STEPS_PER_UNIT, []
    for count in range(round(times[-1] * STEPS_PER_UNIT) + 1):
        if np.isclose(times, count / STEPS_PER_UNIT).any():
            out.append([float(value) for value in x])
        series = [[value] for value in x]
        for k in range(DEGREE):
            for entry, slope in zip(series, coefficient(system.name, series, values, k), strict=True):
                entry.append(slope / (k + 1))
        x = [sum((value * step**k for k, value in enumerate(entry)), Decimal(0)) for entry in series]
    return np.array(out)


def coefficient(name: str, series: list[list[Decimal]], p: list[Decimal], k: int) -> list[Decimal]:
    """The k-th Taylor coefficient of the right-hand side."""

    def product(a: list[Decimal], b: list[Decimal]) -> Decimal:
        return sum((a[j] * b[k - j] for j in range(k + 1)), Decimal(0))

    if name == "lorenz":
        (x, y, z), (sigma, rho, beta) = series, p
        return [sigma * (y[k] - x[k]), rho * x[k] - product(x, z) - y[k], product(x, y) - beta * z[k]]
    (u, v), (alpha, beta, gamma, delta) = series, p
    both = product(u, v)
    return [alpha * u[k] - beta * both, -gamma * v[k] + delta * both]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    for system in SYSTEMS:
        times = np.linspace(0.0, UNTIL[system.name], 11)
        reference = exact(system, times)
        values, start = np.tile(system.values, (BATCH, 1)), np.array(system.initial)
        spent: dict[tuple[str, float], list[float]] = {}
        errors: dict[tuple[str, float], float] = {}
        models = {
            (method, rtol): system.model(method=method, rtol=max(rtol, 1e-13), atol=1e-3 * rtol)
            for method in METHODS
            for rtol in TOLERANCES
        }
        for _ in range(repeats + 1):
            for key, model in models.items():
                begin = time.process_time()
                states = model.solve(values, start, times).states[0]
                spent.setdefault(key, []).append((time.process_time() - begin) * 1e3 / BATCH)
                errors[key] = float((np.abs(states - reference).max(axis=0) / np.ptp(reference, axis=0)).max())
        medians = {key: statistics.median(each[1:]) for key, each in spent.items()}
        print(f"{system.name} up to time {UNTIL[system.name]:g}: true error, ms")
        for rtol in TOLERANCES:
            cells = (f"{method} {errors[method, rtol]:.1e} {medians[method, rtol]:8.3f}" for method in METHODS)
            print(f"  rtol {rtol:.1e}  ", "   ".join(cells))
        at_error = {
            method: np.exp(
                np.interp(
                    np.log(1e-11),
                    np.log([errors[method, rtol] for rtol in TOLERANCES[::-1]]),
                    np.log([medians[method, rtol] for rtol in TOLERANCES[::-1]]),
                )
            )
            for method in METHODS
        }
        least = {method: min(errors[method, rtol] for rtol in TOLERANCES) for method in METHODS}
        same = [medians[method, TOLERANCES[np.isclose(TOLERANCES, 1e-6)][0]] for method in METHODS]
        print(
            f"  at a true error of 1e-11: {at_error['RK45']:.3f} and {at_error['DOP853']:.3f} ms, "
            f"ratio {at_error['DOP853'] / at_error['RK45']:.2f} (least errors {least['RK45']:.1e}, "
            f"{least['DOP853']:.1e}); "
            f"at rtol 1e-6 {same[0]:.3f} and {same[1]:.3f} ms"
        )


if __name__ == "__main__":
    main()
