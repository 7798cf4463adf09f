"""Coordinates in which a sampler moves: identity, log and logit, and those of vectors, with their Jacobians.

``theta`` is the natural parameter, ``position`` the coordinate. A density of theta becomes one of the
position by the factor ``d theta / d position``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import numbers
from invsamp.posing.compiled import density_loops
from invsamp.posing.transforms.multivariate import VectorTransform
from invsamp.protocols import Array


class _Elementwise:
    """Base of transforms that are one column of `invsamp.posing.compiled.density_loops.change_variables` each."""

    def column(self) -> tuple[int, float, float]:
        """Kind, lower and upper end, for the compiled loop."""
        raise NotImplementedError

    def inverse(self, position: npt.ArrayLike) -> Array:
        """Theta at the position."""
        return self._change(position)[0]

    def derivative(self, position: npt.ArrayLike) -> Array:
        """Derivative of theta with respect to the position."""
        return self._change(position)[1]

    def log_jacobian(self, position: npt.ArrayLike) -> Array:
        """Log of `derivative`."""
        return self._change(position)[2]

    def log_jacobian_gradient(self, position: npt.ArrayLike) -> Array:
        """Derivative of `log_jacobian`."""
        return self._change(position)[3]

    def _change(self, position: npt.ArrayLike) -> list[Array]:
        points = np.array(numbers("position", position))
        parts = density_loops.change_variables(points.reshape(-1, 1), *_arguments([self]))
        return [part.reshape(points.shape) for part in parts]


@dataclass(frozen=True)
class Identity(_Elementwise):
    """The position is theta."""

    def forward(self, theta: npt.ArrayLike) -> Array:
        """Position of theta."""
        return np.array(numbers("theta", theta))

    def column(self) -> tuple[int, float, float]:
        return density_loops.IDENTITY, -np.inf, np.inf


@dataclass(frozen=True)
class Log(_Elementwise):
    """position = log(theta - lower), for theta above ``lower``."""

    lower: float = 0.0

    def __post_init__(self) -> None:
        if not np.isfinite(self.lower):
            raise ValueError(f"lower must be finite, got {self.lower}")

    def forward(self, theta: npt.ArrayLike) -> Array:
        """Position of theta; minus infinity at ``lower``, NaN below."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(numbers("theta", theta) - self.lower))

    def column(self) -> tuple[int, float, float]:
        return density_loops.LOG, self.lower, np.inf


@dataclass(frozen=True)
class Logit(_Elementwise):
    """position = log((theta - lower) / (upper - theta)), for theta between ``lower`` and ``upper``."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.lower) and np.isfinite(self.upper) and self.lower < self.upper):
            raise ValueError(f"upper must be above lower and both finite, got {self.lower} and {self.upper}")

    def forward(self, theta: npt.ArrayLike) -> Array:
        """Position of theta; infinite at the ends, NaN beyond."""
        theta = numbers("theta", theta)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(theta - self.lower) - np.log(self.upper - theta))

    def column(self) -> tuple[int, float, float]:
        return density_loops.LOGIT, self.lower, self.upper


Transform = Identity | Log | Logit


class Change(NamedTuple):
    """Theta and what the change of variables adds."""

    theta: Array  # (batch, dimension)
    derivative: Array  # of theta with respect to the position, (batch, dimension); 1 in the columns of vectors
    log_jacobian: Array  # summed over the columns, (batch,)
    log_jacobian_gradient: Array  # (batch, dimension)


class Coordinates:
    """One transform per column, applied to all columns at once, but for vectors that have one of their own.

    Parameters
    ----------
    transforms : sequence of Identity, Log or Logit
        One per column; `Identity` in those of vectors.
    vectors : sequence of (slice, VectorTransform)
        Their columns and transforms.

    Attributes
    ----------
    compiled : tuple of ndarray
        Arguments of `invsamp.posing.compiled.density_loops.change_variables`.

    Raises
    ------
    ValueError
        If there is none, or one is of another type.
    """

    def __init__(self, transforms: Sequence[Transform], vectors: Sequence[tuple[slice, VectorTransform]] = ()) -> None:
        self.transforms, self.vectors = tuple(transforms), tuple(vectors)
        self.dimension = len(self.transforms)
        if not self.transforms or not all(isinstance(t, (Identity, Log, Logit)) for t in self.transforms):
            raise ValueError(f"transforms must be made of Identity, Log and Logit, got {self.transforms}")
        self.compiled = _arguments(self.transforms)

    def __repr__(self) -> str:
        vectors = f", {[transform for _, transform in self.vectors]!r}" if self.vectors else ""
        return f"Coordinates({list(self.transforms)!r}{vectors})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Coordinates):
            return False
        return self.transforms == other.transforms and self.vectors == other.vectors

    def __hash__(self) -> int:
        return hash(self.transforms)

    @property
    def bounded(self) -> Coordinates:
        """The same, in which what logits map is sampled as itself."""
        return Coordinates([Identity() if isinstance(t, Logit) else t for t in self.transforms], self.vectors)

    def to_theta(self, position: npt.ArrayLike) -> Array:
        """Theta, shape (..., dimension), at positions of that shape."""
        points = self._check("position", position)
        theta = np.asarray(density_loops.change_variables(points.reshape(-1, self.dimension), *self.compiled)[0])
        theta = theta.reshape(points.shape)
        for columns, transform in self.vectors:
            theta[..., columns] = transform.theta(points[..., columns])
        return theta

    def to_position(self, theta: npt.ArrayLike) -> Array:
        """Positions, shape (..., dimension), of theta of that shape; NaN for theta outside its interval."""
        points = self._check("theta", theta)
        for column, transform in enumerate(self.transforms):
            points[..., column] = transform.forward(points[..., column])
        for columns, vector in self.vectors:
            points[..., columns] = vector.position(points[..., columns])
        return points

    def evaluate(self, position: Array) -> Change:
        """Theta, its derivative and the log Jacobian at positions (batch, dimension).

        Finite, with theta strictly inside its interval, for every position of absolute value up to 700.
        """
        change = Change(*density_loops.change_variables(np.ascontiguousarray(position), *self.compiled))
        with np.errstate(all="ignore"):
            for columns, transform in self.vectors:
                change.theta[:, columns] = transform.theta(position[:, columns])
                change.log_jacobian[:] += transform.log_jacobian(position[:, columns])
                change.log_jacobian_gradient[:, columns] = transform.derivatives(position[:, columns])[1]
        return change

    def pull_back(self, position: Array, slope: Array) -> Array:
        """Derivatives with respect to theta, (batch, ..., dimension), as those by the positions of vectors, in place.

        The other columns stay: they have to be multiplied by `Change.derivative`.
        """
        if not self.vectors:
            return slope
        with np.errstate(all="ignore"):
            for columns, transform in self.vectors:
                jacobian = transform.derivatives(position[:, columns])[0]
                slope[..., columns] = np.einsum("n...i,nij->n...j", slope[..., columns], jacobian)
        return slope

    def _check(self, name: str, points: npt.ArrayLike) -> Array:
        values = np.array(numbers(name, points), order="C")
        if values.ndim == 0 or values.shape[-1] != self.dimension:
            raise ValueError(f"{name} must have {self.dimension} columns, got shape {values.shape}")
        return values


def _arguments(transforms: Sequence[Any]) -> tuple[npt.NDArray[np.intp], Array, Array]:
    kinds, lower, upper = zip(*(transform.column() for transform in transforms), strict=True)
    return np.array(kinds, dtype=np.intp), np.array(lower, dtype=float), np.array(upper, dtype=float)
