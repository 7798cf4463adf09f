"""The processes that carry a run together, as one of them sees the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from invsamp.contract import Potential
from invsamp.parallel.channel import Channel, Patience, bcast, gather, portable
from invsamp.parallel.group import Helpers, How
from invsamp.parallel.layout import Group
from invsamp.parallel.link import MpiLink

Item = TypeVar("Item")
#: Seconds between two looks at whether any process was told to stop, about. Two of them, a step and a checkpoint have
#: to fit into the second that Open MPI's launcher leaves to processes that it ends.
BETWEEN_LOOKS = 0.1
#: Tags of the messages between the process that holds a group's rungs and its helpers, and of those to the root by
#: processes that have nothing to do; pairs are tagged by number.
HELP, SIGNAL = 30_000, 30_001


class Team:
    """See `invsamp.engine.ranks.Ranks` and `invsamp.swap.exchange.Neighbours`, whose methods these are.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Of the team alone: nothing else is sent by it.
    groups : sequence of Group
        Who holds which rungs, and who helps. Processes in none of them have nothing to do.
    how : mapping
        How the groups evaluate each fidelity.
    """

    def __init__(self, comm: Any, groups: Sequence[Group], how: Mapping[str, How]) -> None:
        self._comm, self._groups = comm, tuple(groups)
        #: How the groups evaluate each fidelity.
        self.how = how
        self.patience = Patience()
        self._began = time.perf_counter()
        at = next((k for k, group in enumerate(groups) if comm.rank in group.ranks), None)
        #: The group of this process; None if it has nothing to do.
        self.group = None if at is None else groups[at]
        self.root = comm.rank == 0
        self.colder_first = at is not None and at % 2 == 1
        #: Whether this process holds rungs.
        self.leads = self.group is not None and comm.rank == self.group.ranks.start
        self.rungs = self.group.rungs if self.group is not None and self.leads else range(0)
        #: Whether all processes know that the run ends here by the exception that leaves it, alike on each of them.
        self.ending = False
        #: Communicator of the group, for distributed solves; None if that is everyone, or if there are none.
        split = "together" in how.values() and len(groups[0].ranks) < comm.size
        self.solving = comm.Split(len(groups) if at is None else at, comm.rank) if split else None
        self._leaders = comm.Split(0 if self.leads else 1, comm.rank)
        self._links: dict[int, MpiLink] = {}
        self._channels: list[Channel] = []
        if self.group is not None and at is not None:
            self._connect(groups, at)
        spare = range(groups[-1].ranks.stop, comm.size) if self.root else ()
        self._passed_on: int | None = None  # a signal that a process got which has nothing to do
        self._spare = [Channel(comm, rank, SIGNAL, self.patience) for rank in spare]
        self._stop = _Stop(self._leaders, self.patience) if self.leads else None

    def gather(self, item: Item) -> list[Item] | None:
        """The items of all processes that hold rungs, in the order of their rungs, on the root; None elsewhere."""
        self._meet()
        return gather(self._leaders, item)

    def everywhere(self, item: Item) -> list[Item]:
        """The items of all processes that hold rungs, in the order of their rungs, on every one of them."""
        self._meet()
        items: list[Item] = self._leaders.allgather(item)
        return items

    def bcast(self, item: Item) -> Item:
        """The root's item on every process that holds rungs."""
        self._meet()
        there: Item = bcast(self._leaders, item)
        return there

    def on_root(self, function: Callable[[], Item]) -> Item | None:
        """What a function gives that the root alone calls; None elsewhere. What it raises is raised on every one."""
        made, error = None, None
        if self.root:
            try:
                made = function()
            except Exception as raised:
                error = raised
        told = self.bcast(None if error is None else portable(error))
        if told is not None:
            self.ending = True
            raise told if error is None else error  # the root's own has its traceback
        return made

    def stop(self, signal: int | None, *, last: bool) -> int | None:
        """After every step: the signal that any process got and on which all end at this very step, or None."""
        assert self._stop is not None  # helpers make no steps
        for channel in self._spare:
            self._passed_on = self._passed_on or channel.arrived()
        signal = signal or self._helpers.signal or self._passed_on
        heard = self._stop.after_last(signal) if last else self._stop.after_step(signal)
        self.ending = self.ending or heard is not None
        return heard

    def stand_by(self, over: Callable[[], bool], signal: Callable[[], int | None]) -> None:
        """What a process does that has nothing to do: let the root know of a signal, until all is over."""
        self.patience.until(lambda: over() or signal())
        if (heard := signal()) is not None:
            Channel(self._comm, 0, SIGNAL, self.patience).send(heard)
            self.patience.until(over)

    def potential(self, fidelity: str, potential: Potential) -> Potential:
        """A potential that the group evaluates."""
        return self._helpers.potential(fidelity, potential, self.how[fidelity])

    def link(self, pair: int) -> MpiLink:
        """The way across a pair of which one rung is held here and one is not."""
        return self._links[pair]

    def barrier(self) -> Any:
        """A request that is done when all processes, those without rungs included, have come here."""
        return self._comm.Ibarrier()

    @property
    def leader(self) -> Channel:
        """To the process whose helper this one is."""
        return self._channels[0]

    def close(self) -> None:
        """The end of the run here: helpers are let go."""
        if self._stop is not None:
            self._stop.close()
            self._helpers.close()
        for channel in self._channels:
            channel.close()
        self._leaders.Free()

    def report(self) -> dict[str, Any]:
        """Who holds what, and the share of the time so far that each process which holds rungs has waited for others.

        Collective.
        """
        waiting = self.everywhere(self.patience.seconds / max(time.perf_counter() - self._began, 1e-9))
        return {
            "count": self._comm.size,
            "groups": [[list(group.rungs), list(group.ranks)] for group in self._groups],
            "how": dict(self.how),
            "waiting": waiting,
        }

    def _connect(self, groups: Sequence[Group], at: int) -> None:
        own = groups[at]
        if not self.leads:
            self._channels = [Channel(self._comm, own.ranks.start, HELP, self.patience)]
            return
        self._helpers = Helpers([Channel(self._comm, rank, HELP, self.patience) for rank in own.ranks[1:]])
        pairs = {groups[k].rungs.stop - 1: groups[k : k + 2] for k in (at - 1, at) if 0 <= k < len(groups) - 1}
        for pair, neighbours in pairs.items():
            (peer,) = (group.ranks.start for group in neighbours if group is not own)
            channel = Channel(self._comm, peer, pair, self.patience)
            self._channels.append(channel)
            self._links[pair] = MpiLink(channel)

    def _meet(self) -> None:
        """Wait for the others, so that what comes next blocks for a moment only."""
        self.patience.until(self._leaders.Ibarrier().Test)


class _Stop:
    """Whether any process was told to stop, asked of all at the same steps, some time before the answer is needed."""

    def __init__(self, comm: Any, patience: Patience) -> None:
        self._comm, self._patience = comm, patience
        self._since, self._count, self._every = time.perf_counter(), 0, 1
        self._all = np.zeros((comm.size, 2))  # by process: the signal or 0, and seconds per step
        self._asking: Any = None

    def after_step(self, signal: int | None) -> int | None:
        """The signal on which all end at this step, or None."""
        self._count += 1
        if self._count < self._every:
            return None
        if self._asking is not None:
            self._patience.until(self._asking.Test)
            self._asking = None
            told, pace = self._all.max(axis=0)
            if told:
                return int(told)
            # by the slowest pace, which all know by now
            self._every = int(min(max(BETWEEN_LOOKS / max(pace, 1e-9), 1), 2 * self._every))
        now = time.perf_counter()
        mine = np.array([float(signal or 0), (now - self._since) / self._count])
        self._since, self._count, self._all = now, 0, np.zeros_like(self._all)
        self._mine = mine  # must live until all have it
        self._asking = self._comm.Iallgather(mine, self._all)
        return None

    def after_last(self, signal: int | None) -> int | None:
        """The same when no step is left: a signal that came since the last look is not lost."""
        self.close()
        told = int(self._all.max(axis=0)[0])
        self._patience.until(self._comm.Ibarrier().Test)
        return max(told, *self._comm.allgather(signal or 0)) or None

    def close(self) -> None:
        """Wait for the last answer: every process has asked as often."""
        if self._asking is not None:
            self._patience.until(self._asking.Test)
            self._asking = None
