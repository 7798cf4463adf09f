"""A quantity of a noise with a number, a name or a formula of its own for each entry of the data's last axis."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np
import numpy.typing as npt

from invsamp.expression import Expression, Value
from invsamp.posing.expressions.bound_expression import Indices, is_name
from invsamp.posing.noise.noise_parameter import OBSERVATION, Quantity, check_support, refuse_clash
from invsamp.posing.priors.joint_prior import Prior
from invsamp.protocols import Array

#: The formula of what is a number or a name.
_PLAIN = "_0"


class ListedQuantity:
    """One value per datum, (m,), from columns of theta and known numbers; as `Quantity` otherwise.

    Formulas that differ in names alone, as ``"s1 * a"`` and ``"s2 * b"``, are evaluated at once.

    Parameters
    ----------
    label : str
        For messages.
    values : tuple of float and str
        As long as the data's last axis.
    limits, shape, prior
        As of `Quantity`.

    Raises
    ------
    ValueError
        As of `Quantity`; also for names of parameters that are no single numbers.
    """

    known = None

    def __init__(
        self, label: str, values: tuple[Value, ...], limits: tuple[float, float], shape: tuple[int, ...], prior: Prior
    ) -> None:
        if not shape or shape[-1] != len(values):
            raise ValueError(
                f"{label} must have one entry for each of the data's last axis, {shape}, got {len(values)}"
            )
        found = [_form(f"{label}[{k}]", value, limits, prior) for k, value in enumerate(values)]
        texts = list(dict.fromkeys(form for form, _ in found))
        slots = [[_slot(f"{label}[{k}]", value, prior) for value in own] for k, (_, own) in enumerate(found)]
        width = max(map(len, slots))
        table = np.array([own + [(-1, 0.0)] * (width - len(own)) for own in slots])
        every = np.broadcast_to(np.arange(len(values)), shape).reshape(-1)
        self.names = tuple(dict.fromkeys(value for _, own in found for value in own if isinstance(value, str)))
        self.forms = tuple(Expression(label, form) for form in texts)
        self.form: Indices = np.array([texts.index(form) for form, _ in found])[every]
        self.columns: Indices = table[every, :, 0].astype(np.intp)
        self.values: Array = table[every, :, 1]

    @property
    def compiled(self) -> tuple[Array, Indices] | None:
        """Values (m,) and columns of theta (m,), for the compiled loop; -1 where the value is known."""
        if [each.text for each in self.forms] != [_PLAIN]:
            return None
        return self.values[:, 0], self.columns[:, 0]

    def subset(self, kept: npt.NDArray[np.bool_]) -> Self:
        """That of some of the entries."""
        part = copy.copy(self)
        part.form, part.columns, part.values = self.form[kept], self.columns[kept], self.values[kept]
        return part

    def evaluate(
        self, theta: Array, y: Array, rows: Indices, index: Indices
    ) -> tuple[Array, list[tuple[Indices, Value]], Value]:
        """As `Quantity.evaluate`."""
        index, rows = np.broadcast_to(index, y.shape), np.broadcast_to(rows, y.shape)
        columns = self.columns[index]
        free = columns >= 0
        known = np.where(free, 0.0, self.values[index])
        values = np.where(free, theta[rows[..., None], columns], known) if theta.shape[1] else known
        value, by_y = np.empty(y.shape), np.zeros(y.shape)
        slopes = np.zeros(columns.shape)
        for number, form in enumerate(self.forms):
            own = self.form[index] == number
            given = {f"_{k}": values[own, k] for k in range(columns.shape[-1])} | {OBSERVATION: y[own]}
            value[own], found = form(given)
            by_y[own] = found.get(OBSERVATION, 0.0)
            for k in range(columns.shape[-1]):
                slopes[own, k] = found.get(f"_{k}", 0.0)
        slopes[~free] = 0.0
        return value, [(np.maximum(columns[..., k], 0), slopes[..., k]) for k in range(columns.shape[-1])], by_y


def as_quantity(
    label: str, value: object, limits: tuple[float, float], shape: tuple[int, ...], prior: Prior
) -> Quantity | ListedQuantity:
    """The quantity of one value for all data, or of one for each entry of the last axis."""
    if isinstance(value, tuple) and any(isinstance(entry, str) for entry in value):
        return ListedQuantity(label, value, limits, shape, prior)
    return Quantity(label, value, limits, shape, prior)


def _form(label: str, value: Value, limits: tuple[float, float], prior: Prior) -> tuple[str, tuple[Value, ...]]:
    """A formula of ``_0``, ``_1`` and so on, and what these are."""
    if not isinstance(value, str):
        return _PLAIN, (value,)
    if is_name(value, prior.known_names):
        prior.known_names.shape(label, value)
        check_support(label, value, limits, prior)
        return _PLAIN, (value,)
    expression = Expression(label, value)
    refuse_clash(label, expression, prior)
    own = tuple(name for name in expression.names if name != OBSERVATION)
    return expression.renamed({name: f"_{k}" for k, name in enumerate(own)}), own


def _slot(label: str, value: Value, prior: Prior) -> tuple[int, float]:
    """Column of theta, or -1 and a number."""
    names = prior.known_names
    if not isinstance(value, str):
        return -1, float(value)
    if names.shape(label, value) != ():
        raise ValueError(f"{label} must use parameters that are single numbers, got {value!r}")
    return (-1, float(names.fixed[value])) if value in names.fixed else (names.slices[value].start, 0.0)
