r"""Sixty-four stiffnesses of a membrane from its deflection at 169 points: a published benchmark of 64 parameters.

The deflection u solves :math:`-\nabla\cdot(a \nabla u) = 10` on the unit square, u = 0 on its edge, and the stiffness a
is constant in each of 8 x 8 equal squares. It is read at the points (i/14, j/14), i, j = 1..13, with noise of standard
deviation 0.05. The source is D. Aristoff and W. Bangerth, "A benchmark for the Bayesian inversion of coefficients in
partial differential equations", SIAM Review 65(4), 2023, Section 2, arXiv:2102.07263. Their programs are in the code
gallery of deal.II, "MCMC-Laplace".

The forward model is the benchmark's own, to rounding: bilinear elements on 32 x 32 squares. The posterior depends on
it: linear elements on that mesh's triangles shift some posterior means by a fifth of an sd.

The prior. The benchmark's prior has the density :math:`\exp(-(\log a)^2/(2 \cdot 2^2))` *in a*, up to a constant, for
each stiffness. In z = log a, with da = e^z dz, that is

.. math:: \exp\Bigl(-\frac{z^2}{8} + z\Bigr) = \exp\Bigl(-\frac{z^2 - 8 z}{8}\Bigr)
          = e^{2} \exp\Bigl(-\frac{(z - 4)^2}{8}\Bigr),

so log a is normal with mean 4, not 0, and standard deviation 2: the median of a is 55, and 98% of the prior lie above
1.

The data hold no noise. They are the deflection for the true stiffnesses on a mesh of 256 x 256 squares with bicubic
elements; `measured` computes them, and they agree with the published ones to 1e-11. Parameters and points are ordered
with x slowest here. As truth, and so the data, are symmetric in x and y, so is the posterior, and the benchmark's order
(x fastest for the stiffnesses) makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, sequence
from invsamp.posing.distributions.univariate import Normal
from invsamp.posing.noise.continuous import GaussianNoise
from invsamp.posing.posterior.posterior import Posterior
from invsamp.posing.priors.joint_prior import Prior
from invsamp.solvers.fem.fields import LogField
from invsamp.solvers.fem.mesh import unit_square
from invsamp.solvers.fem.piecewise import PerBlock
from invsamp.solvers.poisson import PoissonEquation, PoissonObservation

Array = npt.NDArray[np.float64]

#: Squares of equal stiffness along one side.
SIDE = 8
SOURCE = 10.0
NOISE_SD = 0.05
#: Of log a.
PRIOR_MEAN, PRIOR_SD = 4.0, 2.0
#: Where the deflection is read, shape (169, 2); x varies slowest.
POINTS = np.stack(np.meshgrid(*2 * [np.arange(1, 14) / 14], indexing="ij"), axis=-1).reshape(-1, 2)
POINTS.setflags(write=False)
#: Squares along one side of the benchmark's mesh.
PUBLISHED_CELLS = 32

COEFFICIENT = LogField(PerBlock("log_a", (SIDE, SIDE)))


def truth() -> Array:
    """True stiffnesses, shape (8, 8), indexed [x, y]: 1 but for a soft and a stiff inclusion on the diagonal."""
    a = np.ones((SIDE, SIDE))
    a[1:3, 1:3] = 0.1
    a[5:7, 5:7] = 10.0
    return a


@cache
def data() -> Array:
    """The measured deflections, shape (169,), in the order of `POINTS`."""
    text = resources.files("invsamp.problems").joinpath("poisson64.csv").read_text()
    values = np.array([float(line) for line in text.split()])
    values.setflags(write=False)
    return values


def posterior(levels: Sequence[int] = (PUBLISHED_CELLS,), backend: str = "skfem", comm: object = None) -> Posterior:
    """Unknown ``log_a``, shape (8, 8), Normal(4, 2); 169 data with Gaussian noise of sd 0.05; bilinear squares.

    Parameters
    ----------
    levels : sequence of int
        Squares along one side of the meshes, multiples of 8, from coarse to fine; the fidelities are "32x32" and so on.
    backend : {"skfem", "dolfinx"}
        Who assembles and solves; both give the same numbers.
    comm : communicator of mpi4py, optional
        Over which dolfinx spreads the meshes; each rank for itself by default.

    Raises
    ------
    ValueError
        If a level is not a multiple of 8, or the backend is unknown or given a communicator that it has no use for.
    ImportError
        If dolfinx is asked for and not installed.
    """
    meshes = [_check_cells(f"levels[{k}]", cells) for k, cells in enumerate(sequence("levels", levels))]
    forward = {f"{cells}x{cells}": squares(cells, backend, comm) for cells in meshes}
    prior = Prior(log_a=Normal(PRIOR_MEAN, PRIOR_SD, shape=(SIDE, SIDE)))
    return Posterior(prior, forward, data(), GaussianNoise(NOISE_SD))


def squares(cells: int = PUBLISHED_CELLS, backend: str = "skfem", comm: object = None) -> PoissonObservation:
    """Deflections by bilinear elements on cells x cells squares; with the default of 32, what the benchmark solves."""
    mesh = unit_square(_check_cells("cells", cells), "squares")
    equation = PoissonEquation(conductivity=COEFFICIENT, source=SOURCE, mesh=mesh, backend=backend, comm=comm)
    return equation.observe(POINTS)


def in_ufl(cells: int = PUBLISHED_CELLS, degree: int = 1, comm: object = None) -> Any:
    """Deflections by elements of any degree on cells x cells squares, posed in UFL: a `StationaryModel`.

    Meshes are spread over ``comm``; each rank has its own by default.
    """
    cells, degree = _check_cells("cells", cells), integer("degree", degree, least=1)
    from invsamp.solvers import _dolfinx
    from invsamp.solvers.pde import StationaryProblem

    x = _dolfinx.load("problems.poisson64.in_ufl")
    mesh = x.mesh.create_unit_square(comm or x.MPI.COMM_SELF, cells, cells, x.mesh.CellType.quadrilateral)
    space = _dolfinx.function_space(mesh, "Lagrange", degree)
    u, v = x.fem.Function(space), x.ufl.TestFunction(space)
    a = x.fem.Function(_dolfinx.function_space(mesh, "DG", 0))
    a.x.array[:] = 1.0
    residual = a * x.ufl.inner(x.ufl.grad(u), x.ufl.grad(v)) * x.ufl.dx - x.fem.Constant(mesh, SOURCE) * v * x.ufl.dx
    edge = x.mesh.locate_entities_boundary(mesh, 1, lambda points: np.full(points.shape[1], True))
    zero = x.fem.dirichletbc(
        x.fem.Constant(mesh, 0.0), x.fem.locate_dofs_topological(space, mesh.topology.dim - 1, edge), space
    )
    return StationaryProblem(residual, u, fields={a: COEFFICIENT}, boundary_conditions=[zero]).observe(POINTS)


def measured(cells: int = 256, degree: int = 3) -> Array:
    """The data, computed anew by dolfinx; with the defaults in some ten seconds and 2 GB."""
    return in_ufl(cells, degree)(np.log(truth()).reshape(1, -1))[0]


def log_prior_of_stiffness(a: npt.ArrayLike) -> Array:
    """The benchmark's log prior density in a, without its constant: shape (...) from stiffnesses (..., 64).

    Raises
    ------
    ValueError
        If they have another shape, or are not positive.
    """
    stiffness = array("a", a, above=0)
    if stiffness.shape[-1:] != (SIDE**2,):
        raise ValueError(f"a must have shape (..., {SIDE**2}), got {stiffness.shape}")
    density: Array = -(np.log(stiffness) ** 2).sum(axis=-1) / (2.0 * PRIOR_SD**2)
    return density


def _check_cells(name: str, cells: int) -> int:
    cells = integer(name, cells, least=SIDE)
    if cells % SIDE:
        raise ValueError(f"{name} must be a multiple of {SIDE}, so that no cell has two stiffnesses, got {cells}")
    return cells
