"""Which library assembles and solves."""

from __future__ import annotations

from invsamp.arguments import one_of
from invsamp.solvers import _dolfinx
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fem.space import Space
from invsamp.solvers.foreign import Comm

BACKENDS = ("skfem", "dolfinx")


def check_backend(backend: str, comm: Comm) -> None:
    """See that a backend is there, and of use for a communicator.

    Raises
    ------
    ValueError
        If the backend is unknown, "skfem" is given a communicator, or it is no communicator.
    ImportError
        If dolfinx is asked for and not installed; the message says how to install it.
    """
    one_of("backend", backend, BACKENDS)
    if backend == "skfem" and comm is not None:
        raise ValueError(
            "comm must be left out for the backend 'skfem', which works in one process; 'dolfinx' takes it"
        )
    if backend == "dolfinx":
        x = _dolfinx.load("backend='dolfinx'")
        if comm is not None and not isinstance(comm, x.MPI.Comm):
            raise ValueError(f"comm must be a communicator of mpi4py, got {comm!r}")


def make_space(mesh: Mesh, backend: str = "skfem", comm: Comm = None) -> Space:
    """P1 on a mesh of triangles, Q1 on one of parallelograms.

    Parameters
    ----------
    mesh : Mesh
    backend : {"skfem", "dolfinx"}
    comm : communicator of mpi4py, optional
        Over which dolfinx spreads the mesh; a single process by default.

    Raises
    ------
    ValueError, ImportError
        As `check_backend`.
    """
    check_backend(backend, comm)
    if backend == "skfem":
        return Space(mesh)
    from invsamp.solvers.fem.dolfinx_space import DolfinxSpace

    return DolfinxSpace(mesh, comm)
