"""Convex polytopes, which may be unbounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.domains._arrays import check_metric, copies, entries, freeze
from invsamp.domains._polytope import clipped_polygon, interior_point
from invsamp.domains._reflection import bounce_half_spaces, inside_half_spaces
from invsamp.domains.box import Box
from invsamp.domains.contract import MAX_BOUNCES, Array, BoolArray, Domain, Reflection
from invsamp.domains.unbounded import Unbounded


@dataclass(frozen=True, init=False, eq=False, repr=False)
class HalfSpaces:
    """Positions with ``normals @ position <= offsets``: a convex polytope, which may be unbounded.

    Parameters
    ----------
    normals : array_like, shape (k, d)
        Outward normals, of any length but zero.
    offsets : array_like, shape (k,)

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is not finite, a normal is zero, or the set has no interior.
    """

    normals: Array
    offsets: Array
    _interior: Array = field(init=False)  # (d,) a strictly feasible point

    def __init__(self, normals: npt.ArrayLike, offsets: npt.ArrayLike) -> None:
        a, b = np.array(normals, dtype=float, order="C"), np.array(offsets, dtype=float)
        if a.ndim != 2 or 0 in a.shape:
            raise ValueError(f"normals must have shape (k, d) with k, d >= 1, got {a.shape}")
        if b.shape != a.shape[:1]:
            raise ValueError(f"offsets must have shape {a.shape[:1]}, one per normal, got {b.shape}")
        if not np.isfinite(a).all() or not np.isfinite(b).all():
            raise ValueError(f"normals and offsets must be finite, got {a.tolist()} and {b.tolist()}")
        zero = ~a.any(axis=1)
        if zero.any():
            raise ValueError(
                f"normals must not be zero, got row {int(np.argmax(zero))} = {a[np.argmax(zero)].tolist()}"
            )
        freeze(self, normals=a, offsets=b, _interior=interior_point(a, b))

    @property
    def dimension(self) -> int:
        """Number of columns of the normals."""
        return int(self.normals.shape[1])

    def check_dimension(self, dimension: int) -> None:
        """Raise ValueError unless the normals have this many columns."""
        if self.normals.shape[1] != dimension:
            raise ValueError(f"HalfSpaces has {self.normals.shape[1]} coordinates, but positions have {dimension}")

    def contains(self, position: Array) -> BoolArray:
        """Whether each position (n, d) satisfies all inequalities, shape (n,).

        Exact in the arithmetic that `reflect` uses: every end that `reflect` returns is contained.
        """
        points = np.array(position, dtype=float, order="C")
        self.check_dimension(points.shape[1])
        inside = np.empty(len(points), dtype=np.bool_)
        inside_half_spaces(self.normals, self.offsets, points, inside)
        return inside

    def reflect(self, position: Array, move: Array, metric: Array | None = None) -> Reflection:
        """Follow the moves from wall to wall. See `Domain.reflect`.

        A row fails after `MAX_BOUNCES` bounces, from a start that is outside, or with a move that is not
        finite. Both directions of a path bounce equally often, so refusing it is reversible too.

        Raises
        ------
        ValueError
            If shapes do not agree.
        """
        end, velocity = copies(position, move)
        n, dimension = end.shape
        self.check_dimension(dimension)
        bounces, failed = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
        bounce_half_spaces(
            end, velocity, self.normals, self.offsets, self._turns(metric), self._interior, MAX_BOUNCES, bounces, failed
        )
        return Reflection(end, velocity, bounces, failed)

    def _turns(self, metric: Array | None) -> Array:
        """Directions P a (k, d) along which the walls turn a velocity."""
        if metric is None:
            return self.normals
        metric = np.asarray(metric, dtype=float)
        check_metric(metric.shape, self.normals.shape[1])
        turns = self.normals * metric if metric.ndim == 1 else np.ascontiguousarray(self.normals @ metric)
        # the kernel is compiled once for each kind of argument, and read-only arrays are a kind
        turns.flags.writeable = False
        return turns

    def constrains(self, dimension: int) -> BoolArray:
        """Which coordinates appear in some inequality, shape (d,)."""
        self.check_dimension(dimension)
        return np.asarray(self.normals.any(axis=0))

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> Array | None:
        """Polygon (k, 2), counter-clockwise, of the inequalities in coordinates i and j alone.

        Clipped to ``view = (lower (2,), upper (2,))``. None where no inequality concerns just this pair, or
        where the polygon lies outside the view. In two dimensions that is the whole domain; in more, walls
        that involve a third coordinate have no sharp edge in this plane and are left out.
        """
        others = np.delete(np.arange(self.dimension), [i, j])
        alone = ~self.normals[:, others].any(axis=1)
        return clipped_polygon(self.normals[alone][:, [i, j]], self.offsets[alone], view) if alone.any() else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able description, undone by `from_dict`."""
        return {"kind": "half_spaces", "normals": self.normals.tolist(), "offsets": self.offsets.tolist()}

    def __and__(self, other: Domain) -> Domain:
        """Intersection with another domain; ValueError where the two do not overlap."""
        if isinstance(other, Box):
            other.check_dimension(self.dimension)
            normals, offsets = other._rows(self.dimension)
            if not len(offsets):
                return self
        elif isinstance(other, HalfSpaces):
            other.check_dimension(self.dimension)
            normals, offsets = other.normals, other.offsets
        else:
            return self if isinstance(other, Unbounded) else NotImplemented
        return HalfSpaces(np.concatenate([self.normals, normals]), np.concatenate([self.offsets, offsets]))

    def __eq__(self, other: object) -> bool:
        """Equal normals and offsets, in the same order."""
        if not isinstance(other, HalfSpaces):
            return NotImplemented
        return np.array_equal(self.normals, other.normals) and np.array_equal(self.offsets, other.offsets)

    def __hash__(self) -> int:
        return hash(("half_spaces", entries(self.normals), entries(self.offsets)))

    def __repr__(self) -> str:
        return f"HalfSpaces(normals={self.normals.tolist()}, offsets={self.offsets.tolist()})"
