"""A run that several processes make together: the first one drives it, and all of them solve."""

from __future__ import annotations

import heapq
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array, Potential
from invsamp.engine.engine import Engine
from invsamp.engine.evaluation import Evaluator
from invsamp.engine.interrupts import Interrupts
from invsamp.evaluate.requests import Estimate, Request, joined, rows_of
from invsamp.parallel.agreement import unequal_energies
from invsamp.parallel.channel import Patience, bcast, portable
from invsamp.parallel.joint_solves import Distributed
from invsamp.parallel.world import all_or_none, alone, world

Result = TypeVar("Result")
#: Seconds that a message there and back takes, about: what handing out has to save.
MESSAGES = 5e-4
#: Tags of messages: work and its answers, and signals.
WORK, ANSWER, SIGNAL = 30_000, 30_001, 30_002


class Task(NamedTuple):
    """Some rows of a request, for one process or, of a joint solve, for a group of them."""

    request: int
    rows: range
    what: Request


class Done(NamedTuple):
    """What came of a task: nothing but on the first process of a group."""

    request: int
    rows: range
    estimate: Estimate | None
    failed: int
    seconds: float


class Reply(NamedTuple):
    """What a process sends back: what it did, or the error that ends the run, and how long it has waited so far."""

    done: list[Done]
    error: BaseException | None
    waited: float


def communicator(problem: Any, comm: Any = None) -> Any:
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
    if comm is not None and (not comm or not hasattr(comm, "Ibarrier") or getattr(comm, "is_inter", False)):
        raise ValueError(f"comm must be a communicator of mpi4py to which this process belongs, got {comm!r}")
    comm = world() if comm is None else comm
    fixed = {name: model.comm for name, model in _models(problem).items() if _is_fixed(model)}
    for name, own in fixed.items():
        if comm is None:
            comm = own
        elif not _same_processes(own, comm):
            raise ValueError(
                f"comm must be that of the forward models: {name!r} was made for {own.size} processes, and the run has "
                f"{comm.size}. Give comm= the model's own, or let the run make it by invsamp.parallel.distributed"
            )
    return comm if comm is not None and comm.size > 1 else None


def share(comm: Any, engine: Engine, work: Callable[[], Result]) -> Result:
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
        groups = _Groups(comm, engine)
        potentials = {name: evaluator.potential for name, evaluator in engine.evaluators.items()}
        left: BaseException | None = unequal_energies(own, potentials, _positions(engine)[0])
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
    if left is not None:
        raise left
    return result  # type: ignore[return-value]


def _drive(
    comm: Any, engine: Engine, groups: _Groups, work: Callable[[], Result]
) -> tuple[Result | None, BaseException | None]:
    """The run on the first process: what came of it, or how it ended."""
    leader = Leader(comm, engine.evaluators, groups.size, groups.joint)
    leader.probe(_positions(engine))
    engine.share(leader.answer)
    engine.signalled, engine.processes = leader.signalled, leader.report
    try:
        made, left = work(), None
    except BaseException as end:
        if leader.answering:  # in the middle of a step: others are at work, and nobody would take what they send
            raise
        made, left = None, end if isinstance(end, KeyboardInterrupt | SystemExit) else portable(end)
    leader.dismiss()
    return made, left


class Leader:
    """What hands out requests to all processes, itself included, and puts together what comes back.

    Joint solves go to groups of processes, each of which has to take part. Other requests are split by rows where rows
    have bits of their own; the dearest are handed out first, each to who has least to do, by the seconds that rows of
    that kind took before. What is too cheap to be sent is solved here.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    evaluators : mapping
        Of each fidelity: they solve here, and count what was solved anywhere.
    group : int
        Processes of a group that solves jointly; they are next to each other by rank.
    joint : set of str
        Fidelities that are solved so.
    """

    def __init__(self, comm: Any, evaluators: Mapping[str, Evaluator], group: int, joint: frozenset[str]) -> None:
        self._comm, self._evaluators, self._group, self._joint = comm, evaluators, group, joint
        self._seconds: dict[tuple[Any, ...], float] = {}  # by kind of request: of a row
        self._splits = dict.fromkeys(evaluators, False)
        self._patience = Patience()
        self._began = self._looked = time.perf_counter()
        self._waited = [0.0] * comm.size
        self._signal: int | None = None
        self._sending: list[Any] = []
        #: Whether it is in the middle of an answer.
        self.answering = False

    def probe(self, position: Array) -> None:
        """Find out, at positions (chains, d), which fidelities give a row the same bits whatever its batch."""
        if len(position) > 1:
            for name in self._evaluators.keys() - self._joint:
                self._splits[name] = separable(self._evaluators[name].potential, position)

    def answer(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """What is asked for, in the order of the requests."""
        plan = self._handed_out(requests)
        self.answering = True
        away = [rank for rank in range(1, self._comm.size) if plan[rank]]
        for rank in away:
            self._send(plan[rank], rank)
        own = solved(self._evaluators, plan[0], counted=True)
        replies = [own, *(self._receive(rank) for rank in away)]
        self.answering = False
        parts: dict[int, list[Done]] = defaultdict(list)
        for rank, reply in zip([0, *away], replies, strict=True):
            self._waited[rank] = reply.waited if rank else self._patience.seconds
            for done in reply.done:
                if done.estimate is not None:
                    parts[done.request].append(done)
        for error in (reply.error for reply in replies):
            if error is not None:
                raise error
        for done in (done for reply in replies[1:] for done in reply.done if done.estimate is not None):
            self._evaluators[requests[done.request].fidelity].count(len(done.rows), done.failed, done.seconds)
        return tuple(self._joined(requests[k], parts[k]) for k in range(len(requests)))

    def signalled(self) -> int | None:
        """A signal that another process got, if one did."""
        now = time.perf_counter()
        if self._signal is None and now - self._looked > 0.05:
            self._looked = now
            if (found := self._comm.improbe(tag=SIGNAL)) is not None:
                self._signal = found.recv()
        return self._signal

    def report(self) -> dict[str, Any]:
        """How many processes there are, which fidelities are split or solved jointly, and who has waited how long."""
        whole = max(time.perf_counter() - self._began, 1e-9)
        return {
            "count": self._comm.size,
            "solved": {name: self._way(name) for name in self._evaluators},
            "groups": self._comm.size // self._group if self._joint else None,
            "waiting": [seconds / whole for seconds in self._waited],
        }

    def dismiss(self) -> None:
        """Nothing more is asked of the others."""
        for rank in range(1, self._comm.size):
            self._send(None, rank)
        for request in self._sending:
            self._patience.until(request.Test)

    def _way(self, fidelity: str) -> str:
        if fidelity in self._joint:
            return "jointly"
        return "by rows" if self._splits[fidelity] else "whole"

    def _handed_out(self, requests: Sequence[Request]) -> list[list[Task]]:
        """Tasks by process; joint ones come first, in one order, so that no group waits for another."""
        plan: list[list[Task]] = [[] for _ in range(self._comm.size)]
        load = [0.0] * self._comm.size
        seconds = [self._seconds.get(_kind(request), math.inf) for request in requests]
        order = sorted(range(len(requests)), key=lambda k: (requests[k].fidelity not in self._joint, -seconds[k]))
        # a kind that was not met before is measured here
        known = sum(s * len(request.position) for s, request in zip(seconds, requests, strict=True) if s < math.inf)
        worth = known > 2.0 * MESSAGES
        for k in order:
            request, rows = requests[k], len(requests[k].position)
            if request.fidelity in self._joint:
                first = self._group * min(range(self._comm.size // self._group), key=lambda g: load[self._group * g])
                for rank in range(first, first + self._group):
                    plan[rank].append(Task(k, range(rows), request))
                    load[rank] += (seconds[k] if seconds[k] < math.inf else 1.0) * rows
            elif seconds[k] == math.inf or not worth:
                plan[0].append(Task(k, range(rows), request))
            elif not self._splits[request.fidelity]:
                rank = min(range(len(load)), key=load.__getitem__)
                plan[rank].append(Task(k, range(rows), request))
                load[rank] += seconds[k] * rows
            else:
                self._spread(plan, load, k, request, seconds[k])
        return plan

    def _spread(self, plan: list[list[Task]], load: list[float], k: int, request: Request, seconds: float) -> None:
        """Rows one by one to who has least to do, each process's in one task."""
        queue = [(load[rank], rank) for rank in range(len(load))]
        heapq.heapify(queue)
        share = [0] * len(load)
        for _ in range(len(request.position)):
            before, rank = heapq.heappop(queue)
            share[rank] += 1
            heapq.heappush(queue, (before + seconds, rank))
        begin = 0
        for rank, count in enumerate(share):
            if count:
                rows = range(begin, begin + count)
                plan[rank].append(Task(k, rows, rows_of(request, slice(begin, begin + count))))
                load[rank] += seconds * count
                begin += count

    def _joined(self, request: Request, parts: list[Done]) -> Estimate:
        parts.sort(key=lambda done: done.rows.start)
        self._seconds[_kind(request)] = sum(done.seconds for done in parts) / len(request.position)
        return joined([done.estimate for done in parts if done.estimate is not None])

    def _send(self, item: object, rank: int) -> None:
        self._sending = [request for request in self._sending if not request.Test()]
        self._sending.append(self._comm.isend(item, rank, WORK))

    def _receive(self, rank: int) -> Reply:
        reply: Reply = self._patience.until(lambda: self._comm.improbe(rank, ANSWER)).recv()
        return reply


def _serve(comm: Any, engine: Engine, groups: _Groups) -> None:
    """What the other processes do: solve what they are sent, until there is no more."""
    patience, told = Patience(), False
    with Interrupts() as interrupts:

        def look() -> Any:
            nonlocal told
            if interrupts.received and not told:
                told = True
                comm.isend(interrupts.received, 0, SIGNAL)
            return comm.improbe(0, WORK)

        first = comm.rank % groups.size == 0
        while (tasks := patience.until(look).recv()) is not None:
            reply = solved(engine.evaluators, tasks)
            own = [d if first or tasks[k].what.fidelity not in groups.joint else d._replace(estimate=None)
                   for k, d in enumerate(reply.done)]  # fmt: skip
            comm.send(Reply(own, reply.error, patience.seconds), 0, ANSWER)


def solved(evaluators: Mapping[str, Evaluator], tasks: Sequence[Task], *, counted: bool = False) -> Reply:
    """What comes of some tasks in their order; a mistake of a model's is handed on, failed solves are no mistake."""
    done: list[Done] = []
    for task in tasks:
        evaluator = evaluators[task.what.fidelity]
        before = evaluator.failed, evaluator.seconds
        try:
            estimate = evaluator.answer(task.what)
        except Exception as error:
            return Reply(done, error if counted else portable(error), 0.0)
        done.append(
            Done(task.request, task.rows, estimate, evaluator.failed - before[0], evaluator.seconds - before[1])
        )
    return Reply(done, None, 0.0)


class _Groups:
    """Processes that make joint solves together: as many groups as are fastest."""

    def __init__(self, comm: Any, engine: Engine) -> None:
        self._comm, self._engine = comm, engine
        models = _models(engine.problem)
        self._movable = [model for model in models.values() if isinstance(model, Distributed)]
        self._fixed = any(_is_fixed(model) for model in models.values())
        used = {name: model for name, model in models.items() if name in engine.evaluators}
        #: Fidelities that are solved jointly.
        self.joint = frozenset(n for n, model in used.items() if _is_fixed(model) or isinstance(model, Distributed))
        #: Processes of a group.
        self.size = comm.size
        self._solving: Any = None
        for model in self._movable:
            model.bind(comm)

    def arrange(self) -> None:
        """Choose the groups by measured times, and let models be made on them."""
        if self._fixed or not self._movable:
            return
        requests = sum(replica.fidelity in self.joint for replica in self._engine.replicas)
        sizes = [n for n in range(1, self._comm.size + 1) if self._comm.size % n == 0]
        times = {n: self._seconds(n) for n in sizes if n in (1, self._comm.size) or n == self._comm.size // 2}
        # as many rounds as there are requests for each group
        self.size = min(times, key=lambda n: times[n] * math.ceil(requests / (self._comm.size // n)))
        self._bind(self.size)

    def close(self) -> None:
        """The models are on no processes any more."""
        for model in self._movable:
            model.bind(None)
        if self._solving is not None:
            self._solving.Free()

    def _bind(self, size: int) -> None:
        before = self._solving
        self._solving = None if size == self._comm.size else self._comm.Split(self._comm.rank // size, self._comm.rank)
        for model in self._movable:
            model.bind(self._comm if self._solving is None else self._solving)
        if before is not None:
            before.Free()

    def _seconds(self, size: int) -> float:
        """Seconds of the joint solves of one step with groups of that size, of the slowest group."""
        self._bind(size)
        position, shortest = _positions(self._engine), math.inf
        for _ in range(2):  # the first one may have to compile
            begin = time.perf_counter()
            for name in sorted(self.joint):
                self._engine.evaluators[name].potential.energy_and_gradient(position)
            shortest = min(shortest, time.perf_counter() - begin)
        return float(max(self._comm.allgather(shortest)))


def separable(potential: Potential, position: Array) -> bool:
    """Whether the energies of some chains are, bit for bit, the same whichever chains they are evaluated with.

    They are not where rows of a batch share a matrix product, whose order of summation depends on its size. Then the
    draws would depend on the number of processes.

    Parameters
    ----------
    potential : Potential
    position : ndarray (chains, dimension)
        Where to try.
    """
    chains = len(position)
    whole = [*potential.energy_and_gradient(position), potential.energy(position)]
    # each alone, halves, and thirds: every size of block that there may be is not tried, but those that differ most
    for count in {min(n, chains) for n in (2, 3, chains)}:
        blocks = np.array_split(position, count)
        parts = [[*potential.energy_and_gradient(block), potential.energy(block)] for block in blocks]
        found = [np.concatenate(column) for column in zip(*parts, strict=True)]
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, whole, strict=True)):
            return False
    return True


def _kind(request: Request) -> tuple[Any, ...]:
    """Requests of one kind take about as long for a row."""
    batch: npt.NDArray[np.intp] | None = None if request.batch is None else request.batch.members
    return request.fidelity, request.gradient, None if batch is None else batch.shape[1:]


def _positions(engine: Engine) -> Array:
    return engine.problem.sample_start(np.random.default_rng(0), engine.plan.chains)


def _models(problem: Any) -> dict[str, Any]:
    return dict(getattr(problem, "forward", None) or {})


def _is_fixed(model: Any) -> bool:
    """Whether a model was made for the processes of a communicator of its own."""
    if isinstance(model, Distributed):
        return False
    comm = getattr(model, "comm", None)
    return comm is not None and comm.size > 1


def _same_processes(one: Any, other: Any) -> bool:
    if one is other:
        return True
    from mpi4py import MPI

    return MPI.Comm.Compare(one, other) in (MPI.IDENT, MPI.CONGRUENT)
