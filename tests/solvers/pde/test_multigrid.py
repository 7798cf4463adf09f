"""Large symmetric matrices are solved by multigrid, unless that does not converge; other matrices are factored."""

from __future__ import annotations

import numpy as np
import pytest

dolfinx = pytest.importorskip("dolfinx")

import ufl  # noqa: E402
from dolfinx import fem, mesh  # noqa: E402
from mpi4py import MPI  # noqa: E402

from invsamp.solvers._dolfinx import function_space  # noqa: E402
from invsamp.solvers.fem import dolfinx_space  # noqa: E402
from invsamp.solvers.fem.factors.petsc import FEW, Slot  # noqa: E402
from invsamp.solvers.fem.fields import LogField  # noqa: E402
from invsamp.solvers.fem.mesh import unit_square  # noqa: E402
from invsamp.solvers.fem.piecewise import PerBlock  # noqa: E402
from invsamp.solvers.pde import StationaryProblem, operator  # noqa: E402
from invsamp.solvers.poisson import PoissonEquation  # noqa: E402

pytestmark = pytest.mark.dolfinx
SENSORS = [[0.3, 0.4], [0.7, 0.6]]
THETA = np.random.default_rng(0).standard_normal((2, 4))


def in_ufl(wave=0.0, wind=0.0, domain=None):
    """-div(a grad u) - wave^2 u + wind du/dx = 1 with a field a in four blocks, zero on the boundary."""
    domain = mesh.create_unit_square(MPI.COMM_SELF, 16, 16) if domain is None else domain
    space, cells = function_space(domain, "Lagrange", 1), function_space(domain, "DG", 0)
    u, v, a = fem.Function(space), ufl.TestFunction(space), fem.Function(cells)
    residual = a * ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx + (wind * u.dx(0) - wave**2 * u - 1.0) * v * ufl.dx
    dofs = fem.locate_dofs_geometrical(
        space,
        lambda x: np.logical_or.reduce([np.isclose(x[k], end) for k in range(domain.geometry.dim) for end in (0, 1)]),
    )
    blocks = LogField(PerBlock("a", (2, 2))) if domain.topology.dim == 2 else LogField("a")
    return StationaryProblem(residual, u, fields={a: blocks}, boundary_conditions=[fem.dirichletbc(0.0, dofs, space)])


def solved(model, theta=THETA):
    y, product = model.linearize(theta)
    return y, product(np.ones_like(y))


@pytest.fixture
def small(monkeypatch):
    """What counts as large; the kinds of solvers that were set up."""
    monkeypatch.setattr(operator, "LARGE", 100)
    monkeypatch.setattr(dolfinx_space, "LARGE", 100)


@pytest.mark.parametrize(("wave", "wind"), [(0.0, 0.0), (30.0, 0.0), (0.0, 5.0)])
def test_it_gives_what_factors_give(small, monkeypatch, wave, wind):
    """Of a positive definite matrix, of an indefinite one, where it does not converge, and of one without symmetry."""
    used = []
    options = operator.multigrid
    monkeypatch.setattr(operator, "multigrid", lambda: used.append(1) or options())
    found = solved(in_ufl(wave, wind).observe(SENSORS))
    assert bool(used) == (wind == 0.0)
    monkeypatch.setattr(operator, "LARGE", 10**9)
    used.clear()
    expected = solved(in_ufl(wave, wind).observe(SENSORS))
    assert not used
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


def test_poissons_equation_gives_what_it_gives_elsewhere(small, monkeypatch):
    made = []
    monkeypatch.setattr(Slot, "__init__", _noting(Slot.__init__, made))
    settings = {"mesh": unit_square(16), "conductivity": LogField(PerBlock("a", (2, 2)))}
    model = PoissonEquation(backend="dolfinx", **settings).observe(SENSORS)
    expected = PoissonEquation(**settings).observe(SENSORS)
    for one, other in zip(solved(model), solved(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert made == [True] * len(made) and made
    np.testing.assert_allclose(model.jacobian(THETA)[1], expected.jacobian(THETA)[1], rtol=1e-9)


def test_many_right_hand_sides_are_solved_by_factors(small, monkeypatch):
    made = []
    monkeypatch.setattr(Slot, "__init__", _noting(Slot.__init__, made))
    points = np.random.default_rng(1).random((FEW + 1, 2))
    model = PoissonEquation(mesh=unit_square(16), conductivity=LogField("a"), backend="dolfinx").observe(points)
    expected = PoissonEquation(mesh=unit_square(16), conductivity=LogField("a")).observe(points)
    np.testing.assert_allclose(model.jacobian(THETA[:1, :1])[1], expected.jacobian(THETA[:1, :1])[1], rtol=1e-9)
    assert set(made) == {True, False}


def test_advection_and_diffusion_in_space_have_exact_gradients():
    domain = mesh.create_unit_cube(MPI.COMM_SELF, 4, 4, 4)
    model = in_ufl(wind=3.0, domain=domain).observe([[0.4, 0.5, 0.6]])
    theta, step = np.array([[0.3]]), 1e-5
    gradient = solved(model, theta)[1]
    np.testing.assert_allclose(gradient, (model(theta + step) - model(theta - step)) / (2 * step), rtol=1e-7)


def _noting(function, made):
    def init(self, plan, multigrid):
        made.append(multigrid)
        function(self, plan, multigrid)

    return init
