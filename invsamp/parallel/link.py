"""Swaps between rungs of two processes: the one with the colder rung decides, the other answers what it asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from invsamp.contract import Array
from invsamp.evaluate.requests import Rows
from invsamp.parallel.channel import Channel
from invsamp.swap.side import Answer, Leaving, LocalSide, Outset, Wanted


class RemoteSide:
    """The other process's rung at one attempt. Its methods are those of `invsamp.swap.side.Side`.

    Parameters
    ----------
    channel : Channel
        To where `MpiLink.serve` answers.
    outset : Outset
        What it said of itself.
    """

    def __init__(self, channel: Channel, outset: Outset) -> None:
        self._channel, self.outset = channel, outset

    def meet(self, there: Array) -> None:
        """It knows already."""

    def ask(self, wanted: Sequence[Wanted], rows: Rows) -> Callable[[], list[Answer]]:
        """Ask at once; the function returned waits for the answers."""
        self._channel.send(("ask", list(wanted), rows))
        return self._channel.receive

    def move(self, rows: Rows, arriving: Leaving) -> Leaving:
        """Let it take over the chains ``rows``; what left there. It may be solving still when this returns."""
        self._channel.send(("move", rows, arriving))
        left: Leaving = self._channel.receive()
        return left

    def dismiss(self) -> None:
        """Let it go on."""
        self._channel.send(("dismiss",))


class MpiLink:
    """The way across a pair whose rungs two processes hold; see `invsamp.swap.exchange.Link`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def greet(self, outset: Outset) -> RemoteSide:
        """Tell what there is here and learn what there is there."""
        self._channel.send(outset)
        return RemoteSide(self._channel, self._channel.receive())

    def serve(self, side: LocalSide, other: Outset) -> None:
        """Answer what the colder rung asks of this one, until the meeting is over."""
        side.meet(other.position)
        while True:
            what, *about = self._channel.receive()
            if what == "dismiss":
                return
            if what == "move":
                rows, arriving = about
                # what leaves is sent before what comes is solved: both sides solve at the same time
                self._channel.send(side.leaving(rows))
                side.arrive(rows, arriving)
                return
            self._channel.send(side.ask(*about)())

    def resolve(self, variance: float) -> float:
        """The mean energy variance there, after telling that of here."""
        self._channel.send(variance)
        there: float = self._channel.receive()
        return there
