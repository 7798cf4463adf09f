"""A PEtab problem as its tables say it, whatever the version of the format."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from invsamp.solvers.foreign import Expression

#: What sets a constant or a state: a number, the name of a parameter, or a formula.
Value = float | str | Expression


@dataclass(frozen=True)
class Parameter:
    """A row of the table of parameters.

    ``prior`` is a family of `invsamp.petab.priors` with its parameters, of the parameter itself or its natural
    logarithm. It is truncated at the bounds.
    """

    name: str
    lower: float
    upper: float
    nominal: float
    estimated: bool
    prior: str
    prior_parameters: tuple[float, ...]


@dataclass(frozen=True)
class Observable:
    """A row of the table of observables.

    ``noise`` is the formula of the scale, of the logarithm of base ``exp(unit)`` where the distribution is
    ``log-normal`` or ``log-laplace``.
    """

    name: str
    formula: object
    noise: object
    distribution: str
    unit: float = 1.0
    placeholders: tuple[str, ...] = ()
    noise_placeholders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """Changes of the model: values of constants and states, by name.

    Attributes
    ----------
    rest : mapping, optional
        What holds while the system comes to rest before ``start``.
    changes : mapping
        From ``start`` on. Constants that ``rest`` sets, too.
    later : tuple of pairs
        Times after ``start``, in order, and what changes then.
    """

    changes: Mapping[str, Value] = field(default_factory=dict)
    rest: Mapping[str, Value] | None = None
    start: float = 0.0
    later: tuple[tuple[float, Mapping[str, Value]], ...] = ()


@dataclass(frozen=True)
class Measurement:
    """A row of the table of measurements."""

    observable: str
    experiment: str
    time: float
    value: float
    of_observable: tuple[float | str, ...]  # what stands for the placeholders
    of_noise: tuple[float | str, ...]


@dataclass(frozen=True)
class Tables:
    """A problem as its tables, checked."""

    model: Path
    parameters: Mapping[str, Parameter]
    experiments: Mapping[str, Experiment]
    observables: Mapping[str, Observable]
    measurements: Sequence[Measurement]

    def __post_init__(self) -> None:
        """ValueError for tables that do not fit together."""
        for k, row in enumerate(self.measurements):
            if row.observable not in self.observables:
                known = sorted(self.observables)
                raise ValueError(f"measurements must be of the observables {known}, got {row.observable!r} in row {k}")
        if not any(each.estimated for each in self.parameters.values()):
            raise ValueError("parameters must have at least one that is estimated, got none")
        for each in self.parameters.values():
            if not each.estimated and math.isnan(each.nominal):
                raise ValueError(f"nominalValue of {each.name!r} must be a number where it is not estimated, got NaN")
