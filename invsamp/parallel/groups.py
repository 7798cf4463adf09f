"""Processes that make joint solves together."""

from __future__ import annotations

import math
import time

import numpy as np

from invsamp.engine.driver.engine import Engine
from invsamp.parallel.joint_solves import Distributed
from invsamp.parallel.messages import Communicator
from invsamp.protocols import Array, HasModels, Plain, Problem


class Groups:
    """Processes of a run in groups, as large as is fastest, each of which solves jointly what wants it.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Every process of it has to make one, and to call its methods.
    engine : Engine
        Of the run.

    Attributes
    ----------
    joint : frozenset of str
        Fidelities that are solved jointly.
    size : int
        Processes of a group; they are next to each other by rank.
    """

    def __init__(self, comm: Communicator, engine: Engine) -> None:
        self._comm, self._engine = comm, engine
        models = models_of(engine.problem)
        self._movable = [model for model in models.values() if isinstance(model, Distributed)]
        self._fixed = any(is_fixed(model) for model in models.values())
        used = {name: model for name, model in models.items() if name in engine.potentials}
        self.joint = frozenset(n for n, model in used.items() if is_fixed(model) or isinstance(model, Distributed))
        self.size = comm.size
        self._solving: Communicator | None = None
        for model in self._movable:
            model.bind(comm)

    def arrange(self) -> None:
        """Choose the groups by measured times, and let models be made on them."""
        if self._fixed or not self.joint:
            return
        sizes = [n for n in {1, self._comm.size // 2, self._comm.size} if self._comm.size % n == 0]
        self.size = min(sorted(sizes), key=lambda n: self._seconds(n) * self._rounds(n))
        self._bind(self.size)
        if self.size == 1:  # then they are models like any other
            self.joint = frozenset()

    def close(self) -> None:
        """The models are on no processes any more."""
        for model in self._movable:
            model.bind(None)
        if self._solving is not None:
            self._solving.Free()

    def _rounds(self, size: int) -> float:
        """How often in a step the busiest group solves for all chains; processes by themselves share the chains."""
        requests = sum(rung.fidelity in self.joint for rung in self._engine.rungs)
        parts = self._engine.plan.chains if size == 1 else 1
        return math.ceil(requests * parts / (self._comm.size // size)) / parts

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
        position, shortest = starts(self._engine, self._engine.plan.chains), math.inf
        for _ in range(2):  # the first one may have to compile
            begin = time.perf_counter()
            for name in sorted(self.joint):
                self._engine.potentials[name].potential.energy_and_gradient(position)
            shortest = min(shortest, time.perf_counter() - begin)
        return float(max(self._comm.allgather(shortest)))


def starts(engine: Engine, rows: int) -> Array:
    """Positions (rows, d) to try a run's models at, the same on all processes; the user's, if there are no others."""
    try:
        return engine.problem.sample_start(np.random.default_rng(0), rows)
    except ValueError:
        if engine.given is None:
            raise
        return np.resize(engine.given, (rows, engine.given.shape[1]))


def models_of(problem: Problem) -> Plain:
    """Forward models by fidelity, where a problem has some."""
    return dict(problem.forward) if isinstance(problem, HasModels) else {}


def is_fixed(model: object) -> bool:
    """Whether a model was made for the processes of a communicator of its own."""
    if isinstance(model, Distributed):
        return False
    comm = getattr(model, "comm", None)
    return comm is not None and comm.size > 1
