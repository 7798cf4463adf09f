"""Where the draws of a run in a directory are: on the disk, until they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from invsamp.domains.saved import from_dict
from invsamp.protocols import Array, AxisLabels, InferenceData
from invsamp.results.arrays import Source
from invsamp.storage import layout
from invsamp.storage.contents import attributes_of, inference_data
from invsamp.storage.segments import Draws, Rest, Some
from invsamp.storage.stored import StoredDraws

if TYPE_CHECKING:
    import xarray as xr


class Stored(Source):
    """A run in a directory; the draws that are asked for are read, and nothing else.

    Parameters
    ----------
    path : Path
        The directory.

    Raises
    ------
    FileNotFoundError, ValueError
        As `invsamp.storage.stored.StoredDraws`.
    """

    def __init__(self, path: Path) -> None:
        self._stored = StoredDraws(path)
        about, draws = self._stored.about, self._stored.draws
        shapes = {name: tuple(shape) for name, shape in about["parameters"].items()}
        domain = None if about["domain"] is None else from_dict(about["domain"])
        recorded = {name: shape for name, shape in draws.shapes.items() if name not in shapes}
        super().__init__(attributes_of(shapes, self._stored.report, domain, recorded, draws.every))

    def __reduce__(self) -> tuple[object, ...]:
        added = {"attributes": self.attributes, "_derived": self._derived} if self._derived else {}
        return Stored, (self._stored.path,), added

    @cached_property
    def shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """As of `Source`."""
        draws = self._stored.draws
        constants = {
            group: {name: values.shape for name, values in variables.items()}
            for group, variables in self._stored.constants.items()
        }
        return constants | {
            group: {name: (shape[0], len(draws.held(group)), *shape[1:]) for name, (shape, _) in variables.items()}
            for group, variables in draws.variables.items()
        }

    def _recorded(self) -> InferenceData:
        """Its variables are read whenever their values are needed."""
        draws = self._stored.draws
        labels = layout.labels_in(self.attributes)
        datasets = {group: _lazy(draws, group, labels) for group in draws.variables}
        for group, values in self._stored.constants.items():
            datasets[group] = layout.dataset(values, layout.LEADING[group], labels)
        return inference_data(datasets, self.attributes)

    def _read(self, group: str, name: str, draws: Some, rest: Rest) -> Array:
        if group in self._stored.constants:
            return self._stored.constants[group][name][(slice(None), draws, *rest)]
        return self._stored.draws.read(group, name, draws, rest)


def _lazy(draws: Draws, group: str, labels: Mapping[str, AxisLabels]) -> xr.Dataset:
    """Dataset of one group, of variables that are read at need and not kept."""
    import xarray as xr
    from xarray.core import indexing

    class Variable(xr.backends.BackendArray):
        """One variable over all segments."""

        def __init__(self, name: str) -> None:
            (chains, *rest), self.dtype = draws.variables[group][name]
            self.name, self.shape = name, (chains, len(numbers), *rest)

        def __getitem__(self, key: Any) -> InferenceData:
            basic = indexing.IndexingSupport.BASIC
            return indexing.explicit_indexing_adapter(key, self.shape, basic, self._values)

        def _values(self, key: tuple[Any, ...]) -> object:
            # the draws by a slice in any case, as they are put together from several files
            number = isinstance(key[1], int | np.integer)
            wanted = key[1]
            if number:
                at = range(self.shape[1])[wanted]  # which may count from the end
                wanted = slice(at, at + 1)
            part = draws.read(group, self.name, wanted, key[2:])
            return part[key[0], 0] if number else part[key[0]]

    leading = layout.LEADING[group]
    numbers = draws.held(group)
    variables, coordinates = {}, layout.Coordinates(labels, leading)
    for name in draws.variables[group]:
        array = Variable(name)
        dims = (*leading, *coordinates.dims(name, array.shape[len(leading) :]))
        variables[name] = xr.Variable(dims, indexing.LazilyIndexedArray(array))
    return coordinates.assigned(xr.Dataset(variables)).assign_coords(draw=numbers)
