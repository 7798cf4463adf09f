"""Whether this process is one of several that MPI started, and how it takes the others along when it fails."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

from invsamp.arguments import wrong
from invsamp.parallel.messages import Communicator

#: Whether this process is at work of its own.
_ALONE: ContextVar[bool] = ContextVar("alone", default=False)
#: Variables in which launchers state the number of processes.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE")


def rank() -> int:
    """Number of this process among those that MPI started together; 0 where there are no others.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.parallel.rank()
    0
    """
    comm = _all()
    return 0 if comm is None else int(comm.rank)


def size() -> int:
    """Number of processes that MPI started together; 1 without MPI.

    Raises
    ------
    RuntimeError
        If a launcher started several, but they do not know each other: mpi4py is missing, or belongs to another MPI.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.parallel.size()
    1
    """
    comm = _all()
    return 1 if comm is None else int(comm.size)


def world() -> Communicator | None:
    """The communicator of all processes that were started together, or None if there is only this one.

    None, too, within `alone`.

    Raises
    ------
    RuntimeError
        As `size`.
    """
    return None if _ALONE.get() else _all()


@contextmanager
def alone() -> Iterator[None]:
    """Within, a process works by itself: a model of a run that samples in its turn must not wait for the others."""
    before = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(before)


def _all() -> Communicator | None:
    count = _stated_size()
    # not every launcher sets one; ``python -m mpi4py`` is enough then. MPI is not begun for a process that runs alone
    if count <= 1 and "mpi4py" not in sys.modules:
        return None
    comm = _world(count)
    return comm if comm.size > 1 else None


def _stated_size() -> int:
    """Number of processes that the launcher states; 1 where it states none."""
    return max((int(os.environ[name]) for name in _SIZES if os.environ.get(name, "").isdecimal()), default=1)


@functools.cache
def _world(count: int) -> Communicator:
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise RuntimeError(
            f"this is one of {count} processes that an MPI launcher started, but mpi4py cannot be imported, "
            f"so they cannot communicate ({error}). Install it for the same MPI library as the launcher's: "
            "pip install invsamp[mpi]"
        ) from error
    comm = MPI.COMM_WORLD
    if comm.size < count and comm.size == 1:
        library = MPI.Get_library_version().splitlines()[0].rstrip("\0 ,")
        raise RuntimeError(
            f"the launcher started {count} processes, but they cannot communicate: mpi4py is built for "
            f"{library}, and the launcher belongs to another MPI library. Each would make the whole run by "
            "itself. Start the script by the mpiexec of that library"
        )
    if comm.size > 1:
        _end_together(comm)
    return comm


def _end_together(comm: Communicator) -> None:
    """From now on an exception that ends this process ends all of them, also without ``python -m mpi4py``."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            before(kind, error, trace)
        else:
            _say(comm, error)
        _abort(comm)

    sys.excepthook = hook


@contextmanager
def all_or_none(comm: Communicator) -> Iterator[None]:
    """Within, a process that raises ends all of them: the others wait for it, and no caller could catch it there.

    A `SystemExit` is no exception: that of one process would leave the others waiting.
    """
    try:
        yield
    except BaseException as error:
        _say(comm, error)
        _abort(comm)
        raise


def _say(comm: Communicator, error: BaseException) -> None:
    text = "".join(traceback.format_exception(error))
    # in one piece: several may speak at the same time
    sys.stderr.write(f"rank {comm.rank} of {comm.size} failed, which ends all of them:\n{text}")
    sys.stderr.flush()


def _abort(comm: Communicator) -> None:
    sys.stdout.flush()
    comm.Abort(1)


def check_communicator(comm: object) -> None:
    """`ValueError` for what is neither None nor a communicator to which this process belongs."""
    # the null communicator is false, and one that joins two groups has no common numbering
    if comm is not None and (not hasattr(comm, "Ibarrier") or not comm or getattr(comm, "is_inter", False)):
        raise wrong("comm", "a communicator of mpi4py to which this process belongs", comm)
