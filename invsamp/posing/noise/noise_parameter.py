"""A quantity of a noise at every datum: known numbers, a parameter of the prior, or a formula of such names."""

from __future__ import annotations

import math

import numpy as np

from invsamp.expression import Expression, Value
from invsamp.posing.expressions.bound_expression import Formula, Indices, is_name
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import Array

#: What the noise-free observation is called in a formula.
OBSERVATION = "y"


class Quantity(Formula):
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
        super().__init__(label, value, shape, prior.known_names, (OBSERVATION,), "the data's shape")
        if isinstance(value, str) and is_name(value, prior.known_names):
            check_support(label, value, limits, prior)
        elif self.expression is not None:
            refuse_clash(label, self.expression, prior)

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
    ) -> tuple[Array, list[tuple[Indices, Value]], Value]:
        """Value at data ``index`` and ``rows`` of theta, which broadcast to the shape of y (batch, k).

        Then the columns of theta with the derivatives with respect to them, and that with respect to y.
        """
        value, by_column, slopes = self.at(theta, rows, index, {OBSERVATION: y})
        if self.expression is not None:
            value = np.broadcast_to(value, y.shape)
        return value, by_column, slopes.get(OBSERVATION, 0.0)


def refuse_clash(label: str, expression: Expression, prior: Prior) -> None:
    """`ValueError` where a formula's ``y`` would be two things."""
    if OBSERVATION in prior.order and OBSERVATION in expression.names:
        raise ValueError(
            f"{label} must not use 'y', which is the noise-free observation in a formula, where the prior has "
            f"a parameter of that name, got {expression.text!r}"
        )


def check_support(label: str, name: str, limits: tuple[float, float], prior: Prior) -> None:
    """`ValueError` unless a parameter of the prior lies within limits."""
    if name in prior.tied:  # as of formulas, nothing is known before it is evaluated
        return
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
            f"{name} is the {label} of the noise: its prior must have {inside}, got {prior.distributions[name]!r}. "
            "A noise of your own declares other ends in its `limits`"
        )
