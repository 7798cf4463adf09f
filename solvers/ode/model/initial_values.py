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
    is_formula,
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
        New parameters that are initial values.
    """

    names: tuple[str, ...]
    whole: StateFunction | None  # of all of them
    entries: Quantities  # each by itself; 0 where it is a new parameter
    places: tuple[tuple[int, int], ...]  # (state, new parameter)

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
            return InitialValues((), whole, Quantities((), parameters), ())
        if isinstance(initial, Mapping):
            if set(initial) != set(states):
                raise ValueError(f"initial must have an entry for each of the states {states}, got {list(initial)}")
            initial = tuple(initial[state] for state in states)
        listed = sequence("initial", initial, "a function of p, or a sequence or mapping of names and values")
        if len(listed) != n:
            raise ValueError(f"initial must have one name or value for each of the states {states}, got {initial}")
        new = [
            entry if isinstance(entry, str) and entry not in parameters and not is_formula(entry) else None
            for entry in listed
        ]
        names = tuple(dict.fromkeys(entry for entry in new if entry is not None))
        if "" in names:
            raise ValueError(f"initial must have names that are not empty, got {listed}")
        entries = tuple(
            check_quantity(f"initial[{k}]", 0.0 if new[k] is not None else entry, parameters)
            for k, entry in enumerate(listed)
        )
        places = tuple((k, names.index(name)) for k, name in enumerate(new) if name is not None)
        return InitialValues(names, None, Quantities(entries, parameters), places)

    def values(self, p: Array, more: Array) -> Array:
        """Values (batch, n) at the model's parameters (batch, q) and the new ones (batch, len(names))."""
        if self.whole is not None:
            return evaluate(self.whole, p)
        out = self.entries.values(p)
        for state, column in self.places:
            out[:, state] = more[:, column]
        return out

    @property
    def parameters_read(self) -> frozenset[int]:
        """Parameters of the model on which the values may depend."""
        if self.whole is not None:
            return self.whole.parameters_read
        return self.entries.parameters_read

    def failure(self, x0: Array) -> str | None:
        """Why there are none: they are whatever they are said to be."""
        return None

    def slopes(self, p: Array, x0: Array) -> Array:
        """Derivatives (batch, q + len(names), n) of the values x0."""
        q = p.shape[1]
        out = np.zeros((len(p), q + len(self.names), x0.shape[1]))
        by_parameters = self.entries.slopes(p) if self.whole is None else differentiate(self.whole, p)
        out[:, :q] = by_parameters.swapaxes(1, 2)
        for state, column in self.places:
            out[:, q + column, state] = 1.0
        return out
