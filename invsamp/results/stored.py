"""Where the draws of a run in a directory are: on the disk, until they are asked for."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from invsamp.domains.saved import from_dict
from invsamp.protocols import Array, Facts, InferenceData
from invsamp.storage import layout
from invsamp.storage.contents import attributes_of, inference_data
from invsamp.storage.segments import Draws, Rest
from invsamp.storage.stored import StoredDraws

if TYPE_CHECKING:
    import xarray as xr


class Stored:
    """What a directory holds of a run; the draws that are asked for are read, and nothing else.

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

    def __reduce__(self) -> tuple[type[Stored], tuple[Path]]:
        return Stored, (self._stored.path,)

    @cached_property
    def data(self) -> InferenceData:
        """The `arviz.InferenceData`; its variables are read whenever their values are needed."""
        draws = self._stored.draws
        datasets = {group: _lazy(draws, group) for group in draws.variables}
        for group, values in self._stored.constants.items():
            datasets[group] = layout.dataset(values, layout.LEADING[group])
        return inference_data(datasets, self.attributes)

    @property
    def rungs(self) -> int:
        """Number of temperatures, the cold one included."""
        hot = self._stored.draws.variables.get("hot")
        return 1 if hot is None else 1 + next(iter(hot.values()))[0][1]

    @cached_property
    def attributes(self) -> Facts:
        """As `invsamp.storage.contents.attributes_of` makes them."""
        about = self._stored.about
        shapes = {name: tuple(shape) for name, shape in about["parameters"].items()}
        domain = about["domain"]
        recorded = {name: shape for name, shape in self._stored.draws.shapes.items() if name not in shapes}
        return attributes_of(shapes, self._stored.report, None if domain is None else from_dict(domain), recorded)

    def read(self, group: str, name: str, draws: slice = slice(None), rest: Rest = ()) -> Array:
        """Values (chain, draw, ...) of some draws, and of some entries of the axes behind these."""
        return self._stored.draws.read(group, name, draws, rest)

    def holds(self, group: str, name: str) -> bool:
        """Whether there is such a variable."""
        return name in self._stored.draws.variables.get(group, {})

    @property
    def size(self) -> tuple[int, int]:
        """Number of chains, and of draws of each."""
        draws = self._stored.draws
        return next(iter(draws.variables["posterior"].values()))[0][0], draws.count


def _lazy(draws: Draws, group: str) -> xr.Dataset:
    """Dataset of one group, of variables that are read at need and not kept."""
    import xarray as xr
    from xarray.core import indexing

    class Variable(xr.backends.BackendArray):
        """One variable over all segments."""

        def __init__(self, name: str) -> None:
            (chains, *rest), self.dtype = draws.variables[group][name]
            self.name, self.shape = name, (chains, draws.count, *rest)

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
    variables = {}
    for name in draws.variables[group]:
        array = Variable(name)
        dims = (*leading, *(f"{name}_dim_{axis}" for axis in range(len(array.shape) - len(leading))))
        variables[name] = xr.Variable(dims, indexing.LazilyIndexedArray(array))
    dataset = xr.Dataset(variables)
    numbers = {dim: np.arange(size) for dim, size in dataset.sizes.items()}
    return dataset.assign_coords(numbers | {"draw": draws.numbers})
