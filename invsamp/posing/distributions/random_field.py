"""A random field as the distribution of one parameter: a vector that is sampled through white noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invsamp.posing.distributions.base import Distribution, ends
from invsamp.protocols import Array, Coloring, RandomField


@dataclass(frozen=True)
class FieldDistribution(Distribution):
    """The distribution of a field's values; a `Prior` makes one of every random field that it is given."""

    field: RandomField

    def __repr__(self) -> str:
        return repr(self.field)

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry for each value of the field."""
        return (self.field.size,)

    @property
    def formulas(self) -> dict[str, str]:
        """The field's unknowns by number: names, or formulas of names."""
        return {f"unknown {k}": text for k, text in enumerate(self.field.names)}

    @property
    def support(self) -> tuple[Array, Array]:
        """Any numbers."""
        return ends(-np.inf, np.inf, self.shape)

    @property
    def log_constant(self) -> float:
        """Nothing is left out of `evaluate`."""
        return 0.0

    def evaluate(self, columns: Array) -> tuple[Array, Array]:
        """Log density (batch,) and its gradient (batch, n), where nothing is unknown of the field."""
        value, slope, _ = self._known().log_density(columns)
        return value, slope

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """``n`` independent draws (n, size), where nothing is unknown of the field."""
        return self._known().color(rng.standard_normal((n, self.field.size)))

    def _known(self) -> Coloring:
        if self.field.names:
            raise ValueError(f"the field {self.field!r} depends on others, so it has a density only within a Prior")
        return self.field.coloring(np.empty(0))
