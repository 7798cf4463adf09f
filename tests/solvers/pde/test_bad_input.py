"""Mistakes of users in UFL: a clear error before any solve."""

from __future__ import annotations

import launch
import numpy as np
import pytest

try:
    import pde_cases
    import ufl
    from dolfinx import fem
    from mpi4py import MPI

    from invsamp.solvers.pde import StationaryProblem, point_sensors
except ImportError:
    pde_cases = None  # type: ignore[assignment]

needs_dolfinx = [pytest.mark.dolfinx, pytest.mark.skipif(pde_cases is None, reason="dolfinx is not installed")]


@pytest.fixture
def parts():
    """Functions of a Poisson equation a grad u . grad v = s v."""
    domain, space, cellwise = pde_cases.square(MPI.COMM_SELF, 2)
    u, v, a = fem.Function(space), ufl.TestFunction(space), fem.Function(cellwise)
    s = fem.Constant(domain, 1.0)
    return domain, u, v, a, s


def poisson(u, v, a, s):
    return a * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - s * v * ufl.dx


class TestUnknowns:
    pytestmark = needs_dolfinx

    def test_a_constant_that_nothing_depends_on(self, parts) -> None:
        domain, u, v, a, s = parts
        other = fem.Constant(domain, 1.0)
        problem = StationaryProblem(poisson(u, v, a, s), u, {"s": s, "other": other})
        with pytest.raises(ValueError, match="other must have an effect: neither the residual"):
            problem.observe(pde_cases.SENSORS)
        # a functional that holds it is an effect
        model = problem.observe([other * u * ufl.dx])
        assert model.parameters == ("s", "other")

    def test_a_function_whose_derivative_vanishes(self, parts) -> None:
        _, u, v, a, s = parts
        other = fem.Function(a.function_space)
        residual = poisson(u, v, a, s) + ufl.sign(other) * v * ufl.dx
        with pytest.raises(ValueError, match="other must have an effect"):
            StationaryProblem(residual, u, {"other": other}).observe(pde_cases.SENSORS)

    @pytest.mark.parametrize("wrong", [1.0, None, "a"])
    def test_no_constant_or_function(self, parts, wrong) -> None:
        _, u, v, a, s = parts
        with pytest.raises(ValueError, match=r"parameters\['s'\] must be a dolfinx.fem.Constant"):
            StationaryProblem(poisson(u, v, a, s), u, {"s": wrong})

    def test_none(self, parts) -> None:
        _, u, v, a, s = parts
        with pytest.raises(ValueError, match="at least one unknown"):
            StationaryProblem(poisson(u, v, a, s), u)

    def test_twice(self, parts) -> None:
        _, u, v, a, s = parts
        with pytest.raises(ValueError, match="one of them twice"):
            StationaryProblem(poisson(u, v, a, s), u, {"s": s, "t": s})

    def test_function_with_several_values_at_a_point(self, parts) -> None:
        domain, u, v, _, s = parts
        broken = fem.Function(pde_cases.function_space(domain, "DG", 1))
        with pytest.raises(ValueError, match="one value at each of its points"):
            StationaryProblem(poisson(u, v, broken, s), u, {"a": broken})

    def test_no_field(self, parts) -> None:
        _, u, v, a, s = parts
        with pytest.raises(ValueError, match=r"fields must hold fields of invsamp.solvers.fem.fields, got 3"):
            StationaryProblem(poisson(u, v, a, s), u, fields={a: 3})

    def test_boundary_values_of_another_space(self, parts) -> None:
        domain, _, _, _, s = parts
        vectors = pde_cases.function_space(domain, "Lagrange", 1, (2,))
        w, test = fem.Function(vectors), ufl.TestFunction(vectors)
        residual = s * ufl.inner(ufl.grad(w), ufl.grad(test)) * ufl.dx
        sub = vectors.sub(0)
        collapsed = sub.collapse()[0]
        g = fem.Function(collapsed)
        dofs = fem.locate_dofs_geometrical((sub, collapsed), lambda x: np.isclose(x[0], 0.0))
        bc = fem.dirichletbc(g, dofs, sub)
        with pytest.raises(ValueError, match="g must be a function of the state's space"):
            StationaryProblem(residual, w, {"g": g}, boundary_conditions=[bc])

    def test_no_mapping(self, parts) -> None:
        _, u, v, a, s = parts
        with pytest.raises(ValueError, match="parameters must be a mapping"):
            StationaryProblem(poisson(u, v, a, s), u, [s])

    def test_the_state(self, parts) -> None:
        _, u, v, a, s = parts
        with pytest.raises(ValueError, match="u must not be the state"):
            StationaryProblem(poisson(u, v, a, s), u, {"u": u})

    def test_values_that_are_not_at_points(self, parts) -> None:
        domain, u, v, a, s = parts
        flow = fem.Function(pde_cases.function_space(domain, "RT", 1))
        with pytest.raises(ValueError, match="one value at each of its points"):
            StationaryProblem(poisson(u, v, a, s) + flow[0] * v * ufl.dx, u, {"flow": flow})


class TestBoundaryConditions:
    pytestmark = needs_dolfinx

    def test_another_space(self, parts) -> None:
        domain, u, v, a, s = parts
        # dolfinx would leave it out without a word
        same = pde_cases.function_space(domain, "Lagrange", 1)
        bc = fem.dirichletbc(fem.Constant(domain, 0.0), pde_cases.side(same, 0, 0.0), same)
        with pytest.raises(ValueError, match=r"boundary_conditions\[0\] must be one of the state's space"):
            StationaryProblem(poisson(u, v, a, s), u, {"s": s}, boundary_conditions=[bc])

    @pytest.mark.parametrize(
        ("wrong", "message"), [([None], r"\[0\] must be a DirichletBC"), (3, "must be a sequence")]
    )
    def test_no_conditions(self, parts, wrong, message) -> None:
        _, u, v, a, s = parts
        with pytest.raises(ValueError, match=f"boundary_conditions{message}|boundary_conditions {message}"):
            StationaryProblem(poisson(u, v, a, s), u, {"s": s}, boundary_conditions=wrong)


class TestResidual:
    pytestmark = needs_dolfinx

    @pytest.mark.parametrize("term", [lambda u, v: u * v**2, lambda u, v: u, lambda u, v: ufl.sin(v) * u])
    def test_not_linear_in_the_test_function(self, parts, term) -> None:
        _, u, v, a, s = parts
        with pytest.raises(ValueError, match="residual must be linear in its test function, in every term"):
            StationaryProblem(poisson(u, v, a, s) + term(u, v) * ufl.dx, u, {"s": s})

    def test_another_mesh(self, parts) -> None:
        domain, u, v, a, s = parts
        _, _, other = pde_cases.square(MPI.COMM_SELF, 3)
        f, c = fem.Function(other), fem.Constant(other.mesh, 1.0)
        for held in (f, c):
            with pytest.raises(
                ValueError, match=r"residual must hold functions and constants on the state's mesh, got .* another mesh"
            ):
                StationaryProblem(poisson(u, v, a, s) - held * v * ufl.dx(domain), u, {"f": held})
            with pytest.raises(ValueError, match=r"sensors\[1\] must hold functions and constants on the state's mesh"):
                StationaryProblem(poisson(u, v, a, s), u, {"s": s}).observe([u * ufl.dx, held * u * ufl.dx(domain)])

    def test_coefficients_without_values(self, parts) -> None:
        domain, u, v, a, s = parts
        for held in (ufl.Constant(domain), ufl.Coefficient(u.function_space)):
            with pytest.raises(ValueError, match=r"functions and constants of dolfinx\.fem, which have values"):
                StationaryProblem(poisson(u, v, a, s) - held * v * ufl.dx, u, {"s": s})

    def test_parts_of_a_mixed_function_by_dolfinx(self, parts) -> None:
        domain, *_ = parts
        space = pde_cases.taylor_hood(domain)
        w, (v, q) = fem.Function(space), ufl.TestFunctions(space)
        u, p = w.split()
        s = fem.Constant(domain, 1.0)
        residual = (s * ufl.inner(ufl.grad(u), ufl.grad(v)) - p * ufl.div(v) - q * ufl.div(u)) * ufl.dx
        with pytest.raises(ValueError, match=r"those of ufl\.split\(state\), not of state\.split\(\)"):
            StationaryProblem(residual, w, {"s": s})

    def test_a_bilinear_form(self, parts) -> None:
        _, u, v, a, _ = parts
        trial = ufl.TrialFunction(u.function_space)
        with pytest.raises(ValueError, match="no trial function, got 2 arguments: write the state itself"):
            StationaryProblem(a * ufl.inner(ufl.grad(trial), ufl.grad(v)) * ufl.dx, u, {"a": a})

    def test_a_functional(self, parts) -> None:
        _, u, _, a, _ = parts
        with pytest.raises(ValueError, match="one test function"):
            StationaryProblem(a * u * ufl.dx, u, {"a": a})

    def test_no_form(self, parts) -> None:
        _, u, _, a, _ = parts
        with pytest.raises(ValueError, match="residual must be a UFL form"):
            StationaryProblem(3.0, u, {"a": a})

    def test_without_the_state(self, parts) -> None:
        _, u, v, _, s = parts
        with pytest.raises(ValueError, match="residual must depend on state"):
            StationaryProblem(s * v * ufl.dx, u, {"s": s})

    def test_state_that_is_no_function(self, parts) -> None:
        _, u, v, a, s = parts
        with pytest.raises(ValueError, match=r"state must be a dolfinx\.fem\.Function"):
            StationaryProblem(poisson(u, v, a, s), v, {"s": s})

    def test_tested_in_another_space(self, parts) -> None:
        _, u, _, a, s = parts
        v = ufl.TestFunction(a.function_space)
        with pytest.raises(ValueError, match="tested with functions of the state's space"):
            StationaryProblem((u - s) * v * ufl.dx, u, {"s": s})


class TestSensors:
    pytestmark = needs_dolfinx

    @pytest.mark.parametrize(
        ("sensors", "message"),
        [
            ([[0.5, 1.2]], r"sensors must lie in the mesh, got \[0.5, 1.2\]"),
            ([[0.5, 0.5], [-1e-3, 0.5]], r"sensors must lie in the mesh, got \[-0.001, 0.5\]"),
            ([0.5, 0.5], r"shape \(n_sensors, 2\), got \(2,\)"),
            (np.zeros((0, 2)), r"shape \(n_sensors, 2\)"),
            ([[0.5, 0.5, 0.0]], r"shape \(n_sensors, 2\)"),
            ([[0.5, np.nan]], "sensors must be finite"),
        ],
    )
    def test_points(self, parts, sensors, message) -> None:
        _, u, v, a, s = parts
        with pytest.raises(ValueError, match=message):
            StationaryProblem(poisson(u, v, a, s), u, {"s": s}).observe(sensors)

    def test_functionals(self, parts) -> None:
        _, u, v, a, s = parts
        problem = StationaryProblem(poisson(u, v, a, s), u, {"s": s})
        with pytest.raises(ValueError, match=r"sensors\[1\] must depend on the state"):
            problem.observe([u * ufl.dx, a * ufl.dx])
        with pytest.raises(ValueError, match=r"sensors\[0\] must be a functional"):
            problem.observe([v * ufl.dx])
        with pytest.raises(ValueError, match=r"sensors\[1\] must be a functional in UFL or point_sensors"):
            problem.observe([u * ufl.dx, [0.5, 0.5]])

    @pytest.mark.parametrize("component", [-1, "p", (0, 0.5), None])
    def test_no_component(self, component) -> None:
        with pytest.raises(ValueError, match="component must be an integer >= 0, or several of them"):
            point_sensors(pde_cases.SENSORS, component)

    @pytest.mark.parametrize("component", [2, (0, 2), (1, 0)])
    def test_no_component_of_the_state(self, component) -> None:
        problem = pde_cases.channel(MPI.COMM_SELF, 2)
        with pytest.raises(ValueError, match="component must be one of the state's"):
            problem.observe(point_sensors(pde_cases.SENSORS, component))
        with pytest.raises(ValueError, match=r"write point_sensors\(points, component=0\)"):
            problem.observe(pde_cases.SENSORS)

    def test_shapes_of_theta_and_cotangent(self, parts) -> None:
        _, u, v, a, s = parts
        a.x.array[:] = 1.0
        model = StationaryProblem(poisson(u, v, a, s) + u * v * ufl.dx, u, {"s": s}).observe([[0.5, 0.5]])
        with pytest.raises(ValueError, match=r"theta must have shape \(batch, 1\), got \(2, 2\)"):
            model(np.ones((2, 2)))
        with pytest.raises(ValueError, match=r"cotangent must have shape \(1, 1\)"):
            model.linearize(np.ones((1, 1)))[1](np.ones((1, 2)))


def test_without_dolfinx_the_error_says_how_to_install_it() -> None:
    result = launch.python(
        """
        import sys
        sys.modules["dolfinx"] = None  # as if it were not installed
        from invsamp.solvers.pde import StationaryProblem
        try:
            StationaryProblem(None, None, {})
        except ImportError as error:
            print(error)
        """
    )
    assert "StationaryProblem needs dolfinx" in result.stdout
    assert "python3-dolfinx" in result.stdout and "conda" in result.stdout
