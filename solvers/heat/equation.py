"""The heat equation with its unknowns: what is given, checked and told apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from invsamp.arguments import boolean, integer, numbers, one_of, real, store
from invsamp.solvers.fem.backends import check_backend
from invsamp.solvers.fem.boundary import Boundary, Dirichlet, Neumann, checked_boundary, names
from invsamp.solvers.fem.boundary import shown as shown_boundary
from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.field_contract import NamesAlone, is_number
from invsamp.solvers.fem.fields import Field, GaussianBump, as_field, union
from invsamp.solvers.fem.mesh import Mesh, chosen_mesh
from invsamp.solvers.fem.placement import check_conductivity, fitting
from invsamp.solvers.fem.sensors import as_layout
from invsamp.solvers.foreign import Comm, Given
from invsamp.solvers.heat.discretization import Discretization
from invsamp.solvers.heat.manufactured import DecayingGaussian
from invsamp.solvers.heat.march import IMPLICITNESS
from invsamp.solvers.heat.observation import HeatObservation
from invsamp.solvers.heat.posed import Scheme
from invsamp.solvers.heat.solving import Solving
from invsamp.solvers.time_steps import step_numbers


@dataclass(frozen=True, repr=False)
class HeatEquation:
    r"""The heat equation :math:`u_t = \nabla\cdot(\kappa\nabla u) + f` from an initial temperature on.

    Linear finite elements and the theta scheme; source and boundary values enter by their nodal interpolants, the
    conductivity by its values at the cells' midpoints. Where a field takes a str in place of a number, that is the
    name of an unknown; an unknown that occurs twice is one. Arrays are in the order of the mesh.

    Parameters
    ----------
    cells : int, >= 2, optional
        Squares along one side of the unit square; or give ``mesh``.
    steps : int, >= 1
        Time steps.
    end_time : float, > 0
    initial : Field, number, str, array (n_nodes,), function of points (n, 2), or DecayingGaussian
        Temperature at time 0.
    boundary : {"dirichlet", "neumann", "exact"}, condition, or mapping from part to condition
        Zero values; zero flux; the values of `DecayingGaussian`; a condition, ``dirichlet(value)`` or
        ``neumann(flux)``, everywhere; or conditions by part, with zero flux elsewhere. A part is a name that the mesh
        knows ("left", "right", "bottom" and "top" on the unit square) or a predicate, points (k, 2) -> mask. Where
        parts with temperatures meet, the later one counts.
    scheme : {"backward_euler", "crank_nicolson"}
    conductivity : number, str, array (n_cells,), function of midpoints, or Field such as LogField
        Positive. An unknown one that is not, or not finite, is a failed solve.
    source : as ``initial``, optional
        Heat per area and time, the same at all times.
    mesh : Mesh, optional
    backend : {"skfem", "dolfinx"}
    comm : communicator of mpi4py, optional
        Over which dolfinx spreads the mesh.

    Raises
    ------
    ValueError
        If a setting is out of range, or settings do not fit together.
    ImportError
        If dolfinx is asked for and not installed.
    """

    cells: int | None = None
    steps: int = 0
    end_time: float = math.nan
    initial: Given = field(default_factory=GaussianBump)
    boundary: Boundary = "dirichlet"
    scheme: Scheme = "backward_euler"
    conductivity: Given = 1.0
    _: KW_ONLY
    source: Given = None
    mesh: Mesh | None = None
    backend: str = "skfem"
    comm: Comm = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _ = self.domain
        store(self, steps=integer("steps", self.steps, least=1), end_time=real("end_time", self.end_time, above=0))
        one_of("scheme", self.scheme, IMPLICITNESS)
        object.__setattr__(self, "boundary", checked_boundary(self.boundary))
        check_backend(self.backend, self.comm)
        for name in ("initial", "source", "conductivity"):
            given = getattr(self, name)
            if given is None and name == "conductivity":
                raise ValueError("conductivity must be a number or a field, got None")
            if given is not None and not isinstance(given, DecayingGaussian) and not is_number(given):
                object.__setattr__(self, name, as_field(name, given))
        self._check_manufactured()
        self._check_fields()

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("_", "comm")}
        shown = {name: repr(value) for name, value in given.items() if value is not None}
        shown["boundary"] = shown_boundary(self.boundary)
        return f"HeatEquation({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def __getstate__(self) -> dict[str, object]:
        # what was assembled and factored is made again where it is needed
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        # the only communicator that there is everywhere
        alone = self.comm is not None and self.comm.size == 1
        return state | {"comm": None} if alone else state

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the unknowns: those of the initial field, the source, the conductivity and the boundary."""
        return self._unknowns[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many columns of theta each unknown takes."""
        return self._unknowns[1]

    @property
    def times(self) -> Array:
        """Times of the steps, shape (steps + 1,), from 0 to ``end_time``."""
        return np.linspace(0.0, self.end_time, self.steps + 1)

    @property
    def nodes(self) -> Array:
        """Coordinates of this rank's nodes (n, 2); of the unit square in C order: y varies fastest."""
        return self.discretization.space.nodes

    def solve(self, theta: npt.ArrayLike, times: Sequence[float] | None = None) -> Array:
        """Nodal temperatures, shape (batch, n_times, n_nodes), for theta (batch, n_parameters).

        NaN where a solve fails. Nodes are ordered as ``nodes``. ``times`` must be times of the scheme; the end time by
        default.
        """
        steps = self.step_numbers(times)
        return Solving(self.discretization, None, steps).fields(self.check_theta(theta))

    def observe(
        self, sensors: object, times: Sequence[float] | None = None, *, precompute: bool = True
    ) -> HeatObservation:
        """Forward model: what sensors read.

        Parameters
        ----------
        sensors : array (n_sensors, 2), point_sensors(...), region_averages(...), or a sequence of the latter two
        times : sequence of float, optional
            Observation times, out of the times of the scheme; the end time by default.
        precompute : bool
            Whether to solve one adjoint problem per sensor and time now, and none later: possible where the
            conductivity is known, because the observations are then linear in the nodal data. Without, every evaluation
            marches through time. Both give the same numbers, to rounding.

        Raises
        ------
        ValueError
            If a sensor lies outside the mesh, or a time is not one of the scheme.
        """
        return HeatObservation(
            self, as_layout(sensors), self.step_numbers(times), boolean("precompute", precompute) and self.is_linear
        )

    @property
    def is_linear(self) -> bool:
        """Whether the temperatures are linear in the nodal data: the conductivity is known."""
        return not self.conductivity_field.parameters

    def step_numbers(self, times: Sequence[float] | None) -> tuple[int, ...]:
        """Step numbers of ``times``, which must be times of the scheme."""
        return step_numbers(times, self.steps, self.end_time)

    def check_theta(self, theta: npt.ArrayLike) -> Array:
        """Theta as an array (batch, n_parameters)."""
        values, width = numbers("theta", theta), sum(self.sizes)
        if values.ndim != 2 or values.shape[1] != width:
            raise ValueError(f"theta must have shape (batch, {width}), got {values.shape}")
        return values

    @cached_property
    def domain(self) -> Mesh:
        """The mesh."""
        return chosen_mesh(self.cells, self.mesh)

    @cached_property
    def discretization(self) -> Discretization:
        """What is assembled and factored once."""
        return Discretization(self)

    @property
    def profile(self) -> Array:
        """Factor of the source, and of exact boundary values, at ``times``."""
        return self.initial.profile(self.times) if self._manufactured else np.ones(self.steps + 1)

    @property
    def nodal_fields(self) -> dict[str, Field]:
        """Initial field and source."""
        if self._manufactured:
            return {"initial": self.initial.initial(), "source": self.initial.source(float(self.conductivity))}
        given = {"initial": self.initial, "source": self.source}
        return {kind: as_field(kind, value) for kind, value in given.items() if value is not None}

    @property
    def conductivity_field(self) -> Field:
        """The conductivity as a field."""
        return as_field("conductivity", self.conductivity)

    @property
    def columns(self) -> dict[str, Numbers]:
        """Columns of theta by what depends on them."""
        return self._unknowns[2]

    @property
    def _manufactured(self) -> bool:
        return isinstance(self.initial, DecayingGaussian)

    @cached_property
    def _unknowns(self) -> tuple[tuple[str, ...], tuple[int, ...], dict[str, Numbers]]:
        kinds: dict[str, Given] = dict(self.nodal_fields)
        kinds["conductivity"] = self.conductivity_field
        kinds |= {
            "flux": NamesAlone(names(self.boundary, Neumann)),
            "edge": NamesAlone(names(self.boundary, Dirichlet)),
        }
        unknown, sizes, columns = union(list(kinds.values()))
        return unknown, sizes, dict(zip(kinds, columns, strict=True))

    def _check_manufactured(self) -> None:
        if (self.boundary == "exact") != self._manufactured:
            raise ValueError(f"boundary must be 'exact' for DecayingGaussian alone, got {self.boundary!r}")
        if self._manufactured and (self.source is not None or not is_number(self.conductivity)):
            raise ValueError("source must be left out and conductivity be a number for DecayingGaussian")

    def _check_fields(self) -> None:
        """Evaluate what is known once, so that a mistake shows now."""
        if isinstance(self.boundary, Mapping):
            for part in self.boundary:
                self.domain.part_edges(part)
        if is_number(self.conductivity):
            real("conductivity", self.conductivity, above=0)
        for kind, given in self.nodal_fields.items():
            if not self._manufactured:
                with fitting(kind):
                    given.at(self.domain.points)
        with fitting("conductivity"):
            placed = self.conductivity_field.at(self.domain.midpoints, self.domain.region_cells)
        check_conductivity(placed, len(self.domain.cells))
        _ = self._unknowns
