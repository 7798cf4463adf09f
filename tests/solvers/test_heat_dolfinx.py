"""The same discrete heat problem, assembled and solved by dolfinx on the same mesh."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

# h5py after dolfinx fails with "Not a datatype": the first HDF5 library that is loaded wins
with contextlib.suppress(ImportError):
    import h5py  # noqa: F401

dolfinx = pytest.importorskip("dolfinx")
ufl = pytest.importorskip("ufl")
PETSc = pytest.importorskip("petsc4py.PETSc")
MPI = pytest.importorskip("mpi4py.MPI")

from invsamp.solvers.heat import DecayingGaussian, GaussianBump, HeatEquation  # noqa: E402

CELLS, STEPS, END, KAPPA = 12, 5, 0.03, 1.3
SENSORS = np.array([[0.31, 0.42], [0.5, 0.5], [0.77, 0.2], [0.93, 0.06]])
CENTRE = np.array([0.44, 0.37])
IMPLICITNESS = {"backward_euler": 1.0, "crank_nicolson": 0.5}


def gaussian(points, width, height):
    return height * np.exp(-np.sum((points[:, :2] - CENTRE) ** 2, axis=1) / (2 * width**2))


def solve_with_dolfinx(initial, source, profile, boundary, scheme):
    """Sensor values at the end; ``initial`` and ``source`` map node coordinates to values."""
    from dolfinx import fem, mesh

    with contextlib.suppress(ImportError):  # an import by name is needed from 0.9 on
        import dolfinx.fem.petsc  # noqa: F401

    domain = mesh.create_unit_square(MPI.COMM_SELF, CELLS, CELLS)
    make_space = getattr(fem, "functionspace", None) or fem.FunctionSpace
    space = make_space(domain, ("Lagrange", 1))
    points = space.tabulate_dof_coordinates()
    u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
    mass = matrix(fem, u * v * ufl.dx)
    stiffness = matrix(fem, KAPPA * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx)
    edge = np.isclose(points[:, :2] * (1 - points[:, :2]), 0).any(axis=1)
    edge = np.flatnonzero(edge) if boundary != "neumann" else np.array([], dtype=int)
    implicit, step = IMPLICITNESS[scheme], END / STEPS
    left = (mass + implicit * step * stiffness).tolil()
    left[edge] = 0
    left[edge, edge] = 1
    left = left.tocsr()
    operator = PETSc.Mat().createAIJ(left.shape, csr=(left.indptr, left.indices, left.data), comm=MPI.COMM_SELF)
    solver = PETSc.KSP().create(MPI.COMM_SELF)
    solver.setOperators(operator)
    solver.setType("preonly")
    solver.getPC().setType("lu")
    field = initial(points)
    start = field.copy()
    field[edge] = 0.0 if boundary == "dirichlet" else start[edge]
    for n in range(STEPS):
        weight = implicit * profile[n + 1] + (1 - implicit) * profile[n]
        right = (mass - (1 - implicit) * step * stiffness) @ field + step * weight * (mass @ source(points))
        right[edge] = 0.0 if boundary == "dirichlet" else profile[n + 1] * start[edge]
        vector, solution = operator.createVecRight(), operator.createVecLeft()
        vector.array[:] = right
        solver.solve(vector, solution)
        field = solution.array.copy()
    return evaluate(fem, domain, space, field)


def matrix(fem, form):
    import scipy.sparse as sparse

    assembled = fem.petsc.assemble_matrix(fem.form(form))
    assembled.assemble()
    indptr, indices, data = assembled.getValuesCSR()
    return sparse.csr_matrix((data, indices, indptr), shape=assembled.getSize())


def evaluate(fem, domain, space, field):
    from dolfinx import geometry

    points = np.column_stack([SENSORS, np.zeros(len(SENSORS))])
    if hasattr(geometry, "bb_tree"):
        tree = geometry.bb_tree(domain, 2)
        candidates = geometry.compute_collisions_points(tree, points)
    else:
        tree = geometry.BoundingBoxTree(domain, 2)
        candidates = geometry.compute_collisions(tree, points)
    found = geometry.compute_colliding_cells(domain, candidates, points)
    function = fem.Function(space)
    function.x.array[:] = field
    return function.eval(points, [found.links(k)[0] for k in range(len(points))])[:, 0]


@pytest.mark.parametrize("scheme", IMPLICITNESS)
@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
def test_bump_agrees_with_dolfinx(boundary, scheme):
    bump = GaussianBump(0.12, 2.5)
    ours = HeatEquation(CELLS, STEPS, END, bump, boundary, scheme, KAPPA).observe(SENSORS)(CENTRE[None])[0]
    theirs = solve_with_dolfinx(
        lambda points: gaussian(points, 0.12, 2.5),
        lambda points: np.zeros(len(points)),
        np.ones(STEPS + 1),
        boundary,
        scheme,
    )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    assert np.ptp(theirs) > 0.1  # the sensors see different things, so that an exchange would show


@pytest.mark.parametrize("scheme", IMPLICITNESS)
def test_manufactured_solution_agrees_with_dolfinx(scheme):
    width = 0.2
    height = DecayingGaussian(width).value(0.0, 0.0)
    ours = HeatEquation(CELLS, STEPS, END, DecayingGaussian(width), "exact", scheme, KAPPA).observe(SENSORS)(
        CENTRE[None]
    )

    def source(points):
        # f = u_t - kappa Laplace u at time 0
        squared = np.sum((points[:, :2] - CENTRE) ** 2, axis=1)
        return gaussian(points, width, height) * (-1 - KAPPA * (squared / width**4 - 2 / width**2))

    profile = np.exp(-np.linspace(0, END, STEPS + 1))
    theirs = solve_with_dolfinx(lambda points: gaussian(points, width, height), source, profile, "exact", scheme)
    np.testing.assert_allclose(ours[0], theirs, rtol=0, atol=1e-10)
