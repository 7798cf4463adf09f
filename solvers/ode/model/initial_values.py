"""Initial values of an ODE: known, unknown, or functions of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import sequence
from invsamp.solvers.foreign import Term
from invsamp.solvers.ode.codegen.observable_functions import StateFunction
from invsamp.solvers.ode.events.parameter_functions import (
    Quantities,
    Quantity,
    check_quantity,
    differentiate,
    evaluate,
    names_in,
    parameter_function,
)

Array = npt.NDArray[np.float64]
#: What `OdeModel.observe` takes.
Initial = Sequence[Quantity] | Mapping[str, Quantity] | Callable[[Term], Term]


@dataclass(frozen=True, eq=False)
class InitialValues:
    """Initial values of n states, and their derivatives.

    Attributes
    ----------
    names : tuple of str
        New parameters, which are initial values or stand in formulas of these.
    """

    names: tuple[str, ...]
    whole: StateFunction | None  # of all of them
    entries: Quantities  # each by itself, of the model's parameters and the new ones

    @staticmethod
    def of(initial: Initial, states: tuple[str, ...], parameters: tuple[str, ...]) -> InitialValues:
        """Those that ``initial`` stands for; ValueError for what does not fit."""
        n = len(states)
        if callable(initial):
            whole = parameter_function("initial", initial, len(parameters))
            if whole.n_outputs != n:
                raise ValueError(
                    f"initial must return one value for each of the states {states}, got {whole.n_outputs}"
                )
            return InitialValues((), whole, Quantities((), parameters))
        if isinstance(initial, Mapping):
            if set(initial) != set(states):
                raise ValueError(f"initial must have an entry for each of the states {states}, got {list(initial)}")
            initial = tuple(initial[state] for state in states)
        listed = sequence("initial", initial, "a function of p, or a sequence or mapping of names and values")
        if len(listed) != n:
            raise ValueError(f"initial must have one name or value for each of the states {states}, got {initial}")
        if "" in listed:
            raise ValueError(f"initial must have names that are not empty, got {listed}")
        read = [name for entry in listed if isinstance(entry, str) for name in names_in(entry)]
        names = tuple(name for name in dict.fromkeys(read) if name not in parameters)
        entries = tuple(
            _OfModel(entry, len(parameters))
            if names and callable(entry)
            else check_quantity(f"initial[{k}]", entry, (*parameters, *names))
            for k, entry in enumerate(listed)
        )
        return InitialValues(names, None, Quantities(entries, (*parameters, *names)))

    def values(self, p: Array, more: Array) -> Array:
        """Values (batch, n) at the model's parameters (batch, q) and the new ones (batch, len(names))."""
        return self.entries.values(np.hstack([p, more])) if self.whole is None else evaluate(self.whole, p)

    @property
    def parameters_read(self) -> frozenset[int]:
        """Parameters of the model on which the values may depend."""
        if self.whole is not None:
            return self.whole.parameters_read
        return frozenset(range(len(self.entries.parameters) - len(self.names))) & self.entries.parameters_read

    def failure(self, x0: Array) -> str | None:
        """Why there are none: they are whatever they are said to be."""
        return None

    def slopes(self, p: Array, more: Array, x0: Array) -> Array:
        """Derivatives (batch, q + len(names), n) of the values x0."""
        found = self.entries.slopes(np.hstack([p, more])) if self.whole is None else differentiate(self.whole, p)
        return found.swapaxes(1, 2)


@dataclass(frozen=True)
class _OfModel:
    """A function of the model's parameters, where new ones follow these."""

    function: Callable[[Term], Term]
    count: int

    def __call__(self, p: Term) -> Term:
        return self.function(p[: self.count])
