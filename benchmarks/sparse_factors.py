"""Sparse factorizations of the Poisson equation's matrices and their solves, compared with pardiso if installed.

    python benchmarks/sparse_factors.py [--cells 128 256 512] [--cube 48]

Processor seconds of one thread, the least of five, in turns. A gradient takes a factorization and two solves.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sparse

from invsamp.solvers.fem.factors.ldl import Elimination
from invsamp.solvers.fem.factors.multifrontal import Multifrontal
from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.space import Space


def seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def square(cells: int) -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray]:
    """The matrix of a rough conductivity on a square, its free nodes, and all points."""
    space = Space(unit_square(cells))
    values = np.exp(np.random.default_rng(0).standard_normal(len(space.areas)))
    matrix = space.stiffness(values)
    indptr, indices = (found.astype(np.int32) for found in matrix.places)
    full = sparse.csr_matrix((matrix.entries, indices, indptr))
    return full, np.flatnonzero(~space.on_boundary()), space.nodes


def cube(cells: int) -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray]:
    """Finite differences on a grid of a cube."""
    line, eye = sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], (cells, cells)), sparse.eye(cells)
    full = sum(sparse.kron(sparse.kron(*first), last) for first, last in (((line, eye), eye), ((eye, line), eye)))
    full = sparse.csr_matrix(full + sparse.kron(sparse.kron(eye, eye), line))
    full.sort_indices()
    points = np.stack(np.meshgrid(*3 * [np.arange(cells)], indexing="ij")).reshape(3, -1).T
    return full, np.arange(len(points)), points.astype(float)


def pardiso(matrix: sparse.csr_matrix, right: np.ndarray) -> tuple[float, Callable[[], object], Callable[[], object]]:
    from pypardiso import PyPardisoSolver

    upper = sparse.triu(matrix, format="csr")
    upper.sort_indices()
    solver = PyPardisoSolver(mtype=2)

    def phase(number: int) -> object:
        solver.set_phase(number)
        return solver._call_pardiso(upper, right)

    return seconds(lambda: phase(11)), lambda: phase(22), lambda: phase(33)


def compare(name: str, full: sparse.csr_matrix, free: np.ndarray, points: np.ndarray, peer: bool, rows: bool) -> None:
    """Print a row of the table for each contestant."""
    right = np.zeros((full.shape[0], 1))
    right[free, 0] = np.random.default_rng(1).standard_normal(len(free))
    ways = {"fronts": lambda: Multifrontal.make(full, free, points)}
    if rows:
        ways["rows"] = lambda: Elimination.make(full, free)
    contestants = {}
    for label, analyze in ways.items():
        analysis = seconds(analyze)
        factor = partial(analyze().factor, full.data)
        contestants[label] = analysis, factor, partial(factor().solve, right)
    if peer:
        contestants["pardiso"] = pardiso(full[free][:, free], np.ascontiguousarray(right[free, 0]))
    times = {label: ([], []) for label in contestants}
    for _ in range(5):
        for label, (_, factor, solve) in contestants.items():
            times[label][0].append(seconds(factor))
            times[label][1].append(seconds(solve))
    for label, (analysis, _, _) in contestants.items():
        factor, solve = (min(found) for found in times[label])
        print(f"| {name} | {label} | {analysis:.3g} | {factor:.3g} | {solve:.3g} | {factor + 2 * solve:.3g} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="*", default=[128, 256, 512])
    parser.add_argument("--cube", type=int, nargs="*", default=[48])
    arguments = parser.parse_args()
    peer = importlib.util.find_spec("pypardiso") is not None
    if not peer:
        print("pypardiso is not installed: skipped")
    print("| mesh | by | analysis | factorization | solve | gradient |\n|---|---|---|---|---|---|")
    for cells in arguments.cells:
        compare(f"{cells} x {cells}", *square(cells), peer, rows=cells <= 256)
    for cells in arguments.cube:
        compare(f"{cells}^3", *cube(cells), peer, rows=False)


if __name__ == "__main__":
    main()
