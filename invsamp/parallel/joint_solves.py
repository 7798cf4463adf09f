"""Forward models whose solves are distributed over a communicator: made where it is known which processes solve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from invsamp.arguments import function
from invsamp.parallel.communicator import world
from invsamp.parallel.messages import Communicator
from invsamp.protocols import Array, VectorJacobianProduct


def distributed(build: Callable[[object], object]) -> Distributed:
    """Forward model whose solves are distributed over the processes that a run gives it.

    Parameters
    ----------
    build : callable
        ``build(comm)`` makes the model on all processes of a communicator of mpi4py (None where there is no MPI and
        mpi4py is not installed). Its results have to be the same on each of them. It is called first with all
        processes. In a run it is called again with half of them and with one, to measure the gain of more processes.
        The last call has a group of the fastest size, which is one process if there is no gain. A solve that needs the
        memory of all of them wants a model made on all (``comm=`` of the solvers) instead. What ``build`` made lasts as
        long as its communicator, and is not to be kept.

    Returns
    -------
    Distributed
        All processes have to call it together, as long as it is not in a run.

    Raises
    ------
    ValueError
        If ``build`` cannot be called.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.parallel.distributed(lambda comm: None)  # iv.sample under mpiexec: solves are shared by ranks
    distributed(<lambda>)
    """
    return Distributed(function("build", build, "of a communicator"))


class Distributed:
    """A forward model that is made again for the processes of each communicator. Made by `distributed`."""

    def __init__(self, build: Callable[[object], object]) -> None:
        self._build = build
        self._bound: Communicator | None = None
        self._made: tuple[Communicator | None, object] | None = None  # communicator, and the model on it

    def __repr__(self) -> str:
        return f"distributed({getattr(self._build, '__qualname__', self._build)})"

    def __getattr__(self, name: str) -> object:
        # what a model may have or not (a Jacobian, its parameters' names), as the one made has it or not
        if name.startswith("__") or name in ("_build", "_bound", "_made"):
            raise AttributeError(name)
        return getattr(self._model(), name)

    def __getstate__(self) -> dict[str, object]:
        return {"_build": self._build}  # communicators belong to one process

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__init__(state["_build"])  # type: ignore[misc]

    @property
    def comm(self) -> Communicator | None:
        """The communicator of the solves, or None without MPI."""
        return _everyone() if self._bound is None else self._bound

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, m)."""
        y: Array = self._model()(theta)
        return y

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """Observations and the vector-Jacobian product."""
        y, product = self._model().linearize(theta)
        return y, product

    def bind(self, comm: Communicator | None) -> None:
        """Solve on that communicator from now on, or on all processes again (None); what is on another is let go."""
        self._bound = comm
        if self._made is not None and self._made[0] is not self.comm:
            self._made = None  # before the next one is made, which may need the memory
        if comm is not None:
            self._model()

    def _model(self) -> Any:
        comm = self.comm
        if self._made is None or self._made[0] is not comm:
            self._made = comm, self._build(comm)
        return self._made[1]


def _everyone() -> Communicator | None:
    comm = world()
    if comm is not None:
        return comm
    try:
        from mpi4py import MPI
    except ImportError:
        return None
    return MPI.COMM_SELF
