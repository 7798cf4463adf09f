"""Several numbers of ranks within one launch: to start them costs more than all that they do."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import petsc4py.PETSc  # noqa: F401  # which all ranks have to begin together
from mpi4py import MPI


def layouts(*sizes: int) -> Iterator[MPI.Intracomm]:
    """Communicators of the first ranks, one of each size after the other: a rank that is in none of them waits."""
    for size in sizes:
        comm = MPI.COMM_WORLD.Split(0 if MPI.COMM_WORLD.rank < size else MPI.UNDEFINED, MPI.COMM_WORLD.rank)
        if comm != MPI.COMM_NULL:
            yield comm
        gc.collect()  # what is left of a mesh ends on all of its ranks at the same time
        arrived = MPI.COMM_WORLD.Ibarrier()
        while not arrived.Test():  # asleep: ranks that wait in MPI keep the cores from those that work
            time.sleep(0.01)
