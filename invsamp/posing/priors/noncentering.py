"""Parameters that depend on each other: the map from sampled coordinates to theta, and densities, along the graph.

The sampled coordinates are called u. For parameters that depend on none, and for those that are sampled as themselves,
u is theta. For the others u is the member of a standard family, and theta is a shift and a stretch of it. For centered
entries u is theta or its logarithm (`invsamp.posing.priors.conditional_distribution`). Tied quantities are columns
behind those of theta.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from invsamp.expression import Value
from invsamp.posing.expressions.bound_expression import Formula, Indices, Names
from invsamp.posing.priors.colored_field import ColoredField, FieldStep
from invsamp.posing.priors.conditional_distribution import ByColumn, Conditional
from invsamp.protocols import AnyArray, Array


class Tied:
    """A quantity that is a formula of parameters."""

    def __init__(self, name: str, text: str, columns: slice, names: Names) -> None:
        self.name, self.text, self.columns = name, text, columns
        self.formula = Formula(name, text, names.shapes[name], names, whose=f"the shape of {name}")


class Step:
    """Derivatives of one quantity: of theta with respect to u, and by the columns of what it depends on."""

    def __init__(self, columns: slice, own: Array | None, by_column: list[tuple[Indices, Array]]) -> None:
        self.columns, self.own, self.by_column = columns, own, by_column

    def rows(self, chosen: Value) -> Step:
        """Of some rows."""
        own = None if self.own is None else self.own[chosen]
        return Step(self.columns, own, [(columns, slope[chosen]) for columns, slope in self.by_column])

    def back(self, slope: Array) -> None:
        """Hand on derivatives with respect to theta, (batch, ..., width), in place, from this quantity."""
        of_this = slope[..., self.columns].copy()
        lift = (slice(None), *(None,) * (slope.ndim - 2))
        for columns, derivative in self.by_column:
            add_at(slope, columns, of_this * derivative[lift])
        slope[..., self.columns] = 0.0 if self.own is None else of_this * self.own[lift]


class Moved:
    """Theta at some positions, and the way back for derivatives.

    Attributes
    ----------
    position : ndarray, shape (batch, d)
    theta : ndarray, shape (batch, width)
        With what is tied.
    log_density : ndarray, shape (batch,)
        Of what is sampled as itself, though it depends on others; minus infinity where nothing can be.
    """

    def __init__(self, position: Array, theta: Array, log_density: Array, steps: list[Step | FieldStep]) -> None:
        self.position, self.theta, self.log_density, self._steps = position, theta, log_density, steps

    def __getitem__(self, rows: Value) -> Moved:
        steps = [step.rows(rows) for step in self._steps]
        return Moved(self.position[rows], self.theta[rows], self.log_density[rows], steps)

    def back(self, slope: Array) -> Array:
        """Derivatives with respect to theta, (batch, ..., width), as those with respect to u, (batch, ..., d)."""
        slope = slope.copy()
        with np.errstate(all="ignore"):
            for step in reversed(self._steps):
                step.back(slope)
        return slope[..., : self.position.shape[1]]


#: One quantity that depends on something, or that is sampled as something else.
Node = Conditional | ColoredField | Tied


class Hierarchy:
    """All that depends on something, in an order in which everything comes after what it depends on.

    Parameters
    ----------
    nodes : sequence of Conditional, ColoredField or Tied
    dimension, width : int
        Columns of theta, without and with what is tied.
    """

    def __init__(self, nodes: Sequence[Node], dimension: int, width: int) -> None:
        self.nodes, self.dimension, self.width = tuple(nodes), dimension, width

    def as_itself(self, names: Collection[str] | None = None) -> Hierarchy:
        """The same with some more parameters sampled as themselves; by default all, so that u is theta."""
        nodes: list[Node] = []
        for node in self.nodes:
            if not isinstance(node, Tied) and (names is None or node.name in names):
                if names is not None:
                    node.check_centered()
                node = node.as_itself()
            nodes.append(node)
        return Hierarchy(nodes, self.dimension, self.width)

    def with_forms(self, centered: Mapping[str, npt.ArrayLike]) -> Hierarchy:
        """The same with those entries of some parameters centered that are True."""
        nodes = [node.with_form(centered[node.name]) if node.name in centered else node for node in self.conditionals]
        by_name = {node.name: node for node in nodes}
        return Hierarchy([by_name.get(node.name, node) for node in self.nodes], self.dimension, self.width)

    @property
    def parameters(self) -> list[Conditional | ColoredField]:
        """Those that are parameters, not tied to some."""
        return [node for node in self.nodes if not isinstance(node, Tied)]

    @property
    def conditionals(self) -> list[Conditional]:
        """Of these the ones with a distribution of numbers."""
        return [node for node in self.nodes if isinstance(node, Conditional)]

    def forward(self, u: Array, position: Array | None = None) -> tuple[Moved, Array | None]:
        """Theta at u (batch, d), and the slope of its log density with respect to theta, (batch, width).

        None where everything is sampled by way of something else.
        """
        batch, slope = len(u), None
        theta = np.zeros((batch, self.width))
        theta[:, : self.dimension] = u
        log_density = np.zeros(batch)
        steps: list[Step | FieldStep] = []
        with np.errstate(all="ignore"):
            for node in self.nodes:
                if isinstance(node, Tied):
                    theta[:, node.columns], found = node.formula.at_all(theta)
                    steps.append(_step(node.columns, None, found, batch))
                    continue
                added: tuple[Array, Value, ByColumn] | None = None
                if node.itself:
                    added = node.log_density(theta)
                elif isinstance(node, ColoredField):
                    steps.append(node.step(theta))
                else:
                    step, added = _stretched(node, theta, log_density)
                    steps.append(step)
                if added is not None:
                    value, own, found = added
                    log_density += value
                    slope = np.zeros(theta.shape) if slope is None else slope
                    slope[:, node.columns] += own
                    for columns, derivative in found:
                        add_at(slope, columns.ravel(), _filled(derivative, (batch, columns.size)))
            log_density[np.isnan(theta).any(axis=1) | np.isnan(log_density)] = -np.inf
        return Moved(u if position is None else position, theta, log_density, steps), slope

    def whitened(self, theta: Array) -> Array:
        """The u (batch, d) of theta (batch, d)."""
        moved, _ = self.as_itself().forward(theta)
        u = theta.copy()
        with np.errstate(all="ignore"):
            for node in self.parameters:
                if not node.itself:
                    u[:, node.columns] = node.whitened(moved.theta)
        return u

    def fill(self, rng: np.random.Generator, theta: Array) -> Array:
        """Draw what depends on others, given what does not, in theta (n, d), in place."""
        wide = np.concatenate([theta, np.zeros((len(theta), self.width - self.dimension))], axis=1)
        for node in self.nodes:
            wide[:, node.columns] = node.formula.at_all(wide)[0] if isinstance(node, Tied) else node.sample(rng, wide)
        theta[:] = wide[:, : self.dimension]
        return theta


def ordered(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """Names in an order in which each comes after its parents, else in the order given.

    Raises
    ------
    ValueError
        If some depend on each other in a circle.
    """
    done: dict[str, None] = {}

    def visit(name: str, way: tuple[str, ...]) -> None:
        if name in way:
            circle = " -> ".join((*way[way.index(name) :], name))
            raise ValueError(f"distributions must not depend on each other in a circle, got {circle}")
        if name in done:
            return
        for parent in parents.get(name, ()):
            visit(parent, (*way, name))
        done[name] = None

    for name in parents:
        visit(name, ())
    return list(done)


def add_at(slope: Array, columns: Indices, values: AnyArray) -> None:
    """Add values (..., m) to the columns (m,) of slopes (..., width), of which some may be the same."""
    first = columns[0]
    if len(columns) == 1 or (columns == first).all():
        slope[..., first] += values.sum(axis=-1)
    else:
        np.add.at(slope, (..., columns), values)  # type: ignore[arg-type]


def _stretched(
    node: Conditional, theta: Array, log_density: Array
) -> tuple[Step, tuple[Array, Array, ByColumn] | None]:
    """Theta's columns of what is sampled, in place, with their derivatives.

    And of entries that are centered their log density, with its slope in theta's own columns and by the parents'.
    """
    assert node.standard is not None
    u = theta[:, node.columns].copy()
    stretch = node.stretch(theta)
    location, scale, by_column = stretch
    own: Value = scale
    added: tuple[Array, Array, ByColumn] | None = None
    x = location + scale * u
    if node.centered.any():
        others = ~node.centered
        x, own = np.where(others, x, u), np.where(others, scale, 1.0)
        by_column = [(columns, others * by_location, others * by_scale) for columns, by_location, by_scale in by_column]
        added = node.standardized_density(u, stretch, node.centered)
    if node.standard.log:
        x = np.exp(x)
        added = added and (added[0], added[1] / x, added[2])
    theta[:, node.columns] = x
    if not (scale > 0.0).all():
        log_density[~(np.broadcast_to(scale, u.shape) > 0.0).all(axis=1)] = -np.inf
    slopes = [
        (columns, by_location if isinstance(by_scale, float) and by_scale == 0.0 else by_location + u * by_scale)
        for columns, by_location, by_scale in by_column
    ]
    if node.standard.log:
        own, slopes = own * x, [(columns, slope * x) for columns, slope in slopes]
    return _step(node.columns, own, slopes, len(u)), added


def _step(columns: slice, own: Value, by_column: ByColumn, batch: int) -> Step:
    shape = batch, columns.stop - columns.start
    full = [(found.ravel(), _filled(slope, shape)) for found, slope in by_column]
    return Step(columns, None if own is None else _filled(own, shape), full)


def _filled(value: Value, shape: tuple[int, int]) -> Array:
    if np.shape(value) == shape:
        return np.asarray(value)
    full = np.empty(shape)
    full[:] = value
    return full
