"""What is known, or unknown, at the boundary: values or fluxes, by part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from invsamp.solvers.fem.contract import Array, Mask, Part, Space
from invsamp.solvers.fem.fields import Linear
from invsamp.solvers.fem.sensors import describe

#: The whole boundary at temperature zero; or without flux; or at the values of a manufactured solution.
WHOLE = ("dirichlet", "neumann", "exact")


@dataclass(frozen=True)
class Dirichlet:
    """A temperature, the same at all times; made by `dirichlet`."""

    value: float | str


@dataclass(frozen=True)
class Neumann:
    """Heat that flows in, per length and time; made by `neumann`."""

    value: float | str


Boundary = str | Mapping[Part, Dirichlet | Neumann]


def dirichlet(value: float | str = 0.0) -> Dirichlet:
    """A part of the boundary at a temperature: a number, or the name of an unknown."""
    return Dirichlet(_checked("value", value))


def neumann(flux: float | str = 0.0) -> Neumann:
    """A part of the boundary through which heat flows in: conductivity * du/dn = flux, a number or a name."""
    return Neumann(_checked("flux", flux))


def check_boundary(boundary: Any) -> None:
    """Raise ValueError for what is no boundary condition."""
    if isinstance(boundary, str):
        if boundary not in WHOLE:
            raise ValueError(f"boundary must be one of {list(WHOLE)} or a mapping from parts, got {boundary!r}")
        return
    if not isinstance(boundary, Mapping):
        raise ValueError(f"boundary must be one of {list(WHOLE)} or a mapping from parts, got {boundary!r}")
    for part, condition in boundary.items():
        if not isinstance(condition, (Dirichlet, Neumann)):
            raise ValueError(f"boundary[{describe(part)}] must be dirichlet(...) or neumann(...), got {condition!r}")


def names(boundary: Boundary, kind: type) -> tuple[str, ...]:
    """The unknowns of one kind, in the order of first mention."""
    if isinstance(boundary, str):
        return ()
    found = [c.value for c in boundary.values() if isinstance(c, kind) and isinstance(c.value, str)]
    return tuple(dict.fromkeys(found))


def fixed_nodes(boundary: Boundary, space: Space) -> Mask:
    """Which of this rank's nodes have a given temperature."""
    if isinstance(boundary, str):
        return space.on_boundary() if boundary != "neumann" else np.zeros(len(space.nodes), dtype=bool)
    mask = np.zeros(len(space.nodes), dtype=bool)
    for part, condition in boundary.items():
        if isinstance(condition, Dirichlet):
            mask |= space.on_boundary(part)
    return mask


def edge_values(boundary: Boundary, space: Space) -> Linear | None:
    """Nodal temperatures of the fixed nodes, by the unknowns `names` of `Dirichlet`; None if all are zero.

    Where parts meet, the one that is named later counts.
    """
    shapes: list[tuple[Array, float | str]] = []
    for part, condition in [] if isinstance(boundary, str) else boundary.items():
        if isinstance(condition, Dirichlet):
            on = space.on_boundary(part)
            shapes = [(shape * ~on, value) for shape, value in shapes] + [(on.astype(float), condition.value)]
    return _combination(shapes, names(boundary, Dirichlet))


def flux_load(boundary: Boundary, space: Space) -> Linear | None:
    """Load vector of the fluxes, by the unknowns `names` of `Neumann`; None if all are zero."""
    parts = [] if isinstance(boundary, str) else boundary.items()
    shapes = [(space.edge_load(part), c.value) for part, c in parts if isinstance(c, Neumann)]
    return _combination(shapes, names(boundary, Neumann))


def _combination(shapes: list[tuple[Array, float | str]], unknowns: tuple[str, ...]) -> Linear | None:
    shapes = [(shape, value) for shape, value in shapes if value != 0]
    if not shapes:
        return None
    matrix, offset = np.zeros((len(shapes[0][0]), len(unknowns))), np.zeros(len(shapes[0][0]))
    for shape, value in shapes:
        if isinstance(value, str):
            matrix[:, unknowns.index(value)] += shape
        else:
            offset += value * shape
    return Linear(matrix, offset)


def _checked(name: str, value: Any) -> float | str:
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, (int, float, np.integer, np.floating)) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, or a name for an unknown, got {value!r}")
    return float(value)
