"""A field by its values at the nodes of a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse

from invsamp.arguments import store, text
from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.elements import point_rows
from invsamp.solvers.fem.field_contract import FieldValues, InRegion, Linear
from invsamp.solvers.fem.foreign_mesh import as_mesh
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.foreign import Sparse


@dataclass(frozen=True)
class Nodal:
    """A field with an unknown value at each node of a mesh, linear (or bilinear) between them.

    The mesh need not be that of the equation: a field on one mesh drives equations on coarser and finer ones.

    Parameters
    ----------
    parameter : str
        Name of the unknown, a vector of one value for each node.
    mesh : Mesh, or a mesh of scikit-fem or dolfinx
        The field's own, as given to `invsamp.solvers.fields.matern`.

    Raises
    ------
    ValueError
        If an argument is not what it has to be; and by `at`, if a point lies outside the mesh.

    Examples
    --------
    >>> from invsamp.solvers import fields
    >>> from invsamp.solvers.fem.mesh import unit_square
    >>> field = fields.Nodal("u", unit_square(2))
    >>> field.sizes
    (9,)
    """

    parameter: str
    mesh: Any

    def __post_init__(self) -> None:
        text("parameter", self.parameter)
        store(self, mesh=as_mesh("mesh", self.mesh))

    @property
    def parameters(self) -> tuple[str, ...]:
        """As `Field.parameters`."""
        return (self.parameter,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """As `Field.sizes`."""
        return (len(self.mesh.points),)

    @property
    def grids(self) -> dict[str, str]:
        """See `invsamp.solvers.fem.field_contract.grids_of`."""
        return {self.parameter: self.mesh.digest}

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        return Linear(self._rows(np.asarray(points, dtype=float)))

    def _rows(self, points: Array) -> Sparse:
        mesh: Mesh = self.mesh
        if np.array_equal(points, mesh.points):
            return sparse.identity(len(points), format="csr")
        if np.array_equal(points, mesh.midpoints):
            corners = mesh.cells.shape[1]
            rows = np.repeat(np.arange(len(mesh.cells)), corners)
            weights = np.full(mesh.cells.size, 1.0 / corners)
            return sparse.csr_matrix((weights, (rows, mesh.cells.ravel())), (len(mesh.cells), len(mesh.points)))
        try:
            return point_rows(mesh, points, "points")
        except ValueError as error:
            raise ValueError(
                f"the field {self.parameter!r} must be on a mesh that covers all points of its use: {error}"
            ) from None
