"""Fields that are constant in parts of the domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from invsamp.arguments import array, mapping, store, text
from invsamp.solvers.fem.contract import Array, Mask, Part
from invsamp.solvers.fem.field_contract import (
    FieldValues,
    InRegion,
    Linear,
    ScalarUnknowns,
    Unknown,
    checked_unknown,
    combination,
    describe,
)


@dataclass(frozen=True)
class PerRegion(ScalarUnknowns):
    """One value in each region.

    Parameters
    ----------
    values : mapping from region to float or str
        A region is a name that the mesh knows, or a predicate, points (n, 2) -> mask (n,).
    elsewhere : float or str, optional
        Value outside all regions, which must otherwise cover every point. Several regions may share an unknown.

    Raises
    ------
    ValueError
        If there is no region or a number is not finite; and by `at`, if regions overlap, are empty, or leave a point
        out.
    """

    values: Mapping[Part, Unknown]
    elsewhere: Unknown | None = None

    def __post_init__(self) -> None:
        if not mapping("values", self.values, "a mapping from regions to numbers or names"):
            raise ValueError("values must map at least one region to a number or a name, got none")
        checked = {
            region: checked_unknown(f"values[{describe(region)}]", value) for region, value in self.values.items()
        }
        object.__setattr__(self, "values", checked)
        if self.elsewhere is not None:
            object.__setattr__(self, "elsewhere", checked_unknown("elsewhere", self.elsewhere))

    def __repr__(self) -> str:
        values = ", ".join(f"{describe(region)}: {value!r}" for region, value in self.values.items())
        return f"PerRegion({{{values}}}, elsewhere={self.elsewhere!r})"

    def __hash__(self) -> int:
        return hash((tuple(self.values.items()), self.elsewhere))

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        masks = [_mask(region, points, in_region) for region in self.values]
        covered = np.sum(masks, axis=0)
        if (covered > 1).any():
            raise ValueError(f"regions must not overlap, got {points[covered > 1][0].tolist()} in several")
        if self.elsewhere is not None:
            masks.append(covered == 0)
        elif (covered == 0).any():
            where = points[covered == 0][0].tolist()
            raise ValueError(f"regions must cover every point, or elsewhere be given, got {where} in none")
        found = combination(list(zip(masks, self._slots, strict=True)), self.parameters)
        return Linear(sparse.csr_matrix(found.matrix), found.offset)

    @property
    def _slots(self) -> tuple[Unknown, ...]:
        return (*self.values.values(), *(() if self.elsewhere is None else (self.elsewhere,)))


@dataclass(frozen=True)
class PerBlock:
    """One unknown in each of ``shape[0] x shape[1]`` equal rectangles; x varies slowest.

    Parameters
    ----------
    parameter : str
        A vector of shape[0] * shape[1] unknowns.
    shape : pair of int, >= 1
        Rectangles along x and y.
    lower, upper : pair of float
        Corners of the whole; points outside take the value of the rectangle next to them.
    """

    parameter: str
    shape: tuple[int, int]
    lower: tuple[float, float] = (0.0, 0.0)
    upper: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        text("parameter", self.parameter)
        counts = array("shape", self.shape, (2,), least=1, whole=True)
        lower, upper = array("lower", self.lower, (2,)), array("upper", self.upper, (2,))
        if not (lower < upper).all():
            raise ValueError(f"lower must be below upper, got {self.lower} and {self.upper}")
        store(self, shape=tuple(map(int, counts)), lower=tuple(lower.tolist()), upper=tuple(upper.tolist()))

    @property
    def parameters(self) -> tuple[str, ...]:
        """As `Field.parameters`."""
        return (self.parameter,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """As `Field.sizes`."""
        return (math.prod(self.shape),)

    def at(self, points: Array, in_region: InRegion | None = None) -> FieldValues:
        """As `Field.at`."""
        counts = np.array(self.shape)
        scaled = (np.asarray(points) - self.lower) / np.subtract(self.upper, self.lower) * counts
        row, column = np.clip(np.floor(scaled).astype(int), 0, counts - 1).T
        chosen = (np.ones(len(points)), (np.arange(len(points)), row * counts[1] + column))
        return Linear(sparse.csr_matrix(chosen, shape=(len(points), math.prod(self.shape))))


def _mask(region: Part, points: Array, in_region: InRegion | None) -> Mask:
    if isinstance(region, str):
        if in_region is None:
            raise ValueError(f"regions at points must be predicates, got the name {region!r}, which only cells have")
        return in_region(region)
    mask = np.asarray(region(points))
    if mask.shape != (len(points),) or mask.dtype != bool:
        raise ValueError(f"{describe(region)} must give a mask of shape {(len(points),)}, got {mask.shape}")
    return mask
