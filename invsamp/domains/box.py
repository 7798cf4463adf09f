"""Boxes, one-sided ones too: moves fold back in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array
from invsamp.domains import _members
from invsamp.domains._arrays import check_metric, copies, freeze
from invsamp.domains._fold import fold_box
from invsamp.domains._polytope import clipped_polygon
from invsamp.domains._reflecting import Member, ReflectingDomain
from invsamp.domains.contract import Array, BoolArray, Reflection
from invsamp.protocols import Facts, Plain


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Box(ReflectingDomain):
    """Positions with ``lower <= position <= upper`` in every coordinate.

    Parameters
    ----------
    lower, upper : float or array_like, shape (d,)
        Bounds; ``-inf`` and ``inf`` leave a side open. Two scalars fit any dimension.

    Raises
    ------
    ValueError
        If a bound is NaN, if ``lower`` is not below ``upper``, if their shapes differ or have more than one
        axis, or if a finite width overflows.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> box = iv.Box(lower=[0.0, 0.0], upper=[1.0, np.inf])
    >>> box.contains(np.array([[0.5, 3.0], [1.5, 0.0]]))
    array([ True, False])
    """

    lower: Array
    upper: Array

    def __init__(self, lower: npt.ArrayLike = -np.inf, upper: npt.ArrayLike = np.inf) -> None:
        low, high = array("lower", lower, finite=False), array("upper", upper, finite=False)
        if low.ndim > 1 or high.ndim > 1 or (low.ndim == high.ndim == 1 and low.shape != high.shape):
            raise ValueError(
                f"lower and upper must be scalars or vectors of one length, got shapes {low.shape} and {high.shape}"
            )
        low, high = (np.array(bound) for bound in np.broadcast_arrays(low, high))
        wrong = ~((low < high) & (low < np.inf) & (high > -np.inf))
        if wrong.any():
            where = int(np.argmax(wrong))
            raise ValueError(
                f"lower must be below upper, got lower {low.flat[where]} and upper {high.flat[where]} at index {where}"
            )
        with np.errstate(over="ignore"):
            if (np.isfinite(low) & np.isfinite(high) & ~np.isfinite(high - low)).any():
                raise ValueError(f"upper - lower must be a finite float or a side be inf, got {low} and {high}")
        freeze(self, lower=low, upper=high)

    @property
    def dimension(self) -> int | None:
        """Length of the bounds; None where they are scalars."""
        return self.lower.size if self.lower.ndim else None

    def check_dimension(self, dimension: int) -> None:
        """Raise ValueError unless the bounds are scalars or have this length."""
        if self.lower.ndim and self.lower.size != dimension:
            raise ValueError(f"Box has {self.lower.size} coordinates, but positions have {dimension}")

    def reflect(self, position: Array, move: Array, metric: Array | None = None) -> Reflection:
        """Fold the moves into the box. See `Domain.reflect`.

        Without a metric or with a diagonal one the bounds stay orthogonal and the end has a closed form, for
        moves of any number of box widths. With a dense metric the moves are followed from bound to bound.

        Raises
        ------
        ValueError
            If shapes do not agree.
        """
        if metric is not None and np.ndim(metric) == 2:
            return super().reflect(position, move, metric)
        end, velocity = copies(position, move)
        n, dimension = end.shape
        self.check_dimension(dimension)
        if metric is not None:
            check_metric(np.shape(metric), dimension)
        bounces, failed = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
        fold_box(end, velocity, self.lower.reshape(-1), self.upper.reshape(-1), bounces, failed)
        return Reflection(end, velocity, bounces, failed)

    def constrains(self, dimension: int) -> BoolArray:
        """Which coordinates have a finite bound, shape (d,)."""
        self.check_dimension(dimension)
        return np.broadcast_to(np.isfinite(self.lower) | np.isfinite(self.upper), (dimension,)).copy()

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """The rectangle (4, 2) of coordinates i and j, clipped to ``view = (lower (2,), upper (2,))``."""
        lower, upper = (
            np.broadcast_to(bound, (self.dimension or max(i, j) + 1,)) for bound in (self.lower, self.upper)
        )
        pair = Box(lower[[i, j]], upper[[i, j]])
        return clipped_polygon(*pair.rows(2), view) if pair.constrains(2).any() else []

    def members(self, dimension: int) -> list[Member]:
        """The finite ends."""
        return [
            Member(_members.BOUNDS, tuple(range(dimension)), dimension, np.concatenate(self.bounding_box(dimension)))
        ]

    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """Lower and upper ends (d,)."""
        self.check_dimension(dimension)
        lower, upper = (np.broadcast_to(bound, (dimension,)).copy() for bound in (self.lower, self.upper))
        return lower, upper

    def rows(self, dimension: int) -> tuple[Array, Array]:
        """Normals (k, d) and offsets (k,) of the finite bounds."""
        lower, upper = np.broadcast_to(self.lower, (dimension,)), np.broadcast_to(self.upper, (dimension,))
        eye = np.eye(dimension)
        below, above = np.isfinite(lower), np.isfinite(upper)
        return np.concatenate([eye[above], -eye[below]]), np.concatenate([upper[above], -lower[below]])

    def to_dict(self) -> Plain:
        """JSON-able description, undone by `from_dict`; an open side is None, as JSON has no infinity."""
        lower, upper = (_without_inf(bound) for bound in (self.lower, self.upper))
        return {"kind": "box", "lower": lower, "upper": upper}

    @classmethod
    def from_dict(cls, description: Facts) -> Box:
        """From what `to_dict` wrote."""
        return cls(*(_with_inf(description[key], side) for key, side in (("lower", -np.inf), ("upper", np.inf))))


def _without_inf(bound: Array) -> object:
    values = bound.astype(object)
    values[~np.isfinite(bound)] = None
    return values.tolist()


def _with_inf(bound: npt.ArrayLike, open_side: float) -> Array:
    values = np.asarray(bound, dtype=float)  # None becomes NaN
    return np.where(np.isnan(values), open_side, values)
