"""A run that several processes make together: the first one drives it, and all of them solve."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from invsamp.engine.driver.engine import Engine
from invsamp.engine.driver.signals import Interrupts
from invsamp.parallel.communicator import all_or_none, alone, check_communicator, world
from invsamp.parallel.consistency_check import unequal_energies
from invsamp.parallel.groups import Groups, is_fixed, models_of, starts
from invsamp.parallel.messages import Arrived, Communicator, Patience, Sent, arrived, bcast, portable
from invsamp.parallel.mpi_coordinator import ANSWER, SIGNAL, WORK, Coordinator
from invsamp.parallel.tasks import Task, solved
from invsamp.protocols import Problem
from invsamp.surrogates.learning import Correction

Result = TypeVar("Result")


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
        If ``comm`` is no communicator of this process. If forward models were made on different communicators, or on
        another one than ``comm``.
    RuntimeError
        If a launcher started several processes that do not know each other.
    """
    check_communicator(comm)
    comm = world() if comm is None else comm
    fixed = {name: model.comm for name, model in models_of(problem).items() if is_fixed(model)}
    for name, own in fixed.items():
        if comm is None:
            comm = own
        elif not _same_processes(own, comm):
            raise ValueError(
                f"comm must be that of the forward models: {name!r} was made for {own.size} processes, and the run has "
                f"{comm.size}. Give comm= the model's own, or let the run make it by invsamp.parallel.distributed"
            )
    return comm if comm is not None and comm.size > 1 else None


def share(comm: Communicator | None, engine: Engine, work: Callable[[], Result]) -> Result:
    """Let the processes of a communicator make a run together.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm or None
        Every process of it has to call this, with equal arguments. None: this process alone.
    engine : Engine
        Of the whole run, at nothing yet.
    work : callable
        Makes the run, on the first process. What it returns or raises there is returned or raised on all of them.

    Raises
    ------
    ValueError
        If the forward models do not compute the same on all processes.
    """
    if comm is None:
        return work()
    with all_or_none(comm), alone():
        own = comm.Dup()
        groups = Groups(comm, engine)
        potentials = {name: potential.potential for name, potential in engine.potentials.items()}
        left: BaseException | None = unequal_energies(own, potentials, starts(engine, 1)[0])
        result = None
        if left is None:
            groups.arrange()
            if own.rank == 0:
                result, left = bcast(own, _drive(own, engine, groups, work))
            else:
                _serve(own, engine, groups)
                result, left = bcast(own, None)
        groups.close()
        own.Free()
    if isinstance(left, SystemExit):
        left = SystemExit(*left.args)  # some libraries have exceptions pickled without more than their arguments
    if left is not None:
        raise left
    return result  # type: ignore[return-value]


def _drive(
    comm: Communicator, engine: Engine, groups: Groups, work: Callable[[], Result]
) -> tuple[Result | None, BaseException | None]:
    """The run on the first process: what came of it, or how it ended."""
    coordinator = Coordinator(comm, engine, groups.size, groups.joint)
    # those who solve jointly have to be asked in one order, and all at the same time
    engine.share(coordinator.answer, None if groups.joint else coordinator)
    engine.bound.dispatch.corrected = coordinator.tell
    engine.signaled, engine.processes = coordinator.signaled, coordinator.report
    made, left = None, None
    try:
        made = work()
        if coordinator.answering:
            raise RuntimeError("the run ended in the middle of a step")
    except BaseException as end:
        if coordinator.answering:  # in the middle of a step: others are at work, and nobody would take what they send
            raise
        left = end if isinstance(end, KeyboardInterrupt | SystemExit) else portable(end)
    coordinator.dismiss()
    return made, left


def _serve(comm: Communicator, engine: Engine, groups: Groups) -> None:
    """What the other processes do: solve what they are sent, until there is no more."""
    patience, first = Patience(), comm.rank % groups.size == 0
    signal: Sent | None = None
    with Interrupts() as interrupts:

        def look() -> Arrived | None:
            nonlocal signal
            if interrupts.received and signal is None:
                signal = comm.isend(interrupts.received, 0, SIGNAL)
            return arrived(comm, 0, WORK)

        while (sent := patience.until(look).recv()) is not None:
            if isinstance(sent, Correction):
                assert engine.coarse is not None  # as on the first process
                engine.coarse.correct(sent)
                continue
            reply = solved(engine, [Task.unpacked(task) for task in sent], groups.joint, first)
            # not by a send that blocks: it would keep the core from the first process, which may still solve
            patience.until(comm.isend(reply._replace(signal=interrupts.received).packed(), 0, ANSWER).Test)


def _same_processes(one: Communicator, other: Communicator) -> bool:
    if one is other:
        return True
    from mpi4py import MPI

    return MPI.Comm.Compare(one, other) in (MPI.IDENT, MPI.CONGRUENT)
