"""A quantity of a noise at every datum: known numbers, a parameter of the prior, or a formula of such names."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array
from invsamp.posing.expressions import Expression
from invsamp.posing.prior import Prior

Indices = npt.NDArray[np.intp]


#: What the noise-free observation is called in a formula.
OBSERVATION = "y"


class Quantity:
    """One value per datum, (m,), known or from columns of theta.

    Parameters
    ----------
    label : str
        For messages.
    value : array_like or str
        What broadcasts to the data's shape: numbers, the name of a parameter, or a formula of names, in which ``y`` is
        the noise-free observation.
    limits : pair of float
        Where it may lie: the support of a parameter has to be inside.
    shape : tuple of int
        Of the data.
    prior : Prior

    Attributes
    ----------
    names : tuple of str
        The parameters of the prior that it uses.

    Raises
    ------
    ValueError
        If a name is unknown, a parameter's support reaches beyond the limits, or a shape does not fit.
    """

    def __init__(
        self, label: str, value: object, limits: tuple[float, float], shape: tuple[int, ...], prior: Prior
    ) -> None:
        self.known: Array | None = None
        self.expression: Expression | None = None
        self.columns: dict[str, Indices] = {}
        self.constants: dict[str, Array] = {}
        if not isinstance(value, str):
            values = np.asarray(value, dtype=float)
            self.known = values.reshape(-1)[_spread(label, values.shape, shape)]
        elif value in prior.order or value.isidentifier():
            self._read(label, value, shape, prior)
            self.known = self.constants.get(value)
            _check_support(label, value, limits, prior)
        else:
            self.expression = Expression(label, value)
            if OBSERVATION in prior.order and OBSERVATION in self.expression.names:
                raise ValueError(
                    f"{label} must not use 'y', which is the noise-free observation in a formula, where the prior has "
                    f"a parameter of that name, got {value!r}"
                )
            for name in self.expression.names:
                if name != OBSERVATION:
                    self._read(label, name, shape, prior)
        self.names = (*self.columns, *self.constants)

    def _read(self, label: str, name: str, shape: tuple[int, ...], prior: Prior) -> None:
        if name in prior.fixed:
            value = prior.fixed[name]
            self.constants[name] = value.reshape(-1)[_spread(label, value.shape, shape)]
            return
        prior.check_names(label, [name])
        self.columns[name] = prior.slices[name].start + _spread(label, prior.shapes[name], shape)

    def subset(self, kept: npt.NDArray[np.bool_]) -> Quantity:
        """That of some of the data."""
        part = copy.copy(self)
        part.known = None if self.known is None else self.known[kept]
        part.columns = {name: columns[kept] for name, columns in self.columns.items()}
        part.constants = {name: value[kept] for name, value in self.constants.items()}
        return part

    @property
    def compiled(self) -> tuple[Array, Indices] | None:
        """Values (m,) and columns of theta (m,), for the compiled loop; -1 where the value is known."""
        if self.expression is not None:
            return None
        if self.known is not None:
            return self.known, np.full(len(self.known), -1)
        (columns,) = self.columns.values()
        return np.zeros(len(columns)), columns

    def evaluate(
        self, theta: Array, y: Array, rows: Indices, index: Indices
    ) -> tuple[Array, list[tuple[Indices, Any]], Any]:
        """Value at data ``index`` and ``rows`` of theta, which broadcast to the shape of y (batch, k).

        Then the columns of theta with the derivatives with respect to them, and that with respect to y.
        """
        if self.known is not None:
            return np.atleast_2d(self.known[index]), [], 0.0
        columns = {name: columns[index] for name, columns in self.columns.items()}
        values = {name: np.atleast_2d(theta[rows, at]) for name, at in columns.items()}
        if self.expression is None:
            (name,) = columns
            return values[name], [(columns[name], 1.0)], 0.0
        constants = {name: np.atleast_2d(value[index]) for name, value in self.constants.items()}
        value, slopes = self.expression(values | constants | {OBSERVATION: y})
        by_name = [(columns[name], slopes.get(name, 0.0)) for name in columns]
        return np.broadcast_to(value, y.shape), by_name, slopes.get(OBSERVATION, 0.0)


def _check_support(label: str, name: str, limits: tuple[float, float], prior: Prior) -> None:
    if name in prior.fixed:
        if not np.all((prior.fixed[name] > limits[0]) & (prior.fixed[name] < limits[1])):
            raise ValueError(
                f"{name} is the {label} of the noise: it must lie in ({limits[0]:g}, {limits[1]:g}), got "
                f"{prior.fixed[name].tolist()!r}"
            )
        return
    lower, upper = (end[prior.slices[name]] for end in prior.support)
    if np.any(lower < limits[0]) or np.any(upper > limits[1]):
        inside = "positive support" if limits == (0.0, math.inf) else f"support in [{limits[0]:g}, {limits[1]:g}]"
        raise ValueError(
            f"{name} is the {label} of the noise: its prior must have {inside}, got {prior.distributions[name]!r}"
        )


def _spread(label: str, own: tuple[int, ...], shape: tuple[int, ...]) -> Indices:
    """Which entry of a quantity belongs to each datum, (m,)."""
    try:
        fits = np.broadcast_shapes(own, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{label} must broadcast to the data's shape {shape}, got shape {own}")
    return np.broadcast_to(np.arange(math.prod(own)).reshape(own), shape).reshape(-1)
