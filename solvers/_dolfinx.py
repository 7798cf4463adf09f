"""The part of dolfinx that the package uses, under names that hold for the versions 0.5, 0.9 and 0.11 alike.

The one place that knows how versions differ. dolfinx, PETSc and mpi4py are imported by the first call, not before.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt

from invsamp.solvers.foreign import (
    Comm,
    Compiled,
    DirichletBC,
    Domain,
    Form,
    Function,
    FunctionSpace,
    Given,
    Solver,
    Vec,
)

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]

HOW_TO_INSTALL = (
    "which is not on PyPI: `apt-get install python3-dolfinx` (Debian and Ubuntu, for the system's Python) or "
    "`conda install -c conda-forge fenics-dolfinx`"
)

_CG = {"ksp_type": "cg", "ksp_rtol": 1e-12, "ksp_max_it": 200}
_SWEEPS = "pc_hypre_boomeramg_relax_type_"
#: Under which prefix PETSc's database holds what options: it has room for some 500 entries.
_prefixes: dict[str, str] = {}


@cache
def load(what: str = "this") -> SimpleNamespace:
    """The modules ``fem``, ``petsc`` (of `dolfinx.fem`), ``mesh``, ``geometry``, ``ufl``, ``PETSc`` and ``MPI``.

    Parameters
    ----------
    what : str
        What needs them, for the message.

    Raises
    ------
    ImportError
        If dolfinx is not installed, or its PETSc computes with complex numbers; the message says what to do.
    """
    # h5py after dolfinx fails with "Not a datatype": the two bring different HDF5 libraries, and the first one wins
    with contextlib.suppress(ImportError):
        import h5py  # noqa: F401
    try:
        import dolfinx.fem.petsc
        import ufl
        from dolfinx import fem, geometry, mesh
        from mpi4py import MPI
        from petsc4py import PETSc
    except ImportError as error:
        raise ImportError(f"{what} needs dolfinx with petsc4py and mpi4py ({error}), {HOW_TO_INSTALL}") from error
    if np.issubdtype(PETSc.ScalarType, np.complexfloating):
        raise ImportError(f"{what} needs dolfinx on a PETSc of real numbers, got {PETSc.ScalarType.__name__}")
    return SimpleNamespace(
        fem=fem, petsc=dolfinx.fem.petsc, mesh=mesh, geometry=geometry, ufl=ufl, PETSc=PETSc, MPI=MPI
    )


def multigrid() -> dict[str, object]:
    """PETSc's options for conjugate gradients with algebraic multigrid, by hypre where PETSc has it.

    Gauss and Seidel's sweeps go forward on the way down and backward on the way up, so that a cycle is symmetric.
    By default each sweep goes both ways, which takes twice as long and saves no iterations.
    """
    if not load().PETSc.Sys.hasExternalPackage("hypre"):
        return _CG | {"pc_type": "gamg"}
    sweeps = {f"{_SWEEPS}down": "SOR/Jacobi", f"{_SWEEPS}up": "backward-SOR/Jacobi"}
    return _CG | {"pc_type": "hypre"} | sweeps


def configure(solver: Solver, options: Mapping[str, object]) -> str:
    """Set a solver's options, by PETSc's database; returns their prefix there."""
    key = repr(sorted(options.items()))
    if key not in _prefixes:
        _prefixes[key] = f"invsamp_{len(_prefixes)}_"
        database = load().PETSc.Options()
        for name, value in options.items():
            database[_prefixes[key] + name] = value
    solver.setOptionsPrefix(_prefixes[key])
    solver.setFromOptions()
    return _prefixes[key]


def unread(prefix: str, options: Mapping[str, object]) -> list[str]:
    """Names of the options with this prefix that no solver has read so far: those that PETSc does not know."""
    x = load()
    # petsc4py has no such function before 3.20
    ask, found = ctypes.CDLL(x.PETSc.__file__).PetscOptionsUsed, ctypes.c_int()

    def read(name: str) -> bool:
        ask(None, (prefix + name).encode(), ctypes.byref(found))
        return bool(found.value)

    return [name for name in options if not read(name)]


def cell_mesh(comm: Comm, points: Array, cells: Numbers) -> Domain:
    """Mesh of simplices or quadrilaterals, spread over the ranks of ``comm`` without ghosts; rank 0 gives the arrays.

    Parameters
    ----------
    comm : mpi4py communicator
    points : array, shape (n, d)
    cells : array, shape (c, d + 1), or (c, 4) of quadrilaterals
        Node numbers, in the order in which one goes round. Those of the other ranks are ignored, but for the shape.
    """
    x = load()
    if comm.rank:
        points, cells = points[:0], cells[:0]
    dimension = np.shape(points)[1]
    simplex = {1: "interval", 2: "triangle", 3: "tetrahedron"}[dimension]
    name = simplex if np.shape(cells)[1] == dimension + 1 else "quadrilateral"
    # a quadrilateral's corners stand row by row
    cells = np.ascontiguousarray(cells[:, [0, 1, 3, 2]] if name == "quadrilateral" else cells, dtype=np.int64)
    points = np.ascontiguousarray(points, dtype=float).reshape(-1, dimension)
    if "domain" in inspect.signature(x.mesh.create_mesh).parameters:
        domain = x.ufl.Mesh(x.ufl.VectorElement("Lagrange", name, 1, dim=dimension))
        return x.mesh.create_mesh(comm, cells, points, domain, x.mesh.GhostMode.none)
    import basix.ufl

    element = basix.ufl.element("Lagrange", name, 1, shape=(dimension,))
    # the order of the last two changed between versions, their names did not; without ghosts by default
    return x.mesh.create_mesh(comm, cells, x=points, e=element)


def function_space(mesh: object, family: str, degree: int, shape: tuple[int, ...] = ()) -> FunctionSpace:
    """Function space of scalars, or of vectors with ``shape`` (size,)."""
    x = load()
    if hasattr(x.fem, "functionspace"):
        return x.fem.functionspace(mesh, (family, degree, shape) if shape else (family, degree))
    if shape:
        return x.fem.VectorFunctionSpace(mesh, (family, degree), dim=shape[0])
    return x.fem.FunctionSpace(mesh, (family, degree))


def collapsed(part: FunctionSpace) -> tuple[FunctionSpace, Numbers]:
    """The space of a component by itself, and where its local entries stand among those of the whole space."""
    space, positions = part.collapse()
    # since 0.11 a list with one array for each type of cell
    return space, np.ravel(positions).astype(np.intp)


def is_mixed(space: FunctionSpace) -> bool:
    """Whether the space is that of several functions, and not of one, a vector's entries being one."""
    return n_components(space) > 1 and bool(space.dofmap.index_map_bs == 1)


def n_components(space: FunctionSpace) -> int:
    """Parts of an element: the functions of a mixed one, or a vector's entries."""
    count = space.ufl_element().num_sub_elements
    return int(count() if callable(count) else count)


def restricts(bc: DirichletBC, space: FunctionSpace) -> bool:
    """Whether a Dirichlet condition is one on this space or on a part of it."""
    own = bc.function_space
    return bool(space._cpp_object.contains(getattr(own, "_cpp_object", own)))


def n_cells(mesh: Domain) -> int:
    """Cells that this rank owns; local numbers of the ghosts follow."""
    return int(mesh.topology.index_map(mesh.topology.dim).size_local)


def original_cells(mesh: Domain) -> Numbers:
    """Number, in the arrays that the mesh was made from, of each cell that this rank owns."""
    return np.asarray(mesh.topology.original_cell_index, dtype=np.intp)[: n_cells(mesh)]


def original_nodes(mesh: Domain) -> Numbers:
    """Number, in the arrays that the mesh was made from, of each node of the geometry on this rank."""
    return np.asarray(mesh.geometry.input_global_indices, dtype=np.intp)


def cell_nodes(mesh: Domain) -> Numbers:
    """Nodes of the geometry of each cell that this rank owns, shape (c, nodes per cell)."""
    geometry = mesh.geometry
    return _table(geometry.dofmaps[0] if hasattr(geometry, "dofmaps") else geometry.dofmap, n_cells(mesh))


def cell_dofs(space: FunctionSpace) -> Numbers:
    """Local numbers of the degrees of freedom of each cell that this rank owns, shape (c, per cell)."""
    return _table(space.dofmap.list, n_cells(space.mesh))


def petsc_vector(function: Function) -> Vec:
    """The PETSc vector that holds a function's values; destroy nothing that it shares."""
    held = function.x
    return held.petsc_vec if hasattr(held, "petsc_vec") else function.vector


def sum_over_ranks(comm: Comm, values: Array) -> Array:
    """Sum over the ranks of ``comm``, the same to the last bit on every rank."""
    if comm.size == 1:
        return values
    total = np.empty(np.shape(values))
    # a reduction to all may sum in another order on every rank
    comm.Reduce(np.ascontiguousarray(values, dtype=float), total, root=0)
    comm.Bcast(total, root=0)
    return total


def compiled(form: Form) -> Compiled:
    """A form ready to be assembled; of compiled ones, the same."""
    x = load()
    return x.fem.form(form) if isinstance(form, x.ufl.Form) else form


def estimated_degree(form: object) -> int:
    """The degree of quadrature that UFL estimates for a form over one measure, as dolfinx's compiler asks it to."""
    from ufl.algorithms import compute_form_data

    data = compute_form_data(form, do_apply_integral_scaling=True, do_append_everywhere_integrals=False)
    found = [one.metadata()["estimated_polynomial_degree"] for group in data.integral_data for one in group.integrals]
    return int(max(np.max(degree) for degree in found)) if found else 0


def set_boundary_values(values: Array, bcs: Sequence[DirichletBC]) -> None:
    """Put the boundary values into the local entries of a function, its ghosts included."""
    for bc in bcs:
        if hasattr(bc, "dof_indices") and hasattr(type(bc), "set"):
            bc.set(values)
        else:
            load().fem.set_bc(values, [bc])


def containing_cells(mesh: Domain, points: Array) -> tuple[Numbers, Array]:
    """A cell owned by this rank that holds each of the points (m, 2) or (m, 3), or -1, shape (m,); and its midpoint.

    Of several, that with the least midpoint, first coordinate first. Midpoints (m, 3) are in units of about 1e-9, so
    that those of all ranks can be compared; infinite where no cell is found.
    """
    x = load()
    padded = np.zeros((len(points), 3))
    padded[:, : points.shape[1]] = points
    if hasattr(x.geometry, "bb_tree"):
        tree = x.geometry.bb_tree(mesh, mesh.topology.dim)
        near = x.geometry.compute_collisions_points(tree, padded)
    else:
        tree = x.geometry.BoundingBoxTree(mesh, mesh.topology.dim)
        near = x.geometry.compute_collisions(tree, padded)
    found = x.geometry.compute_colliding_cells(mesh, near, padded)
    nodes = cell_nodes(mesh)
    cells, midpoints = np.full(len(padded), -1, dtype=np.intp), np.full((len(padded), 3), np.inf)
    for number in range(len(padded)):
        for cell in found.links(number):
            if cell < len(nodes):
                # an odd unit: midpoints sit on even ones, where rounding would show
                middle = np.round(mesh.geometry.x[nodes[cell]].mean(axis=0) / 1.0372957e-9)
                if tuple(middle) < tuple(midpoints[number]):
                    cells[number], midpoints[number] = cell, middle
    return cells, midpoints


def _table(links: Given, rows: int) -> Numbers:
    array = links.array.reshape(links.num_nodes, -1) if hasattr(links, "num_nodes") else np.asarray(links)
    return np.asarray(array[:rows], dtype=np.intp)
