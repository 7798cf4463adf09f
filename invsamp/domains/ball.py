"""Balls and ellipsoids, in any dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, generator, integer, real, store
from invsamp.domains import _members
from invsamp.domains._arrays import freeze
from invsamp.domains._reflecting import Member, ReflectingDomain
from invsamp.domains.contract import Array

#: Points of the ellipse that is drawn.
OUTLINE_POINTS = 180


class _Round(ReflectingDomain):
    """Base of ball and ellipsoid: the image of the unit ball under a matrix, moved to a center."""

    center: Array

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.center.size

    def _shape(self) -> Array:
        """S (d, d) of the ellipsoid {center + S u: |u| <= 1}."""
        raise NotImplementedError

    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """Lower and upper ends (d,)."""
        self.check_dimension(dimension)
        reach = np.linalg.norm(self._shape(), axis=1)
        return self.center - reach, self.center + reach

    def sample_uniform(self, rng: np.random.Generator, n: int) -> Array:
        """Independent uniform draws, shape (n, d)."""
        generator("rng", rng)
        n, shape = integer("n", n, least=0), self._shape()
        draws = np.empty((n, self.dimension))
        missing = np.ones(n, dtype=bool)
        while missing.any():  # a draw on the boundary may be outside by rounding
            direction = rng.standard_normal((missing.sum(), self.dimension))
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            radius = rng.random(len(direction)) ** (1.0 / self.dimension)
            draws[missing] = self.center + radius[:, None] * direction @ shape.T
            missing = ~self.contains(draws)
        return draws

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """The ellipse (k, 2) that bounds the domain's shadow in the plane of coordinates i and j."""
        shape = self._shape()[[i, j]]
        angles = np.linspace(0.0, 2.0 * np.pi, OUTLINE_POINTS, endpoint=False)
        circle = np.column_stack([np.cos(angles), np.sin(angles)])
        return [self.center[[i, j]] + circle @ np.linalg.cholesky(shape @ shape.T).T]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Ball(_Round):
    """Positions at most ``radius`` from ``center``.

    Parameters
    ----------
    center : array_like, shape (d,)
    radius : float, > 0

    Raises
    ------
    ValueError
        If the center is not a finite vector, or the radius is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> ball = iv.domains.Ball([0.0, 0.0], 1.0)
    >>> ball.contains(np.array([[0.5, 0.5], [1.0, 1.0]]))
    array([ True, False])
    """

    center: Array
    radius: float
    kind: ClassVar[str] = "ball"

    def __init__(self, center: npt.ArrayLike, radius: float) -> None:
        freeze(self, center=np.array(array("center", center, ("d",))))
        store(self, radius=real("radius", radius, above=0))
        if not 0.0 < radius**2 < np.inf:
            raise ValueError(f"radius must have a square that is a float, got {radius}")

    def _shape(self) -> Array:
        return self.radius * np.eye(self.dimension)

    def members(self, dimension: int) -> list[Member]:
        """The sphere."""
        numbers = np.append(self.center, self.radius**2)
        return [Member(_members.BALL, tuple(range(self.dimension)), 1, numbers, curved=True)]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Ellipsoid(_Round):
    """Positions x with ``(x - center) @ matrix @ (x - center) <= 1``.

    Parameters
    ----------
    center : array_like, shape (d,)
    matrix : array_like, shape (d, d), optional
        Symmetric positive definite.
    axes : array_like, shape (d,), optional
        Half the lengths of axes along the coordinates: ``matrix = diag(1 / axes**2)``. One of ``matrix`` and
        ``axes`` must be given.

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is not finite, the matrix is not symmetric positive definite, or an axis is
        not positive.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> ellipse = iv.domains.Ellipsoid([0.0, 0.0], axes=[2.0, 1.0])
    >>> ellipse.contains(np.array([[1.5, 0.0], [0.0, 1.5]]))
    array([ True, False])
    """

    center: Array
    matrix: Array
    kind: ClassVar[str] = "ellipsoid"

    def __init__(
        self, center: npt.ArrayLike, matrix: npt.ArrayLike | None = None, axes: npt.ArrayLike | None = None
    ) -> None:
        middle = np.array(array("center", center, ("d",)))
        if (matrix is None) == (axes is None):
            raise ValueError(f"either matrix or axes must be given, got {'neither' if axes is None else 'both'}")
        if axes is not None:
            lengths = array("axes", axes, middle.shape, above=0)
            form = np.diag(1.0 / lengths**2)
        else:
            form = array("matrix", matrix, (middle.size, middle.size))
            if not np.allclose(form, form.T, rtol=1e-10, atol=0.0):
                raise ValueError(f"matrix must be symmetric, got {form.tolist()}")
            form = 0.5 * (form + form.T)
        try:
            np.linalg.cholesky(form)
        except np.linalg.LinAlgError:
            raise ValueError(f"matrix must be positive definite, got {form.tolist()}") from None
        freeze(self, center=middle, matrix=form)

    def _shape(self) -> Array:
        return np.asarray(np.linalg.inv(np.linalg.cholesky(self.matrix)).T)

    def members(self, dimension: int) -> list[Member]:
        """The surface."""
        numbers = np.concatenate([self.center, self.matrix.ravel()])
        return [Member(_members.ELLIPSOID, tuple(range(self.dimension)), 1, numbers, curved=True)]
