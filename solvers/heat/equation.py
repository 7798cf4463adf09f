"""The heat equation with its unknowns, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from invsamp.arguments import boolean, integer, one_of, real, store
from invsamp.solvers.fem.boundary import Boundary, checked_boundary, fixed_nodes
from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.field_contract import is_number
from invsamp.solvers.fem.fields import Field, GaussianBump, as_field
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.fem.sensors import as_layout
from invsamp.solvers.fem.space import Space
from invsamp.solvers.foreign import Comm, Given
from invsamp.solvers.heat.diffusion import DiffusionEquation
from invsamp.solvers.heat.discretization import Driver
from invsamp.solvers.heat.manufactured import DecayingGaussian
from invsamp.solvers.heat.march import IMPLICITNESS, March
from invsamp.solvers.heat.observation import HeatObservation
from invsamp.solvers.time_steps import bracketed, step_numbers

Scheme = Literal["backward_euler", "crank_nicolson"]


@dataclass(frozen=True, repr=False)
class HeatEquation(DiffusionEquation):
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

    Examples
    --------
    >>> from invsamp.solvers.heat import GaussianBump, HeatEquation
    >>> equation = HeatEquation(cells=16, steps=8, end_time=0.05, initial=GaussianBump(width=0.1))
    >>> model = equation.observe([[0.3, 0.4], [0.6, 0.6]])  # two sensors, read at the end
    >>> model.parameters, model([[0.5, 0.5]]).shape
    (('x', 'y'), (1, 2))
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
        store(self, steps=integer("steps", self.steps, least=1), end_time=real("end_time", self.end_time, above=0))
        one_of("scheme", self.scheme, IMPLICITNESS)
        object.__setattr__(self, "boundary", checked_boundary(self.boundary))
        self._check_setting("source", *(() if self._manufactured else ("initial",)))
        self._check_manufactured()
        self._check_fit()

    @property
    def times(self) -> Array:
        """Times of the steps, shape (steps + 1,), from 0 to ``end_time``."""
        return np.linspace(0.0, self.end_time, self.steps + 1)

    @property
    def nodes(self) -> Array:
        """Coordinates of this rank's nodes (n, 2); of the unit square in C order: y varies fastest."""
        return self.space.nodes

    def solve(self, theta: npt.ArrayLike, times: Sequence[float] | None = None) -> Array:
        """Nodal temperatures, shape (batch, n_times, n_nodes), for theta (batch, n_parameters).

        NaN where a solve fails. Nodes are ordered as ``nodes``. ``times`` must be times of the scheme; the end time by
        default.
        """
        return self.discretization.fields(self.check_theta(theta), self.step_numbers(times))

    def observe(
        self, sensors: object, times: Sequence[float] | None = None, *, precompute: bool = True
    ) -> HeatObservation:
        """Forward model: what sensors read.

        Parameters
        ----------
        sensors : array (n_sensors, 2), point_sensors(...), region_averages(...), or a sequence of the latter two
        times : sequence of float, optional
            Observation times, increasing; the end time by default. Between times of the scheme, observations are
            linear in time.
        precompute : bool
            Whether to solve one adjoint problem per sensor and time now, and none later: possible where the
            conductivity is known, because the observations are then linear in the nodal data. Without, every evaluation
            marches through time. Both give the same numbers, to rounding.

        Raises
        ------
        ValueError
            If a sensor lies outside the mesh, or a time before the start or after the end.
        """
        steps, between = bracketed(times, self.steps, self.end_time)
        precomputed = boolean("precompute", precompute) and self.is_linear
        return HeatObservation(self, as_layout(sensors), steps, precomputed, between)

    def step_numbers(self, times: Sequence[float] | None) -> tuple[int, ...]:
        """Step numbers of ``times``, which must be times of the scheme."""
        return step_numbers(times, self.steps, self.end_time)

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

    def scheme_on(self, space: Space, drivers: Mapping[str, Driver]) -> March:
        """The scheme in time."""
        given, profile = "edge" in drivers, self.profile
        edge_factor = None if not given else (profile if self.boundary == "exact" else np.ones(len(profile)))
        fixed, implicitness = fixed_nodes(self.boundary, space), IMPLICITNESS[self.scheme]
        return March(space, fixed, self.times, implicitness, profile, edge_factor, tuple(drivers))

    @property
    def _manufactured(self) -> bool:
        return isinstance(self.initial, DecayingGaussian)

    def _check_manufactured(self) -> None:
        if (self.boundary == "exact") != self._manufactured:
            raise ValueError(f"boundary must be 'exact' for DecayingGaussian alone, got {self.boundary!r}")
        if self._manufactured and (self.source is not None or not is_number(self.conductivity)):
            raise ValueError("source must be left out, and conductivity be a number, for DecayingGaussian")
