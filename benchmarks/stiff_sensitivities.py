"""Error control of sensitivities, and LSODA with several Jacobians: van der Pol, Robertson, HIRES, a chain.

    python benchmarks/stiff_sensitivities.py [--repeats N] [--tables accuracy forms methods]

Van der Pol's oscillator from (2, 0) until 2 mu at the default tolerances: relative error of dy/dmu against Radau at
1e-11, with sensitivities under loose and under full error control. Then CPU milliseconds of states with all
sensitivities by LSODA, with the Jacobian by differences, as a whole, or as bands of diagonal blocks. Last LSODA and
Rodas5P, in turns, each at several tolerances: milliseconds, steps, and the largest errors at 20 times. SciPy's
`solve_ivp(method="LSODA")` calls the same compiled equations from Python.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from typing import Any
from unittest import mock

import numpy as np
from scipy.integrate import solve_ivp

from invsamp.solvers.ode import OdeModel, SensitiveSolution, Status
from invsamp.solvers.ode.codegen.compile_rhs import prepare_sensitivities
from invsamp.solvers.ode.integrators import lsoda

LENGTH = 16


def van_der_pol(t: Any, x: Any, p: Any) -> Any:
    """Relaxation oscillator."""
    return x[1], p[0] * (1 - x[0] ** 2) * x[1] - x[0]


def robertson(t: Any, x: Any, p: Any) -> Any:
    """Three reactions."""
    a, b, c = x
    return -p[0] * a + p[1] * b * c, p[0] * a - p[1] * b * c - p[2] * b * b, p[2] * b * b


def hires(t: Any, x: Any, p: Any) -> Any:
    """Hairer and Wanner, "Solving Ordinary Differential Equations II", IV.10, eq. (10.4)."""
    a, b, c, d, e, f, g, h = x
    k1, k2, k3 = p
    made = k3 * f * h - 1.81 * g
    return (
        *(-k1 * a + k2 * b + 8.32 * c + 0.0007, k1 * a - 8.75 * b, -10.03 * c + k2 * d + 0.035 * e),
        *(8.32 * b + k1 * c - 1.12 * d, -1.745 * e + k2 * f + k2 * g),
        *(-k3 * f * h + 0.69 * d + k1 * e - k2 * f + 0.69 * g, made, -made),
    )


def chain(t: Any, x: Any, p: Any) -> Any:
    """Diffusion and reaction."""
    ends = (1.0, *x, 0.0)
    return [
        p[0] * (ends[i] - 2 * ends[i + 1] + ends[i + 2]) - p[1] * x[i] ** 2 + p[2] * x[i] / (1 + x[i])
        for i in range(LENGTH)
    ]


#: Right-hand side, parameters, initial values, times, absolute tolerance.
CASES = {
    "Robertson": (robertson, (0.04, 1e4, 3e7), (1.0, 0.0, 0.0), np.geomspace(1e-3, 1e4, 22), 1e-13),
    "HIRES": (hires, (1.71, 0.43, 280.0), (1.0, 0, 0, 0, 0, 0, 0, 0.0057), np.linspace(10.0, 321.8122, 20), 1e-9),
    "chain": (chain, (500.0, 1.0, 3.0), (0.0,) * LENGTH, np.linspace(0.5, 10.0, 20), 1e-9),
}


def reference(mu: float) -> float:
    """dy/dmu at 2 mu."""

    def rhs(t: float, y: Any) -> Any:
        x, v, a, b = y
        return v, mu * (1 - x * x) * v - x, b, (-2 * mu * x * v - 1) * a + mu * (1 - x * x) * b + (1 - x * x) * v

    def jacobian(t: float, y: Any) -> Any:
        x, v, a, b = y
        stiffness, slope = mu * (1 - x * x), -2 * mu * x * v - 1
        last = (-2 * mu * (v * a + x * b) - 2 * x * v, -2 * mu * x * a + 1 - x * x, slope, stiffness)
        return (0, 1, 0, 0), (slope, stiffness, 0, 0), (0, 0, 0, 1), last

    return float(solve_ivp(rhs, (0, 2 * mu), [2, 0, 0, 0], "Radau", rtol=1e-11, atol=1e-14, jac=jacobian).y[2, -1])


def accuracy(repeats: int) -> None:
    """The table of van der Pol's oscillator."""
    print(f"{'mu':>6s} {'method':6s} {'dy/dmu':>11s}  relative error, ms: error_control='states' / 'full'")
    for mu in (5.0, 50.0, 1000.0, 3000.0):
        exact = reference(mu)
        for method in ("RK45", "LSODA", "Rodas5P"):
            shown = []
            for control in ("states", "full"):
                model = OdeModel(van_der_pol, tuple("yv"), ["mu"], method, error_control=control)
                spent, solution = measured(model, [mu], [2.0, 0.0], [0.0, 2 * mu], repeats, initial_states=())
                error = abs(solution.sensitivities[0, 1, 0, 0] / exact - 1)
                status = Status(int(solution.status[0]))
                shown.append(f"{error:9.1e} {spent:8.2f}" if status == Status.OK else f"{status.name:>18s}")
            print(f"{mu:6g} {method:6s} {exact:11.3e}  {'   '.join(shown)}")


def forms(repeats: int) -> None:
    """The table of Jacobians."""
    print(f"\n{'':24s} {'differences':>18s} {'whole':>18s} {'bands':>18s}   (ms, steps of states and sensitivities)")
    for name, (rhs, p, start, times, atol) in CASES.items():
        for initial_states in ((), None):
            model = OdeModel(
                rhs, [f"x{i}" for i in range(len(start))], [f"p{i}" for i in range(len(p))], "LSODA", atol=atol
            )
            shown = []
            for most, given in ((0, False), (10**9, True), (0, True)):
                patched = {"_newton": lsoda.Lsoda._newton if given else lambda *arguments: {}}
                with (
                    mock.patch.object(lsoda, "MOST_DENSE", most),
                    mock.patch.multiple(lsoda.Lsoda, **patched),
                ):
                    spent, solution = measured(model, p, start, times, repeats, initial_states=initial_states)
                steps = solution.steps[0] - model.solve([p], start, times, t0=0.0).steps[0]
                shown.append(f"{spent:10.2f} {steps:7d}")
            components = len(start) * (1 + solution.sensitivities.shape[-1])
            print(f"{name:10s} {components:4d} components {' '.join(shown)}")


def methods(repeats: int) -> None:
    """The table of LSODA and Rodas5P; errors relative to each component's largest value."""
    cases = {name: CASES[name] for name in ("Robertson", "HIRES")}
    cases["oscillator"] = (van_der_pol, (1000.0,), (2.0, 0.0), np.linspace(100.0, 2000.0, 20), 1e-9)
    print(f"\n{'':10s} {'rtol':>6s}" + f"{'ms, steps, errors of states and sensitivities':>60s}")
    for name, (rhs, p, start, times, atol) in cases.items():
        labels = [f"x{i}" for i in range(len(start))], [f"p{i}" for i in range(len(p))]
        tight = OdeModel(rhs, *labels, "LSODA", rtol=1e-11, atol=1e-5 * atol, max_steps=400_000)
        exact = tight.solve_with_sensitivities([p], start, times, t0=0.0, initial_states=())
        for rtol in (1e-4, 1e-5, 1e-6, 1e-7):
            shown = []
            for method in ("LSODA", "Rodas5P"):
                model = OdeModel(rhs, *labels, method, rtol=rtol, atol=atol * rtol / 1e-6, max_steps=100_000)
                spent, solution = measured(model, p, start, times, repeats, initial_states=())
                errors = []
                for ours, theirs in zip(solution[:2], exact[:2], strict=True):
                    errors.append((abs(ours - theirs).max(axis=(0, 1)) / abs(theirs).max(axis=(0, 1))).max())
                shown.append(f"{method} {spent:7.2f} {solution.steps[0]:6d} {errors[0]:8.1e} {errors[1]:8.1e}")
            spent, found = by_scipy(rhs, p, start, times, rtol, atol * rtol / 1e-6, repeats)
            n = len(start)
            truth = [exact.states[0], exact.sensitivities[0].transpose(0, 2, 1).reshape(len(times), -1)]
            errors = [
                (abs(ours - theirs).max(axis=0) / abs(theirs).max(axis=0)).max()
                for ours, theirs in zip((found.y[:n].T, found.y[n:].T), truth, strict=True)
            ]
            shown.append(f"solve_ivp {spent:7.2f} {errors[0]:8.1e} {errors[1]:8.1e}")
            print(f"{name:10s} {rtol:6.0e} {' | '.join(shown)}", flush=True)


def by_scipy(rhs: Any, p: Any, start: Any, times: Any, rtol: float, atol: float, repeats: int) -> tuple[float, Any]:
    """Median CPU milliseconds of `solve_ivp` for states and sensitivities to parameters, compiled, by LSODA."""
    n, q, doubles = len(start), len(p), ctypes.POINTER(ctypes.c_double)
    prepared = prepare_sensitivities(rhs, None, n, q, 0).compiled
    function = ctypes.CFUNCTYPE(None, ctypes.c_double, doubles, doubles, doubles)(prepared.address)
    y, values, out = np.zeros(n * (1 + q)), np.array(p), np.empty(n * (1 + q))
    pointers = [array.ctypes.data_as(doubles) for array in (y, values, out)]

    def slopes(t: float, at: Any) -> Any:
        y[:] = at
        function(t, *pointers)
        return out.copy()

    began, spent = np.zeros(n * (1 + q)), []
    began[:n] = start
    absolute = np.concatenate([np.full(n, atol), *(np.full(n, atol / abs(each)) for each in p)])
    for _ in range(repeats + 1):
        begin = time.process_time()
        found = solve_ivp(slopes, (0.0, times[-1]), began, "LSODA", times, rtol=rtol, atol=absolute)
        spent.append(1e3 * (time.process_time() - begin))
        assert found.success
    return statistics.median(spent[1:]), found


def measured(
    model: OdeModel, p: Any, start: Any, times: Any, repeats: int, **settings: Any
) -> tuple[float, SensitiveSolution]:
    """Median CPU milliseconds, and the solution."""
    spent = []
    for _ in range(repeats + 1):  # the first compiles
        begin = time.process_time()
        solution = model.solve_with_sensitivities([p], start, times, t0=0.0, **settings)
        spent.append(1e3 * (time.process_time() - begin))
    return statistics.median(spent[1:]), solution


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    given = parser.parse_args()
    for name in given.tables:
        TABLES[name](given.repeats)


TABLES = {"accuracy": accuracy, "forms": forms, "methods": methods}


if __name__ == "__main__":
    main()
