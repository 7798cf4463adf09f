"""One space of finite elements against another on the same mesh; also run by ranks that `launch.mpi` starts."""

from __future__ import annotations

import pickle

import numpy as np

from invsamp.solvers.fem.mesh import Mesh, unit_square
from invsamp.solvers.fem.space import Space


def irregular_mesh(cells=9):
    """Uneven triangles, some of them clockwise, with two named regions, in no order; the square's sides are named."""
    square, rng = unit_square(cells), np.random.default_rng(4)
    inner = ~square.part_nodes()
    points = square.points + 0.25 / cells * rng.uniform(-1, 1, square.points.shape) * inner[:, None]
    triangles = square.cells[rng.permutation(len(square.cells))]
    turns = rng.integers(3, size=len(triangles))
    triangles = np.array([np.roll(corners, k) for corners, k in zip(triangles, turns, strict=True)])
    triangles[::3] = triangles[::3, ::-1]
    middles = points[triangles].mean(axis=1)
    regions = {"core": np.flatnonzero(np.linalg.norm(middles - 0.5, axis=1) < 0.3)}
    regions["edge"] = np.setdiff1d(np.arange(len(triangles)), regions["core"])
    return Mesh(points, triangles, regions, square.edges)


def rectangles(cells=7):
    """Uneven rectangles, some of them clockwise, in no order, with two named regions and the square's sides."""
    square, rng = unit_square(cells, "squares"), np.random.default_rng(5)
    lines = np.sort(np.concatenate([[[0.0, 0.0], [1.0, 1.0]], rng.uniform(0.05, 0.95, (cells - 1, 2))]), axis=0)
    number = np.rint(square.points * cells).astype(int)
    corners = square.cells[rng.permutation(len(square.cells))]
    corners = np.array([np.roll(each, k) for each, k in zip(corners, rng.integers(4, size=len(corners)), strict=True)])
    corners[::3] = corners[::3, ::-1]
    points = np.column_stack([lines[number[:, 0], 0], lines[number[:, 1], 1]])
    regions = {"core": np.arange(9), "edge": np.arange(9, len(corners))}
    return Mesh(points, corners, regions, square.edges)


def check(space, reference, tolerance):
    """Assert that all that a space offers equals the reference's, which has all nodes and cells in this process."""
    assert isinstance(space, Space)
    rng = np.random.default_rng(7)
    nodes, cells = space.node_numbers, space.cell_numbers
    u, v = rng.normal(size=(2, len(reference.nodes), 3))
    conductivity = np.exp(rng.normal(size=len(reference.areas)))

    def same(what, mine, whole):
        error = np.abs(mine - whole).max(initial=0) / np.abs(whole).max(initial=1e-300)
        assert error <= tolerance, f"{what}: {error}"

    same("nodes", space.nodes, reference.nodes[nodes])
    same("midpoints", space.midpoints, reference.midpoints[cells])
    same("areas", space.areas, reference.areas[cells])
    same("total area", space.total(space.areas.sum()), reference.areas.sum())
    same("mass", space.mass @ u[nodes], (reference.mass @ u)[nodes])
    matrices = [
        each.combine(2.0, each.mass, 0.1, each.stiffness(conductivity[each.cell_numbers]))
        for each in (space, reference)
    ]
    same("matrix", matrices[0] @ u[nodes], (matrices[1] @ u)[nodes])
    for part in ("left", None, lambda points: points[:, 1] == 0):
        fixed = reference.on_boundary(part)
        np.testing.assert_array_equal(space.on_boundary(part), fixed[nodes])
        same("edge load", space.edge_load(part), reference.edge_load(part)[nodes])
        check_solves(
            space, matrices[0], fixed[nodes], u[nodes], reference.factor(matrices[1], fixed).solve(u)[nodes], same
        )
    check_solves(
        space,
        matrices[0],
        np.zeros(len(nodes), dtype=bool),
        u[nodes],
        reference.factor(matrices[1], np.zeros(len(u), dtype=bool)).solve(u)[nodes],
        same,
    )
    same(
        "cell products",
        space.cell_products(u[None, nodes], v[None, nodes]),
        reference.cell_products(u[None], v[None])[cells],
    )
    regions = [*reference.mesh.regions, lambda points: points[:, 0] < 0.4]
    for region in regions:
        np.testing.assert_array_equal(space.in_region(region), reference.in_region(region)[cells])
    for mine, whole in (
        (space.averages(regions), reference.averages(regions)),
        (space.points(points := rng.random((5, 2))), reference.points(points)),
    ):
        assert mine.count == whole.count
        same("sensors", mine.values(u[nodes]), whole.values(u))
        cotangents = rng.normal(size=(whole.count, 2))
        same("transposed sensors", mine.transpose(cotangents), whole.transpose(cotangents)[nodes])


def check_solves(space, matrix, fixed, right, solution, same):
    """Blocks and single columns, several factors alive at a time."""
    factors = [space.factor(matrix, fixed) for _ in range(2)]
    for each in factors:
        same("block", each.solve(right), solution)
        same("one column", each.solve(right[:, :1]), solution[:, :1])
    doubled = space.factor(space.combine(2.0, matrix, 0.0, matrix), np.zeros_like(fixed))
    same("another matrix", doubled.solve(2.0 * (matrix @ right)), right)
    same("the first again", factors[0].solve(right), solution)


def check_failures(space, comm=None):
    """Assert that what must fail gives NaN, on every rank alike, and that factors still work after it."""

    def gathered(mask):
        return [mask] if comm is None else comm.allgather(mask)

    fixed = space.on_boundary("left")
    ones = np.ones(len(space.areas))
    right = np.random.default_rng(1).normal(size=(len(space.nodes), 3))
    fine = space.combine(1.0, space.mass, 0.1, space.stiffness(ones))
    before = space.factor(fine, fixed).solve(right)
    spoilt = ones.copy()
    if 0 in space.cell_numbers:  # on one rank alone
        spoilt[space.cell_numbers == 0] = np.nan
    with np.errstate(invalid="ignore"):
        bad_ones = [space.stiffness(spoilt), space.stiffness(0.0 * ones), space.stiffness(np.inf * ones)]
    for bad in bad_ones:
        solution = space.factor(bad, fixed).solve(right)
        for mask in gathered(np.isnan(solution).all(axis=0)):
            assert mask.all()
        np.testing.assert_allclose(space.factor(fine, fixed).solve(right), before, rtol=1e-11, atol=1e-13)
    if 0 in space.node_numbers:
        right[space.node_numbers == 0, 1] = np.inf
    solution = space.factor(fine, fixed).solve(right)
    for mask in gathered(np.isfinite(solution).all(axis=0)):
        np.testing.assert_array_equal(mask, [True, False, True])
    np.testing.assert_allclose(solution[:, [0, 2]], before[:, [0, 2]], rtol=1e-11, atol=1e-13)


def check_ranks(comm):
    """Assert what must hold where all ranks share a mesh."""
    from invsamp.solvers.fem.dolfinx_space import DolfinxSpace

    # the last one has fewer cells than four ranks would like
    for mesh in (unit_square(7), irregular_mesh(), rectangles(), unit_square(2)):
        space = DolfinxSpace(mesh, comm)
        for mine, count in ((space.node_numbers, len(mesh.points)), (space.cell_numbers, len(mesh.cells))):
            everywhere = np.concatenate(comm.allgather(mine))
            np.testing.assert_array_equal(np.sort(everywhere), np.arange(count))
        check(space, Space(mesh), 1e-12)

    # totals and sensors are the same bits on every rank
    space = DolfinxSpace(unit_square(8), comm)
    values = np.random.default_rng(comm.rank).normal(size=(5, 40))
    fields = np.random.default_rng(comm.rank).normal(size=(len(space.nodes), 40))
    points = np.random.default_rng(9).random((30, 2))
    for found in (space.total(values), space.points(points).values(fields)):
        assert len(set(comm.allgather(found.tobytes()))) == 1

    check_failures(space, comm)

    if comm.size > 1:
        # results that depend only on the sparsity are reused when no one holds them
        again = DolfinxSpace(unit_square(5), comm)
        fixed = again.on_boundary()
        for scale in (1.0, 2.0, 3.0):
            again.factor(again.combine(scale, again.mass, 0.0, again.mass), fixed)
        assert [sum(map(len, plan._slots.values())) for plan in again._plans.values()] == [1]
        try:
            pickle.dumps(space)
        except TypeError as error:
            assert f"spread over {comm.size} ranks" in str(error)
        else:
            raise AssertionError("was pickled")
