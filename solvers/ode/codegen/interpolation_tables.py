"""Inputs of an ODE that are known at some times: piecewise constant, linear, or a cubic spline."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy  # its interpolation takes half a second to import: not before it is wanted
from numba import njit

from invsamp.arguments import array, increasing, one_of, store
from invsamp.solvers.foreign import Term

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """A function of time from a table, which a right-hand side may call: ``flow(t)``, or ``flow(t - p[0])``.

    Parameters
    ----------
    times : array, shape (k,)
        Increasing, at least two.
    values : array, shape (k,)
    kind : {"constant", "linear", "spline"}
        "constant" holds each value until the next time, "linear" interpolates, "spline" is the cubic spline with two
        continuous derivatives and no bend at its ends.

    Raises
    ------
    ValueError
        For times that do not increase, values that are not finite or not as many, or an unknown kind.

    Notes
    -----
    Before the first time the first value holds, after the last the last. Give ``times`` as the model's ``breakpoints``
    where the table is not a spline: it jumps or bends there, and a step across costs accuracy or time. Right-hand sides
    that call a table are compiled as they stand; their derivatives come from a complex step.

    Examples
    --------
    >>> from invsamp.solvers.ode import OdeModel, Table
    >>> inflow = Table([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    >>> tank = OdeModel(lambda t, x, p: [p[0] * inflow(t)], ["level"], ["width"], breakpoints=[1.0, 2.0])
    >>> tank.solve([[3.0]], [0.0], [0.0, 1.0, 2.0]).states[0, :, 0].round(3)
    array([0. , 1.5, 3. ])
    """

    times: Array
    values: Array
    kind: Literal["constant", "linear", "spline"] = "linear"
    coefficients: Array = field(init=False, repr=False)  # (k - 1, 4), of the powers of the time since a piece began

    def __post_init__(self) -> None:
        times = increasing("times", self.times)
        if len(times) < 2:
            raise ValueError(f"times must have at least two entries, got {times}")
        values = array("values", self.values, (len(times),))
        one_of("kind", self.kind, ("constant", "linear", "spline"))
        coefficients = np.zeros((len(times) - 1, 4))
        coefficients[:, 0] = values[:-1]
        if self.kind == "linear":
            coefficients[:, 1] = np.diff(values) / np.diff(times)
        elif self.kind == "spline":
            coefficients = np.ascontiguousarray(
                scipy.interpolate.CubicSpline(times, values, bc_type="natural").c[::-1].T
            )
        store(self, times=times, values=values, coefficients=coefficients)

    def __call__(self, t: object) -> object:
        """The value at a time, a number."""
        return self.compiled.py_func(t)

    @cached_property
    def compiled(self) -> Term:
        """The same for numba, of real and complex times: an analytic function within each piece."""
        times, coefficients, before, after = self.times, self.coefficients, self.values[0], self.values[-1]

        def value(t: Term) -> Term:
            k = np.searchsorted(times, t.real, side="right") - 1
            if k < 0:
                return before + 0.0 * t
            if k >= len(coefficients):
                return after + 0.0 * t
            s = t - times[k]
            c = coefficients[k]
            return c[0] + s * (c[1] + s * (c[2] + s * c[3]))

        return njit(error_model="numpy")(value)


def without_tables(value: object) -> Term:
    """Numba's argument in place of a value that a right-hand side reads: a table in its compiled form."""
    return value.compiled if isinstance(value, Table) else value
