"""A quantity of a noise at every datum: known numbers, or a parameter of the prior."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.contract import Array
from invsamp.posing.prior import Prior

Indices = npt.NDArray[np.intp]


class Quantity:
    """One value per datum, (m,), known or from columns of theta.

    Parameters
    ----------
    label : str
        For messages.
    value : array_like or str
        What broadcasts to the data's shape, or the name of a parameter that does.
    limits : pair of float
        Where it may lie: the support of a parameter has to be inside.
    shape : tuple of int
        Of the data.
    prior : Prior

    Raises
    ------
    ValueError
        If the name is unknown, its support reaches beyond the limits, or a shape does not fit.
    """

    def __init__(
        self, label: str, value: Any, limits: tuple[float, float], shape: tuple[int, ...], prior: Prior
    ) -> None:
        self.known: Array | None = None
        self.columns: Indices = np.empty(0, dtype=np.intp)
        self.names: tuple[str, ...] = ()
        if not isinstance(value, str):
            values = np.asarray(value, dtype=float)
            self.known = values.reshape(-1)[_spread(label, values.shape, shape)]
            return
        prior.check_names(label, [value])
        self.names = (value,)
        columns = prior.slices[value]
        lower, upper = (end[columns] for end in prior.support)
        if np.any(lower < limits[0]) or np.any(upper > limits[1]):
            inside = "positive support" if limits == (0.0, math.inf) else f"support in [{limits[0]:g}, {limits[1]:g}]"
            raise ValueError(
                f"{value} is the {label} of the noise: its prior must have {inside}, got {prior.distributions[value]!r}"
            )
        self.columns = columns.start + _spread(label, prior.shapes[value], shape)

    def subset(self, kept: npt.NDArray[np.bool_]) -> Quantity:
        """That of some of the data."""
        part = copy.copy(self)
        if self.known is not None:
            part.known = self.known[kept]
        else:
            part.columns = self.columns[kept]
        return part

    @property
    def compiled(self) -> tuple[Array, Indices]:
        """Values (m,) and columns of theta (m,), for the compiled loop; -1 where the value is known."""
        if self.known is not None:
            return self.known, np.full(len(self.known), -1)
        return np.zeros(len(self.columns)), self.columns

    def evaluate(
        self, theta: Array, y: Array, rows: Indices, index: Indices
    ) -> tuple[Array, list[tuple[Indices, Array | None]], Array | None]:
        """Value at data ``index`` and ``rows`` of theta, which broadcast to the shape of y.

        Then the columns of theta with the derivatives with respect to them (None is 1), and that with respect to y
        (None is 0).
        """
        if self.known is not None:
            return np.atleast_2d(self.known[index]), [], None
        columns = self.columns[index]
        return np.atleast_2d(theta[rows, columns]), [(columns, None)], None


def _spread(label: str, own: tuple[int, ...], shape: tuple[int, ...]) -> Indices:
    """Which entry of a quantity belongs to each datum, (m,)."""
    try:
        fits = np.broadcast_shapes(own, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{label} must broadcast to the data's shape {shape}, got shape {own}")
    return np.broadcast_to(np.arange(math.prod(own)).reshape(own), shape).reshape(-1)
