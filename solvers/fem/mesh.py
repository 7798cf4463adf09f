"""Meshes of triangles or parallelograms as plain arrays, with named parts of the boundary and named regions."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.solvers.fem.contract import Array, Mask, Numbers, Part
from invsamp.solvers.foreign import Read


@dataclass(frozen=True, eq=False, repr=False)
class Mesh:
    """Triangles, or parallelograms, in the plane.

    Parameters
    ----------
    points : array, shape (n, 2)
    cells : array of int, shape (c, 3) or (c, 4)
        Node numbers of triangles, or of parallelograms in the order in which one goes round. Clockwise ones are turned.
    regions : mapping from name to array of int
        Numbers of cells.
    edges : mapping from name to array of int, shape (k, 2)
        Node pairs of edges; parts of the boundary.

    Raises
    ------
    ValueError
        If a number is out of range, a cell has no area or four corners that are not a parallelogram's, more than two
        cells share an edge, a node belongs to no cell, or a coordinate is not finite.
    """

    points: Array
    cells: Numbers
    regions: Mapping[str, Numbers] = field(default_factory=dict)
    edges: Mapping[str, Numbers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        points = np.array(arguments.array("points", self.points, ("n", 2)))
        for name in ("regions", "edges"):
            arguments.mapping(name, getattr(self, name), "a mapping from names to numbers")
        arguments.array("cells", self.cells, whole=True)
        corners = 4 if np.shape(self.cells)[1:] == (4,) else 3
        cells = _numbers("cells", self.cells, (corners,), len(points))
        spanned = _spanned(points, cells)
        longest = np.linalg.norm(points[cells] - points[np.roll(cells, 1, axis=1)], axis=2).max(axis=1)
        flat = np.abs(spanned) <= 1e-14 * longest**2
        if flat.any():
            cell = int(np.flatnonzero(flat)[0])
            raise ValueError(f"cells must have an area, got {points[cells[cell]].tolist()} as number {cell}")
        if corners == 4:
            _check_parallelograms(points, cells, longest)
        unused = np.setdiff1d(np.arange(len(points)), cells)
        if unused.size:
            raise ValueError(f"every point must belong to a cell, got {points[unused[0]].tolist()} alone")
        cells[spanned < 0] = cells[spanned < 0][:, [0, *range(corners - 1, 0, -1)]]
        regions = {
            name: _numbers(f"regions[{name!r}]", members, (), len(cells)) for name, members in self.regions.items()
        }
        edges = {name: _numbers(f"edges[{name!r}]", pairs, (2,), len(points)) for name, pairs in self.edges.items()}
        for name, value in (("points", points), ("cells", cells), ("regions", regions), ("edges", edges)):
            object.__setattr__(self, name, value)
        found, counts = self._edge_counts
        if counts.max() > 2:
            ends = points[list(divmod(int(found[np.argmax(counts)]), len(points)))].tolist()
            raise ValueError(f"cells must not overlap, got {counts.max()} at the edge from {ends[0]} to {ends[1]}")

    def __repr__(self) -> str:
        parts = [f"{len(self.points)} nodes", f"{len(self.cells)} {self.kind}"]
        parts += [f"regions {', '.join(self.regions)}"] if self.regions else []
        parts += [f"edges {', '.join(self.edges)}"] if self.edges else []
        return f"Mesh({'; '.join(parts)}; {self.digest[:8]})"

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Mesh) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def kind(self) -> str:
        """What the cells are: "triangles" or "parallelograms"."""
        return "triangles" if self.cells.shape[1] == 3 else "parallelograms"

    @cached_property
    def digest(self) -> str:
        """Hash of the contents: equal for equal meshes."""
        found = hashlib.sha256()
        named = [*sorted(self.regions.items()), *sorted(self.edges.items())]
        for name, values in [("points", self.points), ("cells", self.cells), *named]:
            found.update(f"{name}{values.shape}".encode() + np.ascontiguousarray(values).tobytes())
        return found.hexdigest()

    @cached_property
    def areas(self) -> Array:
        """Of the cells, shape (c,)."""
        return _spanned(self.points, self.cells) / (2.0 if self.cells.shape[1] == 3 else 1.0)

    @cached_property
    def midpoints(self) -> Array:
        """Of the cells, shape (c, 2)."""
        return self.points[self.cells].mean(axis=1)

    @cached_property
    def outer_edges(self) -> Numbers:
        """Node pairs (k, 2) of the edges that belong to one cell alone."""
        edges, counts = self._edge_counts
        return np.stack(np.divmod(edges[counts == 1], len(self.points)), axis=1)

    @cached_property
    def _edge_counts(self) -> tuple[Numbers, Numbers]:
        """Edges, as lower node number * n + upper, in increasing order; and how many cells each belongs to."""
        pairs = np.sort(np.stack([self.cells, np.roll(self.cells, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
        return np.unique(pairs[:, 0] * len(self.points) + pairs[:, 1], return_counts=True)

    def part_edges(self, part: Part | None = None) -> Numbers:
        """Node pairs (k, 2) of a part of the boundary.

        Parameters
        ----------
        part : str or predicate, optional
            A name of `edges`; or points (k, 2) -> mask, for the outer edges of which it holds at both ends and in the
            middle. All outer edges by default.

        Raises
        ------
        ValueError
            If the name is not known, the predicate gives no mask, or there is no such edge.
        """
        if part is None:
            return self.outer_edges
        if isinstance(part, str):
            if part not in self.edges:
                raise ValueError(f"a part of the boundary must be one of {list(self.edges)}, got {part!r}")
            return self.edges[part]
        ends = self.points[self.outer_edges]
        held = [_checked_mask(part, where) for where in (ends[:, 0], ends[:, 1], ends.mean(axis=1))]
        chosen = self.outer_edges[np.logical_and.reduce(held)]
        if not len(chosen):
            raise ValueError(f"a part of the boundary must hold an edge, got none by {part!r}")
        return chosen

    def part_nodes(self, part: Part | None = None) -> Mask:
        """Which nodes lie on a part of the boundary, shape (n,); ``part`` as in `part_edges`."""
        mask = np.zeros(len(self.points), dtype=bool)
        mask[self.part_edges(part)] = True
        return mask

    def region_cells(self, region: Part) -> Mask:
        """Which cells lie in a region, shape (c,).

        Parameters
        ----------
        region : str or predicate
            A name of `regions`; or points (k, 2) -> mask, called with the midpoints.

        Raises
        ------
        ValueError
            If the name is not known, the predicate gives no mask, or there is no such cell.
        """
        if isinstance(region, str):
            if region not in self.regions:
                raise ValueError(f"a region must be one of {list(self.regions)}, got {region!r}")
            mask = np.zeros(len(self.cells), dtype=bool)
            mask[self.regions[region]] = True
        else:
            mask = _checked_mask(region, self.midpoints)
        if not mask.any():
            raise ValueError(f"a region must hold a cell, got none by {region!r}")
        return mask


def unit_square(cells: int, kind: str = "triangles") -> Mesh:
    """The unit square in ``cells x cells`` squares, or in two triangles of each, from lower left to upper right.

    Parameters
    ----------
    cells : int
        Squares along one side.
    kind : {"triangles", "squares"}

    Nodes are in C order of the grid (x, y): y varies fastest. The sides are the edges "left", "right", "bottom" and
    "top".

    Raises
    ------
    ValueError
        If ``cells`` is not an integer of at least 2, or the kind is unknown.
    """
    cells = arguments.integer("cells", cells, least=2)
    arguments.one_of("kind", kind, ("triangles", "squares"))
    grid = np.linspace(0.0, 1.0, cells + 1)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    number = np.arange((cells + 1) ** 2).reshape(cells + 1, cells + 1)
    low, right, up, across = number[:-1, :-1], number[1:, :-1], number[:-1, 1:], number[1:, 1:]
    parts = ((low, right, across), (low, across, up)) if kind == "triangles" else ((low, right, across, up),)
    corners = np.stack([np.stack(part, axis=-1) for part in parts], axis=2)
    sides = {"left": number[0], "right": number[-1], "bottom": number[:, 0], "top": number[:, -1]}
    edges = {name: np.stack([side[:-1], side[1:]], axis=1) for name, side in sides.items()}
    return Mesh(points, corners.reshape(-1, corners.shape[-1]), {}, edges)


def chosen_mesh(cells: int | None, mesh: Mesh | None) -> Mesh:
    """The unit square in ``cells x cells`` squares, or the mesh. ValueError if not exactly one is given."""
    if (cells is None) == (mesh is None):
        raise ValueError(f"either cells or mesh must be given, got cells={cells!r} and mesh={mesh!r}")
    if mesh is None:
        return unit_square(cells)  # type: ignore[arg-type]
    given: Mesh = arguments.instance("mesh", mesh, Mesh, "a Mesh, such as read_mesh(path) gives")
    return given


def read_mesh(path: str | Path) -> Mesh:
    """Read a mesh of triangles in the plane from a file, such as Gmsh's .msh, in any format that meshio knows.

    Physical groups become names: of triangles, `Mesh.regions`; of lines, `Mesh.edges`. A group without a name is
    called by its number.

    Raises
    ------
    ValueError
        If the file cannot be read, holds no triangles or other cells of dimension two or three, or does not lie in a
        plane z = const.
    """
    content = _read(arguments.path("path", path))
    foreign = {block.type for block in content.cells} - {"triangle", "line", "vertex"}
    if foreign:
        raise ValueError(f"{path} must hold triangles of order 1 and lines alone, got cells of type {sorted(foreign)}")
    if not any(block.type == "triangle" for block in content.cells):
        raise ValueError(f"{path} must hold triangles, got none")
    points = np.asarray(content.points, dtype=float)
    if points.shape[1] == 3 and np.ptp(points[:, 2]) > 1e-12 * np.ptp(points[:, :2]):
        raise ValueError(
            f"{path} must lie in a plane z = const, got z from {points[:, 2].min()} to {points[:, 2].max()}"
        )
    triangles, regions = _distinct(*_blocks(content, "triangle", 3))
    lines, edges = _blocks(content, "line", 2)
    used = np.unique(triangles)
    # files keep points of the geometry, such as centers of arcs, that belong to no triangle
    renumbered = np.full(len(points), -1)
    renumbered[used] = np.arange(len(used))
    named = {name: renumbered[lines[members]] for name, members in edges.items()}
    return Mesh(points[used, :2], renumbered[triangles], regions, named)


def _read(path: str | Path) -> Read:
    import meshio

    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # it prints
            return meshio.read(path)
    # meshio leaves the process for a file that none of its readers understands
    except (Exception, SystemExit) as error:
        raise ValueError(f"path must be a mesh file that meshio can read, got {str(path)!r}: {error}") from error


def _blocks(content: Read, kind: str, corners: int) -> tuple[Numbers, dict[str, Numbers]]:
    """Node numbers (k, corners) of all cells of one kind, and the members of each named group among them."""
    cells = content.cells_dict.get(kind, np.empty((0, corners)))
    # cell_sets_dict counts wrongly past a block without members
    content.cell_sets = {
        name: [np.empty(0, dtype=int) if members is None else members for members in listed]
        for name, listed in content.cell_sets.items()
    }
    # those named "gmsh:..." are the geometry's own entities
    groups = {
        name: np.asarray(members[kind])
        for name, members in content.cell_sets_dict.items()
        if kind in members and not name.startswith("gmsh:")
    }
    names = {(int(tag), int(dimension)): name for name, (tag, dimension) in content.field_data.items()}
    tags = content.cell_data_dict.get("gmsh:physical", {}).get(kind, np.empty(0, dtype=int))
    for tag in np.unique(tags[tags > 0]):
        name = names.get((int(tag), corners - 1), str(tag))
        if name not in content.cell_sets:
            groups[name] = np.flatnonzero(tags == tag)
    return cells.astype(np.intp), {name: members.astype(np.intp) for name, members in groups.items()}


def _distinct(triangles: Numbers, regions: dict[str, Numbers]) -> tuple[Numbers, dict[str, Numbers]]:
    """Each triangle once: Gmsh's format 2.2 repeats one that belongs to several physical groups."""
    _, first, which = np.unique(np.sort(triangles, axis=1), axis=0, return_index=True, return_inverse=True)
    kept = np.sort(first)
    number = np.searchsorted(kept, first)[which.ravel()]
    return triangles[kept], {name: np.unique(number[members]) for name, members in regions.items()}


def _spanned(points: Array, cells: Numbers) -> Array:
    """Area of the parallelogram that the two edges at the first corner span; negative for clockwise cells."""
    a, b, c = (points[cells[:, corner]] for corner in (0, 1, -1))
    first, last = b - a, c - a
    return np.asarray(first[:, 0] * last[:, 1] - first[:, 1] * last[:, 0])


def _check_parallelograms(points: Array, cells: Numbers, longest: Array) -> None:
    a, b, c, d = (points[cells[:, corner]] for corner in range(4))
    bad = np.linalg.norm(a - b + c - d, axis=1) > 1e-10 * longest
    if bad.any():
        cell = int(np.flatnonzero(bad)[0])
        raise ValueError(
            "cells of four corners must be parallelograms, in the order in which one goes round, got "
            f"{points[cells[cell]].tolist()} as number {cell}"
        )


def _numbers(name: str, values: npt.ArrayLike, tail: tuple[int, ...], bound: int) -> Numbers:
    numbers = arguments.array(name, values, whole=True, empty=True).astype(np.intp)
    if numbers.ndim != 1 + len(tail) or numbers.shape[1:] != tail:
        wanted = "(k,)" if not tail else f"(k, {tail[0]})"
        raise ValueError(f"{name} must have shape {wanted}, got {numbers.shape}")
    if numbers.size and (numbers.min() < 0 or numbers.max() >= bound):
        raise ValueError(f"{name} must lie between 0 and {bound - 1}, got {numbers.min()} to {numbers.max()}")
    return numbers


def _checked_mask(predicate: object, points: Array) -> Mask:
    if not callable(predicate):
        raise ValueError(f"a part of a mesh must be a name or a predicate on points (k, 2), got {predicate!r}")
    mask = np.asarray(predicate(points))
    if mask.shape != (len(points),) or mask.dtype != bool:
        raise ValueError(
            f"a predicate must give a mask of shape ({len(points)},) for points of shape {points.shape}, "
            f"got {mask.dtype} of shape {mask.shape}"
        )
    return mask
