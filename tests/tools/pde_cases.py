"""Equations in UFL that several tests solve, alone or on several ranks."""

from __future__ import annotations

import contextlib
from typing import Any

# h5py after dolfinx fails with "Not a datatype": the first HDF5 library that is loaded wins
with contextlib.suppress(ImportError):
    import h5py  # noqa: F401

import numpy as np
import ufl
from dolfinx import fem, mesh

from invsamp.solvers._dolfinx import function_space
from invsamp.solvers.fem.fields import LogField
from invsamp.solvers.fem.piecewise import PerBlock
from invsamp.solvers.pde import StationaryProblem, TimeDependentProblem, point_sensors

SENSORS = np.array([[0.31, 0.42], [0.5, 0.5], [0.77, 0.2], [1.0, 0.3], [0.25, 1.0]])
END_TIME, STEPS = 0.1, 4


def square(comm: Any, cells: int) -> tuple[Any, Any, Any]:
    """Mesh of the unit square, its P1 space and its DG0 space."""
    domain = mesh.create_unit_square(comm, cells, cells)
    return domain, function_space(domain, "Lagrange", 1), function_space(domain, "DG", 0)


def side(space: Any, axis: int, at: float) -> Any:
    """Degrees of freedom on one side of the square."""
    return fem.locate_dofs_geometrical(space, lambda x: np.isclose(x[axis], at))


def everything_unknown(comm: Any, cells: int = 6, **settings: Any) -> StationaryProblem:
    """-div((k + u^2) a b grad u) + c . grad u = f with a flux, and unknowns of every kind.

    k is a constant, c a vector, a a field in 2 x 2 blocks, b a DG0 function, f a P1 function, g a constant and h a P1
    function as boundary values.
    """
    domain, space, cellwise = square(comm, cells)
    u, v = fem.Function(space), ufl.TestFunction(space)
    k, c = fem.Constant(domain, 1.3), fem.Constant(domain, np.array([0.3, -0.2]))
    a, b = fem.Function(cellwise), fem.Function(cellwise)
    f, h = fem.Function(space), fem.Function(space)
    g = fem.Constant(domain, 0.1)
    for function, value in ((a, 1.0), (b, 1.0), (f, 1.0), (h, 0.2)):
        function.x.array[:] = value
    residual = (
        a * b * (k + u**2) * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx
        + (ufl.inner(c, ufl.grad(u)) - f) * v * ufl.dx
        - c[0] ** 2 * v * ufl.ds
    )
    boundary = [fem.dirichletbc(g, side(space, 0, 0.0), space), fem.dirichletbc(h, side(space, 0, 1.0))]
    return StationaryProblem(
        residual,
        u,
        {"k": k, "c": c, "b": b, "f": f, "g": g, "h": h},
        fields={a: LogField(PerBlock("log_a", (2, 2)))},
        boundary_conditions=boundary,
        **settings,
    )


def functionals(problem: StationaryProblem) -> list[Any]:
    """Two functionals of the state; the second one holds an unknown."""
    u, k = problem.equation.state, problem.unknowns.parts[0].coefficient
    return [u * ufl.dx, k * u**2 * ufl.ds]


def taylor_hood(domain: Any) -> Any:
    """Space of quadratic velocities and linear pressures."""
    if hasattr(fem, "functionspace"):
        import basix.ufl

        parts = [basix.ufl.element("Lagrange", "triangle", 2, shape=(2,)), basix.ufl.element("Lagrange", "triangle", 1)]
        return fem.functionspace(domain, basix.ufl.mixed_element(parts))
    velocity, pressure = ufl.VectorElement("Lagrange", "triangle", 2), ufl.FiniteElement("Lagrange", "triangle", 1)
    return fem.FunctionSpace(domain, ufl.MixedElement(velocity, pressure))


def channel(comm: Any, cells: int = 4, source: bool = False) -> StationaryProblem:
    """Stokes flow with unknown viscosity nu and force (fx, fy) = f, which is 0.

    With a ``source`` also an unknown function m of the mixed space, of more force and of a divergence, which is 0.

    Then the velocity is (y (1 - y), 0) and the pressure 2 nu (1 - x), which the elements hold exactly.
    """
    domain = mesh.create_unit_square(comm, cells, cells)
    space = taylor_hood(domain)
    w, test = fem.Function(space), ufl.TestFunction(space)
    (u, p), (v, q) = ufl.split(w), ufl.split(test)
    nu, f = fem.Constant(domain, 1.0), fem.Constant(domain, np.zeros(2))
    residual = (nu * ufl.inner(ufl.grad(u), ufl.grad(v)) - p * ufl.div(v) - q * ufl.div(u) - ufl.inner(f, v)) * ufl.dx
    unknown: dict[str, object] = {"nu": nu, "f": f}
    if source:
        m = unknown["m"] = fem.Function(space)
        g, s = ufl.split(m)
        residual += (s * q - ufl.inner(g, v)) * ufl.dx
    inflow = fem.Function(space.sub(0).collapse()[0])
    inflow.interpolate(lambda x: np.stack([x[1] * (1 - x[1]), 0 * x[0]]))
    bounds = mesh.locate_entities_boundary(domain, 1, lambda x: np.isclose(x[0] * x[1] * (1 - x[1]), 0.0))
    dofs = fem.locate_dofs_topological((space.sub(0), inflow.function_space), 1, bounds)
    fixed = fem.dirichletbc(inflow, dofs, space.sub(0))
    return StationaryProblem(residual, w, unknown, boundary_conditions=[fixed])


def channel_sensors(problem: StationaryProblem) -> list[Any]:
    """Velocity and pressure at points, their energy, and the second entry of the velocity at points."""
    u, p = ufl.split(problem.equation.state)
    energy = (ufl.inner(u, u) + p**2) * ufl.dx
    return [point_sensors(SENSORS, 0), point_sensors(SENSORS[:3], 1), energy, point_sensors(SENSORS, (0, 1))]


def moving_edge(comm: Any, cells: int = 6, steps: int = 5) -> tuple[TimeDependentProblem, Any]:
    """Heat equation whose values on one side are an update's business, and the function that holds the conductivity."""
    domain, space, cellwise = square(comm, cells)
    u, last, g = (fem.Function(space) for _ in range(3))
    v, a, k = ufl.TestFunction(space), fem.Function(cellwise), fem.Constant(domain, 1.0)
    a.x.array[:] = 1.0
    step = fem.Constant(domain, 0.0)
    residual = (u - last) * v * ufl.dx + step * (a * ufl.inner(ufl.grad(u), ufl.grad(v)) - k * v) * ufl.dx
    return TimeDependentProblem(
        residual,
        u,
        last,
        {"k": k},
        end_time=0.1,
        steps=steps,
        boundary_conditions=[fem.dirichletbc(g, side(space, 0, 0.0))],
        step_size=step,
        update=lambda now: g.interpolate(lambda x: np.sin(10 * now) * x[1]),
    ), a


def bratu(comm: Any, cells: int = 8) -> Any:
    """-div grad u = lambda e^u with u = 0 on the edge: no solution beyond lambda = 6.81 (on the continuous square)."""
    domain, space, _ = square(comm, cells)
    u, v = fem.Function(space), ufl.TestFunction(space)
    strength = fem.Constant(domain, 1.0)
    residual = ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx - strength * ufl.exp(u) * v * ufl.dx
    edge = fem.locate_dofs_geometrical(space, lambda x: np.isclose(x[0] * (1 - x[0]) * x[1] * (1 - x[1]), 0.0))
    zero = fem.dirichletbc(fem.Constant(domain, 0.0), edge, space)
    return StationaryProblem(residual, u, {"strength": strength}, boundary_conditions=[zero]).observe(SENSORS)


def evolution(comm: Any, cells: int = 6, linear: bool = False) -> TimeDependentProblem:
    """Crank-Nicolson for u_t = div((k + u^2) b grad u) - c . grad u + (1 + t) f, without u^2 where it is linear."""
    domain, space, cellwise = square(comm, cells)
    u, last, start, f = (fem.Function(space) for _ in range(4))
    v, b = ufl.TestFunction(space), fem.Function(cellwise)
    start.interpolate(lambda x: np.exp(-((x[0] - 0.4) ** 2 + (x[1] - 0.6) ** 2) / 0.05))
    b.x.array[:], f.x.array[:] = 1.0, 1.0
    k, c = fem.Constant(domain, 1.3), fem.Constant(domain, np.array([0.3, -0.2]))
    g, t, step = (fem.Constant(domain, value) for value in (0.1, 0.0, 0.0))
    middle = (u + last) / 2
    diffusivity = b * (k if linear else k + middle**2)
    residual = (u - last) * v * ufl.dx + step * (
        diffusivity * ufl.inner(ufl.grad(middle), ufl.grad(v)) * ufl.dx
        + (ufl.inner(c, ufl.grad(u)) - f * (1 + t)) * v * ufl.dx
        - c[0] ** 2 * v * ufl.ds
    )
    return TimeDependentProblem(
        residual,
        u,
        last,
        {"k": k, "c": c, "b": b, "f": f, "g": g, "start": start},
        end_time=END_TIME,
        steps=STEPS,
        boundary_conditions=[fem.dirichletbc(g, side(space, 0, 0.0), space)],
        initial=start,
        time=t,
        step_size=step,
    )


def columns(model: Any) -> dict[str, slice]:
    """Columns of theta by the name of the unknown."""
    ends = np.cumsum((0, *model.sizes))
    return {name: slice(a, b) for name, a, b in zip(model.parameters, ends[:-1], ends[1:], strict=True)}


def near_reference(model: Any, seed: int, spread: float = 0.1) -> np.ndarray:
    """A theta (1, dimension) near the values with which the equation was posed."""
    reference = model.equation.unknowns.reference
    noise = np.random.default_rng(seed).standard_normal(len(reference))
    return (reference + spread * np.where(reference == 0.0, 1.0, np.abs(reference)) * noise)[None]


def taylor_orders(model: Any, name: str, seed: int, steps: np.ndarray) -> tuple[np.ndarray, float]:
    """Orders at which the remainder falls from one step to the next, and the last remainder.

    Of a random weighted sum of the observations, along a random direction of one unknown.
    """
    rng = np.random.default_rng(seed)
    theta, where = near_reference(model, seed), columns(model)[name]
    y, vjp = model.linearize(theta)
    weights = rng.standard_normal(y.shape)
    gradient = vjp(weights)[0]
    direction = np.zeros(theta.shape[1])
    direction[where] = rng.standard_normal(where.stop - where.start) * np.abs(theta[0, where]).mean()
    remainders = np.array(
        [abs(weights[0] @ (model(theta + h * direction)[0] - y[0]) - h * gradient @ direction) for h in steps]
    )
    orders = np.log(remainders[:-1] / remainders[1:]) / np.log(steps[:-1] / steps[1:])
    return orders, float(remainders[-1])
