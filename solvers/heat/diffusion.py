"""Diffusion with unknowns on a mesh: what the heat equation and its stationary form, Poisson's, share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property

import numpy.typing as npt

from invsamp.arguments import real
from invsamp.solvers.fem.backends import check_backend, make_space
from invsamp.solvers.fem.boundary import Boundary, Dirichlet, Neumann, edge_values, flux_load, names
from invsamp.solvers.fem.boundary import shown as shown_boundary
from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.field_contract import Field, FieldValues, NamesAlone, grids_of, is_number, union
from invsamp.solvers.fem.fields import as_field
from invsamp.solvers.fem.mesh import Mesh, chosen_mesh
from invsamp.solvers.fem.placement import check_conductivity, fitting, on_cells, on_nodes
from invsamp.solvers.fem.space import Space
from invsamp.solvers.foreign import Comm, Given
from invsamp.solvers.forward_model import checked_theta
from invsamp.solvers.heat.discretization import Discretization, Driver
from invsamp.solvers.heat.march import March
from invsamp.solvers.heat.stationary import Stationary


class DiffusionEquation(ABC):
    """Base of the equations: a conductivity, nodal fields and boundary data, each with unknowns, on one mesh."""

    cells: int | None
    mesh: Mesh | None
    conductivity: Given
    boundary: Boundary
    backend: str
    comm: Comm

    @property
    @abstractmethod
    def nodal_fields(self) -> dict[str, Field]:
        """Fields that drive the solution, by the names of `NodalData`."""

    @abstractmethod
    def scheme_on(self, space: Space, drivers: Mapping[str, Driver]) -> March | Stationary:
        """How the solution follows from the nodal data."""

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("_", "comm")}  # type: ignore[arg-type]
        shown = {name: repr(value) for name, value in given.items() if value is not None}
        shown["boundary"] = shown_boundary(self.boundary)
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def __getstate__(self) -> dict[str, object]:
        # what was assembled and factored is made again where it is needed
        state = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        # the only communicator that there is everywhere
        alone = self.comm is not None and self.comm.size == 1
        return state | {"comm": None} if alone else state

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the unknowns: those of the nodal fields, the conductivity and the boundary."""
        return self._unknowns[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many columns of theta each unknown takes."""
        return self._unknowns[1]

    @property
    def grids(self) -> dict[str, str]:
        """Digests of the meshes at whose nodes unknowns are the values, by name."""
        return grids_of(*self.nodal_fields.values(), self.conductivity_field)

    @property
    def columns(self) -> dict[str, Numbers]:
        """Columns of theta by what depends on them."""
        return self._unknowns[2]

    @property
    def is_linear(self) -> bool:
        """Whether the solution is linear in the nodal data: the conductivity is known."""
        return not self.conductivity_field.parameters

    @property
    def conductivity_field(self) -> Field:
        """The conductivity as a field."""
        return as_field("conductivity", self.conductivity)

    def check_theta(self, theta: npt.ArrayLike) -> Array:
        """Theta as an array (batch, n_parameters)."""
        return checked_theta(theta, sum(self.sizes))

    @cached_property
    def domain(self) -> Mesh:
        """The mesh."""
        return chosen_mesh(self.cells if self.mesh is None else None, self.mesh)

    @cached_property
    def space(self) -> Space:
        """The finite element space, assembled once."""
        return make_space(self.domain, self.backend, self.comm)

    @cached_property
    def discretization(self) -> Discretization:
        """The parts that are assembled and factored once."""
        space, placed, columns = self.space, self._placed, self.columns
        drivers = {
            kind: Driver(field, on_nodes(placed[kind], space), columns[kind])
            for kind, field in self.nodal_fields.items()
        }
        given = {"flux": flux_load(self.boundary, space), "edge": edge_values(self.boundary, space)}
        drivers |= {kind: Driver(None, values, columns[kind]) for kind, values in given.items() if values is not None}
        exact = self.boundary == "exact"
        if exact:
            drivers["edge"] = drivers["initial"]
        conductivity = on_cells(placed["conductivity"], space), columns["conductivity"]
        return Discretization(space, self.scheme_on(space, drivers), drivers, conductivity, self.cells, exact)

    def _check_setting(self, *nodal: str) -> None:
        """Check mesh, backend, conductivity and the fields named ``nodal``, which may be None."""
        object.__setattr__(self, "domain", chosen_mesh(self.cells, self.mesh))
        check_backend(self.backend, self.comm)
        for name in ("conductivity", *nodal):
            value = getattr(self, name)
            if is_number(value) and name == "conductivity":
                real(name, value, above=0)
            elif not is_number(value) and (value is not None or name == "conductivity"):
                object.__setattr__(self, name, as_field(name, value))

    def _check_fit(self) -> None:
        """Evaluate what is known once, so that a mistake shows now."""
        for part in self.boundary if isinstance(self.boundary, Mapping) else ():
            self.domain.part_edges(part)
        check_conductivity(self._placed["conductivity"], len(self.domain.cells))
        _ = self._unknowns, self.grids

    @cached_property
    def _placed(self) -> dict[str, FieldValues]:
        """Nodal fields at the points of the whole mesh, and the conductivity at the midpoints of its cells."""
        mesh, found = self.domain, {}
        for kind, field in self.nodal_fields.items():
            with fitting(kind):
                found[kind] = field.at(mesh.points)
        with fitting("conductivity"):
            found["conductivity"] = self.conductivity_field.at(mesh.midpoints, mesh.region_cells)
        return found

    @cached_property
    def _unknowns(self) -> tuple[tuple[str, ...], tuple[int, ...], dict[str, Numbers]]:
        kinds: dict[str, Field | NamesAlone] = {**self.nodal_fields, "conductivity": self.conductivity_field}
        kinds |= {
            "flux": NamesAlone(names(self.boundary, Neumann)),
            "edge": NamesAlone(names(self.boundary, Dirichlet)),
        }
        unknown, sizes, columns = union(list(kinds.values()))
        return unknown, sizes, dict(zip(kinds, columns, strict=True))
