"""Stationary equations in UFL: gradients to every kind of unknown, and solutions known from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

dolfinx = pytest.importorskip("dolfinx")

import pde_cases  # noqa: E402
import ufl  # noqa: E402
from dolfinx import fem, mesh  # noqa: E402
from mpi4py import MPI  # noqa: E402

import invsamp as iv  # noqa: E402
from invsamp.solvers._dolfinx import function_space, load  # noqa: E402
from invsamp.solvers.fem.fields import LogField  # noqa: E402
from invsamp.solvers.fem.piecewise import PerBlock  # noqa: E402
from invsamp.solvers.pde import NewtonSettings, StationaryProblem, point_sensors  # noqa: E402
from invsamp.solvers.pde.operator import DIRECT, Operator  # noqa: E402
from invsamp.solvers.poisson import PoissonEquation  # noqa: E402

pytestmark = pytest.mark.dolfinx
#: Five decades.
TAYLOR_STEPS = 0.3 * 10.0 ** -np.arange(6.0)
UNKNOWNS = ("k", "c", "b", "f", "g", "h", "log_a")


@pytest.fixture(scope="module")
def problem():
    return pde_cases.everything_unknown(MPI.COMM_SELF)


@pytest.fixture(scope="module")
def at_points(problem):
    return problem.observe(pde_cases.SENSORS)


@pytest.mark.parametrize("name", UNKNOWNS)
@pytest.mark.parametrize("functionals", [False, True])
def test_taylor_remainders_fall_at_second_order(problem, at_points, name, functionals) -> None:
    model = problem.observe(pde_cases.functionals(problem)) if functionals else at_points
    orders, last = pde_cases.taylor_orders(model, name, seed=1, steps=TAYLOR_STEPS)
    # at the largest step the third order shows, at the smallest one rounding may
    assert np.abs(orders[1:] - 2.0).max() < 0.1 or last < 1e-15, orders
    assert orders[0] > 1.5


def test_a_wrong_gradient_has_first_order(at_points, monkeypatch) -> None:
    right = at_points.linearize

    def wrong(theta):
        y, vjp = right(theta)
        return y, lambda cotangent: 1.01 * vjp(cotangent)

    monkeypatch.setattr(at_points, "linearize", wrong)
    orders, _ = pde_cases.taylor_orders(at_points, "k", seed=1, steps=TAYLOR_STEPS)
    assert orders[-1] < 1.1


def test_adjoint_against_central_differences(at_points) -> None:
    theta = pde_cases.near_reference(at_points, 5)
    y, vjp = at_points.linearize(theta)
    chosen = [columns.start for columns in pde_cases.columns(at_points).values()]
    jacobian = np.stack([vjp(unit[None])[0] for unit in np.eye(y.shape[1])])[:, chosen]
    step = 1e-4
    moved = [at_points(theta + sign * step * np.eye(theta.shape[1])[chosen]) for sign in (1.0, -1.0)]
    differences = ((moved[0] - moved[1]) / (2 * step)).T
    np.testing.assert_allclose(jacobian, differences, rtol=1e-6, atol=1e-6 * np.abs(differences).max())


def test_a_batch_is_its_rows_and_earlier_linearizations_stay_valid(at_points) -> None:
    theta = np.concatenate([pde_cases.near_reference(at_points, seed) for seed in (1, 2, 3)])
    y, vjp = at_points.linearize(theta)
    weights = np.random.default_rng(0).standard_normal(y.shape)
    gradient = vjp(weights)
    for row in range(3):
        alone, product = at_points.linearize(theta[row : row + 1])
        np.testing.assert_array_equal(alone[0], y[row])
        np.testing.assert_array_equal(product(weights[row : row + 1])[0], gradient[row])
        np.testing.assert_array_equal(at_points(theta[row : row + 1])[0], y[row])
    # other solves have used the same matrices since
    np.testing.assert_array_equal(vjp(weights), gradient)


def poisson_in_ufl(cells: int):
    """-div(a grad u) = s, a in 2 x 2 blocks."""
    domain, space, cellwise = pde_cases.square(MPI.COMM_SELF, cells)
    u, v, a = fem.Function(space), ufl.TestFunction(space), fem.Function(cellwise)
    s = fem.Constant(domain, 2.0)
    residual = a * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - s * v * ufl.dx
    edge = mesh.locate_entities_boundary(domain, 1, lambda x: np.full(x.shape[1], True))
    zero = fem.dirichletbc(fem.Constant(domain, 0.0), fem.locate_dofs_topological(space, 1, edge), space)
    return residual, u, s, a, zero


def test_poisson_agrees_with_scikit_fem() -> None:
    residual, u, s, a, zero = poisson_in_ufl(10)
    field = LogField(PerBlock("log_a", (2, 2)))
    ours = StationaryProblem(residual, u, {"s": s}, fields={a: field}, boundary_conditions=[zero])
    model = ours.observe(pde_cases.SENSORS)
    assert model.parameters == ("s", "log_a") and model.sizes == (1, 4) and model.n_observations == 5
    other = PoissonEquation(10, conductivity=field, source="s").observe(pde_cases.SENSORS)
    order = [0, 1, 2, 3, 4] if other.parameters == ("s", "log_a") else [4, 0, 1, 2, 3]
    theta = np.random.default_rng(2).normal(1.0, 1.0, (3, 5))
    y, vjp = model.linearize(theta)
    theirs, their_vjp = other.linearize(theta[:, np.argsort(order)])
    np.testing.assert_allclose(y, theirs, rtol=0, atol=1e-10)
    weights = np.random.default_rng(3).standard_normal(y.shape)
    np.testing.assert_allclose(vjp(weights), their_vjp(weights)[:, order], rtol=0, atol=1e-10)
    assert np.ptp(y[0, :3]) > 1e-3  # the sensors see different things, so that an exchange would show


def test_how_often_the_operator_is_factored() -> None:
    residual, u, s, a, zero = poisson_in_ufl(4)
    a.x.array[:] = 1.0
    once = StationaryProblem(residual, u, {"s": s}, boundary_conditions=[zero]).observe(pde_cases.SENSORS)
    each = StationaryProblem(residual, u, {"s": s, "a": a}, boundary_conditions=[zero]).observe(pde_cases.SENSORS)
    newton = pde_cases.bratu(MPI.COMM_SELF, 4)
    assert "factored once)" in repr(once) and "factored once for each theta" in repr(each)
    assert "each step of Newton" in repr(newton) and "nonlinear" in repr(newton)
    counts = []
    for model in (once, each):
        calls: list[object] = []
        original = Operator.factor

        def counting(self, values, original=original, calls=calls):
            calls.append(values)
            return original(self, values)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Operator, "factor", counting)
            theta = model.equation.unknowns.reference[None] * np.array([[1.0], [2.0], [3.0]])
            y, vjp = model.linearize(theta)
            vjp(np.ones_like(y))
        counts.append(len(calls))
    # the adjoint takes the factors of the solve
    assert counts == [1, 3]


def test_a_batch_of_many_rows() -> None:
    """Each row has factors of its own, of which PETSc's database of options must not know."""
    residual, u, _, a, zero = poisson_in_ufl(2)
    scale = fem.Constant(u.function_space.mesh, 1.0)
    a.x.array[:] = 1.0
    model = StationaryProblem(
        scale * residual - u * ufl.TestFunction(u.function_space) * ufl.dx,
        u,
        {"scale": scale},
        boundary_conditions=[zero],
    ).observe([[0.5, 0.5]])
    theta = np.linspace(1.0, 2.0, 300)[:, None]
    y, vjp = model.linearize(theta)
    np.testing.assert_array_equal(y[[7, 250]], model(theta[[7, 250]]))
    assert np.isfinite(vjp(np.ones_like(y))).all()


def test_other_solvers_give_the_same() -> None:
    theta = None
    results = []
    solvers = ["jacobi"] + ["hypre"] * load().PETSc.Sys.hasExternalPackage("hypre")
    for options in (None, *({"ksp_type": "cg", "pc_type": solver, "ksp_rtol": 1e-13} for solver in solvers)):
        residual, u, _, a, zero = poisson_in_ufl(6)
        a.x.array[:] = 1.0
        problem = StationaryProblem(residual, u, {"a": a}, boundary_conditions=[zero], solver_options=options)
        model = problem.observe(pde_cases.SENSORS)
        theta = pde_cases.near_reference(model, 4) if theta is None else theta
        y, vjp = model.linearize(theta)
        results.append((y, vjp(np.ones_like(y))))
    for y, gradient in results[1:]:
        np.testing.assert_allclose(y, results[0][0], rtol=1e-9)
        np.testing.assert_allclose(gradient, results[0][1], rtol=1e-7, atol=1e-12)


def test_a_solver_whose_transposed_solves_are_wrong_gives_no_gradient(at_points) -> None:
    """SuperLU_DIST was seen to solve with the matrix itself, which is not symmetric here."""
    if not load().PETSc.Sys.hasExternalPackage("superlu_dist"):
        pytest.skip("this PETSc has no SuperLU_DIST")
    options = {"ksp_type": "preonly", "pc_type": "lu", "pc_factor_mat_solver_type": "superlu_dist"}
    other = pde_cases.everything_unknown(MPI.COMM_SELF, solver_options=options).observe(pde_cases.SENSORS)
    theta = pde_cases.near_reference(other, 1)
    (y, vjp), (right, product) = other.linearize(theta), at_points.linearize(theta)
    np.testing.assert_allclose(y, right, rtol=1e-9)
    gradient, expected = vjp(np.ones_like(y)), product(np.ones_like(y))
    assert np.isnan(gradient).all() or np.allclose(gradient, expected, rtol=1e-7, atol=1e-12)


def test_elasticity_has_two_components_at_each_sensor() -> None:
    """Plane strain of a clamped square under its weight; Lame's constants and the weight unknown."""
    domain = mesh.create_unit_square(MPI.COMM_SELF, 4, 4)
    space = function_space(domain, "Lagrange", 2, (2,))
    u, v = fem.Function(space), ufl.TestFunction(space)
    shear, bulk = fem.Constant(domain, 1.0), fem.Constant(domain, 2.0)
    weight = fem.Constant(domain, np.array([0.1, -1.0]))

    def strain(w):
        return ufl.sym(ufl.grad(w))

    stress = 2 * shear * strain(u) + bulk * ufl.tr(strain(u)) * ufl.Identity(2)
    residual = ufl.inner(stress, strain(v)) * ufl.dx - ufl.inner(weight, v) * ufl.dx
    clamp = fem.dirichletbc(np.zeros(2), pde_cases.side(space, 1, 0.0), space)
    problem = StationaryProblem(
        residual, u, {"shear": shear, "bulk": bulk, "weight": weight}, boundary_conditions=[clamp]
    )
    model = problem.observe([[0.5, 1.0], [1.0, 0.5]])
    y = model(problem.unknowns.reference[None])[0].reshape(2, 2)
    assert (y[:, 1] < 0).all() and y[0, 1] < y[1, 1] < 0  # it sinks, most at the top
    # at both points, as the nodes hold it
    points = space.tabulate_dof_coordinates()
    top = int(np.flatnonzero(np.isclose(points[:, 0], 0.5) & np.isclose(points[:, 1], 1.0))[0])
    state = model.solve(problem.unknowns.reference)
    np.testing.assert_allclose(y[0], state.x.array[2 * top : 2 * top + 2], rtol=1e-12)
    sinking = problem.observe(point_sensors([[0.5, 1.0], [1.0, 0.5]], component=1))
    np.testing.assert_array_equal(sinking(problem.unknowns.reference[None])[0], y[:, 1])
    for name in ("shear", "bulk"):
        orders, _ = pde_cases.taylor_orders(model, name, seed=2, steps=TAYLOR_STEPS[1:])
        assert np.abs(orders - 2.0).max() < 0.1
    # linear in the weight: the remainder is rounding
    assert pde_cases.taylor_orders(model, "weight", seed=2, steps=TAYLOR_STEPS)[1] < 1e-14


def test_without_solution_the_row_is_nan_and_the_others_are_right() -> None:
    model = pde_cases.bratu(MPI.COMM_SELF)
    theta = np.array([[5.0], [9.0], [1.0], [np.nan], [np.inf], [-3.0]])
    y, vjp = model.linearize(theta)
    failed = np.array([False, True, False, True, True, False])
    np.testing.assert_array_equal(np.isnan(y), np.repeat(failed[:, None], y.shape[1], axis=1))
    np.testing.assert_array_equal(np.isnan(vjp(np.ones_like(np.nan_to_num(y))))[:, 0], failed)
    np.testing.assert_array_equal(model(theta), y)
    # the largest value at lambda = 5 is well below that at the fold, and the solution is the lower one
    assert 0.4 < y[0].max() < 1.4
    with pytest.raises(RuntimeError, match=r"failed at theta \[9.0\]"):
        model.solve([9.0])
    assert model.solve([5.0]) is model.equation.state


def test_a_failed_solve_is_an_infinite_energy_and_counted(draw) -> None:
    model = pde_cases.bratu(MPI.COMM_SELF, 4)
    data = model(np.array([[6.0]]))[0]
    posterior = iv.Posterior(iv.Prior(strength=iv.Normal(6.0, 1.0)), model, data, iv.GaussianNoise(0.2))
    energy, gradient = posterior.potential().energy_and_gradient(np.array([[6.0], [12.0]]))
    assert np.isfinite(energy[0]) and energy[1] == np.inf and not gradient[1].any()
    run = draw(posterior, iv.mala(step_size=1.0), draws=15, warmup=0, chains=4)
    assert run.report["failed_solves"]["model"] > 0
    assert run.theta.max() < 8.0 and np.isfinite(run.theta).all()


def test_a_matrix_that_cannot_be_factored_is_a_failed_solve() -> None:
    _, space, _ = pde_cases.square(MPI.COMM_SELF, 4)
    u, v, k = fem.Function(space), ufl.TestFunction(space), fem.Constant(space.mesh, 1.0)
    residual = (k * u - 2.0) * v * ufl.dx
    model = StationaryProblem(residual, u, {"k": k}).observe(pde_cases.SENSORS)
    y, vjp = model.linearize(np.array([[0.0], [2.0]]))
    np.testing.assert_array_equal(np.isnan(y).all(axis=1), [True, False])
    assert y[1] == pytest.approx(np.ones(5), rel=1e-12)
    np.testing.assert_array_equal(np.isnan(vjp(np.ones_like(y)))[:, 0], [True, False])


def test_a_singular_matrix_that_rounding_lets_pass_is_a_failed_solve() -> None:
    """Without boundary values a source has no solution; MUMPS finds one of size 1e14."""
    domain, space, _ = pde_cases.square(MPI.COMM_SELF, 4)
    u, v, s = fem.Function(space), ufl.TestFunction(space), fem.Constant(domain, 1.0)
    residual = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - s * v * ufl.dx
    y, _ = StationaryProblem(residual, u, {"s": s}).observe(pde_cases.SENSORS).linearize(np.array([[1.0]]))
    assert np.isnan(y).all()


def test_a_solution_that_is_known_up_to_a_constant_is_a_failed_solve() -> None:
    """A load without resultant has solutions; what comes out of a factorization has a constant of rounding in it."""
    domain, space, _ = pde_cases.square(MPI.COMM_SELF, 4)
    u, v, s = fem.Function(space), ufl.TestFunction(space), fem.Constant(domain, 1.0)
    load = s * (ufl.SpatialCoordinate(domain)[0] - 0.5) * v * ufl.dx
    residual = ufl.exp(s) * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - load
    theta = np.linspace(-2.0, 2.0, 9)[:, None]
    assert np.isnan(StationaryProblem(residual, u, {"s": s}).observe(pde_cases.SENSORS)(theta)).all()
    grounded = residual + 1e-8 * u * v * ufl.dx
    assert np.isfinite(StationaryProblem(grounded, u, {"s": s}).observe(pde_cases.SENSORS)(theta)).all()


def test_so_is_that_of_a_nonlinear_equation() -> None:
    domain, space, _ = pde_cases.square(MPI.COMM_SELF, 4)
    u, v, s = fem.Function(space), ufl.TestFunction(space), fem.Constant(domain, 1.0)
    load = s * (ufl.SpatialCoordinate(domain)[0] - 0.5) * v * ufl.dx
    slope = ufl.grad(u)
    residual = (1.0 + ufl.inner(slope, slope)) * ufl.inner(slope, ufl.grad(v)) * ufl.dx - load
    theta = np.linspace(0.5, 2.0, 4)[:, None]
    assert np.isnan(StationaryProblem(residual, u, {"s": s}).observe(pde_cases.SENSORS)(theta)).all()
    grounded = residual + 1e-6 * u * v * ufl.dx
    assert np.isfinite(StationaryProblem(grounded, u, {"s": s}).observe(pde_cases.SENSORS)(theta)).all()


def test_a_linear_equation_does_not_mind_what_the_state_held() -> None:
    found = []
    for held in (0.0, 1e12):
        residual, u, s, a, zero = poisson_in_ufl(4)
        a.x.array[:], u.x.array[:] = 1.0, held
        model = StationaryProblem(residual, u, {"s": s}, boundary_conditions=[zero]).observe(pde_cases.SENSORS)
        found.append(model(np.array([[1.0]])))
    np.testing.assert_array_equal(found[0], found[1])


def test_a_solver_that_petsc_does_not_have() -> None:
    residual, u, s, _, zero = poisson_in_ufl(4)
    options = {"ksp_type": "preonly", "pc_type": "lu", "pc_factor_mat_solver_type": "abacus"}
    model = StationaryProblem(residual, u, {"s": s}, boundary_conditions=[zero], solver_options=options).observe(
        pde_cases.SENSORS
    )
    with pytest.raises(ValueError, match=r"solver_options must name solvers that PETSc has .* 'abacus'"):
        model(np.array([[1.0]]))
    with pytest.raises(ValueError, match=r"solver_options must be options that PETSc knows, got \{'pc_type': 'lui'\}"):
        StationaryProblem(residual, u, {"s": s}, boundary_conditions=[zero], solver_options={"pc_type": "lui"}).observe(
            pde_cases.SENSORS
        )(np.array([[1.0]]))


def test_an_option_that_no_solver_reads() -> None:
    residual, u, s, a, zero = poisson_in_ufl(4)
    a.x.array[:] = 1.0

    def solved(options: dict[str, object]) -> object:
        problem = StationaryProblem(residual, u, {"s": s}, boundary_conditions=[zero], solver_options=options)
        return problem.observe(pde_cases.SENSORS)(np.array([[1.0]]))

    with pytest.raises(ValueError, match=r"solver_options must be options that the solver reads, got \['ksp_rtoll'\]"):
        solved({"ksp_type": "cg", "pc_type": "jacobi", "ksp_rtoll": 1e-12})
    with pytest.raises(ValueError, match=r"got \['mat_mumps_icntl_14'\]"):
        solved({"ksp_type": "cg", "pc_type": "jacobi", "mat_mumps_icntl_14": 50})
    for options in (
        DIRECT | {"mat_mumps_icntl_14": 50},
        {"ksp_type": "gmres", "pc_type": "asm", "sub_pc_type": "lu", "ksp_rtol": 1e-12},
    ):
        assert np.isfinite(solved(options)).all()


def test_cost_is_measured(at_points) -> None:
    assert at_points.cost > 0


@pytest.mark.parametrize(
    "setting", [{"tolerance": 0.0}, {"tolerance": 2.0}, {"max_iterations": 0}, {"max_halvings": -1}]
)
def test_bad_newton_settings(setting) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        NewtonSettings(**setting)


class TestMixedUnknown:
    """A function of a mixed element is one unknown: all values of its first function, then those of the second."""

    @pytest.fixture(scope="class")
    def problem(self):
        return pde_cases.channel(MPI.COMM_SELF, source=True)

    def test_columns_are_in_the_order_of_the_points(self, problem) -> None:
        part = problem.unknowns.parts[2]
        velocity, pressure = 2 * 9**2, 5**2
        assert part.sizes == (velocity + pressure,)
        fine, coarse = (
            np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
            for ticks in (np.linspace(0, 1, 9), np.linspace(0, 1, 5))
        )
        values = np.concatenate([np.stack([fine[:, 0], 3.0 * fine[:, 1]], axis=1).ravel(), coarse @ [1.0, -2.0]])
        part.write(values)
        g, s = part.coefficient.sub(0).collapse(), part.coefficient.sub(1).collapse()
        right = fem.Function(g.function_space), fem.Function(s.function_space)
        right[0].interpolate(lambda x: np.stack([x[0], 3.0 * x[1]]))
        right[1].interpolate(lambda x: x[0] - 2.0 * x[1])
        np.testing.assert_allclose(g.x.array, right[0].x.array, atol=1e-12)
        np.testing.assert_allclose(s.x.array, right[1].x.array, atol=1e-12)
        np.testing.assert_allclose(part.present(), values)

    def test_the_state_is_linear_in_it_and_the_adjoint_is_exact(self, problem) -> None:
        model = problem.observe(pde_cases.channel_sensors(problem)[:2])
        theta, (columns, size) = pde_cases.near_reference(model, 3), (pde_cases.columns(model)["m"], 187)
        direction = np.zeros_like(theta)
        direction[0, columns] = np.random.default_rng(2).standard_normal(size)
        y, vjp = model.linearize(theta)
        change = model(theta + direction)[0] - y[0]
        assert np.abs(change).max() > 1e-3
        weights = np.random.default_rng(1).standard_normal(y.shape)
        assert vjp(weights)[0] @ direction[0] == pytest.approx(weights[0] @ change, rel=1e-8)
        np.testing.assert_allclose(model.tangent(theta)[1](direction[:, None])[0, 0], change, rtol=1e-8, atol=1e-10)
