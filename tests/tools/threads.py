"""Ranks that are threads of one process: enough of mpi4py's communicator to test what is sent, to whom and when.

What is sent is pickled, so that ranks share nothing that processes would not. A rank that raises ends the others.
"""

from __future__ import annotations

import pickle
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any


class Aborted(RuntimeError):
    """Another rank has ended all of them."""


class _Shared:
    """What the ranks of one communicator have in common."""

    def __init__(self, size: int, aborted: threading.Event) -> None:
        self.size, self.aborted, self.changed = size, aborted, threading.Condition()
        self.boxes: dict[tuple[int, int, int], deque[bytes]] = defaultdict(deque)
        self.rounds: dict[int, dict[int, bytes]] = defaultdict(dict)
        self.children: dict[tuple[int, Any], _Shared] = {}
        self.sent = 0


class Request:
    """Something under way."""

    def __init__(self, done: Callable[[], bool]) -> None:
        self._done = done

    def Test(self) -> bool:
        """Whether it is done."""
        return self._done()


class ThreadComm:
    """The communicator as one rank sees it."""

    def __init__(self, rank: int, shared: _Shared) -> None:
        self.rank, self.size, self._shared, self._round = rank, shared.size, shared, 0

    @property
    def messages(self) -> int:
        """Sent so far by all ranks, one to one."""
        return self._shared.sent

    def isend(self, item: Any, dest: int, tag: int = 0) -> Request:
        """Send."""
        self._shared.sent += 1
        self._shared.boxes[self.rank, dest, tag].append(pickle.dumps(item))
        return Request(lambda: True)

    def improbe(self, source: int | None = None, tag: int = 0) -> Any:
        """The next message, of any rank if none is named, or None."""
        self._alive()
        for rank in range(self.size) if source is None else [source]:
            if box := self._shared.boxes[rank, self.rank, tag]:
                return _Message(box.popleft())
        return None

    def allgather(self, item: Any) -> list[Any]:
        """Every rank's item."""
        return self._wait(self._enter(item))

    def bcast(self, item: Any) -> Any:
        """Rank 0's item."""
        return self.allgather(item if self.rank == 0 else None)[0]

    def Ibarrier(self) -> Request:
        """Done when all ranks have come here."""
        return Request(self._full(self._enter(None)))

    def Split(self, color: int, key: int) -> ThreadComm:
        """Communicators of the ranks of one color."""
        number = self._enter((color, key, self.rank))
        members = sorted((k, rank) for c, k, rank in self._wait(number) if c == color)
        with self._shared.changed:
            child = self._shared.children.setdefault((number, color), _Shared(len(members), self._shared.aborted))
        return ThreadComm(members.index((key, self.rank)), child)

    def Dup(self) -> ThreadComm:
        """The same ranks."""
        return self.Split(0, self.rank)

    def Free(self) -> None:
        """Nothing is held."""

    def Abort(self, status: int) -> None:
        """End all ranks."""
        self._shared.aborted.set()

    def _enter(self, item: Any) -> int:
        number, self._round = self._round, self._round + 1
        with self._shared.changed:
            self._shared.rounds[number][self.rank] = pickle.dumps(item)
            self._shared.changed.notify_all()
        return number

    def _full(self, number: int) -> Callable[[], bool]:
        self._alive()
        return lambda: len(self._shared.rounds[number]) == self.size

    def _wait(self, number: int) -> list[Any]:
        with self._shared.changed:
            while not self._full(number)():
                self._shared.changed.wait(0.05)
        return [pickle.loads(self._shared.rounds[number][rank]) for rank in range(self.size)]

    def _alive(self) -> None:
        if self._shared.aborted.is_set():
            raise Aborted


class _Message:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def recv(self) -> Any:
        return pickle.loads(self._data)


def run(size: int, rank: Callable[[ThreadComm], Any], timeout: float = 300.0) -> list[Any]:
    """What each rank returns; the first exception of one, if any raises. `TimeoutError` if they wait for ever."""
    shared = _Shared(size, threading.Event())
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            results[number] = rank(ThreadComm(number, shared))
        except BaseException as error:
            if not isinstance(error, Aborted):
                errors.append(error)
            shared.aborted.set()

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
        if thread.is_alive():
            shared.aborted.set()
            raise TimeoutError(f"a rank is still waiting after {timeout} s")
    if errors:
        raise errors[0]
    return results
