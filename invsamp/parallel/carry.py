"""A run carried by several processes: who holds what, found by measured costs, and the result on every one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from invsamp.contract import Array, Potential
from invsamp.engine.engine import Engine
from invsamp.engine.interrupts import Interrupts
from invsamp.engine.ranks import Ranks
from invsamp.engine.replica import Replica
from invsamp.evaluate.requests import answered
from invsamp.parallel.agreement import unequal_energies
from invsamp.parallel.channel import Patience, bcast, portable
from invsamp.parallel.group import How, separable, serve
from invsamp.parallel.joint_solves import Distributed
from invsamp.parallel.layout import Group, arrange
from invsamp.parallel.team import Team
from invsamp.parallel.world import all_or_none, alone, check_communicator, world

Result = TypeVar("Result")
#: Seconds that a message there and back takes, about: what blocks of chains have to save.
MESSAGES = 5e-4
#: n processes make one solve at the most so many times as fast: n to this power. Less than n, whatever was measured, so
#: that rungs are spread first.
BEST = 0.95


def communicator(problem: Any, comm: Any = None) -> Any:
    """The communicator of the processes that are to carry a run, or None if this one does it alone.

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


def _same_processes(one: Any, other: Any) -> bool:
    if one is other:
        return True
    from mpi4py import MPI

    return MPI.Comm.Compare(one, other) in (MPI.IDENT, MPI.CONGRUENT)


def carry(comm: Any, engine: Engine, work: Callable[[Ranks], Result]) -> Result:
    """Let the processes of a communicator carry a run.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Every process of it has to call this, with equal arguments.
    engine : Engine
        Of the whole run, at nothing yet: what is to be carried.
    work : callable
        Makes the run. Called where rungs are held, with the `Ranks`; what it returns on the root is the result. What
        it raises on all of them, by `Ranks.stop` or `Ranks.on_root`, is raised on every process; what it raises on
        one of them ends all.

    Returns
    -------
    The result, on every process.

    Raises
    ------
    ValueError
        If the forward models do not compute the same on all processes.
    """
    with all_or_none(comm), alone():
        own = comm.Dup()
        models = _models(engine.problem)
        movable = [model for model in models.values() if isinstance(model, Distributed)]
        for model in movable:
            model.bind(comm)
        potentials = {name: evaluator.potential for name, evaluator in engine.evaluators.items()}
        result, team = None, None
        left: BaseException | None = unequal_energies(own, potentials, _positions(engine)[0])
        if left is None:
            plan = _plan(own, engine, models)
            team = Team(own, plan.groups, plan.how)
            for model in movable:
                # all let go what they had on all of them, those too that have nothing to do
                model.bind(None if team.group is None else team.solving or comm)
            result, left = bcast(own, _part(team, potentials, work))
        own.Free()
    for model in movable:
        model.bind(None)
    if team is not None and team.solving is not None:
        team.solving.Free()
    if left is not None:
        raise left
    return result  # type: ignore[return-value]


def _part(
    team: Team, potentials: Mapping[str, Potential], work: Callable[[Ranks], Result]
) -> tuple[Result | None, BaseException | None]:
    """The part of one process, until all have made theirs: what came of it, or the end that all of them agreed on."""
    made, left, over = None, None, None
    if team.leads:
        try:
            made = work(team)
        except BaseException as end:
            if not team.ending:
                raise
            left = portable(end)
    elif team.group is not None:
        with Interrupts() as interrupts:
            serve(team.leader, potentials, team.how, lambda: interrupts.received)
    else:
        over = team.barrier()
        with Interrupts() as interrupts:
            team.stand_by(over.Test, lambda: interrupts.received)
    team.close()
    team.patience.until((team.barrier() if over is None else over).Test)
    return made, left


class _Plan(NamedTuple):
    groups: tuple[Group, ...]
    how: Mapping[str, How]


def _plan(comm: Any, engine: Engine, models: Mapping[str, Any]) -> _Plan:
    """Who holds what, decided by the root."""
    rungs, size = len(engine.replicas), comm.size
    together = [name for name, model in models.items() if _is_fixed(model) or isinstance(model, Distributed)]
    if any(_is_fixed(model) for model in models.values()):
        # those models know these processes only
        fixed: dict[str, How] = {name: "together" if name in together else "alone" for name in engine.evaluators}
        return _Plan((Group(range(rungs), range(size)),), fixed)
    how: dict[str, How] = {name: "together" if name in together else "blocks" for name in engine.evaluators}
    position = _positions(engine)
    joint = _joint_times(comm, engine, {name: models[name] for name in together}, position) if together else {}
    found = None
    if comm.rank == 0:
        times = [joint.get(k) or _alone_times(replica, position) for k, replica in enumerate(engine.replicas)]
        found = _arranged(size, engine, position, times, how)
    Patience().until(comm.Ibarrier().Test)
    plan: _Plan = comm.bcast(found)
    return plan


class _Times(NamedTuple):
    """Seconds of a process for an estimate of a rung at all chains, and at one."""

    whole: float
    one: float

    def shared(self, size: int, chains: int, splits: bool) -> list[float]:
        """Seconds with one process, two, and so on."""
        each = max(self.whole - self.one, 0.0) / max(chains - 1, 1)
        blocks = [math.ceil(chains / n) for n in range(2, min(size, chains) + 1)] if splits else []
        return [self.whole, *(self.one + each * (rows - 1) + MESSAGES for rows in blocks)]


class _JointTimes(NamedTuple):
    """Seconds for an estimate that all processes make together, and half of them."""

    whole: float
    half: float

    def shared(self, size: int, chains: int, splits: bool) -> list[float]:
        """Seconds with one process, two, and so on, by the power of their number that the two times show."""
        power = math.log(self.half / self.whole) / math.log(size / _half(size))
        return [self.whole * (size / n) ** min(max(power, -1.0), BEST) for n in range(1, size + 1)]


def _half(size: int) -> int:
    return -(-size // 2)


def _joint_times(
    comm: Any, engine: Engine, models: Mapping[str, Distributed], position: Array
) -> dict[int, _JointTimes]:
    """Measured by all processes, of rungs whose solves are distributed; in the end the models are on all of them."""
    rungs = [k for k, r in enumerate(engine.replicas) if any(e.fidelity in models for e in r.evaluators)]
    everyone = {name: model.comm for name, model in models.items()}
    halves = comm.Split(comm.rank >= _half(comm.size), comm.rank)
    for model in models.values():
        model.bind(halves)
    half = [_seconds(engine.replicas[k], position, halves) for k in rungs]
    for name, model in models.items():
        model.bind(everyone[name])
    halves.Free()
    whole = [_seconds(engine.replicas[k], position, comm) for k in rungs]
    return {k: _JointTimes(*times) for k, *times in zip(rungs, whole, half, strict=True)}


def _alone_times(replica: Replica, position: Array) -> _Times:
    return _Times(_seconds(replica, position), _seconds(replica, position[:1]))


def _arranged(
    size: int, engine: Engine, position: Array, times: Sequence[_Times | _JointTimes], how: dict[str, How]
) -> _Plan:
    """The layout by costs; chains are split into blocks where that helps and changes no bit."""
    names = [[evaluator.fidelity for evaluator in replica.evaluators] for replica in engine.replicas]
    chains = len(position)
    while True:
        splits = [any(how[name] == "blocks" for name in own) for own in names]
        groups = arrange([t.shared(size, chains, s) for t, s in zip(times, splits, strict=True)], size)
        helped = {name for group in groups if len(group.ranks) > 1 for k in group.rungs for name in names[k]}
        differ = [
            name
            for name in sorted(helped)
            if how[name] == "blocks" and not separable(engine.evaluators[name].potential, position)
        ]
        if not differ:
            return _Plan(groups, how)
        how |= dict.fromkeys(differ, "alone")


def _seconds(replica: Replica, position: Array, comm: Any = None) -> float:
    """The shortest of a few estimates: the first one may have to compile, and a long one is told from one alone.

    Those of joint solves are as many on every process of ``comm``, or some would wait for ever for the others.
    """
    shortest = math.inf
    for _ in range(3):
        begin = time.perf_counter()
        # the same random numbers in every process: joint solves have to be for the same levels
        answered(replica.estimator.estimate(np.random.default_rng(0), position), replica.answer)
        shortest = min(shortest, time.perf_counter() - begin)
        enough = shortest > 1.0
        if enough if comm is None else comm.bcast(enough):
            break
    return max(shortest, 1e-9)


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
