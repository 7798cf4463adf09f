"""A random field in a prior: its values follow from white noise, and from what is unknown of the field."""

from __future__ import annotations

import copy

import numpy as np

from invsamp.expression import Value
from invsamp.posing.distributions.base import Distribution, ScalarFamily
from invsamp.posing.distributions.random_field import FieldDistribution
from invsamp.posing.distributions.univariate import Normal
from invsamp.posing.expressions.bound_expression import Formula, Indices, Names
from invsamp.posing.priors.conditional_distribution import OfPrior
from invsamp.protocols import Array, Coloring

#: Derivatives by columns of theta, as in `invsamp.posing.priors.conditional_distribution`.
ByColumn = list[tuple[Indices, Value]]


class ColoredField:
    """One field of a prior, always sampled as white noise; offers what a `Conditional` does.

    Parameters
    ----------
    name : str
    distribution : FieldDistribution
    columns : slice
        Of theta.
    names : Names

    Raises
    ------
    ValueError
        If a name is unknown or is not that of a number.
    """

    def __init__(self, name: str, distribution: FieldDistribution, columns: slice, names: Names) -> None:
        self.name, self.distribution, self.columns, self.itself = name, distribution, columns, False
        self._formulas = [
            Formula(f"{text!r} of {name}", text, (), names, whose="a single number,")
            for text in distribution.field.names
        ]
        self.base: ScalarFamily = Normal(0.0, 1.0, shape=distribution.field.size)

    def check_centered(self) -> None:
        """`ValueError`: it is not sampled as itself."""
        raise ValueError(
            f"{self.name} cannot be sampled without its transform, as within a domain: a field is sampled as "
            "white noise. Bound it by a link, such as LogField or LogitField of invsamp.solvers.fields"
        )

    def as_itself(self) -> ColoredField:
        """The same, as theta itself: for its density."""
        other = copy.copy(self)
        other.itself = True
        return other

    @property
    def forms(self) -> str:
        """Its form, in words."""
        return "non-centered"

    @property
    def support(self) -> tuple[Array, Array]:
        """Any numbers."""
        return self.distribution.support

    @property
    def sampled(self) -> Distribution:
        """Standard normal numbers, or numbers without a density of their own where it is sampled as itself."""
        return OfPrior(self.distribution.shape, self.distribution.support) if self.itself else self.base

    def log_density(self, theta: Array) -> tuple[Array, Value, ByColumn]:
        """Log density (batch,) at theta (batch, width), its slope in the field, and by the parents' columns."""
        value, own = np.empty(len(theta)), np.empty((len(theta), self.distribution.field.size))
        values, slopes = self._unknowns(theta)
        by_unknown = np.empty((len(theta), len(self._formulas)))
        for rows, coloring in self._colorings(values):
            value[rows], own[rows], by_unknown[rows] = coloring.log_density(theta[rows, self.columns])
        return value, own, _chained(slopes, by_unknown)

    def sample(self, rng: np.random.Generator, theta: Array) -> Array:
        """Draws (n, size) given the other columns of theta (n, width)."""
        white = rng.standard_normal((len(theta), self.distribution.field.size))
        return self._color(theta, white)[0]

    def whitened(self, theta: Array) -> Array:
        """White coordinates (batch, size) of theta (batch, width)."""
        white = np.full((len(theta), self.distribution.field.size), np.nan)
        for rows, coloring in self._colorings(self._unknowns(theta)[0]):
            white[rows] = coloring.whiten(theta[rows, self.columns])
        return white

    def step(self, theta: Array) -> FieldStep:
        """Color the field's columns of theta, in place; with the way back for derivatives."""
        white = theta[:, self.columns].copy()
        theta[:, self.columns], colorings, slopes = self._color(theta, white)
        return FieldStep(self.columns, white, colorings, slopes)

    def _color(self, theta: Array, white: Array) -> tuple[Array, Array, list[ByColumn]]:
        values, slopes = self._unknowns(theta)
        field, colorings = np.full(white.shape, np.nan), np.full(len(theta), None)
        for rows, coloring in self._colorings(values):
            field[rows], colorings[rows] = coloring.color(white[rows]), coloring
        return field, colorings, slopes

    def _unknowns(self, theta: Array) -> tuple[Array, list[ByColumn]]:
        """Values (batch, k) of what is unknown of the field, and their derivatives by columns of theta."""
        found = [formula.at_all(theta) for formula in self._formulas]
        values = [np.broadcast_to(value[:, 0], (len(theta),)) for value, _ in found]
        return np.stack(values, axis=1) if values else np.empty((len(theta), 0)), [slopes for _, slopes in found]

    def _colorings(self, values: Array) -> list[tuple[Array, Coloring]]:
        """Rows that share what is unknown, with their coloring; none for rows where it is not positive and finite."""
        usable = np.flatnonzero((np.isfinite(values) & (values > 0.0)).all(axis=1))
        groups: dict[bytes, list[int]] = {}
        for row in usable:
            groups.setdefault(values[row].tobytes(), []).append(int(row))
        field = self.distribution.field
        return [(np.array(rows), field.coloring(values[rows[0]])) for rows in groups.values()]


class FieldStep:
    """Derivatives of a field: of theta in the white noise, and in what is unknown of the field.

    Parameters
    ----------
    columns : slice
    white : array, shape (batch, n)
    colorings : array of Coloring or None, shape (batch,)
    slopes : list
        Of what is unknown, by columns of theta.
    """

    def __init__(self, columns: slice, white: Array, colorings: Array, slopes: list[ByColumn]) -> None:
        self.columns, self._white, self._colorings, self._slopes = columns, white, colorings, slopes

    def rows(self, chosen: Value) -> FieldStep:
        """Of some rows."""
        batch = len(self._white)
        slopes = [[(columns, _rows(slope, batch)[chosen]) for columns, slope in found] for found in self._slopes]
        return FieldStep(self.columns, self._white[chosen], self._colorings[chosen], slopes)

    def back(self, slope: Array) -> None:
        """Hand on derivatives with respect to theta, (batch, ..., width), in place, from this field."""
        batch, n = self._white.shape
        flat = slope.reshape(batch, -1, slope.shape[-1])
        by_unknown = np.zeros((*flat.shape[:2], len(self._slopes)))
        own = np.zeros((*flat.shape[:2], n))
        for coloring in {id(one): one for one in self._colorings if one is not None}.values():
            rows = np.flatnonzero(self._colorings == coloring)
            own[rows], by_unknown[rows] = coloring.pullback(self._white[rows], flat[rows][..., self.columns])
        slope[..., self.columns] = own.reshape(*slope.shape[:-1], n)
        for k, found in enumerate(self._slopes):
            through = by_unknown[..., k].reshape(slope.shape[:-1])
            for columns, derivative in found:
                lift = _rows(derivative, batch)[:, 0].reshape(batch, *(1,) * (slope.ndim - 2))
                slope[..., np.ravel(columns)[0]] += through * lift


def _rows(slope: Value, batch: int) -> Array:
    """A derivative of one number for each row, (batch, 1)."""
    return np.broadcast_to(np.asarray(slope, dtype=float), (batch, 1))


def _chained(slopes: list[ByColumn], by_unknown: Array) -> ByColumn:
    return [
        (columns, _rows(slope, len(by_unknown)) * by_unknown[:, [k]])
        for k, found in enumerate(slopes)
        for columns, slope in found
    ]
