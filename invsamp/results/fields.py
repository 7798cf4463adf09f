"""Unknown fields on a mesh: what the draws say of their values there."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.arguments import one_of, optional, real, wrong
from invsamp.protocols import Array
from invsamp.results.predictive import chosen

#: Quantiles that are written to a file beside mean and sd.
WRITTEN = (0.05, 0.5, 0.95)
#: Points of the quadrature over a Gaussian value: exact to 1e-6 for the sd of an exponential of a value with sd 2.
QUADRATURE = 40


class Mesh(Protocol):
    """Contract of a field's mesh, such as `invsamp.solvers.fem.mesh.Mesh`."""

    @property
    def points(self) -> Array:
        """Nodes, shape (n, d), in one to three dimensions."""

    @property
    def cells(self) -> npt.NDArray[np.integer]:
        """Node numbers of simplices (c, d + 1); or of quadrangles (c, 4), in the order in which one goes round."""

    @property
    def midpoints(self) -> Array:
        """Of the cells, shape (c, d)."""

    def region_cells(self, region: str | Callable[[Array], npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
        """Which cells lie in a region, shape (c,)."""


class Values(Protocol):
    """A field at n points."""

    def values(self, theta: Array) -> Array:
        """Values (batch, n) for the field's own columns (batch, p)."""


class Field(Protocol):
    """A scalar field of unknowns, such as those of `invsamp.solvers.fem.fields`."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the unknowns."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many numbers each one holds."""

    def at(
        self,
        points: Array,
        in_region: Callable[[str | Callable[[Array], npt.NDArray[np.bool_]]], npt.NDArray[np.bool_]] | None = None,
    ) -> Values:
        """Prepare the field for points (n, d)."""


@dataclass(frozen=True, eq=False)
class FieldDraws:
    """Draws of a field on a mesh; made by `invsamp.Run.field`.

    Attributes
    ----------
    points : ndarray, shape (n, d)
        Nodes of the mesh.
    cells : ndarray of int, shape (c, d + 1) or (c, 4)
        Node numbers of its simplices or quadrangles.
    values : ndarray, shape (chains, draws, n) or (chains, draws, c)
        Of the field, at the nodes or at the midpoints of the cells. Draws count alike: where those of the run have
        weights, these are taken as often as their weights say.
    on : {"nodes", "cells"}
        Which of them.
    truth : ndarray, shape (n,) or (c,), or None
        The field for the true values of its unknowns.
    moments : tuple of two ndarray, shape (n,) or (c,), or None
        Mean and sd, where these are known better than from ``values``. Those of a prior are exact at the nodes of a
        Gaussian field's own mesh. Those of a run that keeps every k-th draw of a large field are over all draws.
    """

    points: Array
    cells: npt.NDArray[np.integer]
    values: Array
    on: Literal["nodes", "cells"]
    truth: Array | None = None
    moments: tuple[Array, Array] | None = None

    def __repr__(self) -> str:
        chains, draws, size = self.values.shape
        values = f"mean {_range(self.mean)}, sd {_range(self.sd)}"
        return f"FieldDraws({chains} chains, {draws} draws, {size} {self.on}; {values})"

    @property
    def mean(self) -> Array:
        """Mean, shape (n,) or (c,), of the draws or as ``moments`` has it."""
        return np.asarray(self.values.mean(axis=(0, 1))) if self.moments is None else self.moments[0]

    @property
    def sd(self) -> Array:
        """Standard deviation, shape (n,) or (c,), of the draws or as ``moments`` has it."""
        return np.asarray(self.values.std(axis=(0, 1))) if self.moments is None else self.moments[1]

    def quantile(self, probability: float) -> Array:
        """Value that the field is below with ``probability`` in (0, 1), at each point by itself, shape (n,) or (c,)."""
        return np.asarray(np.quantile(self.values, real("probability", probability, above=0.0, below=1.0), axis=(0, 1)))

    def exceedance(self, level: float) -> Array:
        """Probability that the field is above ``level``, at each point by itself, shape (n,) or (c,)."""
        return np.asarray((self.values > real("level", level)).mean(axis=(0, 1)))

    def write(self, path: str | os.PathLike[str], level: float | None = None) -> None:
        """Write mesh, mean, sd and quantiles to a file for ParaView and its kind, by meshio.

        Parameters
        ----------
        path : path
            Its ending says how: ``.vtu``, ``.xdmf`` or any other that meshio writes and that holds such data.
        level : float, optional
            Also the probability to exceed it.

        Raises
        ------
        ValueError
            If meshio knows no such ending.
        FileNotFoundError
            If the folder does not exist.
        """
        import meshio

        place = arguments.path("path", path)
        if place.suffix.lower() not in (known := meshio.extension_to_filetypes):
            raise ValueError(f"path must end as a file of meshes does ({', '.join(sorted(known))}), got {str(path)!r}")
        if not place.parent.is_dir():
            raise FileNotFoundError(f"path must lie in an existing folder, got {str(path)!r}")
        shown = {"mean": self.mean, "sd": self.sd} | {f"q{100 * p:g}": self.quantile(p) for p in WRITTEN}
        if level is not None:
            shown[f"above {level:g}"] = self.exceedance(level)
        if self.truth is not None:
            shown["truth"] = self.truth
        dimension = self.points.shape[1]
        points = np.pad(self.points, ((0, 0), (0, 3 - dimension)))
        simplex = {1: "line", 2: "triangle", 3: "tetra"}[dimension]
        kind = simplex if self.cells.shape[1] == dimension + 1 else "quad"
        at_nodes = shown if self.on == "nodes" else {}
        at_cells = {} if at_nodes else {name: [values] for name, values in shown.items()}
        meshio.Mesh(points, [(kind, self.cells)], point_data=at_nodes, cell_data=at_cells).write(place)


def field_draws(
    theta: Array,
    weight: Array | None,
    shapes: Mapping[str, tuple[int, ...]],
    field: Field,
    mesh: Mesh,
    on: Literal["nodes", "cells"] = "nodes",
    draws: int | None = None,
    truth: Mapping[str, npt.ArrayLike] | None = None,
    marginals: Mapping[str, tuple[Array, Array]] | None = None,
    gaussian: bool = False,
    grids: Mapping[str, str] | None = None,
) -> FieldDraws:
    """Draws of a field; see `invsamp.Run.field`, which gives theta (chains, draws, d), weights and shapes.

    ``marginals`` has mean and sd of each value of some unknowns, which are ``gaussian`` or not; ``grids``
    has digests of the meshes at whose nodes some unknowns are values.
    """
    if not all(hasattr(field, name) for name in ("parameters", "sizes", "at")):
        raise wrong("field", "a field, such as those of invsamp.solvers.fem.fields", field)
    if not all(hasattr(mesh, name) for name in ("points", "cells", "midpoints")):
        raise wrong("mesh", "a mesh, such as invsamp.solvers.fem.mesh.unit_square(32)", mesh)
    one_of("on", on, ("nodes", "cells"))
    columns = _columns(field, shapes)
    own = getattr(field, "grids", {})
    for name, digest in (grids or {}).items():
        if own.get(name, digest) != digest:
            raise ValueError(f"field must have {name!r} on the mesh of the run's own field, got another mesh")
    prepared = field.at(mesh.points) if on == "nodes" else field.at(mesh.midpoints, mesh.region_cells)
    rows, _ = chosen(theta, weight, draws)
    values = prepared.values(rows.reshape(-1, theta.shape[-1])[:, columns])
    true = None
    if optional(arguments.mapping, "truth", truth) is not None:
        true = prepared.values(_true_row(field, truth or {})[None])[0]
    moments = _moments(field, prepared, mesh, marginals or {}, gaussian) if on == "nodes" else None
    return FieldDraws(mesh.points, mesh.cells, values.reshape(*rows.shape[:2], -1), on, true, moments)


def _moments(
    field: Field, prepared: Values, mesh: Mesh, marginals: Mapping[str, tuple[Array, Array]], gaussian: bool
) -> tuple[Array, Array] | None:
    """Mean and sd of a field at the nodes of its own mesh, from those of the one unknown that it is a function of.

    Each value of such a field is a function of that of the unknown at the same node.
    """
    digest = getattr(mesh, "digest", None)
    if len(field.parameters) != 1 or digest is None:
        return None
    (name,) = field.parameters
    if name not in marginals or getattr(field, "grids", {}) != {name: digest}:
        return None
    mean, sd = (np.ravel(values) for values in marginals[name])
    if np.array_equal(prepared.values(np.stack([mean, sd])), np.stack([mean, sd])):
        return mean, sd
    if not gaussian:
        return None
    places, weights = np.polynomial.hermite_e.hermegauss(QUADRATURE)
    values, weights = prepared.values(mean + sd * places[:, None]), weights / weights.sum()
    average = weights @ values
    return average, np.sqrt(weights @ np.square(values - average))


def _columns(field: Field, shapes: Mapping[str, tuple[int, ...]]) -> npt.NDArray[np.intp]:
    """Which columns of theta are the field's."""
    ends = np.cumsum([0, *(math.prod(shape) for shape in shapes.values())])
    place = {name: np.arange(begin, end) for name, begin, end in zip(shapes, ends[:-1], ends[1:], strict=True)}
    found = [np.empty(0, dtype=np.intp)]
    for name, size in zip(field.parameters, field.sizes, strict=True):
        if name not in place:
            raise ValueError(f"field must be of unknowns of the run ({', '.join(shapes)}), got {name!r}")
        if len(place[name]) != size:
            raise ValueError(f"field has {size} numbers under {name!r}, the run {len(place[name])}")
        found.append(place[name])
    return np.concatenate(found)


def _true_row(field: Field, truth: Mapping[str, npt.ArrayLike]) -> Array:
    """The true values of a field's unknowns, in its order."""
    missing = [name for name in field.parameters if name not in truth]
    if missing:
        raise ValueError(f"truth must have all unknowns of the field, got none for {', '.join(missing)}")
    parts = [np.empty(0)]
    for name, size in zip(field.parameters, field.sizes, strict=True):
        parts.append(arguments.array(f"truth[{name!r}]", np.ravel(np.asarray(truth[name])), (size,)))
    return np.concatenate(parts)


def _range(values: Array) -> str:
    return f"{values.min():.3g} to {values.max():.3g}"
