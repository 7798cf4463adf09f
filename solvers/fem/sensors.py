"""Observations of a field: values at points, means over regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse

from invsamp.arguments import array, real, sequence, shown, store
from invsamp.solvers.fem.contract import Array, Mask, Part
from invsamp.solvers.fem.field_contract import describe
from invsamp.solvers.fem.space import Sensors, Space


@runtime_checkable
class SensorLayout(Protocol):
    """Sensors that are not bound to a mesh yet."""

    def on(self, space: Space) -> Sensors:
        """The functionals on a space. ValueError if a sensor does not lie in the mesh."""


@dataclass(frozen=True, eq=False)
class PointSensors:
    """Values at points (m, d); made by `point_sensors`."""

    points: Array

    def on(self, space: Space) -> Sensors:
        """As `SensorLayout.on`."""
        return space.points(self.points)

    def __eq__(self, other: object) -> bool:
        return np.array_equal(self.points, other.points) if isinstance(other, PointSensors) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.points.tobytes())

    def __repr__(self) -> str:
        return f"point_sensors({self.points.tolist()})"


@dataclass(frozen=True)
class RegionAverages:
    """Means over regions; made by `region_averages`."""

    regions: tuple[Part, ...]

    def on(self, space: Space) -> Sensors:
        """As `SensorLayout.on`."""
        return space.averages(self.regions)

    def __repr__(self) -> str:
        return f"region_averages([{', '.join(describe(region) for region in self.regions)}])"


@dataclass(frozen=True)
class SensorGroups:
    """Sensors of several kinds, one group after the other."""

    groups: tuple[SensorLayout, ...]

    def on(self, space: Space) -> Sensors:
        """As `SensorLayout.on`."""
        return Sensors(space, sparse.csr_matrix(sparse.vstack([group.on(space).matrix for group in self.groups])))


@dataclass(frozen=True)
class Disc:
    """The points within ``radius`` of ``center``, a disc or ball: a region.

    Examples
    --------
    >>> import numpy as np
    >>> from invsamp.solvers.heat import Disc
    >>> Disc((0.5, 0.5), 0.2)(np.array([[0.6, 0.5], [0.9, 0.5]]))
    array([ True, False])
    """

    center: tuple[float, ...]
    radius: float

    def __post_init__(self) -> None:
        center = tuple(array("center", self.center, ("d",)).tolist())
        store(self, center=center, radius=real("radius", self.radius, above=0))

    def __call__(self, points: Array) -> Mask:
        """Mask (k,) of points (k, d)."""
        mask: Mask = np.square(points - np.asarray(self.center)).sum(axis=1) <= self.radius**2
        return mask


def point_sensors(points: npt.ArrayLike) -> PointSensors:
    """Sensors that read the value at points.

    Parameters
    ----------
    points : array, shape (n_sensors, d)

    Raises
    ------
    ValueError
        If the shape is another, or a coordinate is not finite.

    Examples
    --------
    >>> from invsamp.solvers.heat import point_sensors
    >>> from invsamp.solvers.poisson import PoissonEquation
    >>> model = PoissonEquation(cells=16, source="heating").observe(point_sensors([[0.5, 0.5], [0.2, 0.8]]))
    >>> model([[1.0]]).round(2)
    array([[0.07, 0.03]])
    """
    return PointSensors(array("points", points, ("n_sensors", "d")))


def region_averages(regions: Sequence[Part]) -> RegionAverages:
    """Sensors that read means over regions.

    Parameters
    ----------
    regions : sequence of str or predicate
        Names of the mesh's regions; or points (k, d) -> mask, called with the cells' midpoints, such as `Disc`.

    Raises
    ------
    ValueError
        If there is no region.

    Examples
    --------
    >>> from invsamp.solvers.heat import Disc, region_averages
    >>> from invsamp.solvers.poisson import PoissonEquation
    >>> model = PoissonEquation(cells=16, source="heating").observe(region_averages([Disc((0.5, 0.5), 0.2)]))
    >>> model([[1.0]]).round(2)
    array([[0.07]])
    """
    listed = sequence("regions", regions, "a sequence of names or predicates")
    if wrong := [region for region in listed if not callable(region) and not (isinstance(region, str) and region)]:
        raise ValueError(f"regions must be names or predicates, got {shown(wrong[0])}")
    return RegionAverages(listed)


def as_layout(sensors: object) -> SensorLayout:
    """Sensors from an array of points, `point_sensors`, `region_averages`, or a sequence of such groups.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    if isinstance(sensors, SensorLayout) and not isinstance(sensors, type):
        return sensors
    if isinstance(sensors, Sequence) and any(isinstance(group, SensorLayout) for group in sensors):
        return SensorGroups(tuple(as_layout(group) for group in sensors))
    held = sensors if isinstance(sensors, (list, tuple)) else [sensors]
    if any(callable(each) or isinstance(each, str) for each in held):
        raise ValueError(f"sensors must be points (n_sensors, d), or region_averages([...]), got {sensors!r}")
    return PointSensors(array("sensors", sensors, ("n_sensors", "d")))
