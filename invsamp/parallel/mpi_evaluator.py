"""Processes that MPI started together, as one evaluator: the first one drives a run, and all of them solve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from invsamp.engine.driver.engine import Engine
from invsamp.engine.driver.signals import Interrupts
from invsamp.engine.rungs.bound_problem import Recentering
from invsamp.engine.rungs.initial_points import failure_message
from invsamp.evaluate.contract import RunEvaluator
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Estimate, Queue, Request
from invsamp.parallel.communicator import all_or_none, alone, check_communicator, world
from invsamp.parallel.consistency_check import check_equal, run_settings, unequal_energies
from invsamp.parallel.groups import Groups, is_fixed, models_of, starts
from invsamp.parallel.messages import Arrived, Communicator, Patience, Sent, arrived, bcast, packed, portable, unpacked
from invsamp.parallel.mpi_coordinator import ANSWER, SIGNAL, WORK, Coordinator
from invsamp.parallel.tasks import solved
from invsamp.protocols import Plain, Problem
from invsamp.surrogates.learning import Correction

Result = TypeVar("Result")


class Ranks(RunEvaluator):
    """This process and those that make the same run with it. Each of them calls every method, with equal arguments.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or None
        As the user wants it: see `communicator`.
    engine : Engine
        Of the whole run, at nothing yet.
    settings : mapping
        Of the run, beside those of the engine: all processes have to have the same.

    Raises
    ------
    ValueError
        If ``comm`` is no communicator of this process.
    """

    def __init__(self, comm: Communicator | None, engine: Engine, settings: Mapping[str, object]) -> None:
        check_communicator(comm)
        self._comm, self._engine, self._settings = comm, engine, settings

    def open(self, potentials: Mapping[str, CountedPotential]) -> None:
        """See that all processes have the same run, and arrange them in groups that solve jointly.

        Raises
        ------
        ValueError
            As `communicator`. If settings, or the energies of a potential, are not the same on all processes.
        RuntimeError
            As `communicator`.
        """
        engine = self._engine
        comm = communicator(engine.problem, self._comm)
        self.local = comm is None
        if comm is None:
            return
        self.drives, self.processes = comm.rank == 0, comm.size
        check_equal(comm, run_settings(engine) | dict(self._settings))
        points = partial(starts, engine.problem, engine.given)
        chains, fidelities = engine.plan.chains, [rung.fidelity for rung in engine.rungs]
        with self._together(comm):
            self._own = comm.Dup()
            self._groups = groups = Groups(comm, models_of(engine.problem), potentials)
            error = unequal_energies(self._own, {name: e.potential for name, e in potentials.items()}, points(1)[0])
            if error is None:
                groups.arrange(fidelities, points(chains))
                self._solved = partial(solved, potentials, groups.joint, partial(failure_message, engine.problem))
                if self.drives:
                    self._coordinator = Coordinator(self._own, potentials, groups, self._solved, points, chains)
        if error is not None:
            self.close()
            raise error

    @property
    def queue(self) -> Queue | None:  # type: ignore[override]  # decided as it is opened
        """The coordinator; not where some solve jointly: these have to be asked in one order, all at the same time."""
        return None if self._groups.joint or not self.drives else self._coordinator

    def evaluate(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """Estimates in the order of the requests; only where this process drives."""
        return self._coordinator.answer(requests)

    def correct(self, correction: object) -> None:
        """Apply the correction on the other processes, too."""
        if not self.local:
            self._coordinator.announce(correction)

    def signaled(self) -> int | None:
        """A signal that another process got, if one did; after the last step each of them is asked."""
        return None if self.local else self._coordinator.signaled(last=self._engine.done == self._engine.steps)

    def report(self) -> Plain:
        """Number of processes, fidelities that are split or solved jointly, and waiting times."""
        return super().report() if self.local else self._coordinator.report()

    def drive(self, work: Callable[[], Result]) -> Result:
        """Run ``work`` on the first process; return its result, or raise its exception, on all of them."""
        with self._together(self._own):
            if self.drives:
                result, left = bcast(self._own, self._made(work))
            else:
                self._serve()
                result, left = bcast(self._own, None)
        if isinstance(left, SystemExit):
            left = SystemExit(*left.args)  # some libraries have exceptions pickled without more than their arguments
        if left is not None:
            raise left
        return result  # type: ignore[no-any-return]

    def close(self) -> None:
        """The models are on no processes any more."""
        if not self.local:
            self._groups.close()
            self._own.Free()

    @contextmanager
    def _together(self, comm: Communicator) -> Iterator[None]:
        """Within, one that raises ends all, and a model that samples does so by itself."""
        with all_or_none(comm), alone():
            yield

    def _made(self, work: Callable[[], Result]) -> tuple[Result | None, BaseException | None]:
        """The run on the first process: what came of it, or how it ended."""
        coordinator = self._coordinator
        made, left = None, None
        try:
            made = work()
            if coordinator.answering:
                raise RuntimeError("the run ended in the middle of a step")
        except BaseException as end:
            if coordinator.answering:  # others are solving, and their replies would not be received
                raise
            left = end if isinstance(end, KeyboardInterrupt | SystemExit) else portable(end)
        coordinator.announce(None)
        return made, left

    def _serve(self) -> None:
        """Solve what the first process sends to this one, until it sends no more."""
        comm, patience, first = self._own, Patience(), self._own.rank % self._groups.size == 0
        signal: Sent | None = None
        with Interrupts() as interrupts:

            def look() -> Arrived | None:
                nonlocal signal
                if interrupts.received and signal is None:
                    signal = comm.isend(interrupts.received, 0, SIGNAL)
                return arrived(comm, 0, WORK)

            while (sent := patience.until(look).recv()) is not None:
                if isinstance(sent, Correction):
                    assert self._engine.coarse is not None  # as on the first process
                    self._engine.coarse.correct(sent)
                    continue
                if isinstance(sent, Recentering):
                    self._engine.bound.recenter(sent.centered)
                    continue
                reply = self._solved(unpacked(sent), first=first)
                # not by a send that blocks: it would keep the core from the first process, which may still solve
                patience.until(comm.isend(packed(reply._replace(signal=interrupts.received)), 0, ANSWER).Test)


def communicator(problem: Problem, comm: Communicator | None = None) -> Communicator | None:
    """The communicator of the processes that are to make a run together, or None if this one does it alone.

    Parameters
    ----------
    problem : Problem
        If a forward model's solves are distributed over a communicator of its own (``model.comm``), it is that.
    comm : mpi4py.MPI.Comm, optional
        As the user wants it. Default: all processes that were started together.

    Raises
    ------
    ValueError
        If forward models were made on different communicators, or on another one than ``comm``.
    RuntimeError
        If a launcher started several processes that do not know each other.
    """
    comm = world() if comm is None else comm
    fixed = {name: model.comm for name, model in models_of(problem).items() if is_fixed(model)}
    for name, own in fixed.items():
        if comm is None:
            comm = own
        elif not _same_processes(own, comm):
            raise ValueError(
                f"comm must be that of the forward models: {name!r} was made for {own.size} processes, and "
                f"the run has {comm.size}. Give the model's own communicator as comm=, or make it by "
                "invsamp.parallel.distributed"
            )
    return comm if comm is not None and comm.size > 1 else None


def _same_processes(one: Communicator, other: Communicator) -> bool:
    if one is other:
        return True
    from mpi4py import MPI

    return MPI.Comm.Compare(one, other) in (MPI.IDENT, MPI.CONGRUENT)
