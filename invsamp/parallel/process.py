"""One worker process, as its owner sees it."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import pickle
import select
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from invsamp.errors import ModelError
from invsamp.parallel.messages import packed, unpacked
from invsamp.parallel.worker import Answer, Call, serve
from invsamp.protocols import Plain

# variables that MPI launchers set for their ranks: a worker that has them would wait for the others, or find no server
_LAUNCHED = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "OPAL_", "HYDRA_", "MPI_LOCAL")
_KEPT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_ENVIRONMENT = threading.Lock()
#: Seconds that a worker may take to import the package and to make its model.
START_LIMIT = 600.0
#: Seconds that are waited at a time: more than the system counts in milliseconds may be asked for.
LONGEST_WAIT = 3600.0
#: What a script has to do.
GUARD = (
    "a script that uses worker processes is imported by each of them. So it has to be a file, with its "
    'actions under `if __name__ == "__main__":`'
)


class Worker:
    """One process, and what it is at."""

    def __init__(self, payload: tuple[bool, bytes], time_limit: float | None) -> None:
        self._payload, self._time_limit = payload, time_limit
        self.facts: Plain | None = None  # of its model, when it is ready
        self.task: int | None = None
        #: When it has to be ready, or to have answered.
        self.due: float | None = time.monotonic() + START_LIMIT
        self.forgotten: list[int] = []
        self._cotangent: bytes | None = None  # that it knows
        self.connection, self._process = _spawn(time_limit)

    @property
    def idle(self) -> bool:
        """Whether it is ready and has nothing to do."""
        return self.facts is not None and self.task is None

    def give(self, task: int, call: Call, limits: float = 1.0, cotangent: bytes | None = None) -> bool:
        """Send a call, to be answered within so many time limits; False if the worker has died meanwhile.

        With the function for cotangents, if it does not know it.
        """
        forgotten, self.forgotten = self.forgotten, []
        news, self._cotangent = None if cotangent is self._cotangent else cotangent, cotangent
        self.task = task  # before it is sent: Ctrl-C may come at once
        self.due = None if self._time_limit is None else time.monotonic() + limits * self._time_limit
        try:
            if heard(self.heard_by, 0.0):  # nothing was asked: this is the end of it
                raise OSError
            self.connection.send_bytes(pickle.dumps(packed(call._replace(forgotten=forgotten, cotangent=news))))
        except OSError:
            self.task = self.due = None
            return False
        return True

    @property
    def heard_by(self) -> tuple[int, int]:
        """Files to wait for: a message or the end of the connection, and the end of the process.

        Where it has started others, these hold the connection open when it dies.
        """
        return self.connection.fileno(), self._process.sentinel

    def receive(self) -> object:
        """The next message, with what has to be done about those of the start; None if the process has ended."""
        try:
            if not heard([self.connection.fileno()], 0.0):
                return None
            message = unpacked(pickle.loads(self.connection.recv_bytes()))
            if message == "here":  # it listens now: a large pickle does not block
                self.connection.send(self._payload)
        except (EOFError, OSError):
            return None
        if isinstance(message, dict):
            self.facts, self.due = message, None
        elif isinstance(message, Answer):
            self.task = self.due = None
        return message

    def exit_message(self) -> str:
        """How the process ended, or that it has only closed its end of the connection."""
        self._process.join(10.0)
        code = self._process.exitcode
        if code is None:
            return "it closed its connection"
        if code < 0:
            return f"signal {({int(known): known.name for known in signal.Signals}).get(-code, -code)}"
        return f"exit code {code}"

    def end(self, patience: float = 0.0) -> None:
        """Let the process end by itself if it is idle, then kill it and what it started."""
        idle = self.idle
        self.connection.close()
        if idle:
            wait([self._process.sentinel], patience)  # does not reap it: its number is still its own below
        pid = self._process.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self._process.kill()
        self._process.join(5.0)


def heard(files: Iterable[int], timeout: float | None) -> list[int]:
    """Which of some files have something to say, or have ended, within the timeout (None: wait).

    `multiprocessing.connection.wait` takes twenty times as long, and this is asked three times for each row.
    """
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(None if timeout is None else math.ceil(1000.0 * min(timeout, LONGEST_WAIT)))]


def _spawn(time_limit: float | None) -> tuple[Connection, BaseProcess]:
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ModelError(GUARD)
    if multiprocessing.current_process().daemon:
        raise ModelError("worker processes cannot be started by a daemonic one, such as those of multiprocessing.Pool")
    # workers are forks of a server that has imported the package and done nothing else: no thread, no MPI, no model
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([serve.__module__])
    near, far = context.Pipe()
    with _ENVIRONMENT, _worker_environment():
        process = context.Process(target=serve, args=(far, time_limit, dict(os.environ)), name="invsamp worker")
        try:
            process.start()
        except ChildProcessError:
            raise ModelError(
                "worker processes cannot be started in a fork of a process that has started some; "
                "start it by 'spawn' or 'forkserver'"
            ) from None
    far.close()
    return near, process


def ranks_of_launcher() -> list[str]:
    """Environment variables of a rank, set by an MPI launcher or by an MPI that began alone."""
    if not any(name in os.environ for name in _LAUNCHED):
        return []
    return [name for name in os.environ if name.startswith(_LAUNCHERS) and name not in _KEPT]


@contextlib.contextmanager
def _worker_environment() -> Iterator[None]:
    """This process's environment without the launcher's, and with one thread per worker unless it says otherwise."""
    hidden = {name: os.environ.pop(name) for name in ranks_of_launcher()}
    added = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
        os.environ.update(hidden)
