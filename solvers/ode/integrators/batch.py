"""Batches of trajectories by adaptive pairs of Dormand and Prince or by Rodas5P, in one thread or in several."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.solvers.foreign import Jitted
from invsamp.solvers.ode.integrators.adaptive_step import Array, Integers, march_rows
from invsamp.solvers.ode.integrators.event_handling import Events
from invsamp.solvers.ode.integrators.rosenbrock import EXPLICIT, Linear

#: What the first use on a machine says at a terminal and in a notebook: so long a silence looks like a fault.
COMPILING = "Compiling the integrators of ODEs: about twenty seconds, once on this machine"


class Outcome(NamedTuple):
    """A batch of trajectories of ``n`` states (and their sensitivities, ``m`` components in all)."""

    values: Array  # (batch, n_times, m)
    status: Integers  # (batch,), values of `invsamp.solvers.ode.integrators.methods.Status`
    evaluations: Integers  # (batch,), calls of the right-hand side
    steps: Integers  # (batch,), accepted
    ended: Array  # (batch,), the time reached
    peaks: Array  # (batch, m), the largest absolute value of each component on the way
    needed: Array  # (batch, n), absolute tolerances for which no amplified error counts: see `.amplification`


class Course(NamedTuple):
    """What happens on the way: times at which the integration restarts, what y becomes there, and events.

    The arrays have a row for each trajectory, or one for all.
    """

    pauses: Array  # (rows, k), increasing
    jumps: Array  # (rows, k, m), added on leaving the pause
    shifts: Array  # (rows, k, columns): derivatives of the times by what the states are differentiated by
    which: Integers  # (rows, k): index in `events.changes` of a reset, -1 for none
    stop: int  # address of g with out[0] = g(t, y, p), whose change of sign ends the integration; 0 for none
    events: Events

    def of_rows(self, rows: npt.NDArray[np.intp]) -> Course:
        """That of some of the trajectories."""
        if len(self.pauses) == 1:
            return self
        return self._replace(
            pauses=self.pauses[rows], jumps=self.jumps[rows], shifts=self.shifts[rows], which=self.which[rows]
        )


def integrate(
    rhs: int,
    parameters: Array,
    initial: Array,
    times: Array,
    start: Array,
    course: Course,
    *,
    n_states: int,
    rtol: float,
    absolute: Array,
    max_steps: int,
    weight: float = 1.0,
    max_step: float = math.inf,
    order: int = 5,
    linear: Linear = EXPLICIT,
    patience: int = -1,
    threads: int = 1,
) -> Outcome:
    """Integrate a batch of trajectories.

    Parameters
    ----------
    rhs : int
        Address of the compiled right-hand side.
    parameters : array, shape (batch, q)
    initial : array, shape (batch, m)
        Blocks of ``n_states`` components: the states, then their sensitivities to one quantity after the other.
    times : array, shape (batch, n_times) or (1, n_times)
        Output times, increasing along a row, which may end in NaN.
    start : array, shape (batch,)
        Times of the initial values, not after the first output times.
    course : Course
        Restarts, jumps and the stopping function. The value at the time of a jump is the one before it; the jump at
        ``start`` counts, that at the last output time does not, so that trajectories can be continued.
    n_states : int
    rtol : float
        Relative tolerance.
    absolute : array, shape (batch, m)
        Absolute tolerances of the components.
    max_steps : int
        Bound on the accepted steps of a trajectory.
    weight : float
        Of the errors of sensitivities in the error test: their tolerances are ``1 / weight`` as large as given.
    max_step : float
        Bound on their length.
    order : {5, 8}
        Dormand-Prince 5(4) or DOP853.
    linear : Linear
        With what the linearly implicit method of order 5 needs, it takes the place of Dormand-Prince.
    patience : int
        Give a trajectory up (STIFF) as soon as it is stiff and would take more than so many steps of its size, or more
        than `max_steps` in all; -1 for never.
    threads : int
        Threads over which the rows are spread; the numbers do not depend on it.

    Returns
    -------
    Outcome
        All values of a failed row are NaN, and those after the end of a stopped one.
    """
    batch, m = initial.shape
    outcome = Outcome(
        np.empty((batch, times.shape[1], m)),
        np.empty(batch, dtype=np.int64),
        np.empty(batch, dtype=np.int64),
        np.empty(batch, dtype=np.int64),
        np.empty(batch),
        np.empty((batch, m)),
        np.empty((batch, n_states)),
    )
    p, y, times, start = _plain(parameters), _plain(initial), _plain(times), _plain(start)
    absolute = _plain(absolute)
    kernel: Jitted = march_rows

    def rows(first: int, last: int) -> None:
        settings = rtol, absolute, weight, max_step, max_steps, patience
        kernel(order, rhs, linear, n_states, p, y, times, start, *course, *settings, *outcome, first, last)

    with told_if_compiled(kernel):
        if threads == 1 or batch == 1:
            rows(0, batch)
        else:
            # several pieces per thread: trajectories differ in length
            edges = np.linspace(0, batch, min(batch, 4 * threads) + 1).astype(int).tolist()
            list(_pool(threads).map(rows, edges[:-1], edges[1:]))
    return outcome


@contextmanager
def told_if_compiled(kernel: Jitted, after: float = 4.0) -> Iterator[None]:
    """Tells a person, after some seconds, that the first trajectories of all wait for the compiler."""
    if kernel.signatures or not _is_watched():
        yield
        return
    notice = threading.Timer(after, print, ("\n" + COMPILING,), {"file": sys.stderr, "flush": True})
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


def _is_watched() -> bool:
    """Whether standard error is read as it is written: at a terminal, or below a cell of a notebook."""
    stream = sys.stderr
    return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel."))


def _plain(array: Array) -> Array:
    # every other kind of array would compile another kernel
    return array if array.flags.carray else np.array(array, order="C")


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    # threads of Python around compiled code that drops the lock: numba's own refuse to be called from two threads
    return ThreadPoolExecutor(threads, thread_name_prefix="invsamp-ode")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
