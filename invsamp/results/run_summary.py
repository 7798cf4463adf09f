"""Statistics of the draws of a run, made some entries at a time, and what is wrong by them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from invsamp.diagnostics import checks, weights
from invsamp.diagnostics.draws import table
from invsamp.diagnostics.fit import fit_warnings
from invsamp.diagnostics.path_checks import path_warnings
from invsamp.diagnostics.separation import Separation, separation
from invsamp.posing.expressions.variable_names import LabelTable
from invsamp.protocols import Array
from invsamp.results.arrays import Source

if TYPE_CHECKING:
    import pandas as pd

#: Draws, of all chains together, from which `Run.warnings` judges; of more it takes every second, third ... one.
#: Chains so slow that this hid draws have too few effective ones in any case, and those on disk need not fit in memory.
_JUDGED = 100_000
#: But no fewer than this of each chain.
_JUDGED_OF_CHAIN = 1000
#: Parameters that are searched for modes.
_SEPARATED = 500
#: Entries of a block from which on so many of them, evenly spread, are judged and printed.
_LARGE, _OF_LARGE = 2000, 50
#: Bytes of draws that a summary reads at a time.
_AT_ONCE = 32 * 2**20


class RunSummary:
    """Summary of the draws of the cold rung. Tables are made once, until `clear`.

    Parameters
    ----------
    source : Source
        Where the draws are.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._tables: dict[tuple[int, bool], pd.DataFrame] = {}

    def clear(self) -> None:
        """Forget the tables, as the quantities have changed."""
        self._tables.clear()

    @property
    def thinning(self) -> int:
        """The n of every n-th draw from which the run is judged."""
        chains, draws = self._source.size
        return max(1, min(-(-chains * draws // _JUDGED), draws // _JUDGED_OF_CHAIN))

    def table(self, every: int = 1, few: bool = False) -> pd.DataFrame:
        """Summary of every n-th draw, with shapes of tails; ``few``: of some entries of large blocks."""
        import pandas as pd

        source = self._source
        few = few and any(math.prod(shape) > _LARGE for shape in source.quantities.values())
        if (every, few) not in self._tables:
            weight, size = source.weights(0, every), source.report.get("ensemble_size", 1)
            found = (columns for name in source.quantities for columns in self._columns(name, every, few))
            parts = [table(columns, weight, size) for columns in found]
            names = [one for name in source.quantities for one in self._names(name, few)]
            left_out = sum(math.prod(shape) for shape in source.quantities.values()) - len(names)
            if few and (energy := source.statistic("energy", 0, every)) is not None and "energy" not in names:
                parts.append(table(energy[..., None], weight, size))
                names.append("energy")
            columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            made = self._tables[every, few] = pd.DataFrame(columns, names)
            made.attrs["sizes"] = {name: math.prod(shape) for name, shape in source.quantities.items()}
            made.attrs["entries"], made.attrs["left_out"] = sum(made.attrs["sizes"].values()), left_out
        return self._tables[every, few]

    def warnings(self, every: int = 1) -> list[str]:
        """Warnings by some entries of every n-th draw, and about the fit of the model to its data."""
        summary, report, weight = self.table(every, few=True), self._source.report, self._source.weights(0, every)
        found = checks.diagnose(self._judged(summary), report, weight)
        found += checks.pilot_warnings(summary[: self._own(summary)], report, every)
        if (diverging := self._source.statistic("diverging", 0, every)) is not None:
            found += path_warnings(np.asarray(diverging, dtype=float))
        expected, misfit = report.get("misfit"), self._source.statistic("misfit", 0, every)
        if expected is None or misfit is None:
            return found
        return found + fit_warnings(misfit, weight, expected, report.get("ensemble_size", 1))

    def notes(self) -> list[str]:
        """Notes for a reader of the table."""
        return checks.notes(self._judged(self.table(few=True)), self._source.report)

    def moments(self, name: str) -> tuple[Array, Array]:
        """Mean and standard deviation of every entry of a parameter, or of a quantity, each of its shape."""
        shape, weight = self._source.quantities[name], self._source.weights()
        parts = [values.reshape(-1, values.shape[-1]).T for values in self._columns(name, 1)]
        mean, sd = (
            np.concatenate([of(part, weight) for part in parts]).reshape(shape) for of in (weights.mean, weights.sd)
        )
        return mean, sd

    def separations(self) -> dict[str, Separation]:
        """Parameters whose draws lie on two sides of a gap, the first hundreds of them, by label."""
        source = self._source
        if source.weights() is not None:
            return {}
        columns = (draws for name in source.parameters for draws in self._columns(name, 1))
        found: dict[str, Separation] = {}
        every = LabelTable(source.parameters, source.axes)
        names = iter([every[k] for k in range(min(_SEPARATED, len(every)))])
        for draws in columns:
            for column, name in zip(np.moveaxis(draws, -1, 0), names, strict=False):
                if (one := separation(column)) is not None:
                    found[name] = one
        return found

    def _own(self, summary: pd.DataFrame) -> int:
        """Rows of a summary that are of parameters, not of what was recorded; they come first."""
        few = len(summary) != sum(math.prod(shape) for shape in self._source.quantities.values())
        return sum(len(self._entries(name, few)) for name in self._source.parameters)

    def _judged(self, summary: pd.DataFrame) -> pd.DataFrame:
        """A summary without recorded entries that are constant: of a parameter that means a chain which is stuck."""
        own = np.arange(len(summary)) < self._own(summary)
        return summary[own | (summary["sd"] != 0.0)]

    def _entries(self, name: str, few: bool) -> npt.NDArray[np.intp]:
        """Numbers of the entries of a parameter, in C order; ``few``: of a large block some."""
        size = math.prod(self._source.quantities[name])
        count = min(size, _OF_LARGE) if few and size > _LARGE else size
        return np.linspace(0, size - 1, count).astype(np.intp) if count < size else np.arange(size)

    def _names(self, name: str, few: bool) -> list[str]:
        """Labels of these entries."""
        every = LabelTable({name: self._source.quantities[name]}, self._source.axes)
        return [every[k] for k in self._entries(name, few)]

    def _columns(self, name: str, every: int, few: bool = False) -> Iterator[Array]:
        """Every n-th draw (chain, draw, scalar) of the scalars of a parameter, some at a time."""
        shape, (chains, draws) = self._source.quantities[name], self._source.size
        entries = self._entries(name, few)
        index = np.unravel_index(entries, shape) if shape else ()
        some = max(1, _AT_ONCE // (8 * chains * -(-draws // every)))
        for begin in range(0, len(entries), some):
            rest = tuple(axis[begin : begin + some] for axis in index)
            values = np.asarray(self._source.read("posterior", name, slice(None, None, every), rest), dtype=float)
            yield values if shape else values[..., None]
