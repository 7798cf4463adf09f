"""Domains given by a function: where its level is not positive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, function, integer, numbers, optional, sequence, shown, text
from invsamp.domains._arrays import entries
from invsamp.domains._outlines import level_curves, view_points
from invsamp.domains._reflecting import ReflectingDomain
from invsamp.domains._surfaces import Surface, bracketed_roots
from invsamp.domains.contract import Array
from invsamp.domains.formula_level import FormulaLevel
from invsamp.protocols import Facts, Plain

#: Directions in which the boundary is looked for, to check the gradient there.
DIRECTIONS = 32
#: A gradient on the boundary that is this small against the slope nearby has vanished.
VANISHED = 1e-3


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LevelSet(ReflectingDomain):
    """Natural parameters at which a function is not positive, in any dimension.

    Parameters
    ----------
    level : callable
        Natural parameters (n, d) -> levels (n,): not positive inside, positive (or NaN) outside, continuous.
    gradient : callable
        Natural parameters (n, d) -> gradients (n, d). It must not vanish on the boundary.
    dimension : int
    resolution : float or array_like, shape (d,), optional
        Moves are checked in steps no longer than this in any coordinate, then the crossing is located to rounding. A
        thinner gap between two parts of the domain, or a thinner part outside that a move cuts, may be stepped over.
        By default a move is checked in eight steps, and again after each bounce.
    bounds : pair of array_like, shape (d,), optional
        Lower and upper ends of a box that holds the domain; `sample_uniform` needs it.
    name : str, optional
        What to print.

    Raises
    ------
    ValueError
        If the dimension or the resolution is not positive, or the functions return a wrong shape. The boundary is
        checked around points inside, which are known from the bounds or else from the first moves. A gradient that
        vanishes there, or differs from the change of the level, raises a ValueError that names the place.

    Notes
    -----
    Both functions are called with all rows that are under way together. A saved run keeps a formula whole. Of other
    functions it keeps the name alone, and for two dimensions within bounds the boundary's curves: see `SavedLevelSet`.

    Examples
    --------
    >>> import numpy as np, invsamp as iv
    >>> gradient = lambda x: np.column_stack([2 * x[:, 0], -np.ones(len(x))])
    >>> iv.domains.LevelSet(lambda x: x[:, 0] ** 2 - x[:, 1], gradient, 2)
    LevelSet(<lambda>, dimension=2)
    """

    level: Callable[[Array], Array]
    gradient: Callable[[Array], Array]
    size: int
    resolution: Array | None
    bounds: tuple[Array, Array] | None
    name: str
    _unchecked: list[bool] = field(init=False)

    def __init__(
        self,
        level: Callable[[Array], Array],
        gradient: Callable[[Array], Array],
        dimension: int,
        resolution: npt.ArrayLike | None = None,
        bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        name: str | None = None,
    ) -> None:
        dimension = integer("dimension", dimension, least=1)
        step = optional(array, "resolution", resolution, above=0)
        if step is not None and step.shape not in ((), (dimension,)):
            raise ValueError(f"resolution must be a number or one per coordinate, got {step.tolist()}")
        values = {
            "level": function("level", level),
            "gradient": function("gradient", gradient),
            "size": dimension,
            "resolution": step,
            "bounds": None if bounds is None else _checked_bounds(bounds, dimension),
            "name": optional(text, "name", name) or getattr(level, "__name__", repr(level)),
            "_unchecked": [True],
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)
        if self.bounds is not None:
            points = np.random.default_rng(0).uniform(*self.bounds, (1000, dimension))
            self._check(points[self.contains(points)])

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.size

    def members(self, dimension: int) -> list[Surface]:
        """The surface."""
        return [Surface(self._levels, self._gradients, self.resolution, tuple(range(self.size)), self._check)]

    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """The bounds given, infinite without."""
        self.check_dimension(dimension)
        return self.bounds if self.bounds is not None else (np.full(dimension, -np.inf), np.full(dimension, np.inf))

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """Curves (k, 2) of level zero within the view, in two dimensions; in others there is no edge to draw."""
        if self.size != 2:
            return []
        x, y, points = view_points(view, 400)
        depth = -self._levels(points[:, np.argsort([i, j])]).reshape(len(y), len(x))
        return level_curves(x, y, np.where(np.isnan(depth), -np.inf, depth).clip(-1e300, 1e300))

    def to_dict(self) -> Plain:
        """JSON-able description; `from_dict` makes a `SavedLevelSet` of it."""
        bounded = self.size == 2 and self.bounds is not None
        curves = self.outline(0, 1, self.bounds) if bounded and self.bounds is not None else []
        return {
            "kind": "level_set",
            "name": self.name,
            "dimension": self.size,
            "bounds": None if self.bounds is None else [end.tolist() for end in self.bounds],
            "curves": [curve.tolist() for curve in curves],
        } | ({"formula": [self.level.less, self.level.more]} if isinstance(self.level, FormulaLevel) else {})

    def __eq__(self, other: object) -> bool:
        """The same functions, dimension, resolution and bounds."""
        if not isinstance(other, LevelSet):
            return NotImplemented
        functions = self.level == other.level and self.gradient == other.gradient
        return functions and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.level, self.gradient, self._values()))

    def _values(self) -> tuple[object, ...]:
        arrays = (self.resolution, *(self.bounds or ()))
        return (self.size, self.name, *(None if array is None else entries(array) for array in arrays))

    def __repr__(self) -> str:
        return f"LevelSet({self.name}, dimension={self.size})"

    def _levels(self, points: Array) -> Array:
        if not len(points):  # which not every function can do
            return np.empty(0)
        with np.errstate(all="ignore"):
            values = numbers("level", self.level(points))
        if values.shape != points.shape[:1]:
            raise ValueError(f"level must return shape {points.shape[:1]} at {points.shape}, got {values.shape}")
        return values

    def _gradients(self, points: Array) -> Array:
        values = numbers("gradient", self.gradient(points))
        if values.shape != points.shape:
            raise ValueError(f"gradient must return shape {points.shape}, got {values.shape}")
        return values

    def _check(self, inside: Array) -> None:
        """Look at the boundary in some directions from points inside; ValueError for a gradient that is wrong there."""
        if not (self._unchecked and len(inside)):
            return
        self._unchecked.clear()
        rng = np.random.default_rng(0)
        start = inside[np.linspace(0, len(inside) - 1, DIRECTIONS).astype(int)]
        spread = np.ptp(inside, axis=0)
        scale = np.where(spread > 0.0, spread, np.maximum(np.abs(inside[0]), 1.0))
        direction = rng.standard_normal(start.shape) * scale
        reach = np.zeros(len(start))
        for power in range(-6, 7):  # ever further, until outside
            open_ended = reach == 0.0
            out = ~(self._levels(start + 2.0**power * direction) <= 0.0)
            reach[open_ended & out] = 2.0**power
        found = reach > 0.0
        start, direction, reach = start[found], direction[found], reach[found]
        # not where the function ends being defined, which may be beyond another boundary
        defined = np.isfinite(self._levels(start + reach[:, None] * direction))
        start, direction, reach = start[defined], direction[defined], reach[defined]
        if not len(start):
            return
        time = bracketed_roots(
            lambda rows, t: self._levels(start[rows] + t[:, None] * direction[rows]),
            np.zeros(len(start)),
            reach,
            np.zeros(len(start)),
        )
        self._check_boundary(start + time[:, None] * direction, direction * np.maximum(time, 1e-3)[:, None])

    def _check_boundary(self, point: Array, outward: Array) -> None:
        """At points (k, d) where the lines along `outward` (k, d) leave the domain."""
        gradient = self._gradients(point)
        rate = np.sum(gradient * outward, axis=1)
        with np.errstate(all="ignore"):
            nearby = np.abs(self._levels(point - 0.01 * outward)) / 0.01
            h = 1e-5
            change = (self._levels(point + h * outward) - self._levels(point - h * outward)) / (2.0 * h)
        flat = np.linalg.norm(gradient, axis=1) * np.linalg.norm(outward, axis=1) <= VANISHED * nearby
        wrong = np.isfinite(change) & (np.abs(change - rate) > 0.02 * (np.abs(change) + np.abs(rate)) + 1e-3 * nearby)
        for bad, problem in (
            (~np.isfinite(gradient).all(axis=1), "must be finite on the boundary, but is not"),
            (flat, "must not vanish on the boundary, but does"),
            (wrong, "must be that of level, but differs from its finite differences"),
        ):
            if bad.any():
                k = int(np.argmax(bad))
                raise ValueError(
                    f"gradient of {self!r} {problem} at {point[k].tolist()}, where it is {gradient[k].tolist()}"
                )


@dataclass(frozen=True, eq=False, repr=False)
class SavedLevelSet(ReflectingDomain):
    """A `LevelSet` as a saved run stores it: its name, and curves to draw. It cannot decide what lies inside."""

    description: Facts  # what `LevelSet.to_dict` wrote

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return int(self.description["dimension"])

    def members(self, dimension: int) -> list[Surface]:
        """ValueError: the function was not saved."""
        raise ValueError(
            f"the function of the level set {self.description['name']} is not saved with a run: make the LevelSet anew"
        )

    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """The bounds of the level set, infinite where it had none."""
        lower, upper = self.description["bounds"] or (np.full(dimension, -np.inf), np.full(dimension, np.inf))
        return np.asarray(lower), np.asarray(upper)

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """The curves that were saved."""
        curves = [np.array(curve)[:, [i, j]] for curve in self.description["curves"]]
        return curves if i < j else [curve[::-1] for curve in curves]

    def to_dict(self) -> Plain:
        """As `LevelSet.to_dict`."""
        return {"kind": "level_set", **self.description}

    def __repr__(self) -> str:
        return f"SavedLevelSet({self.description['name']}, dimension={self.dimension})"


def _checked_bounds(bounds: tuple[npt.ArrayLike, npt.ArrayLike], dimension: int) -> tuple[Array, Array]:
    ends = [array("bounds", end) for end in sequence("bounds", bounds, "a pair of ends", least=2)]
    if len(ends) != 2 or any(end.shape not in ((), (dimension,)) for end in ends):
        raise ValueError(f"bounds must be two numbers or vectors of {dimension}, got {shown(bounds)}")
    lower, upper = (np.array(np.broadcast_to(end, (dimension,))) for end in ends)
    if not (lower < upper).all():
        raise ValueError(f"bounds must be finite with lower below upper, got {lower.tolist()} and {upper.tolist()}")
    return lower, upper
