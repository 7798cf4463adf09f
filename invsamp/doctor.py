"""Installed packages and tools, whether they work, and what is not available without them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numba
import threadpoolctl

from invsamp.parallel.process import ranks_of_launcher
from invsamp.storage.contents import version

#: Time limit, in seconds, for two processes of MPI to start and to communicate. A busy machine needs tens.
PATIENCE = 120
#: Required packages, by their names for pip.
NEEDED = ("numpy", "scipy", "numba", "arviz", "xarray", "pandas", "h5py", "matplotlib", "scikit-fem", "sympy")
#: Optional modules, and their purpose.
OPTIONAL = {
    "dolfinx": "PDEs in UFL (invsamp.solvers.pde), and finite elements shared by processes; from Debian or conda-forge",
    "torch": "models that are torch functions (iv.from_torch); `pip install invsamp[torch]`",
    "jax": "models and densities in JAX (iv.from_jax); `pip install invsamp[jax]`",
    "pymc": "models in PyMC (iv.from_pymc); `pip install invsamp[pymc]`",
    "bridgestan": "models in Stan (iv.from_bridgestan); `pip install invsamp[bridgestan]`, with a C++ compiler",
    "sklearn": "Gaussian processes that correct a coarse model; `pip install invsamp[gp]`",
    "sksundae": "CVODE for large stiff systems of ODEs; `pip install invsamp[cvode]`",
    "mpi4py": "runs on several processes under mpiexec; `pip install invsamp[mpi]`",
    "petab": "problems in PEtab and models in SBML (iv.petab); `pip install invsamp[petab]`",
    "umbridge": "serving models in Python (a client does not need it); `pip install invsamp[umbridge]`",
    "distributed": "Dask's workers as an executor",
    "pytest": "the tests; `pip install invsamp[test]`",
}
#: Names of distributions that differ from their module's.
_NAMES = {"dolfinx": "fenics-dolfinx", "sklearn": "scikit-learn", "sksundae": "scikit-sundae"}
# the first process alone prints: a launcher mixes what two of them say at once
_PAIR = """\
from mpi4py import MPI
if not MPI.COMM_WORLD.rank:
    print(MPI.COMM_WORLD.size, MPI.Get_library_version().split(",")[0])
"""


class Finding(NamedTuple):
    """The result of one check."""

    name: str
    good: bool
    state: str  # what was found; where it is not good, the consequence or the remedy


def examine() -> list[Finding]:
    """All findings, without importing optional modules. Only MPI is tried, as it may fail although it is installed."""
    return [_python(), *_needed(), *_optional(), _mpi(), _compiler(), _threads(), _code_cache()]


def _python() -> Finding:
    at = f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"
    return Finding("python", sys.version_info >= (3, 11), f"{at}; invsamp {version('invsamp') or '?'}")


def _needed() -> Iterator[Finding]:
    for name in NEEDED:
        found = version(name)
        yield Finding(name, found is not None, found or "missing: install it with `pip install invsamp`")


def _optional() -> Iterator[Finding]:
    for module, use in OPTIONAL.items():
        there = importlib.util.find_spec(module) is not None
        found = version(_NAMES.get(module, module)) or "installed"
        yield Finding(module, there, found if there else f"not installed: {use}")


def _mpi() -> Finding:
    """Whether a launcher starts two processes that communicate."""
    name = "mpiexec"
    beside = Path(sys.executable).parent / "mpiexec"  # an MPI library from PyPI brings its own
    launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
    if launcher is None or importlib.util.find_spec("mpi4py") is None:
        missing = "mpiexec" if launcher is None else "mpi4py"
        return Finding(name, False, f"{missing} is missing: runs have one process; the tests marked mpi are skipped")
    try:
        done = _two_processes(launcher)
    except subprocess.TimeoutExpired:
        return Finding(name, False, f"{launcher} did not start two processes of this mpi4py within {PATIENCE} s")
    if done.returncode:
        return Finding(name, False, f"{launcher} fails: {(done.stderr or done.stdout).strip()[-200:]}")
    size, _, library = done.stdout.partition("\n")[0].partition(" ")
    if size != "2":
        mends = "use the mpiexec of the library that mpi4py was built with"
        return Finding(
            name, False, f"{launcher} is not of mpi4py's library ({library}), so processes cannot communicate; {mends}"
        )
    return Finding(name, True, f"{launcher} starts processes of {library}")


def _two_processes(launcher: str) -> subprocess.CompletedProcess[str]:
    command = [launcher, "-n", "2", sys.executable, "-c", _PAIR]
    # where cores are few or the user is root, Open MPI starts nothing by default
    settings = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    if getattr(os, "getuid", lambda: 1)() == 0:
        settings |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    alone = set(ranks_of_launcher())  # by an MPI that began in this process
    known = {name: value for name, value in os.environ.items() if name not in alone}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        env=known | settings,
        text=True,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
    ) as process:
        try:
            out, error = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # a launcher takes its processes with it
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, error)


def _compiler() -> Finding:
    found = shutil.which(os.environ.get("CC", "cc"))
    return Finding("C compiler", found is not None, found or "none: dolfinx needs one, numba does not")


def _threads() -> Finding:
    pools = [f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpoolctl.threadpool_info()]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    algebra = ", ".join(pools) or "in one thread"
    return Finding("threads", True, f"{cores} cores; linear algebra: {algebra} (one thread within a run)")


def _code_cache() -> Finding:
    """Where compiled code is stored; importing invsamp ensures that there is a place."""
    given: str = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    return Finding("code cache", True, given or "beside the sources, or in the user's folder for caches")
