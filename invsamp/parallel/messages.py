"""Messages between processes, and waiting for them without keeping a core from those who work."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np

#: Seconds before and after an answer is due in which a process looks for it without sleeping: most come then.
SPIN = 3e-4
#: Longest sleep between two looks.
LONGEST = 5e-4
#: Bytes that one collective call moves at most: MPI counts them by 32 bits, and draws may be more.
PIECE = 2**28


Found = TypeVar("Found")
Part = TypeVar("Part", bound=type[Any])
#: A communicator (`mpi4py.MPI.Comm`), what it has sent (`mpi4py.MPI.Request`) and a message (`mpi4py.MPI.Message`).
Communicator: TypeAlias = Any
Sent: TypeAlias = Any
Arrived: TypeAlias = Any

_PARTS: dict[str, type[Any]] = {"": list, "()": tuple}


def sent(part: Part) -> Part:
    """Let a named tuple be a part of what `packed` packs."""
    _PARTS[part.__name__] = part
    return part


def packed(part: Any) -> Any:
    """A message whose arrays are their bytes, which are pickled in a fifth of the time; one of few numbers took .1 ms.

    Named tuples of `sent`, tuples and lists are lists, whose first entry says which.
    """
    if isinstance(part, np.ndarray):
        return part.dtype.str, part.shape, part.tobytes()
    if isinstance(part, tuple):
        return [type(part).__name__ if hasattr(part, "_fields") else "()", *map(packed, part)]
    return ["", *map(packed, part)] if isinstance(part, list) else part


def unpacked(message: Any) -> Any:
    """Inverse of `packed`."""
    if isinstance(message, tuple):
        dtype, shape, data = message
        return np.ndarray(shape, dtype, data).copy()
    if not isinstance(message, list):
        return message
    kind, parts = _PARTS[message[0]], [unpacked(part) for part in message[1:]]
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


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
        """First value of ``look()`` that is not None or False; none is expected within ``due`` seconds."""
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
