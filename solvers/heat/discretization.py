"""A heat equation on its mesh: what its unknowns do to the nodal data, and how cotangents come back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from invsamp.solvers.fem.backends import make_space
from invsamp.solvers.fem.boundary import edge_values, fixed_nodes, flux_load
from invsamp.solvers.fem.contract import Array, Mask, Numbers, Sensors, Space
from invsamp.solvers.fem.field_contract import Field, FieldValues, by_row
from invsamp.solvers.fem.placement import at_cells, at_nodes
from invsamp.solvers.fem.weighted import pull_back
from invsamp.solvers.foreign import Given
from invsamp.solvers.heat.march import IMPLICITNESS, March, NodalData, System
from invsamp.solvers.heat.posed import PosedHeat


class Driver(NamedTuple):
    """One kind of nodal data as a function of the unknowns."""

    field: Field | None  # None for boundary data, which are no field on the whole mesh
    values: FieldValues  # at this rank's nodes
    columns: Numbers  # of theta


@dataclass(frozen=True, eq=False)
class Discretization:
    """Made by `HeatEquation.discretization`."""

    equation: PosedHeat

    @cached_property
    def space(self) -> Space:
        """P1 on the mesh."""
        return make_space(self.equation.domain, self.equation.backend, self.equation.comm)

    @cached_property
    def march(self) -> March:
        """The scheme in time."""
        equation, edge = self.equation, self.drivers.get("edge")
        profile = equation.profile
        edge_factor = None if edge is None else (profile if self.exact else np.ones(len(profile)))
        fixed = fixed_nodes(equation.boundary, self.space)
        implicitness = IMPLICITNESS[equation.scheme]
        return March(self.space, fixed, equation.times, implicitness, profile, edge_factor, tuple(self.drivers))

    @property
    def exact(self) -> bool:
        """Whether the given boundary values are those of the initial field."""
        return self.equation.boundary == "exact"

    @cached_property
    def drivers(self) -> dict[str, Driver]:
        """What drives the solution, by the names of `NodalData`."""
        equation, columns = self.equation, self.equation.columns
        found = {
            kind: Driver(field, at_nodes(field, self.space), columns[kind])
            for kind, field in equation.nodal_fields.items()
        }
        boundary = {
            "flux": flux_load(equation.boundary, self.space),
            "edge": edge_values(equation.boundary, self.space),
        }
        found |= {kind: Driver(None, values, columns[kind]) for kind, values in boundary.items() if values is not None}
        if self.exact:
            found["edge"] = found["initial"]
        return found

    @cached_property
    def system(self) -> System | None:
        """Factored once, where the conductivity is known."""
        conductivity, columns = self._conductivity
        return None if columns.size else self.march.system(conductivity.values(np.empty((1, 0)))[0])

    def usable(self, theta: Array, conductivity: Array | None) -> Mask:
        """Rows (batch,) with finite data and a positive, finite conductivity; the same on every rank.

        The ``conductivity``, None if it is known, is that of these rows.
        """
        bad = np.zeros(len(theta))
        with np.errstate(all="ignore"):
            for driver in self.drivers.values():
                bad += ~np.isfinite(driver.values.values(theta[:, driver.columns])).all(axis=1)
            if conductivity is not None:
                bad += ~(np.isfinite(conductivity) & (conductivity > 0)).all(axis=1)
        return np.asarray(self.space.total(bad) == 0)

    def data(self, theta: Array) -> NodalData:
        """Nodal data of usable rows of theta, each (n, batch)."""
        given: dict[str, Given] = {k: by_row(d.values.values, theta[:, d.columns]).T for k, d in self.drivers.items()}
        if self.exact:
            given["edge"] = given["initial"] * self.march.fixed[:, None]
        if not given:  # nothing drives the solution: it stays zero
            given["initial"] = np.zeros((len(self.space.nodes), len(theta)))
        return NodalData(**given)

    def conductivity(self, theta: Array) -> Array:
        """Values (batch, c) in this rank's cells."""
        values, columns = self._conductivity
        return values.values(theta[:, columns])

    def pull(self, theta: Array, weights: NodalData, sensitivity: Array | None) -> Array:
        """This rank's part of the derivatives to theta, (batch, p), of functionals with weights (n, batch)."""
        fields = {kind: (driver.values, driver.columns) for kind, driver in self.drivers.items()}
        cotangents = weights._asdict()
        if sensitivity is not None:
            fields["conductivity"], cotangents["conductivity"] = self._conductivity, sensitivity
        return pull_back(theta, fields, cotangents)

    def functionals(self, sensors: Sensors, steps: tuple[int, ...]) -> NodalData:
        """Weights (n, m) of the m observations where the conductivity is known: one adjoint solve each."""
        assert self.system is not None
        count = sensors.count
        seeds = {}
        for k, step in enumerate(steps):
            unit = np.zeros((count, len(steps) * count))
            unit[:, k * count : (k + 1) * count] = np.eye(count)
            seeds[step] = sensors.transpose(unit)
        return self.march.adjoint(self.system, seeds)[0]

    @cached_property
    def _conductivity(self) -> tuple[FieldValues, Numbers]:
        return at_cells(self.equation.conductivity_field, self.space), self.equation.columns["conductivity"]
