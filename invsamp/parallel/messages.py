"""Messages between processes, and waiting for them without keeping a core from those who work."""

from __future__ import annotations

import pickle
import time
from typing import Any

#: Seconds of waiting after which a process sleeps between looks: most answers come sooner.
SPIN = 2e-4
#: Longest sleep between two looks.
LONGEST = 2e-3
#: Bytes that one collective call moves at the most: MPI counts them by 32 bits, and draws may be more.
PIECE = 2**28


class Patience:
    """Waits, and keeps the time that it took.

    A blocking call of MPI would use up its core, and would not let a signal through.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def until(self, look: Any) -> Any:
        """What ``look()`` gives, once that is neither None nor False."""
        found = look()
        if found is not None and found is not False:
            return found
        begin = time.perf_counter()
        while True:
            found = look()
            waited = time.perf_counter() - begin
            if found is not None and found is not False:
                self.seconds += waited
                return found
            if waited < SPIN:
                time.sleep(0.0)  # lets others run
            else:
                # an eighth of what was waited already: no answer comes much later than it could
                time.sleep(min(waited / 8.0, LONGEST))


def bcast(comm: Any, item: Any) -> Any:
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
