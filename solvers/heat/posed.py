"""What is asked of a heat equation by those who solve and observe it."""

from __future__ import annotations

from typing import Literal, Protocol

from invsamp.solvers.fem.boundary import Boundary
from invsamp.solvers.fem.contract import Array, Numbers
from invsamp.solvers.fem.field_contract import Field
from invsamp.solvers.fem.mesh import Mesh
from invsamp.solvers.foreign import Comm

Scheme = Literal["backward_euler", "crank_nicolson"]


class PosedHeat(Protocol):
    """A heat equation as it is posed; `HeatEquation` says what these are."""

    @property
    def cells(self) -> int | None: ...

    @property
    def domain(self) -> Mesh: ...

    @property
    def backend(self) -> str: ...

    @property
    def comm(self) -> Comm: ...

    @property
    def boundary(self) -> Boundary: ...

    @property
    def scheme(self) -> Scheme: ...

    @property
    def times(self) -> Array: ...

    @property
    def profile(self) -> Array: ...

    @property
    def nodal_fields(self) -> dict[str, Field]: ...

    @property
    def conductivity_field(self) -> Field: ...

    @property
    def columns(self) -> dict[str, Numbers]: ...
