"""Conditions at the boundary: known or unknown values or fluxes, by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from invsamp.solvers.fem.contract import Array, Mask, Part
from invsamp.solvers.fem.field_contract import Linear, Unknown, checked_unknown, combination, describe
from invsamp.solvers.fem.space import Space

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


Condition = Dirichlet | Neumann
Boundary = str | Condition | Mapping[Part, Condition]


def dirichlet(value: float | str = 0.0) -> Dirichlet:
    """A part of the boundary at a temperature: a number, or the name of an unknown.

    Examples
    --------
    >>> from invsamp.solvers.heat import HeatEquation, dirichlet
    >>> edges = {"left": dirichlet("left_wall"), "right": dirichlet(0.0)}
    >>> HeatEquation(cells=8, steps=4, end_time=0.1, initial=0.0, boundary=edges).observe([[0.5, 0.5]]).parameters
    ('left_wall',)
    """
    return Dirichlet(checked_unknown("value", value))


def neumann(flux: float | str = 0.0) -> Neumann:
    """A part of the boundary through which heat flows in: conductivity * du/dn = flux, a number or a name.

    Examples
    --------
    >>> from invsamp.solvers.heat import HeatEquation, dirichlet, neumann
    >>> edges = {"left": neumann("flux"), "right": dirichlet(0.0)}
    >>> HeatEquation(cells=8, steps=4, end_time=0.1, initial=0.0, boundary=edges).observe([[0.5, 0.5]]).parameters
    ('flux',)
    """
    return Neumann(checked_unknown("flux", flux))


def everywhere(points: Array) -> Mask:
    """The whole boundary, as a part."""
    return np.ones(len(points), dtype=bool)


def checked_boundary(boundary: object, whole: Sequence[str] = WHOLE) -> Boundary:
    """A name of ``whole``, or conditions by part; a single condition holds everywhere.

    Raises
    ------
    ValueError
        For what is no boundary condition.
    """
    if isinstance(boundary, (Dirichlet, Neumann)):
        return {everywhere: boundary}
    if isinstance(boundary, Mapping):
        for part, condition in boundary.items():
            if not isinstance(condition, (Dirichlet, Neumann)):
                raise ValueError(
                    f"boundary[{describe(part)}] must be dirichlet(...) or neumann(...), got {describe(condition)}"
                )
        return dict(boundary)
    if not isinstance(boundary, str) or boundary not in whole:
        raise ValueError(
            f"boundary must be one of {list(whole)}, dirichlet(...), neumann(...), or a mapping from parts to these "
            f"conditions, got {boundary!r}"
        )
    return boundary


def shown(boundary: Boundary) -> str:
    """Boundary conditions as a repr shows them."""
    if not isinstance(boundary, Mapping):
        return repr(boundary)
    return "{" + ", ".join(f"{describe(part)}: {condition!r}" for part, condition in boundary.items()) + "}"


def names(boundary: Boundary, kind: type) -> tuple[str, ...]:
    """The unknowns of one kind, in the order of first mention."""
    if not isinstance(boundary, Mapping):
        return ()
    found = [c.value for c in boundary.values() if isinstance(c, kind) and isinstance(c.value, str)]
    return tuple(dict.fromkeys(found))


def fixed_nodes(boundary: Boundary, space: Space) -> Mask:
    """Which of this rank's nodes have a given temperature."""
    if not isinstance(boundary, Mapping):
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
    shapes: list[tuple[Array, Unknown]] = []
    for part, condition in boundary.items() if isinstance(boundary, Mapping) else []:
        if isinstance(condition, Dirichlet):
            on = space.on_boundary(part)
            shapes = [(shape * ~on, value) for shape, value in shapes] + [(on.astype(float), condition.value)]
    return combination(shapes, names(boundary, Dirichlet)) if any(value != 0 for _, value in shapes) else None


def flux_load(boundary: Boundary, space: Space) -> Linear | None:
    """Load vector of the fluxes, by the unknowns `names` of `Neumann`; None if all are zero."""
    parts = boundary.items() if isinstance(boundary, Mapping) else []
    shapes = [(space.edge_load(part), c.value) for part, c in parts if isinstance(c, Neumann)]
    return combination(shapes, names(boundary, Neumann)) if any(value != 0 for _, value in shapes) else None
