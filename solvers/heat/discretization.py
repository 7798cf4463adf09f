"""A diffusion equation on its mesh: what its unknowns do to the nodal data, and how cotangents come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from invsamp.solvers.fem.contract import Array, Mask, Numbers
from invsamp.solvers.fem.field_contract import Field, FieldValues, by_row, pushforward
from invsamp.solvers.fem.space import Sensors, Space
from invsamp.solvers.fem.weighted import pull_back
from invsamp.solvers.foreign import Given
from invsamp.solvers.heat.march import March, NodalData, System
from invsamp.solvers.heat.stationary import Stationary


class Driver(NamedTuple):
    """One kind of nodal data as a function of the unknowns."""

    field: Field | None  # None for boundary data, which are no field on the whole mesh
    values: FieldValues  # at this rank's nodes
    columns: Numbers  # of theta


@dataclass(frozen=True, eq=False)
class Discretization:
    """Made by `invsamp.solvers.heat.diffusion.DiffusionEquation.discretization`."""

    space: Space
    scheme: March | Stationary
    drivers: dict[str, Driver]  # what drives the solution, by the names of `NodalData`
    conductivity: tuple[FieldValues, Numbers]  # at this rank's cells, and columns of theta
    cells: int | None  # squares along a side of the unit square; None on another mesh
    exact: bool  # whether the given boundary values are those of the initial field

    @cached_property
    def system(self) -> System | None:
        """Factored once, where the conductivity is known."""
        values, columns = self.conductivity
        return None if columns.size else self.scheme.system(values.values(np.empty((1, 0)))[0])

    def conductivities(self, theta: Array) -> Array:
        """Values (batch, c) in this rank's cells."""
        values, columns = self.conductivity
        return values.values(theta[:, columns])

    def usable(self, theta: Array, conductivities: Array | None) -> Mask:
        """Rows (batch,) with finite data and a positive, finite conductivity; the same on every rank.

        The ``conductivities``, None if they are known, are those of these rows.
        """
        bad = np.zeros(len(theta))
        with np.errstate(all="ignore"):
            for driver in self.drivers.values():
                bad += ~np.isfinite(driver.values.values(theta[:, driver.columns])).all(axis=1)
            if conductivities is not None:
                bad += ~(np.isfinite(conductivities) & (conductivities > 0)).all(axis=1)
        return np.asarray(self.space.total(bad) == 0)

    def data(self, theta: Array) -> NodalData:
        """Nodal data of usable rows of theta, each (n, batch)."""
        given: dict[str, Given] = {k: by_row(d.values.values, theta[:, d.columns]).T for k, d in self.drivers.items()}
        if self.exact:
            given["edge"] = given["initial"] * self.scheme.fixed[:, None]
        if not given:  # nothing drives the solution: it stays zero
            given["initial"] = np.zeros((len(self.space.nodes), len(theta)))
        return NodalData(**given)

    def pull(self, theta: Array, weights: NodalData, sensitivity: Array | None) -> Array:
        """This rank's part of the derivatives to theta, (batch, p), of functionals with weights (n, batch)."""
        fields = {kind: (driver.values, driver.columns) for kind, driver in self.drivers.items()}
        cotangents = weights._asdict()
        if sensitivity is not None:
            fields["conductivity"], cotangents["conductivity"] = self.conductivity, sensitivity
        return pull_back(theta, fields, cotangents)

    def push(self, theta: Array, directions: Array) -> tuple[NodalData, Array | None]:
        """Derivatives of the nodal data (n, k), and of the conductivity (c, k), at theta (p,) along directions (k, p).

        None for a conductivity that is known.
        """
        at = np.repeat(theta[None], len(directions), axis=0)

        def along(values: FieldValues, columns: Numbers) -> Array:
            return pushforward(values, at[:, columns], directions[:, columns]).T

        given: dict[str, Given] = {kind: along(d.values, d.columns) for kind, d in self.drivers.items()}
        if self.exact:
            given["edge"] = given["initial"] * self.scheme.fixed[:, None]
        if not given:
            given["initial"] = np.zeros((len(self.space.nodes), len(directions)))
        return NodalData(**given), None if self.system is not None else along(*self.conductivity)

    def groups(self, theta: Array) -> Iterator[tuple[Numbers, System]]:
        """Usable rows that share a conductivity, with its system."""
        with np.errstate(all="ignore"):  # what is not finite is a failed solve
            conductivity = None if self.system is not None else self.conductivities(theta)
        usable = np.flatnonzero(self.usable(theta, conductivity))
        if conductivity is None:
            if usable.size:
                assert self.system is not None
                yield usable, self.system
            return
        columns = self.conductivity[1]
        groups: dict[bytes, list[int]] = {}
        for row in usable:
            groups.setdefault(theta[row, columns].tobytes(), []).append(int(row))
        for rows in groups.values():
            yield np.array(rows), self.scheme.system(conductivity[rows[0]])

    def fields(self, theta: Array, steps: Sequence[int]) -> Array:
        """Solutions (batch, len(steps), n) at the nodes; NaN in the rows that failed."""
        found = np.full((len(theta), len(steps), len(self.space.nodes)), np.nan)
        for rows, system in self.groups(theta):
            found[rows] = np.moveaxis(self.scheme.forward(system, self.data(theta[rows]), steps), 2, 0)
        return found

    def functionals(self, sensors: Sensors, steps: tuple[int, ...]) -> NodalData:
        """Weights (n, m) of the m observations where the conductivity is known: one adjoint solve each."""
        assert self.system is not None
        units = np.eye(len(steps) * sensors.count).reshape(len(steps), sensors.count, -1)
        return self.scheme.adjoint(self.system, dict(zip(steps, map(sensors.transpose, units), strict=True)))[0]
