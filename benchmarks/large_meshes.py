"""Energies with gradients on large meshes, compared with dolfinx alone and its fast solvers, on one rank and several.

    python benchmarks/large_meshes.py [--cells 512 1024] [--ranks 1 2] [--steps 16] [--repeats 3]

Needs dolfinx; starts itself under mpiexec. Unit squares of linear elements with a logarithm of the conductivity by its
16 modes or its nodal values. An evaluation takes the matrix, the set-up of its solver, and two solves (Poisson), or two
for each time step (heat). dolfinx alone assembles the same matrix and solves as often. It uses conjugate gradients to
1e-12 with multigrid, or factors; it computes no gradient. All take turns in one process for each number of ranks.
Seconds are medians of the slowest rank's wall time. Ratios are medians of ratios to the best of dolfinx alone in the
same turn. On busy cores ranks wait for each other, and times of several are meaningless.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from strong_scaling import SENSORS, under_mpiexec

from invsamp.solvers.fem.fields import GaussianBump, LogField, Modes
from invsamp.solvers.fem.random_fields import Matern, karhunen_loeve, square_rule
from invsamp.solvers.heat import HeatEquation
from invsamp.solvers.pde.stationary import StationaryProblem
from invsamp.solvers.poisson import PoissonEquation

END_TIME = 0.03
ITERATIVE = {"ksp_type": "cg", "ksp_rtol": 1e-12}
#: PETSc's options for dolfinx alone.
PEERS: dict[str, dict[str, object]] = {
    "hypre": ITERATIVE | {"pc_type": "hypre"},
    "GAMG": ITERATIVE | {"pc_type": "gamg"},
    "MUMPS": {"ksp_type": "preonly", "pc_type": "lu", "pc_factor_mat_solver_type": "mumps"},
    "SuperLU_DIST": {"ksp_type": "preonly", "pc_type": "lu", "pc_factor_mat_solver_type": "superlu_dist"},
}
NEEDED = {"hypre": "hypre", "MUMPS": "mumps", "SuperLU_DIST": "superlu_dist"}


def unit_square(cells: int) -> tuple[Any, ...]:
    """dolfinx's space, a function for the logarithm of the conductivity, and the boundary condition."""
    import dolfinx.fem.petsc  # noqa: F401
    from dolfinx import fem, mesh
    from mpi4py import MPI

    domain = mesh.create_unit_square(MPI.COMM_WORLD, cells, cells)
    make = getattr(fem, "functionspace", None) or fem.FunctionSpace
    space = make(domain, ("Lagrange", 1))
    edge = mesh.locate_entities_boundary(domain, 1, lambda x: np.full(x.shape[1], True))
    zero = fem.dirichletbc(fem.Constant(domain, 0.0), fem.locate_dofs_topological(space, 1, edge), space)
    return space, fem.Function(space), zero


def alone(cells: int, steps: int, options: dict[str, object]) -> Callable[[], object]:
    """Matrix, set-up and solves by dolfinx alone: of Poisson's equation for no steps, or of implicit Euler's method."""
    import ufl
    from dolfinx import fem
    from petsc4py import PETSc

    space, log_a, zero = unit_square(cells)
    u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
    form = ufl.exp(log_a) * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx
    mass = fem.form(u * v * ufl.dx)
    form = fem.form(u * v * ufl.dx + END_TIME / steps * form if steps else form)
    matrix = fem.petsc.create_matrix(form)
    moves = fem.petsc.assemble_matrix(mass) if steps else None
    if moves is not None:
        moves.assemble()
    solver = PETSc.KSP().create(space.mesh.comm)
    prefix = f"alone_{options['pc_type']}_{options.get('pc_factor_mat_solver_type', '')}_{steps}_"
    database = PETSc.Options()
    for name, value in options.items():
        database[prefix + name] = value
    solver.setOptionsPrefix(prefix)
    solver.setFromOptions()
    right, out = matrix.createVecRight(), matrix.createVecRight()
    call = [0]

    def evaluate() -> float:
        call[0] += 1  # other values, so that nothing of the last call can be reused
        log_a.x.array[:] = 0.3 * np.sin(call[0] + np.arange(len(log_a.x.array)) / len(log_a.x.array))
        matrix.zeroEntries()
        fem.petsc.assemble_matrix(matrix, form, [zero])
        matrix.assemble()
        solver.setOperators(matrix)
        solver.setUp()
        right.set(1.0 / cells**2)
        for _ in range(2 * max(steps, 1)):
            solver.solve(right, out)
            if solver.getConvergedReason() <= 0:
                raise RuntimeError(f"{options} did not converge")
            if moves is not None:
                moves.mult(out, right)
        return float(out.norm())

    return evaluate


def posed(cells: int, steps: int) -> dict[str, Callable[[], object]]:
    """The same by this package's models, with gradients."""
    import ufl
    from mpi4py import MPI

    modes = karhunen_loeve(Matern(1.5, 0.3), *square_rule(16), count=16)
    settings: dict[str, Any] = {
        "conductivity": LogField(Modes("z", modes)),
        "backend": "dolfinx",
        "comm": MPI.COMM_WORLD,
    }
    if steps:
        heat = HeatEquation(cells, steps, END_TIME, GaussianBump(0.1, center=(0.5, 0.4)), **settings)
        models = {"HeatEquation": heat.observe(SENSORS)}
    else:
        space, log_a, zero = unit_square(cells)
        from dolfinx import fem

        state, v = fem.Function(space), ufl.TestFunction(space)
        residual = ufl.exp(log_a) * ufl.inner(ufl.grad(state), ufl.grad(v)) * ufl.dx - v * ufl.dx
        models = {
            "PoissonEquation": PoissonEquation(cells, **settings).observe(SENSORS),
            "UFL": StationaryProblem(residual, state, {"log_a": log_a}, boundary_conditions=[zero]).observe(SENSORS),
        }

    def evaluator(model: Any) -> Callable[[], object]:
        count, call = sum(model.sizes), [0]

        def evaluate() -> object:
            call[0] += 1  # nodal values as smooth as those of dolfinx alone: others take multigrid one more iteration
            y, vjp = model.linearize(0.3 * np.sin(call[0] + np.arange(count)[None] / count))
            assert np.isfinite(y).all()
            return vjp(np.ones_like(y))

        return evaluate

    return {name: evaluator(model) for name, model in models.items()}


def measure(cells: int, steps: int, repeats: int) -> dict[str, Any]:
    """Seconds (repeats,) of the slowest rank by contestant, without the first call of each."""
    from mpi4py import MPI
    from petsc4py import PETSc

    comm = MPI.COMM_WORLD
    there = [name for name in PEERS if name not in NEEDED or PETSc.Sys.hasExternalPackage(NEEDED[name])]
    contestants = posed(cells, steps) | {f"dolfinx, {name}": alone(cells, steps, PEERS[name]) for name in there}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats + 1):
        for name, evaluate in contestants.items():
            comm.Barrier()
            began = time.perf_counter()
            evaluate()
            seconds[name].append(comm.allreduce(time.perf_counter() - began, MPI.MAX))
    return {"ranks": comm.size, "seconds": {name: spent[1:] for name, spent in seconds.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, nargs="+", default=[0, 16], help="time steps; none for Poisson's equation")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        from mpi4py import MPI

        found = measure(given.cells[0], given.steps[0], given.repeats)
        if MPI.COMM_WORLD.rank == 0:
            print(json.dumps(found), flush=True)
        return
    if find_spec("mpi4py") is None or find_spec("dolfinx") is None:
        print("needs dolfinx, mpi4py, and the mpiexec that belongs to it")
        return
    print("| squares | equation | ranks | solver | seconds | to dolfinx's best |\n|---|---|---|---|---|---|")
    for cells in given.cells:
        for steps in given.steps:
            for ranks in given.ranks:
                settings = {"cells": cells, "steps": steps, "repeats": given.repeats}
                seconds = under_mpiexec(__file__, ranks, settings)["seconds"]
                table = np.array(list(seconds.values()))
                best = table[[name.startswith("dolfinx") for name in seconds]].min(axis=0)
                equation = f"heat, {steps} steps" if steps else "Poisson"
                for name, row in zip(seconds, table, strict=True):
                    print(
                        f"| {cells} x {cells} | {equation} | {ranks} | {name} | {np.median(row):.2f} | "
                        f"{np.median(row / best):.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
