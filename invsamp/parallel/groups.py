"""Processes that make joint solves together."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from invsamp.evaluate.counted import CountedPotential
from invsamp.parallel.joint_solves import Distributed
from invsamp.parallel.messages import Communicator
from invsamp.protocols import Array, HasModels, Plain, Problem


class Groups:
    """Processes of a run in groups, as large as is fastest, each of which solves jointly what wants it.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Every process of it has to make one, and to call its methods.
    models : mapping of fidelities to forward models
    potentials : mapping of fidelities to CountedPotential
        Those that the run uses.

    Attributes
    ----------
    joint : frozenset of str
        Fidelities that are solved jointly.
    size : int
        Processes of a group; they are next to each other by rank.
    """

    def __init__(
        self, comm: Communicator, models: Mapping[str, object], potentials: Mapping[str, CountedPotential]
    ) -> None:
        self._comm, self._potentials = comm, potentials
        self._movable = [model for model in models.values() if isinstance(model, Distributed)]
        self._fixed = any(is_fixed(model) for model in models.values())
        used = {name: model for name, model in models.items() if name in potentials}
        self.joint = frozenset(n for n, model in used.items() if is_fixed(model) or isinstance(model, Distributed))
        self.size = comm.size
        self._solving: Communicator | None = None
        for model in self._movable:
            model.bind(comm)

    def arrange(self, fidelities: Sequence[str], position: Array) -> None:
        """Choose the groups by measured times of a step, and let models be made on them.

        ``fidelities`` of all rungs; ``position`` of all chains.
        """
        if self._fixed or not self.joint:
            return
        whole, requests = self._comm.size, sum(name in self.joint for name in fidelities)

        def seconds(size: int) -> float:
            # in a step the busiest group solves for all chains; processes by themselves share the chains
            parts = len(position) if size == 1 else 1
            return self._seconds(size, position) * math.ceil(requests * parts / (whole // size)) / parts

        self.size = min((n for n in sorted({1, whole // 2, whole}) if whole % n == 0), key=seconds)
        self._bind(self.size)
        if self.size == 1:  # then they are models like any other
            self.joint = frozenset()

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

    def _seconds(self, size: int, position: Array) -> float:
        """Seconds of the joint solves of one step with groups of that size, of the slowest group."""
        self._bind(size)
        shortest = math.inf
        for _ in range(2):  # the first one may have to compile
            begin = time.perf_counter()
            for name in sorted(self.joint):
                self._potentials[name].potential.energy_and_gradient(position)
            shortest = min(shortest, time.perf_counter() - begin)
        return float(max(self._comm.allgather(shortest)))


def starts(problem: Problem, given: Array | None, rows: int) -> Array:
    """Positions (rows, d) to try a run's models at, the same on all processes; those given, if there are no others."""
    try:
        return problem.sample_start(np.random.default_rng(0), rows)
    except ValueError:
        if given is None:
            raise
        return np.resize(given, (rows, given.shape[1]))


def models_of(problem: Problem) -> Plain:
    """Forward models by fidelity, where a problem has some."""
    return dict(problem.forward) if isinstance(problem, HasModels) else {}


def is_fixed(model: object) -> bool:
    """Whether a model was made for the processes of a communicator of its own."""
    if isinstance(model, Distributed):
        return False
    comm = getattr(model, "comm", None)
    return comm is not None and comm.size > 1
