"""Where the draws of a run are: here in memory, as plain arrays or as an ArviZ InferenceData; on disk in `stored`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from invsamp.protocols import Array, Facts, InferenceData
from invsamp.storage import layout
from invsamp.storage.contents import Groups, inference_data
from invsamp.storage.segments import Rest


class Source(Protocol):
    """Where the draws of a run are, and what it tells of itself."""

    @property
    def attributes(self) -> Facts:
        """As `invsamp.storage.contents.attributes_of` makes them."""
        ...

    @property
    def data(self) -> InferenceData:
        """The `arviz.InferenceData`."""
        ...

    @property
    def rungs(self) -> int:
        """Number of temperatures, the cold one included."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Number of chains, and of draws of each."""
        ...

    def holds(self, group: str, name: str) -> bool:
        """Whether there is such a variable."""
        ...

    def read(self, group: str, name: str, draws: slice = slice(None), rest: Rest = ()) -> Array:
        """Values (chain, draw, ...) of some draws, and of some entries of the axes behind these."""
        ...


class Arrays:
    """Draws in arrays; the `arviz.InferenceData` is made of them when it is asked for.

    Parameters
    ----------
    groups : dict of dicts of ndarray
        See `invsamp.storage.contents`.
    attributes : mapping
        As `invsamp.storage.contents.attributes_of` makes them.
    """

    def __init__(self, groups: Groups, attributes: Mapping[str, str]) -> None:
        self._groups, self.attributes = groups, attributes

    @cached_property
    def data(self) -> InferenceData:
        """The `arviz.InferenceData`."""
        datasets = {group: layout.dataset(values, layout.LEADING[group]) for group, values in self._groups.items()}
        return inference_data(datasets, self.attributes)

    @property
    def rungs(self) -> int:
        """Number of temperatures, the cold one included."""
        hot = self._groups.get("hot")
        return 1 if hot is None else 1 + next(iter(hot.values())).shape[2]

    @property
    def size(self) -> tuple[int, int]:
        """Number of chains, and of draws of each."""
        chains, draws = next(iter(self._groups["posterior"].values())).shape[:2]
        return chains, draws

    def holds(self, group: str, name: str) -> bool:
        """Whether there is such a variable."""
        return name in self._groups.get(group, {})

    def read(self, group: str, name: str, draws: slice = slice(None), rest: Rest = ()) -> Array:
        """Values (chain, draw, ...) of some draws, and of some entries of the axes behind these."""
        return self._groups[group][name][(slice(None), draws, *rest)]


class Dataset:
    """Draws in an `arviz.InferenceData`."""

    def __init__(self, data: InferenceData) -> None:
        self.data = data

    @property
    def attributes(self) -> Facts:
        """As `invsamp.storage.contents.attributes_of` makes them."""
        found: Facts = self.data.attrs
        return found

    @property
    def rungs(self) -> int:
        """Number of temperatures, the cold one included."""
        return 1 + (self.data.hot.sizes["rung"] if "hot" in self.data.groups() else 0)

    @property
    def size(self) -> tuple[int, int]:
        """Number of chains, and of draws of each."""
        sizes = self.data.posterior.sizes
        return sizes["chain"], sizes["draw"]

    def holds(self, group: str, name: str) -> bool:
        """Whether there is such a variable."""
        return group in self.data.groups() and name in self.data[group].data_vars

    def read(self, group: str, name: str, draws: slice = slice(None), rest: Rest = ()) -> Array:
        """Values (chain, draw, ...) of some draws, and of some entries of the axes behind these."""
        values: Array = self.data[group][name].to_numpy()[(slice(None), draws, *rest)]
        return values
