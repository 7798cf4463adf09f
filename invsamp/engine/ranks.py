"""Which of the processes of a run this is: what the loop needs to know of the others. `Alone` is the usual answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from invsamp.contract import Potential
from invsamp.swap.exchange import Link

Item = TypeVar("Item")


class Ranks(Protocol):
    """A process among those that carry a run together; each holds some rungs in a row.

    All methods but `potential` and `link` are collective: every process calls them, at the same step.
    """

    #: Numbers of the rungs held here, from cold to hot.
    rungs: range
    #: Which of its two outer pairs the process sees to first, so that no two wait for each other in a row.
    colder_first: bool
    #: Whether this is the process that writes, and shows the bar.
    root: bool

    def gather(self, item: Item) -> list[Item] | None:
        """The items of all processes, in the order of their rungs, on the root; None elsewhere."""
        ...

    def everywhere(self, item: Item) -> list[Item]:
        """The items of all processes, in the order of their rungs, on every one."""
        ...

    def bcast(self, item: Item) -> Item:
        """The root's item on every process."""
        ...

    def on_root(self, function: Callable[[], Item]) -> Item | None:
        """What a function gives that the root alone calls; None elsewhere. What it raises is raised on every one."""
        ...

    def stop(self, signal: int | None, *, last: bool) -> int | None:
        """After every step: the signal that any process got and on which all end at this very step, or None.

        After the last one of the run, the signal that any process got and of which nothing was said yet.
        """
        ...

    def potential(self, fidelity: str, potential: Potential) -> Potential:
        """A potential, evaluated with the help of whatever processes hold no rungs."""
        ...

    def link(self, pair: int) -> Link:
        """The way across a pair of which one rung is held here and one is not."""
        ...

    def report(self) -> dict[str, Any]:
        """How many processes there are, who holds what, and how long each has waited for others."""
        ...

    def close(self) -> None:
        """The end of the run here."""
        ...


class Alone:
    """The only process: it holds all rungs."""

    root = colder_first = True

    def __init__(self, rungs: int) -> None:
        self.rungs = range(rungs)

    def gather(self, item: Item) -> list[Item] | None:
        """The item."""
        return [item]

    def everywhere(self, item: Item) -> list[Item]:
        """The item."""
        return [item]

    def bcast(self, item: Item) -> Item:
        """The item."""
        return item

    def on_root(self, function: Callable[[], Item]) -> Item:
        """What it gives."""
        return function()

    def stop(self, signal: int | None, *, last: bool) -> int | None:
        """The signal."""
        return signal

    def potential(self, fidelity: str, potential: Potential) -> Potential:
        """The potential itself."""
        return potential

    def link(self, pair: int) -> Link:
        """`LookupError`: there is no other process."""
        raise LookupError(f"both rungs of pair {pair} are held here")

    def report(self) -> dict[str, Any]:
        """One process."""
        return {"count": 1}

    def close(self) -> None:
        """Nothing to end."""


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What the processes hold, as one of them would: lists one after the other, and sums of counts by name."""
    whole: dict[str, Any] = {}
    for key in parts[0]:
        values = [part[key] for part in parts]
        if isinstance(values[0], list):
            whole[key] = [entry for value in values for entry in value]
        elif isinstance(values[0], dict):
            whole[key] = _summed(values)
        else:
            whole[key] = sum(values[1:], values[0])
    return whole


def _summed(counts: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for count in counts for name in count)
    return {name: sum(count.get(name, 0) for count in counts) for name in names}
