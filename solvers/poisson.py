r"""Stationary diffusion, :math:`-\nabla\cdot(a \nabla u) = f`, seen by sensors: a forward model with exact gradients.

Linear finite elements; the conductivity a is constant in each cell, the source f enters by its nodal interpolant. Per
theta the stiffness matrix is combined from what was assembled once, and factored; the same factors serve the adjoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from invsamp.arguments import boolean
from invsamp.solvers.fem.boundary import Boundary, Dirichlet, checked_boundary, fixed_nodes, shown
from invsamp.solvers.fem.fields import Field, as_field
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fem.sensors import as_layout
from invsamp.solvers.fem.space import Space
from invsamp.solvers.foreign import Comm, Given
from invsamp.solvers.heat.diffusion import DiffusionEquation
from invsamp.solvers.heat.discretization import Driver
from invsamp.solvers.heat.observation import PoissonObservation
from invsamp.solvers.heat.stationary import Stationary

__all__ = ["PoissonEquation", "PoissonObservation"]


@dataclass(frozen=True, repr=False)
class PoissonEquation(DiffusionEquation):
    r"""The equation :math:`-\nabla\cdot(a \nabla u) = f` on a mesh.

    Parameters
    ----------
    cells : int, optional
        Squares along one side of the unit square; or give ``mesh``.
    conductivity : field, float, str, array (n_cells,) or callable
        The coefficient a, evaluated at the midpoints of the cells; see `invsamp.solvers.fem.fields.as_field`. A
        `LogField` keeps it positive; a theta for which it is not is a failed solve.
    source : field, float, str, array (n_nodes,) or callable
        The right-hand side f.
    boundary : "dirichlet" or mapping from part to condition
        Zero values, or `dirichlet(value)` and `neumann(flux)` by part; no flux elsewhere.
    mesh : Mesh, optional
    backend : {"skfem", "dolfinx"}
    comm : communicator of mpi4py, optional
        Over which dolfinx spreads the mesh.

    Raises
    ------
    ValueError
        If a setting is out of range, a fixed conductivity is not positive, or no value is given on the boundary, which
        leaves the solution undetermined.
    ImportError
        If dolfinx is asked for and not installed.
    """

    cells: int | None = None
    conductivity: Given = 1.0
    source: Given = 1.0
    boundary: Boundary = "dirichlet"
    mesh: Mesh | None = None
    backend: str = "skfem"
    comm: Comm = None

    def __post_init__(self) -> None:
        self._check_setting("source")
        object.__setattr__(self, "mesh", self.domain)
        object.__setattr__(self, "boundary", checked_boundary(self.boundary, ("dirichlet",)))
        if isinstance(self.boundary, Mapping) and not any(isinstance(c, Dirichlet) for c in self.boundary.values()):
            raise ValueError(
                f"boundary must give values somewhere, by 'dirichlet' or dirichlet(...), got {shown(self.boundary)}"
            )
        self._check_fit()

    @property
    def nodal_fields(self) -> dict[str, Field]:
        """The source."""
        return {"source": as_field("source", self.source)}

    def scheme_on(self, space: Space, drivers: Mapping[str, Driver]) -> Stationary:
        """A single solve."""
        return Stationary(space, fixed_nodes(self.boundary, space))

    def observe(self, sensors: object, *, precompute: bool = True) -> PoissonObservation:
        """Forward model: what sensors read of the solution.

        Parameters
        ----------
        sensors : array, shape (n_sensors, 2), or `point_sensors`, `region_averages`, or a sequence of the latter two
        precompute : bool
            Where the conductivity is known, the observations are linear in source and boundary data. Then one adjoint
            solve per sensor, now, replaces all later solves. False: solve for every theta. Both give the same numbers,
            to rounding.

        Raises
        ------
        ValueError
            If a sensor lies outside the mesh, a region is empty, or a field does not fit the mesh.
        """
        precomputed = boolean("precompute", precompute) and self.is_linear
        return PoissonObservation(self, as_layout(sensors), (0,), precomputed)
