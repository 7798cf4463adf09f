"""Strong scaling of one large solve: unknown conductivity, energy and gradient, on one mesh and 1, 2, ... ranks.

    python benchmarks/strong_scaling.py [--cells 256 512] [--ranks 1 2] [--steps 16] [--repeats 3]

Starts itself under mpiexec, which must belong to mpi4py; needs dolfinx. Wall time, the least of the repeats, of the
slowest rank. Two problems: the Poisson equation (a factorization and two solves) and the heat equation (a factorization
and two solves for each step). One rank uses PETSc's own Cholesky factors, several SuperLU_DIST or else MUMPS: a
speed-up compares these too. Ranks send many small messages: on busy cores the times are meaningless.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

with contextlib.suppress(ImportError):
    import h5py  # noqa: F401  (before dolfinx: the first HDF5 library that is loaded wins)

import numpy as np

from invsamp.solvers.fem.fields import GaussianBump, LogField, Modes
from invsamp.solvers.fem.random_fields import Matern, karhunen_loeve, square_rule
from invsamp.solvers.heat import HeatEquation
from invsamp.solvers.poisson import PoissonEquation

SENSORS = np.random.default_rng(0).random((25, 2))
#: Open MPI starts more ranks than cores, and ranks of root, only with these settings; other libraries ignore them.
LAUNCH = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    # otherwise waiting ranks occupy the cores of working ones
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def measure(cells: int, steps: int, repeats: int) -> dict[str, Any]:
    """Seconds on this communicator of the set-up, and of an evaluation with gradient of both problems."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    modes = karhunen_loeve(Matern(1.5, 0.3), *square_rule(16), count=16)
    field = LogField(Modes("z", modes))
    z = 0.3 * np.random.default_rng(1).standard_normal((1, 16))
    settings: dict[str, Any] = {"conductivity": field, "backend": "dolfinx", "comm": comm}
    models: dict[str, Callable[[], Any]] = {
        "poisson": lambda: PoissonEquation(cells, **settings).observe(SENSORS),
        "heat": lambda: HeatEquation(cells, steps, 0.03, GaussianBump(0.1, center=(0.5, 0.4)), **settings).observe(
            SENSORS
        ),
    }
    found: dict[str, Any] = {"ranks": comm.size}
    for name, make in models.items():
        began = time.perf_counter()
        model = make()
        made = time.perf_counter() - began
        spent = []
        for _ in range(repeats + 1):
            comm.Barrier()
            began = time.perf_counter()
            y, vjp = model.linearize(z)
            gradient = vjp(np.ones_like(y))
            spent.append(comm.allreduce(time.perf_counter() - began, MPI.MAX))
        # the first one makes the elimination order and the symbolic factors
        found[name] = {"made": made, "first": spent[0], "seconds": min(spent[1:]), "check": float(gradient.sum())}
        del model
    return found


def under_mpiexec(script: str, ranks: int, settings: Mapping[str, object]) -> dict[str, Any]:
    """Results of a script on several processes: the line of JSON that its first rank prints."""
    mpiexec = shutil.which("mpiexec")
    if mpiexec is None:
        raise SystemExit("mpiexec is not on the path")
    options = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    command = [mpiexec, "-n", str(ranks), sys.executable, "-m", "mpi4py", script, "--measure", *options]
    done = subprocess.run(command, env=LAUNCH | dict(os.environ), capture_output=True, text=True, timeout=1800)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(lines) != 1:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(lines[0])
    if found["ranks"] != ranks:
        raise SystemExit(f"mpiexec does not belong to mpi4py: asked for {ranks} ranks, got {found['ranks']}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=16, help="time steps of the heat equation")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        from mpi4py import MPI

        found = measure(given.cells[0], given.steps, given.repeats)
        if MPI.COMM_WORLD.rank == 0:
            print(json.dumps(found), flush=True)
        return
    if find_spec("mpi4py") is None or find_spec("dolfinx") is None:
        print("needs dolfinx, mpi4py, and the mpiexec that belongs to it")
        return
    print(f"{os.cpu_count()} cores; seconds of wall time per evaluation with gradient")
    heat = f"heat, {given.steps} steps"
    print(f"  {'mesh':>9s} {'ranks':>5s} {'Poisson':>9s} {'speed-up':>8s} {heat:>15s} {'speed-up':>8s}")
    for cells in given.cells:
        alone: dict[str, Any] = {}
        for ranks in given.ranks:
            settings = {"cells": cells, "steps": given.steps, "repeats": given.repeats}
            found = under_mpiexec(__file__, ranks, settings)
            alone = alone or found
            row = f"  {f'{cells}x{cells}':>9s} {ranks:5d}"
            for name, width in (("poisson", 9), ("heat", 15)):
                np.testing.assert_allclose(found[name]["check"], alone[name]["check"], rtol=1e-8)
                seconds = found[name]["seconds"]
                row += f" {seconds:{width}.3f} {alone[name]['seconds'] / seconds:8.2f}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
