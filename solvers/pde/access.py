"""Small steps with functions, forms and communicators of dolfinx that its versions share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from invsamp.solvers._dolfinx import containing_cells, load, petsc_vector
from invsamp.solvers.foreign import Coefficient, Comm, Domain, FunctionSpace, Vec

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]


def is_function(value: object) -> bool:
    """Whether this is a finite element function of dolfinx."""
    return isinstance(value, load().fem.Function)


def is_constant(value: object) -> bool:
    """Whether this is a constant of dolfinx."""
    return isinstance(value, load().fem.Constant)


def values_of(one: Coefficient) -> Array:
    """The values of a constant, or the local ones of a function, to be read and written."""
    values: Array = one.value if is_constant(one) else one.x.array
    return values


def owned_dofs(space: FunctionSpace) -> int:
    """Degrees of freedom that this rank owns, components counted; the ghosts' numbers follow."""
    return int(space.dofmap.index_map.size_local) * int(space.dofmap.index_map_bs)


def dof_points(space: FunctionSpace) -> Array | None:
    """Points of the degrees of freedom of this rank, ghosts last, shape (n, dimension); one row per block.

    None where they are not values at points, or are those of several functions.
    """
    try:
        return np.asarray(space.tabulate_dof_coordinates())[:, : space.mesh.geometry.dim].copy()
    except RuntimeError:
        return None


def assemble_vector(form: object, work: Vec) -> Array:
    """Entries that this rank owns of a compiled linear form; they lie in the function ``work`` until the next call."""
    x = load()
    vector = petsc_vector(work)
    with vector.localForm() as local:
        local.set(0.0)
    x.petsc.assemble_vector(vector, form)
    vector.ghostUpdate(addv=x.PETSc.InsertMode.ADD, mode=x.PETSc.ScatterMode.REVERSE)
    return work.x.array[: owned_dofs(work.function_space)]


def vector(function: object) -> Vec:
    """The PETSc vector of a function whose entries may have been set through its array."""
    held = petsc_vector(function)
    held.stateIncrease()  # PETSc remembers norms, and does not see what is written to the array
    return held


def accumulate(work: Vec) -> Array:
    """Add what lies at the ghosts of ``work`` to the owners; the entries that this rank owns."""
    x = load()
    petsc_vector(work).ghostUpdate(addv=x.PETSc.InsertMode.ADD, mode=x.PETSc.ScatterMode.REVERSE)
    return work.x.array[: owned_dofs(work.function_space)]


def owned_cells(mesh: Domain, points: Array) -> Numbers:
    """A cell that holds each of the points (m, dimension), shape (m,): on one rank alone, -1 on the others.

    Of several cells, at whose common edge a point lies, it is the one that `containing_cells` prefers, however the mesh
    is spread: a discontinuous function has a value in each of them. No one's points are -1 on all ranks.
    """
    cells, midpoints = containing_cells(mesh, points)
    everyone = mesh.comm.allgather(midpoints)
    for number in range(len(points)):
        keys = [tuple(found[number]) for found in everyone]
        if keys.index(min(keys)) != mesh.comm.rank:
            cells[number] = -1
    return cells


def largest_over_ranks(comm: Comm, value: float) -> float:
    """The largest of the ranks' values; NaN if any is."""
    values = comm.allgather(float(value))
    return float(np.max(values))
