"""One forward model for every member of a population: individual parameters, and shared ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from invsamp import arguments
from invsamp.arguments import instance, integer, store
from invsamp.errors import ModelError
from invsamp.posing.forward_models.model_around import ModelAround
from invsamp.protocols import Array, ForwardModel, FunctionCalls, VectorJacobianProduct, function_calls


@dataclass(frozen=True)
class Population(ModelAround):
    """The same forward model for each member of a population, all of them in one batch.

    A parameter of the model that is a member's own has the shape ``(members,)`` in the prior, where it may have a
    distribution of the population, ``iv.LogNormal("log_mean", "log_sd", shape=members)``, or known values, such as
    doses. The others are numbers that all share. Members that were observed at other times than the rest have NaN in
    the data at those.

    Parameters
    ----------
    model : ForwardModel
        Of one member, with ``parameters``. Its rows must not depend on each other, as of any forward model.
    members : int
    individual : names
        Those of its parameters that each member has its own of.

    Attributes
    ----------
    parameters : tuple of str
        As the model's; theta's columns are those of the prior's parameters of these names.

    Raises
    ------
    ValueError
        If the model does not say its parameters, or a name is none of them.

    Notes
    -----
    Observations have shape (batch, members * m), member by member: data of shape (members, ...) fit.

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> growth = iv.with_jacobian(lambda t: t, lambda t: np.ones((len(t), 2, 2)), parameters=["rate", "start"])
    >>> model = iv.Population(growth, members=3, individual=["rate"])  # three rates, one start
    >>> model.parameters
    ('rate', 'start')
    """

    model: ForwardModel
    members: int
    individual: Iterable[str]
    parameters: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        instance("model", self.model, ForwardModel, "a forward model that has derivatives")
        store(self, members=integer("members", self.members, least=1))
        found = getattr(self.model, "parameters", None)
        if found is None:
            raise ValueError(f"model must have `parameters`, the names of its inputs, got {self.model!r} without")
        given = self.individual
        individual = arguments.names("individual", [given] if isinstance(given, str) else given)
        if unknown := [name for name in individual if name not in found]:
            raise ValueError(f"individual must hold parameters of the model, {list(found)}, got {unknown}")
        store(self, individual=individual, parameters=tuple(found))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many numbers each parameter has: one for each member, or one for all."""
        return tuple(self.members if name in self.individual else 1 for name in self.parameters)

    @property
    def n_observations(self) -> int | None:
        """Length of a row of observations, where the model knows that of a member."""
        count = getattr(self.model, "n_observations", None)
        return None if count is None else count * self.members

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        """Members, and what is observed of each, where the model knows that."""
        count = getattr(self.model, "n_observations", None)
        own = getattr(self.model, "output_shape", None) or (None if count is None else (count,))
        return None if own is None else (self.members, *own)

    @property
    def series(self) -> tuple[str, ...] | None:
        """The model's: what is observed of a member at one time."""
        return getattr(self.model, "series", None)

    @property
    def inner(self) -> ForwardModel:
        """The model of a member."""
        return self.model

    @property
    def function_calls(self) -> FunctionCalls:
        """Those of the model for all members."""
        each = function_calls(self.model).at(len(self.parameters))
        return FunctionCalls(self.members * each.value, self.members * each.linearized)

    @property
    def cost(self) -> float:
        """Seconds for all members; NaN where the model does not know those of one."""
        return float(getattr(self.model, "cost", math.nan)) * self.members

    @property
    def work(self) -> float | None:
        """Counted, for all members; None where the model does not count its own."""
        own = getattr(self.model, "work", None)
        return None if own is None else float(own) * self.members

    def __call__(self, theta: Array) -> Array:
        """Observations (batch, members * m); a row in which a member fails is NaN there."""
        return self.model(self._each(theta)).reshape(len(theta), -1)

    def linearize(self, theta: Array) -> tuple[Array, VectorJacobianProduct]:
        """The same and the vector-Jacobian product."""
        y, vjp = self.model.linearize(self._each(theta))
        shape = y.shape

        def product(cotangent: Array) -> Array:
            slopes = vjp(np.ascontiguousarray(cotangent).reshape(shape)).reshape(len(theta), self.members, -1)
            parts = [
                slopes[:, :, k] if name in self.individual else slopes[:, :, k].sum(axis=1, keepdims=True)
                for k, name in enumerate(self.parameters)
            ]
            return np.concatenate(parts, axis=1)

        return y.reshape(len(theta), -1), product

    def _each(self, theta: Array) -> Array:
        """Theta of every member, (batch * members, p)."""
        if theta.shape[1] != (wanted := sum(self.sizes)):
            raise ModelError(
                f"{', '.join(self.individual)} must have shape ({self.members},) in the prior, and the model's other "
                f"parameters be numbers, {wanted} in all, got {theta.shape[1]}"
            )
        columns, first = [], 0
        for size in self.sizes:
            part = theta[:, first : first + size]
            columns.append(np.broadcast_to(part, (len(theta), self.members)))
            first += size
        return np.stack(columns, axis=2).reshape(-1, len(self.parameters))
