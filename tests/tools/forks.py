"""Work in a process of its own that has everything loaded already: a fork of the test's."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def forked(work: Callable[[], object]) -> Iterator[int]:
    """Number of a process that does some work; it is killed at the end, if it still lives by then.

    An exception that leaves the work is printed on the standard error, which a test may capture (``capfd``); then the
    exit status is 1, or that of a `SystemExit`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: the child starts none
        child = os.fork()
    if child == 0:
        os._exit(_status(work))
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, 9)
            os.waitpid(child, 0)


def status_of(child: int) -> int:
    """Exit status of a forked process, when it has ended; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_a_fork(work: Callable[[], object]) -> int:
    """Exit status of a forked process that did some work; negative for a signal."""
    with forked(work) as child:
        return status_of(child)


def _status(work: Callable[[], object]) -> int:
    try:
        work()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0
