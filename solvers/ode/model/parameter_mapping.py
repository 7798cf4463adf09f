"""Which columns of theta are which parameters of a model: other names, and known values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from invsamp.arguments import mapping, optional, real, text

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Naming:
    """Parameters under names of their own, some of which stand for several of them, or for known values.

    Attributes
    ----------
    names : tuple of str
        Columns of theta.
    columns : ndarray of int, shape (parameters,)
        Of each parameter its column; -1 if it is known.
    known : ndarray, shape (parameters,)
        Values of those.
    """

    names: tuple[str, ...]
    columns: npt.NDArray[np.intp]
    known: Array

    @staticmethod
    def of(
        given: Mapping[str, float | str] | None, own: tuple[str, ...], more: tuple[str, ...], argument: str = "given"
    ) -> Naming:
        """Names for the parameters ``own``, as they are or as ``given``, and ``more`` of them, as they are."""
        changes = optional(mapping, argument, given, "a mapping from parameters to numbers or names") or {}
        if unknown := sorted(set(changes) - set(own)):
            raise ValueError(f"{argument} must be of parameters out of {own}, got {unknown}")
        entries: list[str | float] = []
        for name in own:
            value = changes.get(name, name)
            label = f"{argument}[{name!r}]"
            entries.append(text(label, value) if isinstance(value, str) else real(label, value))
        entries += more
        names = tuple(dict.fromkeys(entry for entry in entries if isinstance(entry, str)))
        columns = [names.index(entry) if isinstance(entry, str) else -1 for entry in entries]
        known = [0.0 if isinstance(entry, str) else entry for entry in entries]
        return Naming(names, np.array(columns, dtype=np.intp), np.array(known))

    def spread(self, theta: Array) -> Array:
        """Parameters (batch, parameters) from theta (batch, names)."""
        if self._plain:
            return theta
        if not self.names:
            return np.tile(self.known, (len(theta), 1))
        return np.where(self.columns < 0, self.known, theta[:, self.columns])

    def gathered(self, slopes: Array) -> Array:
        """Derivatives (..., names) from those by the parameters (..., parameters)."""
        if self._plain:
            return slopes
        out = np.zeros((*slopes.shape[:-1], len(self.names)))
        for parameter, column in enumerate(self.columns):
            if column >= 0:
                out[..., column] += slopes[..., parameter]
        return out

    @property
    def _plain(self) -> bool:
        return np.array_equal(self.columns, np.arange(len(self.names)))
