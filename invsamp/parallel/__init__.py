"""Work on several processes: ranks of MPI (started by ``mpiexec``), and worker processes."""

from __future__ import annotations

from invsamp.parallel.communicator import rank, size
from invsamp.parallel.isolation import isolated
from invsamp.parallel.joint_solves import distributed
from invsamp.parallel.mapping import map

__all__ = ["distributed", "isolated", "map", "rank", "size"]
