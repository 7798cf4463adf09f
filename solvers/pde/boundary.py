"""Unknowns that are Dirichlet values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from invsamp.solvers.foreign import Coefficient, DirichletBC, FunctionSpace
from invsamp.solvers.pde import access
from invsamp.solvers.pde.unknowns import Unknowns

Array = npt.NDArray[np.float64]


class BoundaryUnknowns:
    """Which unknowns are the values of boundary conditions, and at which entries of the state.

    Where several conditions hold an entry, the last one counts, as it does in a solve.

    Raises
    ------
    ValueError
        If a boundary value is an unknown function of another space than the state's.
    """

    def __init__(self, boundary_conditions: Sequence[DirichletBC], unknowns: Unknowns, space: FunctionSpace) -> None:
        n, self._block = access.owned_dofs(space), int(space.dofmap.index_map_bs)
        holder = np.full(n, -1)
        for number, bc in enumerate(boundary_conditions):
            dofs = np.asarray(bc.dof_indices()[0])
            holder[dofs[dofs < n]] = number
        self._found: list[tuple[int, DirichletBC, npt.NDArray[np.intp]]] = []
        for number, bc in enumerate(boundary_conditions):
            for k, part in enumerate(unknowns.parts):
                if bc.g is not part.coefficient._cpp_object:
                    continue
                if access.is_function(part.coefficient) and part.coefficient.function_space != space:
                    raise ValueError(
                        f"{part.names[0]} must be a function of the state's space, as it is a boundary value, "
                        f"got one of {part.coefficient.function_space}"
                    )
                self._found.append((k, part.coefficient, np.flatnonzero(holder == number)))

    def __bool__(self) -> bool:
        return bool(self._found)

    def holds(self, k: int) -> bool:
        """Whether part ``k`` of the unknowns is a boundary value."""
        return any(number == k for number, _, _ in self._found)

    def change(self, directions: Sequence[Coefficient], into: Array) -> None:
        """Write the changes of the owned entries along directions of all parts."""
        for k, coefficient, dofs in self._found:
            if access.is_function(coefficient):
                into[dofs] = directions[k].x.array[dofs]
            elif np.size(coefficient.value) == 1:
                into[dofs] = np.ravel(directions[k].value)[0]
            else:
                into[dofs] = directions[k].value[dofs % self._block]

    def cotangents(self, reaction: Array) -> Iterator[tuple[int, Array]]:
        """Number of each such part, and the cotangent of its entries, from that of the state's owned entries."""
        for k, coefficient, dofs in self._found:
            cotangent: Array
            if access.is_function(coefficient):
                cotangent = np.zeros_like(reaction)
                cotangent[dofs] = reaction[dofs]
            elif np.size(coefficient.value) == 1:
                cotangent = np.array([reaction[dofs].sum()])
            else:
                components = np.bincount(dofs % self._block, reaction[dofs], minlength=self._block)
                cotangent = components.astype(float)
            yield k, cotangent
