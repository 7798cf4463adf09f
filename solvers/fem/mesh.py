"""Meshes of simplices or parallelograms as plain arrays, with named parts of the boundary and named regions."""

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
from invsamp.solvers.fem import cell_geometry
from invsamp.solvers.fem.contract import Array, Mask, Numbers, Part
from invsamp.solvers.foreign import Read


@dataclass(frozen=True, eq=False, repr=False)
class Mesh:
    """Intervals on a line, triangles or parallelograms in the plane, or tetrahedra in space.

    Parameters
    ----------
    points : array, shape (n, d)
        In one to three dimensions.
    cells : array of int, shape (c, d + 1), or (c, 4) in the plane
        Node numbers of simplices, or of parallelograms in the order in which one goes round. Those of negative
        orientation are turned.
    regions : mapping from name to array of int
        Numbers of cells.
    edges : mapping from name to array of int, shape (k, d)
        Parts of the boundary, by the nodes of their facets: points of a line, edges in the plane, triangles in space.

    Raises
    ------
    ValueError
        If a number is out of range, a coordinate is not finite, a cell has no area, or the four corners of one are not
        those of a parallelogram. Also if more than two cells share a facet, or a node belongs to no cell.
    """

    points: Array
    cells: Numbers
    regions: Mapping[str, Numbers] = field(default_factory=dict)
    edges: Mapping[str, Numbers] = field(default_factory=dict)

    def __post_init__(self) -> None:
        points = np.array(arguments.array("points", self.points, ("n", "d")))
        dimension = points.shape[1]
        if not 1 <= dimension <= 3:
            raise ValueError(f"points must have shape (n, 1), (n, 2) or (n, 3), got {points.shape}")
        for name in ("regions", "edges"):
            arguments.mapping(name, getattr(self, name), "a mapping from names to numbers")
        arguments.array("cells", self.cells, whole=True)
        corners = 4 if dimension == 2 and np.shape(self.cells)[1:] == (4,) else dimension + 1
        cells = _numbers("cells", self.cells, (corners,), len(points))
        spanned = cell_geometry.spanned(points, cells)
        longest = cell_geometry.longest_edges(points, cells)
        flat = np.abs(spanned) <= 1e-14 * longest**dimension
        if flat.any():
            cell = int(np.flatnonzero(flat)[0])
            raise ValueError(f"cells must have a positive area, got {points[cells[cell]].tolist()} as cell {cell}")
        if corners == 4 and dimension == 2:
            _check_parallelograms(points, cells, longest)
        unused = np.setdiff1d(np.arange(len(points)), cells)
        if unused.size:
            raise ValueError(f"every point must belong to a cell, got {points[unused[0]].tolist()} in none")
        turned = [0, *range(corners - 1, 0, -1)] if dimension == 2 else [*range(corners - 2), corners - 1, corners - 2]
        cells[spanned < 0] = cells[spanned < 0][:, turned]
        regions = {
            name: _numbers(f"regions[{name!r}]", members, (), len(cells)) for name, members in self.regions.items()
        }
        edges = {
            name: _numbers(f"edges[{name!r}]", facets, (dimension,), len(points)) for name, facets in self.edges.items()
        }
        for name, value in (("points", points), ("cells", cells), ("regions", regions), ("edges", edges)):
            object.__setattr__(self, name, value)
        found, counts = self._edge_counts
        if counts.max() > 2:
            corner = points[self._decoded(found[[np.argmax(counts)]])[0]].tolist()
            raise ValueError(f"cells must not overlap, got {counts.max()} at the facet with the corners {corner}")

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
        """The kind of cells: "intervals", "triangles", "parallelograms" or "tetrahedra"."""
        if not cell_geometry.is_simplex(self.points, self.cells):
            return "parallelograms"
        return {1: "intervals", 2: "triangles", 3: "tetrahedra"}[self.points.shape[1]]

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
        """Of the cells, shape (c,); lengths on a line, volumes in space."""
        return cell_geometry.sizes(self.points, self.cells)

    @cached_property
    def midpoints(self) -> Array:
        """Of the cells, shape (c, d)."""
        return self.points[self.cells].mean(axis=1)

    @cached_property
    def outer_edges(self) -> Numbers:
        """Nodes (k, d) of the facets that belong to one cell alone."""
        found, counts = self._edge_counts
        return self._decoded(found[counts == 1])

    @cached_property
    def _edge_counts(self) -> tuple[Numbers, Numbers]:
        """Facets in increasing order, as one number in the base of the nodes; and how many cells each belongs to."""
        nodes = cell_geometry.facets(self.points, self.cells)
        code = nodes[:, 0]
        for column in nodes.T[1:]:
            code = code * len(self.points) + column
        return np.unique(code, return_counts=True)

    def _decoded(self, code: Numbers) -> Numbers:
        """Nodes (k, d) of facets that are coded as one number."""
        nodes: list[Numbers] = []
        for _ in range(self.points.shape[1]):
            code, last = np.divmod(code, len(self.points))
            nodes.insert(0, last)
        return np.stack(nodes, axis=1)

    def part_edges(self, part: Part | None = None) -> Numbers:
        """Nodes (k, d) of the facets of a part of the boundary.

        Parameters
        ----------
        part : str or predicate, optional
            A name of `edges`; or points (k, d) -> mask, for the outer facets of which it holds at all corners and in
            the middle. All outer facets by default.

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
        held = [_checked_mask(part, where) for where in (*np.moveaxis(ends, 1, 0), ends.mean(axis=1))]
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
            A name of `regions`; or points (k, d) -> mask, called with the midpoints.

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


def _check_parallelograms(points: Array, cells: Numbers, longest: Array) -> None:
    a, b, c, d = (points[cells[:, corner]] for corner in range(4))
    bad = np.linalg.norm(a - b + c - d, axis=1) > 1e-10 * longest
    if bad.any():
        cell = int(np.flatnonzero(bad)[0])
        raise ValueError(
            "cells of four corners must be parallelograms, with corners in order along the boundary, got "
            f"{points[cells[cell]].tolist()} as cell {cell}"
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
        raise ValueError(f"a part of a mesh must be a name or a predicate on points (k, d), got {predicate!r}")
    mask = np.asarray(predicate(points))
    if mask.shape != (len(points),) or mask.dtype != bool:
        raise ValueError(
            f"a predicate must give a mask of shape ({len(points)},) for points of shape {points.shape}, "
            f"got {mask.dtype} of shape {mask.shape}"
        )
    return mask
