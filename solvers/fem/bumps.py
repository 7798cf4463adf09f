"""Gaussian bumps with unknown places, widths and heights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from invsamp.solvers.fem.contract import Array
from invsamp.solvers.fem.field_contract import (
    FieldValues,
    InRegion,
    ScalarUnknowns,
    Unknown,
    checked_pair,
    checked_unknown,
    names_of,
)


@dataclass(frozen=True)
class GaussianBump(ScalarUnknowns):
    """``height * exp(-|x - c|^2 / (2 width^2))`` around a center c.

    Parameters
    ----------
    width, height : float or str
        A width is positive; NaN values come of an unknown one that is not.
    center : pair of float or str

    Raises
    ------
    ValueError
        If a number is not finite, a fixed width is not positive, a fixed height is zero, or a name occurs twice.

    Examples
    --------
    >>> from invsamp.solvers.heat import GaussianBump
    >>> GaussianBump(width=0.1, height="strength", center=("x", "y")).parameters
    ('x', 'y', 'strength')
    """

    width: Unknown = 0.1
    height: Unknown = 1.0
    center: tuple[Unknown, Unknown] = ("x", "y")

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", checked_pair("center", self.center))
        for name in ("width", "height"):
            object.__setattr__(self, name, checked_unknown(name, getattr(self, name)))
        if not isinstance(self.width, str) and self.width <= 0:
            raise ValueError(f"width must be positive, got {self.width}")
        if self.height == 0:
            raise ValueError("height must not be zero, got 0")
        if len(self.parameters) < len(named := names_of(*self._slots)):
            raise ValueError(f"center, width and height must not repeat a name, got {named}")

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        return _BumpValues(np.asarray(points, dtype=float), self._slots)

    def columns(self, theta: Array) -> tuple[Array, Array, Array, Array]:
        """Center (two), width and height for the field's own columns theta (batch, p), each of shape (batch,)."""
        return _filled(self._slots, theta)

    @property
    def _slots(self) -> tuple[Unknown, Unknown, Unknown, Unknown]:
        return (*self.center, self.width, self.height)


@dataclass(frozen=True)
class _BumpValues:
    points: Array
    slots: tuple[Unknown, Unknown, Unknown, Unknown]

    def values(self, theta: Array) -> Array:
        height = _filled(self.slots, theta)[3]
        return height[:, None] * self._shape(theta)[0]

    def pullback(self, theta: Array, cotangents: Array) -> Array:
        x, y, width, height = _filled(self.slots, theta)
        shape, square = self._shape(theta)
        weighted = cotangents * shape
        strength = height * width**-2.0
        slopes: list[Callable[[], Array]] = [
            lambda: strength * (weighted @ self.points[:, 0] - x * weighted.sum(axis=1)),
            lambda: strength * (weighted @ self.points[:, 1] - y * weighted.sum(axis=1)),
            lambda: strength / width * (weighted * square).sum(axis=1),
            lambda: weighted.sum(axis=1),
        ]
        wanted = [slope() for slot, slope in zip(self.slots, slopes, strict=True) if isinstance(slot, str)]
        return np.stack(wanted, axis=1) if wanted else np.empty((len(theta), 0))

    def _shape(self, theta: Array) -> tuple[Array, Array]:
        """Bumps of height one (batch, n), and squared distances from their centers (batch, n)."""
        x, y, width, _ = _filled(self.slots, theta)
        square = (self.points[:, 0] - x[:, None]) ** 2 + (self.points[:, 1] - y[:, None]) ** 2
        return np.exp(square * (-0.5 * width**-2.0)[:, None]), square


def _filled(slots: Sequence[Unknown], theta: Array) -> tuple[Array, Array, Array, Array]:
    """Slots of a bump, with the columns of theta for the names; NaN for a width that is not positive."""
    columns = iter(np.asarray(theta, dtype=float).T)
    x, y, width, height = (
        next(columns) if isinstance(slot, str) else np.full(len(theta), float(slot)) for slot in slots
    )
    return x, y, np.where(width > 0, width, np.nan), height
