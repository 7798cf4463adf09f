"""Faces of domains, packed for the kernels, and the base class that reflects paths at them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from invsamp.arguments import generator, integer
from invsamp.domains import _paths
from invsamp.domains._arrays import check_metric, copies
from invsamp.domains._surfaces import Surface
from invsamp.domains.contract import MAX_BOUNCES, MAX_BOUNCES_CURVED, Array, BoolArray, Domain, Reflection
from invsamp.protocols import Plain

IntArray = npt.NDArray[np.int64]

#: Proposals after which `ReflectingDomain.sample_uniform` gives a domain up of which it found nothing.
PROPOSALS = 10_000_000

NO_INDICES, NO_METRIC = np.empty(0, dtype=np.int64), np.empty((0, 0))


@dataclass(frozen=True)
class Member:
    """Faces of one kind on some columns; see `invsamp.domains._members` for what the arrays hold."""

    kind: int
    columns: tuple[int, ...]
    faces: int
    numbers: Array
    indices: IntArray = field(default_factory=lambda: NO_INDICES)
    convex: bool = True
    curved: bool = False

    def on(self, columns: tuple[int, ...]) -> Member:
        """The same faces, where column k of the member is now ``columns[k]``."""
        return replace(self, columns=tuple(columns[k] for k in self.columns))


class PackedFaces:
    """Members packed for the kernels, and the surfaces that no kernel knows."""

    def __init__(self, members: Sequence[Member | Surface]) -> None:
        rows, indices, numbers = [], [NO_INDICES], [np.empty(0)]
        at = start = 0
        compiled = [member for member in members if isinstance(member, Member)]
        for member in compiled:
            m = len(member.columns)
            rows.append([member.kind, at, m, member.faces, at + m, start])
            indices += [np.array(member.columns, dtype=np.int64), member.indices]
            numbers.append(member.numbers)
            at, start = at + m + len(member.indices), start + len(member.numbers)
        self.region = np.array(rows, dtype=np.int64).reshape(-1, 6), np.concatenate(indices), np.concatenate(numbers)
        self.surfaces = [member for member in members if isinstance(member, Surface)]
        self.convex = not self.surfaces and all(member.convex for member in compiled)
        curved = self.surfaces or any(member.curved for member in compiled)
        self.max_bounces = MAX_BOUNCES_CURVED if curved else MAX_BOUNCES

    def contains(self, position: Array) -> BoolArray:
        """Whether each position (n, d) is inside, shape (n,)."""
        points = np.array(position, dtype=float, order="C")
        result = np.empty(len(points), dtype=np.bool_)
        _paths.contained(points, self.region, result)
        for surface in self.surfaces:
            # a function may not be defined outside of the other faces
            result[result] = surface.inside(points[result])
        return result

    def reflect(self, position: Array, move: Array, metric: Array | None) -> Reflection:
        """See `Domain.reflect`."""
        end, velocity = copies(position, move)
        n, dimension = end.shape
        form = NO_METRIC
        if metric is not None:
            form = np.array(metric, dtype=float, order="C", ndmin=2)
            check_metric(np.shape(metric), dimension)
        if self.surfaces:
            return self._follow(end, velocity, form)
        bounces, failed = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
        scratch = np.empty((4, dimension))
        _paths.follow(end, velocity, self.region, form, scratch, self.convex, self.max_bounces, bounces, failed)
        return Reflection(end, velocity, bounces, failed)

    def _follow(self, end: Array, velocity: Array, metric: Array) -> Reflection:
        """As `invsamp.domains._paths.follow`, all rows together from face to face."""
        start, move = end.copy(), velocity.copy()
        n, dimension = end.shape
        bounces, remaining = np.zeros(n, dtype=np.int64), np.ones(n)
        member, face = np.full(n, -1), np.full(n, -1)
        failed: BoolArray = np.asarray(~np.isfinite(velocity).all(axis=1))
        failed[~failed] = ~self.contains(end[~failed])
        rows = np.flatnonzero(~failed)
        for surface in self.surfaces:
            surface.check(end[rows][:, surface.columns])
        for count in range(self.max_bounces + 1):
            if not len(rows):
                break
            p, v = end[rows], velocity[rows]
            times, members, faces = self._first_hits(p, v, remaining[rows], member[rows], face[rows])
            p += times[:, None] * v
            end[rows], member[rows], face[rows] = p, members, faces
            remaining[rows] -= times
            hit = np.flatnonzero(members >= 0)
            rows, v = rows[hit], v[hit]
            if count == self.max_bounces:
                failed[rows] = True
                break
            normals, ok = self._normals(p[hit], members[hit], faces[hit]), np.empty(len(hit), dtype=np.bool_)
            _paths.turn_all(v, normals, metric, np.empty(dimension), ok)
            velocity[rows] = v
            bounces[rows] += 1
            failed[rows[~ok]] = True
            rows = rows[ok]
        moved = np.flatnonzero(~failed)
        p = end[moved]
        _paths.pull_all(p, self.region)
        end[moved] = p
        failed[moved] = ~self.contains(p)
        end[failed], velocity[failed], bounces[failed] = start[failed], move[failed], 0
        return Reflection(end, velocity, bounces, failed)

    def _first_hits(
        self, position: Array, move: Array, horizon: Array, last_member: IntArray, last_face: IntArray
    ) -> tuple[Array, IntArray, IntArray]:
        """Times, members and faces (n,) of the first hits; surfaces count on after the compiled members."""
        compiled = len(self.region[0])
        times, members, faces = horizon.copy(), last_member.copy(), last_face.copy()
        _paths.first_hits(position, move, self.region, times, members, faces)
        for k, surface in enumerate(self.surfaces, start=compiled):
            times, hit = surface.first_hits(position, move, times, last_member == k)
            members[hit] = k
        return times, members, faces

    def _normals(self, position: Array, members: IntArray, faces: IntArray) -> Array:
        compiled = len(self.region[0])
        normals = np.zeros(position.shape)
        _paths.set_normals(position, np.where(members < compiled, members, -1), faces, self.region, normals)
        for k, surface in enumerate(self.surfaces, start=compiled):
            hit = members == k
            if hit.any():
                normals[hit] = surface.normals(position[hit])
        return normals


class ReflectingDomain(ABC):
    """A domain that says which faces it has; the paths and the tests follow from them."""

    #: Set by `invsamp.domains.intersection`, because it takes to know all kinds of domains.
    intersection: ClassVar[Callable[..., Domain]]
    #: The name in a description.
    kind: ClassVar[str]

    @property
    @abstractmethod
    def dimension(self) -> int | None:
        """Number of coordinates; None for a domain that fits several."""

    @abstractmethod
    def members(self, dimension: int) -> Sequence[Member | Surface]:
        """The faces, for positions of this dimension."""

    def check_dimension(self, dimension: int) -> None:
        """Raise ValueError unless positions of this dimension can lie in the domain."""
        if self.dimension not in (None, dimension):
            raise ValueError(f"{type(self).__name__} has {self.dimension} coordinates, but positions have {dimension}")

    def packed(self, dimension: int) -> PackedFaces:
        """The faces, packed; made once for each dimension."""
        known: dict[int, PackedFaces] = self.__dict__.setdefault("_packed", {})
        if dimension not in known:
            self.check_dimension(dimension)
            known[dimension] = PackedFaces(self.members(dimension))
        return known[dimension]

    def contains(self, position: Array) -> BoolArray:
        """Whether each position (n, d) lies in the closed domain, shape (n,).

        In the arithmetic that `reflect` uses: every end that `reflect` returns is contained.
        """
        return self.packed(np.shape(position)[1]).contains(position)

    def reflect(self, position: Array, move: Array, metric: Array | None = None) -> Reflection:
        """Follow the moves from face to face. See `Domain.reflect`.

        A row fails after too many bounces (`MAX_BOUNCES`, or `MAX_BOUNCES_CURVED` where faces are curved), from a
        start that is outside, or with a move that is not finite. Both directions of a path bounce equally often, so
        refusing it is reversible too.

        Raises
        ------
        ValueError
            If shapes do not agree.
        """
        return self.packed(np.shape(move)[-1]).reflect(position, move, metric)

    def __and__(self, other: Domain) -> Domain:
        """Intersection with another domain; ValueError where nothing is left."""
        return self.intersection(self, other)

    def constrains(self, dimension: int) -> BoolArray:
        """Which coordinates the faces restrict, shape (d,): all of them, unless the domain says otherwise."""
        self.check_dimension(dimension)
        return np.ones(dimension, dtype=bool)

    @abstractmethod
    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """Lower and upper ends (d,), infinite where it is open."""

    def sample_uniform(self, rng: np.random.Generator, n: int) -> Array:
        """Independent uniform draws, shape (n, d), by rejection from the bounding box.

        Raises
        ------
        ValueError
            If the domain is not bounded, or fills less than a millionth of its bounding box, as a simplex of ten
            dimensions does.
        """
        generator("rng", rng), integer("n", n, least=0)
        if self.dimension is None:
            raise ValueError(f"sample_uniform needs a domain of a fixed number of coordinates, got {self!r}")
        lower, upper = self.bounding_box(self.dimension)
        if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
            raise ValueError(f"sample_uniform needs a bounded domain, got {self!r} within {lower} and {upper}")
        found = [np.empty((0, self.dimension))]
        proposed = accepted = 0
        while accepted < n:
            size = int(np.clip(1.1 * (n - accepted) * (proposed + 1) / (accepted + 1), 1000, 1_000_000))
            points = rng.uniform(lower, upper, (size, self.dimension))
            found.append(points[self.contains(points)])
            proposed, accepted = proposed + size, accepted + len(found[-1])
            if proposed >= PROPOSALS and accepted < 1e-6 * proposed:
                raise ValueError(f"{accepted} of {proposed} draws from its bounding box lie inside {self!r}")
        return np.concatenate(found)[:n]

    @abstractmethod
    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """See `Domain.outline`."""

    def to_dict(self) -> Plain:
        """JSON-able description, undone by `invsamp.domains.saved.from_dict`: by default the arguments."""
        return {"kind": self.kind} | {name: np.asarray(value).tolist() for name, value in self._arguments().items()}

    def __repr__(self) -> str:
        shown = (f"{name}={np.asarray(value).tolist()}" for name, value in self._arguments().items())
        return f"{type(self).__name__}({', '.join(shown)})"

    def _arguments(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        """Of one kind, and made of the same numbers in the same order."""
        return self.to_dict() == other.to_dict() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(_frozen(self.to_dict()))


def _frozen(value: object) -> object:
    """Convert lists and dicts of JSON to tuples, which can be hashed."""
    if isinstance(value, dict):
        return tuple((key, _frozen(entry)) for key, entry in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
