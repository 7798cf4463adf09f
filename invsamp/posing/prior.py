"""The prior: named, independent parameters, flattened to the columns of theta."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, generator, integer, mapping, numbers, one_of, real, text, wrong
from invsamp.contract import Array
from invsamp.names import check_names, labels
from invsamp.posing import column_families
from invsamp.posing.distribution import Distribution, freeze
from invsamp.posing.distributions import Uniform
from invsamp.posing.more_distributions import LogUniform


class Prior:
    """Joint prior of named, independent parameters.

    Parameters
    ----------
    **distributions : Distribution, float or array_like
        One distribution per parameter. The order is the order of theta's columns; a parameter of shape
        (k,) takes k columns, in C order. A number, or an array of numbers, is fixed: models and noise know it by
        its name as they know a parameter, and it has no column.

    Attributes
    ----------
    names : tuple of str
        Of what is not fixed.
    fixed : mapping from name to ndarray
    order : tuple of str
        All names as they were given, those of fixed quantities too.
    shapes : mapping from name to shape
    slices : mapping from name to the slice of its columns
    labels : tuple of str
        One per column, such as ``"x"`` or ``"k[0]"``.
    dimension : int
        Number of columns.
    support : pair of ndarray, shape (dimension,)
        Lower and upper ends.
    log_constant : float
        What makes the density integrate to one.
    compiled : tuple of ndarray
        Arguments of `invsamp.posing.column_families.log_density`, for the columns of the scalar families.
    others : list of (slice, Distribution)
        The columns that the compiled loop does not know.

    Raises
    ------
    ValueError
        If there is no parameter, a value is not a distribution, or draws could not be stored by these names.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.Prior(x=iv.Uniform(0, 1), k=iv.LogNormal(0, 1, shape=2)).labels
    ('x', 'k[0]', 'k[1]')
    """

    def __init__(self, **distributions: Distribution | npt.ArrayLike) -> None:
        self.order = tuple(distributions)
        free, self.fixed = _told_apart(distributions)
        self._bind(free)

    def _bind(self, distributions: dict[str, Distribution]) -> None:
        if not distributions:
            raise ValueError("distributions must name at least one parameter that is not fixed, got none")
        self.distributions: Mapping[str, Distribution] = distributions
        self.names = tuple(distributions)
        self.shapes: Mapping[str, tuple[int, ...]] = {n: d.shape for n, d in distributions.items()}
        check_names(self.shapes)
        ends = np.cumsum([0] + [math.prod(shape) for shape in self.shapes.values()])
        self.dimension = int(ends[-1])
        self.slices: Mapping[str, slice] = {
            name: slice(int(ends[i]), int(ends[i + 1])) for i, name in enumerate(self.names)
        }
        self.support = (
            np.concatenate([d.support[0].ravel() for d in distributions.values()]),
            np.concatenate([d.support[1].ravel() for d in distributions.values()]),
        )
        self.log_constant = float(sum(d.log_constant for d in distributions.values()))
        self.compiled, self.others = self._split()

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One name per column."""
        return labels(self.shapes)

    def __repr__(self) -> str:
        values: dict[str, Any] = dict(self.distributions) | {name: value.tolist() for name, value in self.fixed.items()}
        return "Prior(" + ", ".join(f"{name}={values[name]!r}" for name in self.order) + ")"

    def __eq__(self, other: object) -> bool:
        # order matters: it is the order of the columns
        return isinstance(other, Prior) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[Any, ...]:
        fixed = tuple((name, freeze(value)) for name, value in self.fixed.items())
        return self.order, tuple(self.distributions.items()), fixed

    @classmethod
    def from_table(cls, table: Any) -> Prior:
        """Prior from a table of bounds and scales, such as a pandas DataFrame.

        Parameters
        ----------
        table : DataFrame, or mapping from name to mapping
            A row for each parameter, labelled by its name, with the columns ``lower`` and ``upper``, the bounds;
            ``scale``, "linear" (uniform between the bounds, the default) or "log" (log-uniform); and ``fixed``, the
            value of what is fixed. NaN is an empty cell.

        Raises
        ------
        ValueError
            If a row has no bounds and is not fixed, or a cell is not what it has to be.
        """
        rows = table.to_dict("index") if hasattr(table, "to_dict") else mapping("table", table, "a table of parameters")
        if not rows:
            raise ValueError("table must have a row for at least one parameter, got none")
        return cls(**{text("names in table", name): _row(name, row) for name, row in rows.items()})

    def evaluate(self, theta: Array) -> tuple[Array, Array]:
        """Log density (batch,) and its gradient (batch, dimension) at points inside the support.

        Nothing is checked. One compiled loop serves all columns of the scalar families.
        """
        value, gradient = column_families.log_density(np.ascontiguousarray(theta), *self.compiled)
        value += self.log_constant
        for columns, distribution in self.others:
            part, gradient[:, columns] = distribution.evaluate(theta[:, columns])
            value += part
        return value, gradient

    def log_density(self, theta: npt.ArrayLike) -> Array:
        """Log density, shape (batch,), at theta (batch, dimension); minus infinity outside the support."""
        points, inside = self._inside(theta)
        with np.errstate(all="ignore"):
            value = self.evaluate(points)[0]
        return np.where(inside & ~np.isnan(value), value, -np.inf)

    def gradient(self, theta: npt.ArrayLike) -> Array:
        """Gradient of the log density, shape (batch, dimension); zero outside the support."""
        points, inside = self._inside(theta)
        with np.errstate(all="ignore"):
            gradient = self.evaluate(points)[1]
        return np.where(inside[:, None] & ~np.isnan(gradient), gradient, 0.0)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """``n`` independent draws, shape (n, dimension)."""
        generator("rng", rng), integer("n", n, least=0)
        return np.concatenate([d.sample(rng, n).reshape(n, -1) for d in self.distributions.values()], axis=1)

    def pack(self, values: Mapping[str, npt.ArrayLike]) -> Array:
        """Theta, shape (..., dimension), from a mapping of every name to values of shape (..., *shape).

        Raises
        ------
        ValueError
            If a name is missing or unknown, a value has the wrong trailing shape, or the leading shapes differ.
        """
        return self.packed("values", values)

    def packed(self, argument: str, values: Mapping[str, npt.ArrayLike]) -> Array:
        """As `pack`, where the caller's own argument has another name."""
        self.check_names(argument, mapping(argument, values))
        if missing := [name for name in self.names if name not in values]:
            raise ValueError(f"{argument} must hold every parameter, got none for {missing}")
        columns = []
        for name, shape in self.shapes.items():
            value = numbers(f"{argument}[{name!r}]", values[name])
            lead = value.shape[: value.ndim - len(shape)]
            if value.ndim < len(shape) or value.shape[len(lead) :] != shape:
                raise ValueError(f"{argument}[{name!r}] must have shape (..., {str(shape)[1:-1]}), got {value.shape}")
            columns.append(value.reshape(*lead, math.prod(shape)))
        try:
            lead = np.broadcast_shapes(*(column.shape[:-1] for column in columns))
        except ValueError:
            found = {name: column.shape[:-1] for name, column in zip(self.names, columns, strict=True)}
            raise ValueError(f"{argument} must have the same leading shape for every name, got {found}") from None
        return np.concatenate([np.broadcast_to(column, (*lead, column.shape[-1])) for column in columns], axis=-1)

    def unpack(self, theta: npt.ArrayLike) -> dict[str, Array]:
        """Mapping of every name to values (..., *shape), from theta (..., dimension)."""
        points = numbers("theta", theta)
        if points.ndim == 0 or points.shape[-1] != self.dimension:
            raise ValueError(f"theta must have {self.dimension} columns {self.labels}, got shape {points.shape}")
        lead = points.shape[:-1]
        return {name: points[..., self.slices[name]].reshape((*lead, *shape)) for name, shape in self.shapes.items()}

    def check_names(self, argument: str, names: Any) -> None:
        """Raise ValueError if ``names`` holds a name that is not a parameter."""
        if unknown := [name for name in names if name not in self.slices]:
            raise ValueError(f"{argument} must use the prior's parameters {list(self.names)}, got {unknown}")

    def columns(self, names: Any) -> npt.NDArray[np.intp]:
        """Indices of theta's columns that belong to ``names``, in the order of ``names``."""
        self.check_names("names", names)
        return np.concatenate(
            [np.arange(self.slices[name].start, self.slices[name].stop) for name in names] or [np.empty(0, np.intp)]
        ).astype(np.intp)

    def _inside(self, theta: npt.ArrayLike) -> tuple[Array, npt.NDArray[np.bool_]]:
        points = numbers("theta", theta)
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise ValueError(f"theta must have shape (batch, {self.dimension}), got {points.shape}")
        lower, upper = self.support
        return points, np.asarray(((points >= lower) & (points <= upper)).all(axis=1))

    def _split(self) -> tuple[tuple[Any, ...], list[tuple[slice, Distribution]]]:
        """Arguments of the compiled loop, for the columns that it knows, and the other distributions."""
        known = {name: d.compiled for name, d in self.distributions.items() if d.compiled is not None}
        sizes = [len(c.first) for c in known.values()]
        compiled = (
            self.columns(known),
            np.repeat(np.array([c.family for c in known.values()], dtype=np.intp), sizes),
            np.concatenate([np.empty(0), *(c.first for c in known.values())]),
            np.concatenate([np.empty(0), *(c.second for c in known.values())]),
            np.concatenate([np.empty(0), *(c.first if c.third is None else c.third for c in known.values())]),
        )
        return compiled, [(self.slices[name], d) for name, d in self.distributions.items() if name not in known]


def _told_apart(values: Mapping[str, Any]) -> tuple[dict[str, Distribution], dict[str, Array]]:
    """Distributions and fixed values."""
    free, fixed = {}, {}
    for name, value in values.items():
        if isinstance(value, Distribution):
            free[name] = value
            continue
        try:
            fixed[name] = np.array(array(name, value))
        except ValueError:
            raise wrong(name, "a distribution such as Normal(0, 1), or finite numbers", value) from None
        fixed[name].flags.writeable = False
    return free, fixed


def _row(name: str, row: Any) -> Distribution | float:
    """What a row of a table says of a parameter."""
    known = {"lower", "upper", "scale", "fixed"}
    cells = {key: cell for key, cell in mapping(f"table[{name!r}]", row).items() if key in known and cell == cell}
    if "fixed" in cells:
        return real(f"fixed of {name!r}", cells["fixed"])
    if missing := [key for key in ("lower", "upper") if key not in cells]:
        raise ValueError(f"table must have lower and upper, or fixed, of every parameter, got no {missing} of {name!r}")
    family = {"linear": Uniform, "log": LogUniform}[
        one_of(f"scale of {name!r}", cells.get("scale", "linear"), ("linear", "log"))
    ]
    ends = (real(f"{key} of {name!r}", cells[key]) for key in ("lower", "upper"))
    try:
        return family(*ends)
    except ValueError as error:
        raise ValueError(f"table[{name!r}]: {error}") from None


def by_name(value: Any) -> Mapping[str, Any] | None:
    """The values of a mapping, or of what pandas labels with text; None of anything else.

    Labels may come in any order: taken as an array, they would be lost.
    """
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "to_numpy") and hasattr(value, "keys"):
        labels = list(value.keys())
        if labels and all(isinstance(label, str) for label in labels):
            return {label: value[label] for label in labels}
    return None


def as_selector(columns: npt.NDArray[np.intp]) -> slice | npt.NDArray[np.intp]:
    """The same columns as a slice where they are consecutive: a slice makes a view, indices a slow copy."""
    if len(columns) and np.array_equal(columns, np.arange(columns[0], columns[0] + len(columns))):
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns
