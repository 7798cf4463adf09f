"""Where a proposed move ends: domains of positions and the specular (billiard) path inside them.

A domain maps a start and a straight move to the end of the path that the move takes when it bounces off the
walls. That map is reversible and keeps volume, so a random walk whose moves are symmetric keeps the uniform
law exactly; moving the end to the nearest feasible point, or mirroring it there, does not.

With a preconditioner P = L L^T the path is specular in the whitened coordinates w = L^-1 theta. Straight
lines and crossing times are the same there, only the turn at a wall with normal a differs:

    v <- v - 2 (a . v) / (a . P a) P a,

which keeps v . P^-1 v. Turning by P = 1 under moves drawn with covariance P would not be reversible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from invsamp._polytope import clipped_polygon, interior_point
from invsamp._reflection import bounce_half_spaces, fold_box, inside_half_spaces

Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

#: More bounces than this off half-spaces, and the move is refused.
MAX_BOUNCES = 20


class Reflection(NamedTuple):
    """End of a batch of reflected moves."""

    position: Array  # (n, d) end of the path, inside the domain; the start where `failed`
    move: Array  # (n, d) the move as turned by the walls; the original move where `failed`
    bounces: npt.NDArray[np.int64]  # (n,) walls hit; 0 where `failed`
    failed: BoolArray  # (n,) the path could not be followed, so the row stays where it started


@runtime_checkable
class Domain(Protocol):
    """Set of feasible positions that knows how a move is reflected at its boundary."""

    @property
    def dimension(self) -> int | None:
        """Number of coordinates; None for a domain that fits any number."""
        ...

    def check_dimension(self, dimension: int) -> None:
        """Raise ValueError unless positions of this dimension can lie in the domain."""
        ...

    def contains(self, position: Array) -> BoolArray:
        """Whether each position (n, d) lies in the (closed) domain, shape (n,)."""
        ...

    def reflect(self, position: Array, move: Array, metric: Array | None = None) -> Reflection:
        """Ends of the specular paths that start at `position` (n, d) along `move` (n, d).

        `metric` is the preconditioner P, symmetric positive definite: (d,) for a diagonal, (d, d), or None.
        """
        ...

    def constrains(self, dimension: int) -> BoolArray:
        """Which coordinates the domain restricts, shape (d,)."""
        ...

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> Array | None:
        """Polygon (k, 2) to draw in the plane of coordinates i and j; None where nothing restricts that pair."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """JSON-able description, undone by `from_dict`."""
        ...

    def __and__(self, other: Domain) -> Domain:
        """Intersection."""
        ...


@dataclass(frozen=True)
class Unbounded:
    """The whole space, of any dimension."""

    @property
    def dimension(self) -> int | None:
        """None: any dimension fits."""
        return None

    def check_dimension(self, dimension: int) -> None:
        """Accept any dimension."""

    def contains(self, position: Array) -> BoolArray:
        """True for every position without NaN or inf, shape (n,)."""
        return np.asarray(np.isfinite(position).all(axis=1))

    def reflect(self, position: Array, move: Array, metric: Array | None = None) -> Reflection:
        """Straight moves; a move that is not finite fails. See `Domain.reflect`."""
        end, velocity = _copies(position, move)
        n = len(end)
        end += velocity
        failed = np.zeros(n, dtype=bool)
        # one sum is cheaper than a test of every entry
        if not np.isfinite(end.sum()):
            failed |= ~np.isfinite(end).all(axis=1)
            end[failed] = np.asarray(position)[failed]
        return Reflection(end, velocity, np.zeros(n, dtype=np.int64), failed)

    def constrains(self, dimension: int) -> BoolArray:
        """No coordinate, shape (d,)."""
        return np.zeros(dimension, dtype=bool)

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> Array | None:
        """None: there is no boundary."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able description, undone by `from_dict`."""
        return {"kind": "unbounded"}

    def __and__(self, other: Domain) -> Domain:
        """The other domain."""
        return other


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Box:
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
    """

    lower: Array
    upper: Array

    def __init__(self, lower: npt.ArrayLike = -np.inf, upper: npt.ArrayLike = np.inf) -> None:
        low, high = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
        if low.ndim > 1 or high.ndim > 1 or (low.ndim == high.ndim == 1 and low.shape != high.shape):
            raise ValueError(
                f"lower and upper must be scalars or vectors of one length, got shapes {low.shape} and {high.shape}"
            )
        low, high = (np.array(bound) for bound in np.broadcast_arrays(low, high))
        if low.shape == (0,):
            raise ValueError("lower and upper must have at least one entry, got none")
        wrong = ~((low < high) & (low < np.inf) & (high > -np.inf))
        if wrong.any():
            where = int(np.argmax(wrong))
            raise ValueError(
                f"lower must be below upper, got lower {low.flat[where]} and upper {high.flat[where]} at index {where}"
            )
        with np.errstate(over="ignore"):
            if (np.isfinite(low) & np.isfinite(high) & ~np.isfinite(high - low)).any():
                raise ValueError(f"upper - lower must be a finite float or a side be inf, got {low} and {high}")
        _freeze(self, lower=low, upper=high)

    @property
    def dimension(self) -> int | None:
        """Length of the bounds; None where they are scalars."""
        return self.lower.size if self.lower.ndim else None

    def check_dimension(self, dimension: int) -> None:
        """Raise ValueError unless the bounds are scalars or have this length."""
        if self.lower.ndim and self.lower.size != dimension:
            raise ValueError(f"Box has {self.lower.size} coordinates, but positions have {dimension}")

    def contains(self, position: Array) -> BoolArray:
        """Whether each position (n, d) lies within the bounds, walls included, shape (n,)."""
        position = np.asarray(position)
        self.check_dimension(position.shape[1])
        return np.asarray(((position >= self.lower) & (position <= self.upper)).all(axis=1))

    def reflect(self, position: Array, move: Array, metric: Array | None = None) -> Reflection:
        """Fold the moves into the box. See `Domain.reflect`.

        Without a metric or with a diagonal one the walls stay orthogonal and the end has a closed form, for
        moves of any number of box widths. With a dense metric the box is treated as half-spaces.

        Raises
        ------
        ValueError
            If shapes do not agree.
        """
        if metric is not None and np.ndim(metric) == 2:
            return self.to_half_spaces(np.shape(position)[1]).reflect(position, move, metric)
        end, velocity = _copies(position, move)
        n, dimension = end.shape
        self.check_dimension(dimension)
        if metric is not None:
            _check_metric(np.shape(metric), dimension)
        bounces, failed = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
        fold_box(end, velocity, self.lower.reshape(-1), self.upper.reshape(-1), bounces, failed)
        return Reflection(end, velocity, bounces, failed)

    def constrains(self, dimension: int) -> BoolArray:
        """Which coordinates have a finite bound, shape (d,)."""
        self.check_dimension(dimension)
        return np.broadcast_to(np.isfinite(self.lower) | np.isfinite(self.upper), (dimension,)).copy()

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> Array | None:
        """The rectangle of coordinates i and j, clipped to ``view = (lower (2,), upper (2,))``; (4, 2) or None."""
        lower, upper = (
            np.broadcast_to(bound, (self.dimension or max(i, j) + 1,)) for bound in (self.lower, self.upper)
        )
        pair = Box(lower[[i, j]], upper[[i, j]])
        return clipped_polygon(*pair._rows(2), view) if pair.constrains(2).any() else None

    def to_half_spaces(self, dimension: int) -> HalfSpaces | Unbounded:
        """The same set as half-spaces, one for each finite bound; Unbounded where there is none."""
        self.check_dimension(dimension)
        # building them solves a small linear program: once is enough
        cached: dict[int, HalfSpaces | Unbounded] = self.__dict__.setdefault("_half_spaces", {})
        if dimension not in cached:
            normals, offsets = self._rows(dimension)
            cached[dimension] = HalfSpaces(normals, offsets) if len(offsets) else Unbounded()
        return cached[dimension]

    def _rows(self, dimension: int) -> tuple[Array, Array]:
        """Normals (k, d) and offsets (k,) of the finite bounds."""
        lower, upper = np.broadcast_to(self.lower, (dimension,)), np.broadcast_to(self.upper, (dimension,))
        eye = np.eye(dimension)
        below, above = np.isfinite(lower), np.isfinite(upper)
        return np.concatenate([eye[above], -eye[below]]), np.concatenate([upper[above], -lower[below]])

    def to_dict(self) -> dict[str, Any]:
        """JSON-able description, undone by `from_dict`; an open side is None, as JSON has no infinity."""
        return {"kind": "box", "lower": _without_inf(self.lower), "upper": _without_inf(self.upper)}

    def __and__(self, other: Domain) -> Domain:
        """Intersection with another domain; ValueError where the two do not overlap."""
        if isinstance(other, Box):
            if None not in (self.dimension, other.dimension) and self.dimension != other.dimension:
                raise ValueError(f"cannot intersect boxes of {self.dimension} and {other.dimension} coordinates")
            return Box(np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper))
        return other & self

    def __eq__(self, other: object) -> bool:
        """Equal bounds of the same shape."""
        if not isinstance(other, Box):
            return NotImplemented
        return np.array_equal(self.lower, other.lower) and np.array_equal(self.upper, other.upper)

    def __hash__(self) -> int:
        return hash(("box", _entries(self.lower), _entries(self.upper)))

    def __repr__(self) -> str:
        return f"Box(lower={self.lower.tolist()}, upper={self.upper.tolist()})"


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
        _freeze(self, normals=a, offsets=b, _interior=interior_point(a, b))

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
        end, velocity = _copies(position, move)
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
        _check_metric(metric.shape, self.normals.shape[1])
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
        return hash(("half_spaces", _entries(self.normals), _entries(self.offsets)))

    def __repr__(self) -> str:
        return f"HalfSpaces(normals={self.normals.tolist()}, offsets={self.offsets.tolist()})"


def from_dict(description: Mapping[str, Any]) -> Domain:
    """The domain that `to_dict` described.

    Raises
    ------
    ValueError
        If ``kind`` is not one of those of this module.
    """
    kind = description.get("kind")
    if kind == "unbounded":
        return Unbounded()
    if kind == "box":
        return Box(_with_inf(description["lower"], -np.inf), _with_inf(description["upper"], np.inf))
    if kind == "half_spaces":
        return HalfSpaces(description["normals"], description["offsets"])
    raise ValueError(f"kind must be 'unbounded', 'box' or 'half_spaces', got {kind!r}")


def _copies(position: Array, move: Array) -> tuple[Array, Array]:
    """Fresh C-contiguous arrays (n, d) for the kernels to overwrite."""
    end, velocity = np.array(position, dtype=float, order="C"), np.array(move, dtype=float, order="C")
    if end.ndim != 2 or end.shape != velocity.shape:
        raise ValueError(f"position and move must both have shape (n, d), got {end.shape} and {velocity.shape}")
    return end, velocity


def _check_metric(shape: tuple[int, ...], dimension: int) -> None:
    if shape not in ((dimension,), (dimension, dimension)):
        raise ValueError(f"metric must have shape ({dimension},) or ({dimension}, {dimension}), got {shape}")


def _freeze(instance: object, **arrays: Array) -> None:
    """Set read-only arrays as attributes of a frozen dataclass."""
    for name, array in arrays.items():
        array.flags.writeable = False
        object.__setattr__(instance, name, array)


def _entries(array: Array) -> tuple[float, ...]:
    return tuple(array.ravel().tolist())


def _without_inf(bound: Array) -> Any:
    listed = [value if np.isfinite(value) else None for value in bound.ravel().tolist()]
    return listed if bound.ndim else listed[0]


def _with_inf(bound: Any, open_side: float) -> Any:
    if isinstance(bound, list | tuple):
        return [open_side if value is None else value for value in bound]
    return open_side if bound is None else bound
