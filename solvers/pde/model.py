"""What both kinds of problem share as forward models: the loop over a batch, failures, ranks and cost."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from invsamp.arguments import numbers
from invsamp.solvers.foreign import Vec
from invsamp.solvers.pde import access
from invsamp.solvers.pde.equation import Equation
from invsamp.solvers.pde.operator import Operator
from invsamp.solvers.pde.sensors import Sensors

Array = npt.NDArray[np.float64]

#: Degrees of freedom, over all rows of a batch, whose factors are kept for the adjoint: about a kilobyte each in 2-D.
KEPT_DOFS = 300_000


class PdeModel(ABC):
    """Observations of a partial differential equation as a forward model; made by ``observe`` of a problem.

    On a distributed mesh every rank calls the same methods with the same arguments and gets the same results, to the
    last bit. Each row of a batch is solved by itself, from the same initial guess: what comes out depends on theta
    alone. A row whose solve fails is NaN on every rank.

    Attributes
    ----------
    parameters : tuple of str
        Names of the unknowns; theta's columns, a vector taking several.
    sizes : tuple of int
        Columns of each.
    n_observations : int
    comm : communicator
        That of the mesh.
    """

    def __init__(self, equation: Equation, sensors: Sensors) -> None:
        self.equation, self.sensors = equation, sensors
        self.parameters, self.sizes = equation.unknowns.names, equation.unknowns.sizes
        self.comm = equation.comm
        self.n_observations = sensors.count
        dofs = equation.space.dofmap.index_map.size_global * equation.space.dofmap.index_map_bs
        self._most_kept = max(1, KEPT_DOFS // max(int(dofs), 1))
        self._operators: list[Operator] = []

    def __repr__(self) -> str:
        size = self.equation.space.dofmap.index_map.size_global * self.equation.space.dofmap.index_map_bs
        columns = ", ".join(
            name if size == 1 else f"{name}[{size}]" for name, size in zip(self.parameters, self.sizes, strict=True)
        )
        kind = "linear" if self.equation.linear else "nonlinear"
        return (
            f"{type(self).__name__}({kind} in the state, unknowns ({columns}), {self.n_observations} observations, "
            f"{size} degrees of freedom on {self.comm.size} rank(s), operator factored {self.factored})"
        )

    @property
    @abstractmethod
    def factored(self) -> str:
        """How often the operator is assembled and factored, in words."""

    def __call__(self, theta: Array) -> Array:
        """Observations, shape (batch, n_observations), at theta, shape (batch, dimension)."""
        theta = self._checked(theta)
        y = np.full((len(theta), self.n_observations), np.nan)
        for row, values in enumerate(theta):
            solution = self._solve(values, self._operator(0))
            if solution is not None:
                y[row] = access.sum_over_ranks(self.comm, self._observe(solution))
        return y

    def linearize(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Observations and the product cotangent (batch, m) -> (batch, dimension), by the discrete adjoint."""
        theta = self._checked(theta).copy()
        y = np.full((len(theta), self.n_observations), np.nan)
        solutions: list[object] = []
        for row, values in enumerate(theta):
            # the first one is what rows without room of their own, and calls without derivative, share
            number = row + 1 if len(theta) <= self._most_kept else 0
            solutions.append(self._solve(values, self._operator(number)))
            if solutions[-1] is not None:
                y[row] = access.sum_over_ranks(self.comm, self._observe(solutions[-1]))

        def vjp(cotangent: Array) -> Array:
            cotangent = np.asarray(cotangent, dtype=float)
            if cotangent.shape != y.shape:
                raise ValueError(f"cotangent must have shape {y.shape}, got {cotangent.shape}")
            gradient = np.full(theta.shape, np.nan)
            for row, solution in enumerate(solutions):
                if solution is None or not np.isfinite(cotangent[row]).all():
                    continue
                found = self._adjoint(theta[row], solution, cotangent[row])
                if found is not None:
                    gradient[row] = access.sum_over_ranks(self.comm, found)
            return gradient

        return y, vjp

    @property
    def work(self) -> float:
        """What a row takes, counted: degrees of freedom."""
        return float(self.equation.space.dofmap.index_map.size_global * self.equation.space.dofmap.index_map_bs)

    @cached_property
    def cost(self) -> float:
        """Seconds per evaluation of one row with its gradient, the least of three; the same on every rank."""
        theta, seconds = self.equation.unknowns.reference[None], []
        for _ in range(3):
            began = time.perf_counter()
            y, vjp = self.linearize(theta)
            vjp(np.ones_like(y))
            seconds.append(time.perf_counter() - began)
        return access.largest_over_ranks(self.comm, min(seconds))

    @abstractmethod
    def _solve(self, theta: Array, operator: Operator) -> object:
        """The solution of one row (dimension,), what `_adjoint` needs of it; None if the solve failed."""

    @abstractmethod
    def _observe(self, solution: Vec) -> Array:
        """This rank's part of the observations of a solution."""

    @abstractmethod
    def _adjoint(self, theta: Array, solution: Vec, cotangent: Array) -> Array | None:
        """This rank's part of the gradient (dimension,); None if the solve failed."""

    def _operator(self, number: int) -> Operator:
        while len(self._operators) <= number:
            self._operators.append(self.equation.operator())
        return self._operators[number]

    def _checked(self, theta: Array) -> Array:
        theta = numbers("theta", theta)
        if theta.ndim != 2 or theta.shape[1] != self.equation.unknowns.dimension:
            raise ValueError(f"theta must have shape (batch, {self.equation.unknowns.dimension}), got {theta.shape}")
        return theta
