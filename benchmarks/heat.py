"""Cost of a likelihood and its gradient on the heat equation: by precomputed weights, solves, or a tutorial's loop.

    python benchmarks/heat.py [--repeats N] [--largest CELLS]

One sensor, 64 implicit Euler steps. Ratios are medians over repeats in which the candidates take turns, in processor
time of one thread. The tutorial's loop is measured where dolfinx is installed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import contextlib
import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

with contextlib.suppress(ImportError):
    import h5py  # noqa: F401  (before dolfinx: the first HDF5 library that is loaded wins)

import numpy as np

import invsamp as iv
from invsamp.protocols import Array
from invsamp.solvers.fem.fields import GaussianBump, LogField, Modes
from invsamp.solvers.fem.placement import on_cells
from invsamp.solvers.fem.random_fields import Matern, karhunen_loeve, square_rule
from invsamp.solvers.heat import HeatEquation

STEPS, END_TIME, WIDTH = 64, 0.03, 0.1
SENSOR, DATUM, NOISE_SD, CENTER = np.array([0.43, 0.61]), 0.5, 0.1, np.array([0.52, 0.47])
MODES = 16
#: What the ratios on 64x64 must reach.
GOALS = {"weights against solves": 50.0, "weights against the tutorial": 500.0, "conductivity against its solves": 1.5}

Timed = Callable[[], object]


class Ratio(NamedTuple):
    """Median of the ratios of paired timings, and their quartiles."""

    median: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.median:8.3g}  (quartiles {self.lower:.3g} .. {self.upper:.3g})"


def with_weights(cells: int) -> Timed:
    """Energy and gradient of the center, after one adjoint solve at the start."""
    return _source(cells, precompute=True)


def with_solves(cells: int) -> Timed:
    """The same by a forward and an adjoint march with factors made at the start."""
    return _source(cells, precompute=False)


def with_conductivity(cells: int) -> tuple[Timed, Timed]:
    """Energy and gradient of a log conductivity in `MODES` modes; and their unavoidable part by itself.

    Unavoidable are one numerical factorization, and a solve for each step forward and each step back.
    """
    modes = karhunen_loeve(Matern(1.5, 0.3), *square_rule(16), count=MODES)
    field = LogField(Modes("z", modes))
    equation = HeatEquation(cells, STEPS, END_TIME, GaussianBump(WIDTH, center=tuple(CENTER)), conductivity=field)
    potential = _potential(iv.Prior(z=iv.Normal(0.0, 1.0, shape=MODES)), equation.observe(SENSOR[None]))
    z = 0.1 * np.random.default_rng(0).standard_normal((1, MODES))

    discretization = equation.discretization
    space, march = discretization.space, discretization.scheme
    conductivity = on_cells(field.at(space.midpoints), space).values(z)[0]
    matrix = space.combine(1.0, space.mass, END_TIME / STEPS, space.stiffness(conductivity))
    right = np.random.default_rng(1).standard_normal((len(space.nodes), 1))

    def unavoidable() -> None:
        factors = space.factor(matrix, march.fixed)
        for _ in range(2 * STEPS):
            factors.solve(right)

    return lambda: potential.energy_and_gradient(z), unavoidable


def textbook(cells: int) -> Timed | None:
    """The tutorial's loop, checked against the weights; None without dolfinx."""
    if importlib.util.find_spec("dolfinx") is None:
        return None
    from _textbook_heat import TextbookHeat

    loop = TextbookHeat(cells, STEPS, END_TIME, WIDTH, SENSOR)
    energy, gradient = loop.energy_and_gradient(CENTER, DATUM, NOISE_SD)
    ours = _source(cells, precompute=True)()
    np.testing.assert_allclose(ours[0][0], energy + np.log(NOISE_SD * np.sqrt(2 * np.pi)), rtol=1e-9)
    np.testing.assert_allclose(ours[1][0], gradient, rtol=1e-9)
    return lambda: loop.energy_and_gradient(CENTER, DATUM, NOISE_SD)


def compare(candidates: Mapping[str, Timed], repeats: int) -> dict[str, list[float]]:
    """Seconds of processor time per call, one list for each candidate; they take turns."""
    calls = {name: max(1, round(0.02 / seconds(run))) for name, run in candidates.items()}
    spent: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, run in candidates.items():
            spent[name].append(seconds(run, calls[name]))
    return spent


def seconds(run: Timed, calls: int = 1) -> float:
    """Processor time of one call, on average over ``calls``."""
    began = time.process_time()
    for _ in range(calls):
        run()
    return (time.process_time() - began) / calls


def ratio(above: list[float], below: list[float]) -> Ratio:
    """The ratio of paired timings."""
    lower, median, upper = np.quantile(np.divide(above, below), [0.25, 0.5, 0.75]).tolist()
    return Ratio(median, lower, upper)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--largest", type=int, default=256, help="cells along a side of the largest mesh")
    settings = parser.parse_args()
    print_ratios(settings.repeats)
    print_costs([cells for cells in (16, 32, 64, 128, 256) if cells <= settings.largest])


def print_ratios(repeats: int) -> None:
    """The three ratios on 64x64, with their goals."""
    conductivity, unavoidable = with_conductivity(64)
    candidates = {
        "weights": with_weights(64),
        "solves": with_solves(64),
        "conductivity": conductivity,
        "unavoidable": unavoidable,
    }
    loop = textbook(64)
    if loop is not None:
        candidates["tutorial"] = loop
    for run in candidates.values():
        run()
    spent = compare(candidates, repeats)
    print(f"64x64, {STEPS} steps, one sensor: energy and gradient, milliseconds of processor time, median of {repeats}")
    names = {
        "weights": "source's center, weights made at the start",
        "solves": "source's center, forward and adjoint solve, factors made at the start",
        "tutorial": "source's center, dolfinx as in a tutorial: assembles and factors",
        "conductivity": f"log conductivity in {MODES} modes",
        "unavoidable": f"  of which one factorization and {2 * STEPS} solves, alone",
    }
    for name, text in names.items():
        if name in spent:
            print(f"  {text:72s} {1e3 * statistics.median(spent[name]):10.4f}")
    pairs = {
        "weights against solves": ("solves", "weights"),
        "weights against the tutorial": ("tutorial", "weights"),
        "conductivity against its solves": ("conductivity", "unavoidable"),
    }
    for name, (above, below) in pairs.items():
        if above not in spent:
            print(f"  {name:36s} not measured: dolfinx is not installed")
            continue
        found = ratio(spent[above], spent[below])
        small = name.startswith("conductivity")
        met = found.median <= GOALS[name] if small else found.median >= GOALS[name]
        print(f"  {name:36s} {found}  {'<=' if small else '>='} {GOALS[name]:g}: {'met' if met else 'missed'}")


def print_costs(meshes: list[int]) -> None:
    """Cost against the mesh, its slope, and the cost of an unknown conductivity relative to the unavoidable."""
    print("milliseconds per evaluation with gradient, medians; slope: the power of the cells along a side")
    print(
        f"  {'cells':>6s} {'nodes':>7s} {'weights':>16s} {'solves':>18s} {'conductivity':>18s} {'unavoidable':>18s}"
        "   conductivity against unavoidable"
    )
    table: list[list[float]] = []
    for cells in meshes:
        runs = [with_weights(cells), with_solves(cells), *with_conductivity(cells)]
        for run in runs[: 1 if cells > 64 else None]:
            run()  # compiles; a cold start counts for little on the large meshes
        spent = compare({str(k): run for k, run in enumerate(runs)}, 9 if cells <= 64 else 3)
        table.append([statistics.median(times) for times in spent.values()])
        print(f"  {cells:6d} {(cells + 1) ** 2:7d}{_cells(table)} {ratio(spent['2'], spent['3'])}", flush=True)
    if len(meshes) > 1:
        logs = np.log(table)
        fitted = np.polyfit(np.log(meshes), logs, 1)[0]
        print(f"  slope over all meshes{'':>3s}" + "".join(f"{'':>12s}{slope:7.2f}" for slope in fitted))


def _cells(table: list[list[float]]) -> str:
    row, before = table[-1], table[-2] if len(table) > 1 else None
    slopes = [""] * len(row) if before is None else [f"{np.log2(b / a):+.2f}" for a, b in zip(before, row, strict=True)]
    return "".join(f" {1e3 * value:11.4g} {slope:>6s}" for value, slope in zip(row, slopes, strict=True))


def _source(cells: int, precompute: bool) -> Callable[[], tuple[Array, Array]]:
    equation = HeatEquation(cells, STEPS, END_TIME, GaussianBump(WIDTH), "dirichlet")
    prior = iv.Prior(x=iv.Uniform(0, 1), y=iv.Uniform(0, 1))
    potential = _potential(prior, equation.observe(SENSOR[None], precompute=precompute))
    return lambda: potential.energy_and_gradient(CENTER[None])


def _potential(prior: iv.Prior, model: iv.extending.ForwardModel) -> iv.extending.Potential:
    return iv.Posterior(prior, {"heat": model}, [DATUM], iv.GaussianNoise(NOISE_SD)).potential("heat")


if __name__ == "__main__":
    main()
