"""A run in memory: a `Run` of plain arrays, which needs no other package until it is shown or saved."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from invsamp.contract import Array
from invsamp.results.run import Run
from invsamp.storage import layout
from invsamp.storage.contents import Groups, inference_data


class ArrayRun(Run):
    """Draws in arrays; the `arviz.InferenceData` is made of them when it is asked for.

    Parameters
    ----------
    groups : dict of dicts of ndarray
        See `invsamp.storage.contents`.
    attributes : mapping
        As `invsamp.storage.contents.attributes_of` makes them.
    """

    def __init__(self, groups: Groups, attributes: Mapping[str, str]) -> None:
        self._groups, self._told = groups, attributes

    @cached_property
    def data(self) -> Any:
        """The `arviz.InferenceData`."""
        datasets = {group: layout.dataset(values, layout.LEADING[group]) for group, values in self._groups.items()}
        return inference_data(datasets, self.report, self._told)

    @property
    def rungs(self) -> int:
        """Number of temperature levels, the cold one included."""
        hot = self._groups.get("hot")
        return 1 if hot is None else 1 + next(iter(hot.values())).shape[2]

    @property
    def _attributes(self) -> Mapping[str, Any]:
        return self._told

    def _read(self, group: str, name: str, draws: slice = slice(None), rest: tuple[Any, ...] = ()) -> Array:
        return self._groups[group][name][(slice(None), draws, *rest)]

    @property
    def _size(self) -> tuple[int, int]:
        chains, draws = next(iter(self._groups["posterior"].values())).shape[:2]
        return chains, draws
