"""Intersections: a move is reflected at the first boundary that it hits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.domains._outlines import shared_outline
from invsamp.domains._reflecting import Member, ReflectingDomain
from invsamp.domains.box import Box
from invsamp.domains.contract import Array, BoolArray, Domain
from invsamp.domains.half_spaces import HalfSpaces
from invsamp.domains.unbounded import Unbounded
from invsamp.protocols import Plain


def intersect(a: Domain, b: Domain) -> Domain:
    """Where both domains hold, in the simplest form: of boxes a box, of boxes and half-spaces half-spaces.

    Raises
    ------
    ValueError
        If the dimensions differ, or nothing is left.
    """
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Unbounded):
            return other
        if not isinstance(one, ReflectingDomain):
            raise ValueError(f"only domains of invsamp.domains can be intersected, got {one!r}")
    parts: list[Domain] = []
    for part in (*_parts(a), *_parts(b)):
        for k, known in enumerate(parts):
            if (merged := _merged(known, part)) is not None:
                parts[k] = merged
                break
        else:
            parts.append(part)
    return parts[0] if len(parts) == 1 else Intersection(tuple(parts))


def _parts(domain: Domain) -> Iterator[Domain]:
    if isinstance(domain, Intersection):
        yield from domain.parts
    else:
        yield domain


def _merged(a: Domain, b: Domain) -> Domain | None:
    """One simple domain for two; None where that takes an Intersection."""
    if a == b:
        return a
    if isinstance(a, Box) and isinstance(b, Box):
        if None not in (a.dimension, b.dimension) and a.dimension != b.dimension:
            raise ValueError(f"cannot intersect boxes of {a.dimension} and {b.dimension} coordinates")
        return Box(np.maximum(a.lower, b.lower), np.minimum(a.upper, b.upper))
    if not (isinstance(a, Box | HalfSpaces) and isinstance(b, Box | HalfSpaces)):
        return None
    dimension = a.dimension if isinstance(a, HalfSpaces) else b.dimension
    assert dimension is not None
    a.check_dimension(dimension)
    b.check_dimension(dimension)
    rows = [_rows(domain, dimension) for domain in ((b, a) if isinstance(a, Box) else (a, b))]
    if not len(rows[1][1]):
        return a if isinstance(a, HalfSpaces) else b
    return HalfSpaces(*(np.concatenate(part) for part in zip(*rows, strict=True)))


def _rows(domain: Box | HalfSpaces, dimension: int) -> tuple[Array, Array]:
    return domain.rows(dimension) if isinstance(domain, Box) else (domain.normals, domain.offsets)


@dataclass(frozen=True)
class Intersection(ReflectingDomain):
    """Where several domains hold; made by ``a & b``.

    Attributes
    ----------
    parts : tuple of Domain

    Raises
    ------
    ValueError
        If the parts differ in dimension, or their bounding boxes do not overlap.
    """

    parts: tuple[Domain, ...]

    def __post_init__(self) -> None:
        fixed = sorted({part.dimension for part in self.parts if part.dimension is not None})
        if len(fixed) > 1:
            raise ValueError(f"cannot intersect domains of {fixed} coordinates: {list(self.parts)}")
        if fixed:
            # those of half-spaces take linear programs
            boxes = [part.bounding_box(fixed[0]) for part in self.parts if not isinstance(part, HalfSpaces)]
            lower, upper = np.max([box[0] for box in boxes], axis=0), np.min([box[1] for box in boxes], axis=0)
            if (lower >= upper).any():
                raise ValueError(f"domains must overlap, but these are apart: {' and '.join(map(repr, self.parts))}")

    @property
    def dimension(self) -> int | None:
        """Number of coordinates; None where every part fits several."""
        return next((part.dimension for part in self.parts if part.dimension is not None), None)

    def check_dimension(self, dimension: int) -> None:
        """Raise ValueError unless every part fits positions of this dimension."""
        for part in self.parts:
            part.check_dimension(dimension)

    def members(self, dimension: int) -> list[Member]:
        """The faces of all parts."""
        return [member for part in self.parts for member in part.members(dimension)]  # type: ignore[attr-defined]

    def constrains(self, dimension: int) -> BoolArray:
        """Which coordinates some part restricts, shape (d,)."""
        return np.asarray(np.any([part.constrains(dimension) for part in self.parts], axis=0))

    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """Lower and upper ends (d,) of the parts' bounding boxes."""
        ends = [part.bounding_box(dimension) for part in self.parts]
        return np.max([lower for lower, _ in ends], axis=0), np.min([upper for _, upper in ends], axis=0)

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """Closed curves around what the outlines of all parts share in the plane of coordinates i and j."""
        outlines = [rings for part in self.parts if (rings := part.outline(i, j, view))]
        return outlines[0] if len(outlines) == 1 else shared_outline(outlines, view)

    def to_dict(self) -> Plain:
        """JSON-able description, undone by `from_dict`."""
        return {"kind": "intersection", "parts": [part.to_dict() for part in self.parts]}

    def __repr__(self) -> str:
        return " & ".join(map(repr, self.parts))


ReflectingDomain.intersection = staticmethod(intersect)
