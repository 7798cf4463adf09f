"""Processes that evaluate together for the one of them that holds rungs: blocks of chains, or distributed solves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array, GroupwisePotential, Potential, Terms, TermwisePotential
from invsamp.parallel.channel import Channel

#: How the processes of a group evaluate a fidelity: the first alone, each a block of the chains, or all in one solve.
How = Literal["alone", "blocks", "together"]


class _Task(NamedTuple):
    """What a helper is asked for; no fidelity: nothing more."""

    fidelity: str | None
    method: str = ""
    arguments: tuple[npt.NDArray[Any], ...] = ()


class Helpers:
    """The helpers of a group, seen by the process that holds the rungs.

    Parameters
    ----------
    channels : sequence of Channel
        To each of them, in the order of their ranks.
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = channels
        #: What signal one of them got, if any did.
        self.signal: int | None = None

    def potential(self, fidelity: str, potential: Potential, how: How) -> Potential:
        """A potential that they help to evaluate."""
        return potential if how == "alone" or not self._channels else _Shared(fidelity, potential, how, self._evaluate)

    def close(self) -> None:
        """Nothing more is asked of them."""
        for channel in self._channels:
            channel.send(_Task(None))
            channel.close()

    def _evaluate(
        self, how: How, fidelity: str, function: Callable[..., Any], arguments: tuple[npt.NDArray[Any], ...]
    ) -> Any:
        method = function.__name__
        if how == "together":
            for channel in self._channels:
                channel.send(_Task(fidelity, method, arguments))
            value = function(*arguments)
            for channel in self._channels:
                self._reply(channel)
            return value
        blocks = list(zip(*(np.array_split(part, len(self._channels) + 1) for part in arguments), strict=True))
        # array_split gives the first blocks the rows that are left over
        busy = [(channel, block) for channel, block in zip(self._channels, blocks[1:], strict=True) if len(block[0])]
        for channel, block in busy:
            channel.send(_Task(fidelity, method, block))
        parts = [function(*blocks[0])]
        parts += [self._reply(channel) for channel, _ in busy]
        return _joined(parts)

    def _reply(self, channel: Channel) -> Any:
        value, signal = channel.receive()
        self.signal = self.signal or signal
        return value


def serve(
    channel: Channel, potentials: Mapping[str, Potential], how: Mapping[str, How], signal: Callable[[], int | None]
) -> None:
    """What a helper does: evaluate what it is asked for, until there is no more.

    Parameters
    ----------
    channel : Channel
        To the process that holds the rungs.
    potentials, how : mapping
        Of each fidelity.
    signal : callable
        The signal that this process got, if any, for the others to know.
    """
    while True:
        task: _Task = channel.receive()
        if task.fidelity is None:
            return
        value = getattr(potentials[task.fidelity], task.method)(*task.arguments)
        channel.send((value if how[task.fidelity] == "blocks" else None, signal()))


class _Shared:
    """A potential that a group evaluates, as the process sees it that holds the rungs."""

    def __init__(self, fidelity: str, potential: Potential, how: How, evaluate: Callable[..., Any]) -> None:
        self._potential, self._evaluate = potential, partial(evaluate, how, fidelity)
        self.dimension = potential.dimension
        if isinstance(potential, TermwisePotential):
            self.size, self.terms = potential.size, self._shared(potential.terms)
        if isinstance(potential, GroupwisePotential):
            self.group_terms = self._shared(potential.group_terms)

    def energy(self, position: Array) -> Array:
        """Energy (chains,)."""
        energy: Array = self._evaluate(self._potential.energy, (position,))
        return energy

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy (chains,) and its gradient (chains, dimension)."""
        energy, gradient = self._evaluate(self._potential.energy_and_gradient, (position,))
        return energy, gradient

    def _shared(self, function: Callable[..., Terms]) -> Callable[..., Terms]:
        return lambda *arguments: self._evaluate(function, arguments)


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
    whole = _solved(potential, position)
    # each alone, halves, and thirds: every size of block that there may be is not tried, but those that differ most
    for count in {min(n, chains) for n in (2, 3, chains)}:
        blocks = np.array_split(position, count)
        found = _joined([_solved(potential, block) for block in blocks])
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, whole, strict=True)):
            return False
    return True


def _solved(potential: Potential, position: Array) -> tuple[Array, ...]:
    """Energy and gradient, and the energy by itself; copies, as the potential may use its memory again."""
    energy, gradient = (np.array(part) for part in potential.energy_and_gradient(position.copy()))
    return energy, gradient, np.array(potential.energy(position.copy()))


def _joined(parts: list[Any]) -> Any:
    """Blocks of rows one after the other: arrays, or tuples of arrays (with names or without)."""
    if not isinstance(parts[0], tuple):
        return np.concatenate(parts)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return type(parts[0])(*columns) if hasattr(parts[0], "_fields") else tuple(columns)
