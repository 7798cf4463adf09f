"""Values of nodes that several ranks share: each node is owned by one rank, and a copy of it is a ghost elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.foreign import Comm


@dataclass(frozen=True, eq=False)
class Halo:
    """Exchange of the nodes at the seams between ranks; local nodes are the owned ones, then the ghosts.

    Parameters
    ----------
    comm : mpi4py communicator
    owned : int
        Number n of nodes that this rank owns.
    ghosts : int
        Number of ghosts on this rank.
    sends : mapping from rank to array
        Owned nodes of which that rank has ghosts.
    receives : mapping from rank to array
        Ghosts (counted from ``owned`` on) that are owned there, in the order in which that rank sends.
    """

    comm: Comm
    owned: int
    ghosts: int
    sends: dict[int, Numbers]
    receives: dict[int, Numbers]

    @classmethod
    def make(cls, comm: Comm, numbers: Numbers, owned: int, owner: Numbers) -> Halo:
        """From the number of each local node in the whole mesh, and the owner (ghosts,) of each ghost."""
        ghosts = np.arange(owned, len(numbers))
        receives = {int(rank): ghosts[owner == rank] for rank in np.unique(owner)}
        wanted = comm.alltoall([numbers[receives[r]] if r in receives else None for r in range(comm.size)])
        position = {int(number): k for k, number in enumerate(numbers[:owned])}
        sends = {
            rank: np.array([position[int(number)] for number in asked], dtype=np.intp)
            for rank, asked in enumerate(wanted)
            if asked is not None
        }
        return cls(comm, owned, len(ghosts), sends, receives)

    def extend(self, fields: Array) -> Array:
        """Append the ghosts' rows to fields (n, k): shape (n + ghosts, k)."""
        local = np.empty((self.owned + self.ghosts, fields.shape[1]))
        local[: self.owned] = fields
        for rows, block in self._exchange(self.sends, self.receives, local):
            local[rows] = block
        return local

    def collect(self, local: Array) -> Array:
        """Add the ghosts' rows of (n + ghosts, k) to those of their owners: shape (n, k)."""
        fields = local[: self.owned].copy()
        # in the order of the ranks, so that sums are rounded alike in every run
        for rows, block in self._exchange(self.receives, self.sends, local):
            fields[rows] += block
        return fields

    def _exchange(
        self, outward: dict[int, Numbers], inward: dict[int, Numbers], local: Array
    ) -> list[tuple[Numbers, Array]]:
        blocks = [(rows, np.empty((len(rows), local.shape[1]))) for rows in inward.values()]
        requests = [self.comm.Irecv(block, source=rank) for rank, (_, block) in zip(inward, blocks, strict=True)]
        sent = [np.ascontiguousarray(local[rows]) for rows in outward.values()]
        requests += [self.comm.Isend(block, dest=rank) for rank, block in zip(outward, sent, strict=True)]
        for request in requests:
            request.Wait()
        return blocks
