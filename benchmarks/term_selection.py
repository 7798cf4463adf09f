"""Term selection in gradient matching: Lorenz from 30 candidates at 1% noise, compared with PySINDy if installed.

    python benchmarks/term_selection.py

For each seed: whether the terms found are the true ones, and the largest relative error of a true coefficient. PySINDy
runs with its default smoothed finite differences and with its weak form, both with STLSQ at threshold 0.5.
"""

from __future__ import annotations

import argparse
import importlib.util
import time

import numpy as np
from scipy.integrate import solve_ivp

from invsamp.solvers.gradient_matching import Library, select, weak
from invsamp.solvers.gradient_matching.library import Entry, Term

NAMES = ["1", "x", "y", "z", "x**2", "x*y", "x*z", "y**2", "y*z", "z**2"]
PRODUCTS = [(), (0,), (1,), (2,), (0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
TRUE = {"x: x": -10.0, "x: y": 10.0, "y: x": 28.0, "y: y": -1.0, "y: x*z": -1.0, "z: z": -8.0 / 3.0, "z: x*y": 1.0}


def candidates() -> Library:
    """All products of at most two states, in each equation."""

    def term(name: str, factors: tuple[int, ...]) -> Term:
        return Term(name, lambda t, x: np.prod([np.ones(len(t)), *(x[k] for k in factors)], axis=0))

    terms = [term(*each) for each in zip(NAMES, PRODUCTS, strict=True)]
    parameters = [f"{state}: {name}" for state in "xyz" for name in NAMES]
    entries = [Entry(10 * equation + k, equation, each) for equation in range(3) for k, each in enumerate(terms)]
    return Library(("x", "y", "z"), tuple(parameters), tuple(entries))


def lorenz(seed: int, step: float, end: float, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, noisy states, and the standard deviations of the noise."""
    times = np.arange(0.0, end + 0.5 * step, step)

    def rhs(t: float, u: np.ndarray) -> list[float]:
        return [10.0 * (u[1] - u[0]), u[0] * (28.0 - u[2]) - u[1], u[0] * u[1] - 8.0 / 3.0 * u[2]]

    states = solve_ivp(rhs, (0.0, end), [-8.0, 8.0, 27.0], t_eval=times, rtol=1e-10, atol=1e-10).y.T
    sd = noise * states.std(axis=0)
    return times, states + sd * np.random.default_rng(seed).standard_normal(states.shape), sd


def sindy(times: np.ndarray, states: np.ndarray, form: str) -> dict[str, float]:
    """Coefficients that are not zero, as PySINDy finds them."""
    import pysindy as ps

    library = ps.PolynomialLibrary(degree=2)
    if form == "weak":
        library = ps.WeakPDELibrary(library, spatiotemporal_grid=times, K=300)
        model = ps.SINDy(optimizer=ps.STLSQ(threshold=0.5), feature_library=library)
    else:
        model = ps.SINDy(
            optimizer=ps.STLSQ(threshold=0.5),
            feature_library=library,
            differentiation_method=ps.SmoothedFiniteDifference(),
        )
    model.fit(states, t=times)
    found = model.coefficients()
    order = ["1", "x", "y", "z", "x**2", "x*y", "x*z", "y**2", "y*z", "z**2"]
    table = {
        f"{s}: {n}": float(c) for s, row in zip("xyz", found, strict=True) for n, c in zip(order, row, strict=True)
    }
    return {name: value for name, value in table.items() if value != 0.0}


def error(found: dict[str, float]) -> float:
    """Largest relative error of a true coefficient."""
    return max(abs(found.get(name, 0.0) - value) / abs(value) for name, value in TRUE.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--step", type=float, default=0.002)
    parser.add_argument("--end", type=float, default=10.0)
    parser.add_argument("--noise", type=float, default=0.01)
    arguments = parser.parse_args()
    peers = importlib.util.find_spec("pysindy") is not None
    if not peers:
        print("PySINDy is not installed: skipped")
    for seed in range(1, arguments.seeds + 1):
        times, states, sd = lorenz(seed, arguments.step, arguments.end, arguments.noise)
        began = time.perf_counter()
        for label, given in (("sd known", sd), ("sd unknown", None)):
            chosen = select(candidates(), times, states, given, derivatives=weak(radius=60, noise=sd))
            found = dict(zip(chosen.parameters, chosen.mean.tolist(), strict=True))
            false = {name: share for name, share in chosen.share.items() if name not in TRUE}
            print(
                f"seed {seed}, {label}: true terms {set(found) == set(TRUE)}, error {error(found):.4f}, "
                f"shares: true {min(chosen.share[name] for name in TRUE):.2f}, false {max(false.values()):.2f}, "
                f"{time.perf_counter() - began:.1f} s"
            )
        if peers:
            for form in ("smoothed", "weak"):
                theirs = sindy(times, states, form)
                print(f"seed {seed}, PySINDy {form}: true terms {set(theirs) == set(TRUE)}, error {error(theirs):.4f}")


if __name__ == "__main__":
    main()
