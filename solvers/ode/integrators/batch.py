"""Batches of trajectories by adaptive pairs of Dormand and Prince or by Rodas5P, in one thread or in several."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from invsamp.solvers.foreign import Called, Jitted
from invsamp.solvers.ode.integrators.adaptive_step import Scratch, march, scratch_of
from invsamp.solvers.ode.integrators.stepper import Stepper
from invsamp.solvers.ode.integrators.trajectories import Array, Control, Course, Outcome

Number = TypeVar("Number", bound=np.generic)

#: Work arrays of a thread, up to so many components, of so many kinds.
_KEPT, _MOST_KEPT, _MOST_SIZES = threading.local(), 1000, 16
#: Message of the first use on a machine, at a terminal and in a notebook: a long silence looks like a fault.
COMPILING = "Compiling an integrator of ODEs, once on this machine: this takes some seconds"


def integrate(
    method: Stepper,
    rhs: int,
    parameters: Array,
    initial: Array,
    times: Array,
    start: Array,
    course: Course,
    control: Control,
) -> Outcome:
    """Integrate a batch of trajectories.

    Parameters
    ----------
    method : Stepper
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
    control : Control

    Returns
    -------
    Outcome
        All values of a failed row are NaN, and those after the end of a stopped one. They do not depend on the threads.
    """
    batch, m = initial.shape
    outcome = Outcome(
        np.empty((batch, times.shape[1], m)),
        np.empty(batch, dtype=np.int64),
        np.empty(batch, dtype=np.int64),
        np.empty(batch, dtype=np.int64),
        np.empty(batch),
        np.empty((batch, m)),
        np.empty((batch, control.n_states)),
    )
    if not control.absolute.flags.carray:
        control = control._replace(absolute=plain(control.absolute))
    events, paused = len(course.events.roots), course.pauses.shape[1] > 0
    if paused:
        jumps, shifts = plain(course.jumps), plain(course.shifts)
        course = course._replace(pauses=plain(course.pauses), jumps=jumps, shifts=shifts, which=plain(course.which))
    arguments = plain(parameters), plain(initial), plain(times), plain(start), course, control, outcome
    eventful = events > 0 or course.stop != 0
    kernel = march(method, eventful or paused, eventful)
    loop = _entry(kernel) if kernel.overloads else kernel

    def rows(first: int, last: int) -> None:
        loop(rhs, *arguments, _scratch(method, control, m, events), first, last)

    if kernel.overloads and (control.threads == 1 or batch == 1):
        rows(0, batch)
        return outcome
    with announce_compilation(kernel):
        if control.threads == 1 or batch == 1:
            rows(0, batch)
        else:
            # several pieces per thread: trajectories differ in length
            edges = np.linspace(0, batch, min(batch, 4 * control.threads) + 1).astype(int).tolist()
            list(_pool(control.threads).map(rows, edges[:-1], edges[1:]))
    return outcome


@cache
def _entry(kernel: Jitted) -> Called:
    """A compiled function for arguments of the types that it was compiled for, which are not looked at any more.

    Numba takes 8 us to find the types of all that is in the arguments of `march`.
    """
    (compiled,) = kernel.overloads.values()
    return compiled.entry_point


def _scratch(method: Stepper, control: Control, m: int, events: int) -> Scratch:
    """Work arrays of this thread, which are made once where they are small."""
    if m > _MOST_KEPT or control.linear is not None:
        return scratch_of(method, control, m, events)
    key = method.name, m, events, control.n_states, control.states_lead
    kept: dict[Any, Scratch] = _KEPT.__dict__
    if key not in kept:
        if len(kept) >= _MOST_SIZES:
            kept.clear()
        kept[key] = scratch_of(method, control, m, events)
    return kept[key]


@contextmanager
def announce_compilation(kernel: Jitted, after: float = 4.0) -> Iterator[None]:
    """Announces, after some seconds, that the first trajectories wait for the compiler."""
    if kernel.overloads or not _is_watched():
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


def plain(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The array as compiled code takes it: with its entries in order, and writable."""
    return array if array.flags.carray else np.array(array, order="C")


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    # threads of Python around compiled code that drops the lock: numba's own refuse to be called from two threads
    return ThreadPoolExecutor(threads, thread_name_prefix="invsamp-ode")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
