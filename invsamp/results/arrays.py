"""Where the draws of a run are: here in memory, as plain arrays or as an ArviZ InferenceData; on disk in `stored`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from invsamp.diagnostics.report import Report
from invsamp.diagnostics.weights import normalized
from invsamp.protocols import Array, AxisLabels, Facts, InferenceData
from invsamp.storage import arviz_data, layout
from invsamp.storage.contents import Groups, inference_data
from invsamp.storage.segments import Rest, Some


class Source(ABC):
    """Where the draws of a run are, what the run reports of itself, and quantities that were derived later.

    Parameters
    ----------
    attributes : mapping
        As `invsamp.storage.contents.attributes_of` makes them.
    """

    def __init__(self, attributes: Facts) -> None:
        self.attributes, self._derived = attributes, dict[str, Array]()

    @property
    @abstractmethod
    def shapes(self) -> Mapping[str, Mapping[str, tuple[int, ...]]]:
        """Shape (chains, draws, ...) of each variable that was recorded, by group and name."""

    @abstractmethod
    def _read(self, group: str, name: str, draws: Some, rest: Rest) -> Array: ...

    @abstractmethod
    def _recorded(self) -> InferenceData:
        """The `arviz.InferenceData` of what was recorded."""

    @cached_property
    def data(self) -> InferenceData:
        """The `arviz.InferenceData`."""
        data = self._recorded()
        for name in self._derived:
            self._put(data, name)
        return data

    @property
    def report(self) -> Report:
        """Counts and settings of the run; a fresh copy."""
        return json.loads(self.attributes["report"])

    @property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter, in the order of theta's columns."""
        return {name: tuple(shape) for name, shape in json.loads(self.attributes["parameters"]).items()}

    @property
    def recorded(self) -> dict[str, tuple[int, ...]]:
        """Shape of every quantity beside the parameters."""
        return {name: tuple(shape) for name, shape in json.loads(self.attributes.get("recorded", "{}")).items()}

    @property
    def quantities(self) -> dict[str, tuple[int, ...]]:
        """Shapes of parameters, and of what was recorded."""
        return self.parameters | self.recorded

    @property
    def axes(self) -> dict[str, AxisLabels]:
        """Labels of axes, by the names of parameters."""
        return layout.labels_in(self.attributes)

    @property
    def rungs(self) -> int:
        """Number of temperatures, the cold one included."""
        hot = self.shapes.get("hot")
        return 1 + next(iter(hot.values()))[2] if hot else 1

    @property
    def every(self) -> int:
        """The k of the every k-th draw in the group ``thinned``."""
        return int(self.attributes.get("every", 1))

    @property
    def size(self) -> tuple[int, int]:
        """Number of chains, and of draws of each."""
        chains, draws = next(iter(self.shapes["posterior"].values()))[:2]
        return chains, draws

    def holds(self, group: str, name: str) -> bool:
        """Whether there is such a variable."""
        return name in self.shapes.get(group, {}) or (group == "posterior" and name in self._derived)

    def read(self, group: str, name: str, draws: Some = slice(None), rest: Rest = ()) -> Array:
        """Values (chain, draw, ...) of some draws, and of some entries of the axes behind these.

        Numbers of draws are for all of these entries.
        """
        if group == "posterior" and name in self._derived:
            return self._derived[name][(slice(None), draws, *rest)]
        return self._read(group, name, draws, rest)

    def statistic(self, name: str, rung: int = 0, every: int = 1) -> Array | None:
        """A statistic (chains, draws) of every n-th draw of a rung, if it was recorded."""
        group, rest = ("hot_stats", (rung - 1,)) if rung else ("sample_stats", ())
        return self.read(group, name, slice(None, None, every), rest) if self.holds(group, name) else None

    def weights(self, rung: int = 0, every: int = 1) -> Array | None:
        """Weights (chains, draws), of mean 1, of every n-th draw of a rung."""
        log_weight = self.statistic("log_weight", rung, every)
        if log_weight is None or not log_weight.any():  # 0: of a rung beside one whose draws have weights
            return None
        return normalized(log_weight)

    def add(self, name: str, values: Array) -> None:
        """Add a quantity (chains, draws, *shape); it replaces one that has this name."""
        shapes = self.recorded | {name: values.shape[2:]}
        self.attributes = dict(self.attributes) | {"recorded": layout.to_json(shapes)}
        self._derived[name] = values
        if "data" in vars(self):
            self._put(self.data, name)

    def _put(self, data: InferenceData, name: str) -> None:
        before = arviz_data.dataset(data, "posterior")
        if name in before.data_vars:
            old = before[name].dims[2:]
            before = before.drop_dims(old) if old else before.drop_vars(name)
        added = layout.dataset({name: self._derived[name]}, layout.LEADING["posterior"], self.axes)
        arviz_data.put(data, "posterior", before.assign(added.drop_vars(layout.LEADING["posterior"]).variables))
        data.attrs.update(self.attributes)


class Arrays(Source):
    """Draws in arrays; the `arviz.InferenceData` is made of them when it is asked for.

    Parameters
    ----------
    groups : dict of dicts of ndarray
        See `invsamp.storage.contents`.
    attributes : mapping
        As `invsamp.storage.contents.attributes_of` makes them.
    """

    def __init__(self, groups: Groups, attributes: Mapping[str, str]) -> None:
        super().__init__(attributes)
        self._groups = groups

    @property
    def shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """As of `Source`."""
        return {group: {name: v.shape for name, v in values.items()} for group, values in self._groups.items()}

    def _recorded(self) -> InferenceData:
        datasets = {
            group: layout.dataset(values, layout.LEADING[group], self.axes) for group, values in self._groups.items()
        }
        if "thinned" in datasets:
            numbers = self.every * np.arange(datasets["thinned"].sizes["draw"])
            datasets["thinned"] = datasets["thinned"].assign_coords(draw=numbers)
        return inference_data(datasets, self.attributes)

    def _read(self, group: str, name: str, draws: Some, rest: Rest) -> Array:
        return self._groups[group][name][(slice(None), draws, *rest)]


class Dataset(Source):
    """Draws in an `arviz.InferenceData`."""

    def __init__(self, data: InferenceData) -> None:
        super().__init__(data.attrs)
        self._loaded = data

    @property
    def shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """As of `Source`."""
        groups = {group: self._loaded[group].data_vars for group in self._loaded}
        return {group: {name: v.shape for name, v in values.items()} for group, values in groups.items()}

    def _recorded(self) -> InferenceData:
        return self._loaded

    def _read(self, group: str, name: str, draws: Some, rest: Rest) -> Array:
        values: Array = self._loaded[group][name].to_numpy()[(slice(None), draws, *rest)]
        return values
