"""The prior: named parameters, independent or dependent on each other, flattened to the columns of theta."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, generator, integer, mapping, numbers, wrong
from invsamp.axis_labels import freeze, stated_axes
from invsamp.posing.compiled import density_loops
from invsamp.posing.distributions.base import Coefficients, Distribution, ScalarFamily
from invsamp.posing.distributions.random_field import FieldDistribution
from invsamp.posing.expressions.bound_expression import Names
from invsamp.posing.expressions.variable_names import check_names, labels
from invsamp.posing.priors.colored_field import ColoredField
from invsamp.posing.priors.conditional_distribution import Conditional
from invsamp.posing.priors.dependency_graph import Graph, described_variable
from invsamp.posing.priors.from_table import distributions_of
from invsamp.posing.priors.joint_distribution import Share, check_complete, spread_out
from invsamp.posing.priors.name_resolution import check_scales, resolved
from invsamp.posing.priors.noncentering import Hierarchy, Node, Tied, ordered
from invsamp.protocols import Array, Facts, Plain, RandomField, no_derivatives

#: Of the compiled loop: indices, families, and three coefficients, each (columns,).
Columns = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Array, Array, Array]


class Prior:
    """Joint prior of named parameters.

    Parameters
    ----------
    distributions : mapping from name to Distribution, RandomField, float or array_like, or str, optional
        As the arguments by name, which stand behind these. A tuple of k names stands for numbers with a joint
        distribution of shape (k,): ``{("a", "b"): MultivariateNormal(mean, covariance)}``, a copula.
    **named : Distribution, RandomField, float or array_like, or str
        One distribution per parameter. The order is the order of theta's columns; a parameter of shape
        (k,) takes k columns, in C order. A number, or an array or list of numbers, is fixed: models and noise know it
        by its name as they know a parameter, and it has no column. So is a formula of names, such as ``b="2 * a"``,
        tied.

        The parameters of a distribution may be names, or formulas of names, of anything in the prior, in any order and
        depth: ``theta=Normal("mu", "tau", shape=8)``, ``y=Normal("a + b * z", 1)`` with ``z`` an array of numbers. A
        posterior samples such a parameter by way of its standard family, here a standard normal one (non-centered), or
        as itself (centered). A run chooses the better form for each of its entries, unless its distribution has
        ``centered=``. If the named parameters are shape parameters, such as both of `Beta`, it is sampled as itself.
        Draws and the density are those of theta in any case.

        A field such as `invsamp.solvers.fields.matern` is a vector of its values on its mesh, and is sampled as white
        noise.

    Attributes
    ----------
    names : tuple of str
        Of what is not fixed.
    fixed : mapping from name to ndarray
    tied : mapping from name to formula
    order : tuple of str
        All names as they were given, those of fixed quantities too.
    shapes : mapping from name to shape
    slices : mapping from name to the slice of its columns
        Those of what is tied come behind all others.
    labels : tuple of str
        One per column, such as ``"x"`` or ``"k[0]"``.
    dimension : int
        Number of columns, without those of what is tied.
    graph : Graph
        What depends on what; prints.
    support : pair of ndarray, shape (dimension,)
        Lower and upper ends.
    log_constant : float
        What makes the density integrate to one.
    compiled : tuple of ndarray
        Arguments of `invsamp.posing.compiled.density_loops.log_density`, for the columns of the scalar families.
    others : list of (slice, Distribution)
        The columns that the compiled loop does not know.

    Raises
    ------
    ValueError
        If there is no parameter, a value is not a distribution, or draws could not be stored by these names. If a
        distribution names what is not in the prior, or some depend on each other in a circle.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.Prior(x=iv.Uniform(0, 1), k=iv.LogNormal(0, 1, shape=2)).labels
    ('x', 'k[0]', 'k[1]')
    >>> schools = iv.Prior(mu=iv.Normal(0, 5), tau=iv.HalfCauchy(5), theta=iv.Normal("mu", "tau", shape=8))
    >>> print(schools.graph)
    mu ~ Normal(0, 5)
    tau ~ HalfCauchy(5)
    theta[8] ~ Normal(mu, tau)  (centering chosen by the run)
    """

    def __init__(
        self,
        distributions: Mapping[str, Distribution | RandomField | npt.ArrayLike] | None = None,
        /,
        **named: Distribution | RandomField | npt.ArrayLike,
    ) -> None:
        given = {} if distributions is None else mapping("distributions", distributions, "a mapping from name to these")
        given = spread_out(given)
        if twice := [name for name in given if name in named]:
            raise ValueError(f"distributions must not have names that are given as arguments too, got {twice}")
        values = given | named
        self.order = tuple(values)
        free, self.fixed, self.tied = _distinguished(values)
        if not free:
            raise ValueError(
                "distributions must name at least one parameter that is not fixed, such as x=Normal(0, 1), got "
                f"{f'the fixed values {list(values)}' if values else 'none'}"
            )
        check_complete(free)
        self.distributions, shapes, self._parents = resolved(free, self.fixed, self.tied)
        self.names = tuple(free)
        self.shapes: Mapping[str, tuple[int, ...]] = {name: shapes[name] for name in free}
        check_names(self.shapes)
        sizes = [math.prod(shapes[name]) for name in (*free, *self.tied)]
        ends = np.cumsum([0, *sizes]).tolist()
        self.slices: Mapping[str, slice] = {name: slice(*ends[i : i + 2]) for i, name in enumerate((*free, *self.tied))}
        self.dimension = int(ends[len(free)])
        self.known_names = Names(shapes, self.slices, self.fixed)
        self.hierarchy = self._hierarchy(ends[-1])
        self._given = {name for name in self._parents if name in free}
        supports = self._supports()
        self.support = tuple(np.concatenate([supports[name][k].ravel() for name in free]) for k in (0, 1))
        self.log_constant = float(sum(d.log_constant for name, d in free.items() if name not in self._given))
        self.compiled, self.others = self._split()

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One name per column."""
        return labels(self.shapes)

    def __repr__(self) -> str:
        fixed = {name: value.tolist() for name, value in self.fixed.items()}
        values: Plain = dict(self.distributions) | fixed | dict(self.tied)
        return "Prior(" + ", ".join(f"{name}={values[name]!r}" for name in self.order) + ")"

    def __eq__(self, other: object) -> bool:
        # order matters: it is the order of the columns
        return isinstance(other, Prior) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[object, ...]:
        fixed = tuple((name, freeze(value)) for name, value in self.fixed.items())
        return self.order, tuple(self.distributions.items()), fixed, tuple(self.tied.items())

    @classmethod
    def from_table(cls, table: object) -> Prior:
        """Prior from a table of bounds and scales, such as a pandas DataFrame.

        Parameters
        ----------
        table : DataFrame, or mapping from name to mapping
            A row for each parameter, labeled by its name or with it in the column ``name``. ``lower`` and ``upper`` are
            the bounds. ``scale`` is "linear" or "lin" (uniform between the bounds, the default), or "log" or "log10"
            (log-uniform). ``fixed`` is the value of a fixed parameter. NaN and None are empty cells. Other columns are
            ignored.

        Raises
        ------
        ValueError
            If a row has no bounds and is not fixed, a cell is not what it has to be, or a column is nearly called as
            one of these.
        """
        return cls(**distributions_of(table))

    def evaluate(self, theta: Array) -> tuple[Array, Array]:
        """Log density (batch,) and its gradient (batch, dimension) at points inside the support.

        Nothing is checked. One compiled loop serves all columns of the scalar families.
        """
        value, gradient = density_loops.log_density(np.ascontiguousarray(theta), *self.compiled)
        value += self.log_constant
        for columns, distribution in self.others:
            part, gradient[:, columns] = distribution.evaluate(theta[:, columns])
            value += part
        if self.hierarchy is not None:
            moved, slope = self.hierarchy.as_itself().forward(theta)
            value += moved.log_density
            if slope is not None:
                gradient += moved.back(slope)
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
        """``n`` independent draws, shape (n, dimension).

        Raises
        ------
        ValueError
            If a scale that depends on other parameters is not positive where these are drawn, or a distribution cannot
            be drawn from.
        """
        generator("rng", rng), integer("n", n, least=0)
        draws = np.zeros((n, self.dimension))
        for name, distribution in self.distributions.items():
            if isinstance(distribution, Share):
                if distribution.place == 0:
                    draws[:, self._block(name, distribution)] = _drawn(name, distribution.whole, rng, n)
            elif name not in self._given:
                draws[:, self.slices[name]] = _drawn(name, distribution, rng, n).reshape(n, -1)
        return draws if self.hierarchy is None else self.hierarchy.fill(rng, draws)

    @property
    def graph(self) -> Graph:
        """Dependencies between parameters; prints a line for each name."""
        nodes = [] if self.hierarchy is None else self.hierarchy.parameters
        how = {node.name: node.forms for node in nodes}
        values: Plain = dict(self.fixed) | dict(self.tied) | dict(self.distributions)
        shapes = {name: value.shape for name, value in self.fixed.items()} | dict(self.known_names.shapes)
        lines = tuple(described_variable(name, shapes[name], values[name], how.get(name, "")) for name in self.order)
        return Graph({name: self._parents.get(name, ()) for name in self.order}, lines)

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the random fields: a posterior samples each as white noise, standard normal in its positions."""
        return tuple(name for name, one in self.distributions.items() if isinstance(one, FieldDistribution))

    @property
    def inner(self) -> frozenset[str]:
        """Names that distributions of other parameters use."""
        return frozenset(parent for name, found in self._parents.items() if name in self._given for parent in found)

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
        return packed(self.shapes, argument, values)

    def unpack(self, theta: npt.ArrayLike) -> dict[str, Array]:
        """Mapping of every name to values (..., *shape), from theta (..., dimension)."""
        points = numbers("theta", theta)
        if points.ndim == 0 or points.shape[-1] != self.dimension:
            raise ValueError(f"theta must have {self.dimension} columns {self.labels}, got shape {points.shape}")
        lead = points.shape[:-1]
        return {name: points[..., self.slices[name]].reshape((*lead, *shape)) for name, shape in self.shapes.items()}

    def check_names(self, argument: str, names: Iterable[str]) -> None:
        """Raise ValueError if ``names`` holds a name that is not a parameter."""
        if unknown := [name for name in names if name not in self.shapes]:
            raise ValueError(f"{argument} must use the prior's parameters {list(self.names)}, got {unknown}")

    def columns(self, names: Collection[str]) -> npt.NDArray[np.intp]:
        """Indices of theta's columns that belong to ``names``, tied or not, in the order of ``names``."""
        self.check_names("names", [name for name in names if name not in self.tied])
        return np.concatenate(
            [np.arange(self.slices[name].start, self.slices[name].stop) for name in names] or [np.empty(0, np.intp)]
        ).astype(np.intp)

    def _inside(self, theta: npt.ArrayLike) -> tuple[Array, npt.NDArray[np.bool_]]:
        points = numbers("theta", theta)
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise ValueError(f"theta must have shape (batch, {self.dimension}), got {points.shape}")
        lower, upper = self.support
        return points, np.asarray(((points >= lower) & (points <= upper)).all(axis=1))

    def _hierarchy(self, width: int) -> Hierarchy | None:
        if not self._parents:
            return None
        nodes: list[Node] = []
        for name in ordered(self._parents):
            if name in self.tied:
                nodes.append(Tied(name, self.tied[name], self.slices[name], self.known_names))
            elif name in self._parents:
                distribution = self.distributions[name]
                if isinstance(distribution, FieldDistribution):
                    nodes.append(ColoredField(name, distribution, self.slices[name], self.known_names))
                    continue
                assert isinstance(distribution, ScalarFamily)  # others have no formulas
                nodes.append(Conditional(name, distribution, self.slices[name], self.known_names))
        return Hierarchy(nodes, self.dimension, width)

    def _supports(self) -> dict[str, tuple[Array, Array]]:
        """Lower and upper ends by name; `ValueError` if a scale that is a parameter may be negative."""
        found = {
            name: distribution.support for name, distribution in self.distributions.items() if name not in self._given
        }
        for node in self.hierarchy.parameters if self.hierarchy is not None else ():
            found[node.name] = node.support
            if isinstance(node, Conditional):
                check_scales(node.name, node.distribution, found, self.fixed)
        return found

    def _block(self, name: str, first: Share) -> slice:
        """Columns of all that share a distribution with the first of them."""
        begin = self.slices[name].start
        return slice(begin, begin + first.whole.shape[0])

    @property
    def no_derivatives(self) -> str | None:
        """Why its density has no gradient; None if it has."""
        return next((reason for _, one in self.others if (reason := no_derivatives(one)) is not None), None)

    def _split(self) -> tuple[Columns, list[tuple[slice, Distribution]]]:
        """Arguments of the compiled loop, for the columns that it knows, and the other distributions."""
        own = {name: distribution for name, distribution in self.distributions.items() if name not in self._given}
        known = {name: distribution.compiled for name, distribution in own.items() if distribution.compiled is not None}
        none = Coefficients.of(0, density_loops.FLAT)
        kernels, first, second, third = map(np.concatenate, zip(none, *known.values(), strict=True))
        others = []
        for name, distribution in own.items():
            if not isinstance(distribution, Share):
                others += [] if name in known else [(self.slices[name], distribution)]
            elif distribution.place == 0:
                others.append((self._block(name, distribution), distribution.whole))
        return (self.columns(known), kernels, first, second, third), others


def widened(prior: Prior, theta: Array) -> Array:
    """Theta (batch, dimension) with columns of what is tied behind."""
    if prior.hierarchy is None:
        return theta
    moved, _ = prior.hierarchy.as_itself().forward(theta)
    return moved.theta


def _drawn(name: str, distribution: Distribution, rng: np.random.Generator, n: int) -> Array:
    try:
        return distribution.sample(rng, n)
    except NotImplementedError as error:
        raise ValueError(
            f"the prior of {name} must be one that can be drawn from, as starts and scales are, got "
            f"{type(distribution).__name__}, whose sample raised: {error or 'not implemented'}. If it has no "
            "sampler, sample the whole as a density: Target(LogDensity(function, gradient), start=...), with "
            "ladders of temperatures"
        ) from error


def _distinguished(values: Facts) -> tuple[dict[str, Distribution], dict[str, Array], dict[str, str]]:
    """Distributions, fixed values and formulas."""
    free, fixed, tied = {}, {}, {}
    for name, value in values.items():
        if isinstance(value, Distribution):
            free[name] = value
            continue
        if isinstance(value, RandomField) and not isinstance(value, type):
            free[name] = FieldDistribution(value)
            continue
        if isinstance(value, str) and value:
            tied[name] = value
            continue
        if isinstance(value, tuple):
            raise ValueError(
                f"{name} must be a distribution such as Normal(0, 1), or fixed numbers as a list or an array, got the "
                f"tuple {value!r}: bounds are Uniform(lower, upper), a mean and a standard deviation Normal(mean, sd)"
            )
        try:
            fixed[name] = np.array(array(name, value))
        except ValueError:
            right = "a distribution such as Normal(0, 1), finite numbers, or a formula of names"
            if hasattr(value, "logpdf"):
                right += "; iv.from_scipy(...) makes a distribution of one of scipy.stats"
            raise wrong(name, right, value) from None
        fixed[name].flags.writeable = False
    return free, fixed, tied


def packed(shapes: Mapping[str, tuple[int, ...]], argument: str, values: Mapping[str, npt.ArrayLike]) -> Array:
    """Theta (..., dimension) from values (..., *shape) of every name; ``argument`` is what messages call them."""
    if set(values) != set(shapes):
        raise ValueError(f"{argument} must have a value for each of {list(shapes)}, got {list(values)}")
    columns = []
    for name, shape in shapes.items():
        value = numbers(f"{argument}[{name!r}]", values[name])
        lead = value.shape[: value.ndim - len(shape)]
        if value.ndim < len(shape) or value.shape[len(lead) :] != tuple(shape):
            raise ValueError(f"{argument}[{name!r}] must have shape (..., {str(shape)[1:-1]}), got {value.shape}")
        columns.append(value.reshape(*lead, math.prod(shape)))
    try:
        lead = np.broadcast_shapes(*(column.shape[:-1] for column in columns))
    except ValueError:
        found = {name: column.shape[:-1] for name, column in zip(shapes, columns, strict=True)}
        raise ValueError(f"{argument} must have the same leading shape for every name, got {found}") from None
    return np.concatenate([np.broadcast_to(column, (*lead, column.shape[-1])) for column in columns], axis=-1)


def by_name(value: Any) -> Facts | None:
    """The values of a mapping, or of what pandas or xarray labels with text; None of anything else.

    Labels may come in any order: taken as an array, they would be lost.
    """
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "to_numpy") and hasattr(value, "keys"):
        labels = list(value.keys())
        if labels and all(isinstance(label, str) for label in labels):
            return {label: value[label] for label in labels}
    if not hasattr(value, "dims"):
        return None
    named = [
        (dim, axis.labels)
        for dim, axis in zip(value.dims, stated_axes(value, 0), strict=False)
        if axis.labels and all(isinstance(label, str) for label in axis.labels)
    ]
    if len(named) != 1:
        return None
    (dim, known), *_ = named
    return {label: value.isel({dim: k}) for k, label in enumerate(known)}


def as_selector(columns: npt.NDArray[np.intp]) -> slice | npt.NDArray[np.intp]:
    """The same columns as a slice where they are consecutive: a slice makes a view, indices a slow copy."""
    if len(columns) and np.array_equal(columns, np.arange(columns[0], columns[0] + len(columns))):
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns
