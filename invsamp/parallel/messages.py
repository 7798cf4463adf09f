"""Messages between processes, and waiting for them without keeping a core from those who work."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

#: Seconds before and after an answer is due in which a process looks for it without sleeping: most come then.
SPIN = 3e-4
#: Longest sleep between two looks.
LONGEST = 5e-4
#: Bytes that one collective call moves at the most: MPI counts them by 32 bits, and draws may be more.
PIECE = 2**28


Found = TypeVar("Found")


class Sent(Protocol):
    """A message on its way, or a barrier that others have yet to reach (`mpi4py.MPI.Request`)."""

    def Test(self) -> bool:
        """Whether it has arrived."""
        ...


class Arrived(Protocol):
    """A message that is there (`mpi4py.MPI.Message`)."""

    def recv(self) -> Any:
        """The object that was sent."""
        ...


class Communicator(Protocol):
    """What is asked of an `mpi4py.MPI.Comm`; objects go as pickles."""

    @property
    def rank(self) -> int:
        """Number of this process."""
        ...

    @property
    def size(self) -> int:
        """Number of processes."""
        ...

    def Dup(self) -> Communicator:
        """The same processes, whose messages do not mix with others."""
        ...

    def Split(self, color: int, key: int) -> Communicator:
        """Those of one color, in the order of the keys."""
        ...

    def Free(self) -> None:
        """Done with it."""
        ...

    def Abort(self, errorcode: int) -> None:
        """End all processes."""
        ...

    def Ibarrier(self) -> Sent:
        """Wait for all, without blocking."""
        ...

    def isend(self, obj: object, dest: int, tag: int) -> Sent:
        """Send."""
        ...

    def improbe(self, source: int = ..., tag: int = ...) -> Arrived | None:
        """A message, if there is one."""
        ...

    def bcast(self, obj: object) -> Any:
        """The first process's object, on all."""
        ...

    def allgather(self, sendobj: object) -> list[Any]:
        """The objects of all, on all."""
        ...


def arrived(comm: Communicator, source: int, tag: int) -> Arrived | None:
    """A message from a process, if there is one.

    Open MPI looks among what it has taken in, and then takes in what has come: a single look sees that the next time.
    """
    return comm.improbe(source, tag) or comm.improbe(source, tag)


class Patience:
    """Waits, and keeps the time that it took.

    A blocking call of MPI would use up its core, and would not let a signal through.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def until(self, look: Callable[[], Found | None], due: float = 0.0) -> Found:
        """What ``look()`` gives, once that is neither None nor False; it is not expected before so many seconds."""
        found = look()
        if found is not None and found is not False:
            return found
        begin = time.perf_counter()
        if due > SPIN:
            time.sleep(due - SPIN)
        late = time.perf_counter()
        while True:
            found = look()
            now = time.perf_counter()
            if found is not None and found is not False:
                self.seconds += now - begin
                return found
            if now - late < 2.0 * SPIN:
                os.sched_yield()  # lets others run; a sleep of no time takes .05 ms
            else:
                # a sixteenth of what was waited already: no answer comes much later than it could
                time.sleep(min((now - late) / 16.0, LONGEST))


def bcast(comm: Communicator, item: object) -> Any:
    """Rank 0's object on every process of a communicator, however large it is."""
    data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL) if comm.rank == 0 else b""
    first, size = comm.bcast((data[:PIECE], len(data)))
    pieces = [first, *(comm.bcast(data[begin : begin + PIECE]) for begin in range(PIECE, size, PIECE))]
    return item if comm.rank == 0 else pickle.loads(b"".join(pieces))


def portable(error: BaseException) -> BaseException:
    """An exception that other processes can raise: itself, or its words if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
