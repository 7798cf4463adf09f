"""Functions of the draws of a run, made after it, and where they are kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property

import numpy as np

from invsamp.arguments import by_row
from invsamp.protocols import Array, Facts, InferenceData
from invsamp.results.arrays import Source
from invsamp.results.predictive import by_blocks
from invsamp.storage import layout
from invsamp.storage.segments import Rest


def derived(
    name: str, function: Callable[[Array], object], theta: Array, predict: Callable[[Array], Array] | None = None
) -> Array:
    """Values (chains, draws, *shape) of a function of draws theta (chains, draws, d), or of what is predicted at them.

    Equal draws, as of a chain that stayed where it was, are evaluated once.
    """
    rows, again = np.unique(theta.reshape(-1, theta.shape[-1]), axis=0, return_inverse=True)
    shapes: dict[tuple[int, ...], None] = {}

    def of(block: Array) -> Array:
        found = by_row(
            f"the result of {name!r}", function(block.copy() if predict is None else predict(block)), len(block)
        )
        shapes[found.shape[1:]] = None
        if len(shapes) > 1:
            raise ValueError(f"the result of {name!r} must have one shape for all theta, got {list(shapes)}")
        return found

    values = by_blocks(of, rows)[np.ravel(again)]  # NumPy 2.0 keeps an axis
    return values.reshape(theta.shape[:2] + values.shape[1:])


class WithDerived:
    """Draws of some source, and one quantity more.

    Parameters
    ----------
    source : Source
    name : str
        Of the quantity; one that the source has under this name is hidden.
    values : ndarray, shape (chains, draws, *shape)
    """

    def __init__(self, source: Source, name: str, values: Array) -> None:
        self._source, self._name, self._values = source, name, values

    @property
    def attributes(self) -> Facts:
        """As `invsamp.storage.contents.attributes_of` makes them."""
        recorded = json.loads(self._source.attributes.get("recorded", "{}"))
        shapes = recorded | {self._name: list(self._values.shape[2:])}
        return dict(self._source.attributes) | {"recorded": layout.to_json(shapes)}

    @cached_property
    def data(self) -> InferenceData:
        """The `arviz.InferenceData`: that of the source, in which the quantity is set."""
        data = self._source.data
        before = data.posterior
        if self._name in before.data_vars:
            old = before[self._name].dims[2:]
            before = before.drop_dims(old) if old else before.drop_vars(self._name)
        added = layout.dataset({self._name: self._values}, layout.LEADING["posterior"])
        data.posterior = before.assign(added.drop_vars(layout.LEADING["posterior"]).variables)
        data.attrs.update(self.attributes)
        return data

    @property
    def rungs(self) -> int:
        """Number of temperatures, the cold one included."""
        return self._source.rungs

    @property
    def size(self) -> tuple[int, int]:
        """Number of chains, and of draws of each."""
        return self._source.size

    def holds(self, group: str, name: str) -> bool:
        """Whether there is such a variable."""
        return (group, name) == ("posterior", self._name) or self._source.holds(group, name)

    def read(self, group: str, name: str, draws: slice = slice(None), rest: Rest = ()) -> Array:
        """Values (chain, draw, ...) of some draws, and of some entries of the axes behind these."""
        if (group, name) == ("posterior", self._name):
            return self._values[(slice(None), draws, *rest)]
        return self._source.read(group, name, draws, rest)
