"""Products: domains on blocks of coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp import arguments
from invsamp.domains._reflecting import Member, ReflectingDomain
from invsamp.domains._surfaces import Surface
from invsamp.domains.box import Box
from invsamp.domains.contract import Array, BoolArray, Domain
from invsamp.protocols import Plain

Key = int | str | Sequence[int] | Sequence[str]


@dataclass(frozen=True, init=False, repr=False)
class Product(ReflectingDomain):
    """Domains on blocks of coordinates; the coordinates of no block are free.

    Parameters
    ----------
    blocks : mapping
        From the coordinates of a block to its domain. Coordinates are an index or a tuple of indices. For a problem
        with named parameters they may also be a name or a tuple of names. A parameter of shape (k,) stands for its k
        columns, ``"k[0]"`` for one of them.

    Raises
    ------
    ValueError
        If a block's domain has another number of coordinates, or two blocks share one.

    Examples
    --------
    >>> import invsamp as iv
    >>> iv.domains.Product({(0, 1): iv.domains.Ball([0.0, 0.0], 1.0), 2: iv.Box(0.0, 1.0)})
    Product({(0, 1): Ball(center=[0.0, 0.0], radius=1.0), (2,): Box(lower=0.0, upper=1.0)})
    """

    blocks: tuple[tuple[tuple[int, ...] | tuple[str, ...], Domain], ...]

    def __init__(self, blocks: Mapping[Any, Domain]) -> None:
        if not arguments.mapping("blocks", blocks):
            raise ValueError("blocks must hold at least one domain, got none")
        pairs = tuple((_key(key), domain) for key, domain in blocks.items())
        object.__setattr__(self, "blocks", pairs)
        used: set[int | str] = set()
        for key, domain in pairs:
            if len(set(key)) < len(key) or used & set(key):
                raise ValueError(f"blocks must not share coordinates, but {key} repeats one")
            used |= set(key)
            if not isinstance(domain, ReflectingDomain):
                raise ValueError(f"blocks must hold bounded domains of invsamp.domains, got {domain!r} for {key}")
            if self.bound:
                domain.check_dimension(len(key))

    @property
    def bound(self) -> bool:
        """Whether the blocks are given by indices."""
        return all(isinstance(entry, int) for key, _ in self.blocks for entry in key)

    @property
    def dimension(self) -> int | None:
        """None: coordinates of no block are free, so any number fits."""
        return None

    def bind(self, columns: Mapping[str, tuple[int, ...]]) -> Product:
        """The same with indices for names; `columns` maps every name, and every label, to its columns."""
        bound: dict[tuple[int, ...], Domain] = {}
        for key, domain in self.blocks:
            places: list[int] = []
            for entry in key:
                if isinstance(entry, str) and entry not in columns:
                    raise ValueError(f"Product names {entry!r}, which is none of {list(columns)}")
                places += columns[entry] if isinstance(entry, str) else [entry]
            bound[tuple(places)] = domain
        return Product(bound)

    def check_dimension(self, dimension: int) -> None:
        """Raise ValueError unless all indices are below `dimension`, or while the blocks have names."""
        self._indexed()
        if (highest := max(max(key) for key, _ in self._indexed())) >= dimension:
            raise ValueError(f"Product has a block on column {highest}, but positions have {dimension} coordinates")

    def members(self, dimension: int) -> list[Member | Surface]:
        """The faces of all blocks."""
        return [member.on(key) for key, domain in self._indexed() for member in domain.members(len(key))]

    def constrains(self, dimension: int) -> BoolArray:
        """Which coordinates some block restricts, shape (d,)."""
        self.check_dimension(dimension)
        result = np.zeros(dimension, dtype=bool)
        for key, domain in self._indexed():
            result[list(key)] = domain.constrains(len(key))
        return result

    def bounding_box(self, dimension: int) -> tuple[Array, Array]:
        """Lower and upper ends (d,), infinite where a coordinate is free."""
        self.check_dimension(dimension)
        ends = np.full((2, dimension), [[-np.inf], [np.inf]])
        for key, domain in self._indexed():
            ends[:, list(key)] = domain.bounding_box(len(key))
        return ends[0], ends[1]

    def sample_uniform(self, rng: np.random.Generator, n: int) -> Array:
        """Independent uniform draws, shape (n, d), where the blocks cover all d coordinates."""
        arguments.generator("rng", rng), arguments.integer("n", n, least=0)
        blocks = self._indexed()
        dimension = sum(len(key) for key, _ in blocks)
        self.check_dimension(dimension)
        draws = np.empty((n, dimension))
        for key, domain in blocks:
            # scalar bounds fit a block of any length
            full = Box(*domain.bounding_box(len(key))) if isinstance(domain, Box) else domain
            draws[:, list(key)] = full.sample_uniform(rng, n)
        return draws

    def outline(self, i: int, j: int, view: tuple[npt.ArrayLike, npt.ArrayLike]) -> list[Array]:
        """Of the block that holds both coordinates; of two blocks the rectangle that they span."""
        for key, domain in self._indexed():
            if i in key and j in key:
                return domain.outline(key.index(i), key.index(j), view)
        lower, upper = self.bounding_box(max(i, j, *(max(key) for key, _ in self._indexed())) + 1)
        return Box(lower[[i, j]], upper[[i, j]]).outline(0, 1, view)

    def to_dict(self) -> Plain:
        """JSON-able description, undone by `from_dict`."""
        return {"kind": "product", "blocks": [[list(key), domain.to_dict()] for key, domain in self.blocks]}

    def __repr__(self) -> str:
        return "Product({" + ", ".join(f"{key}: {domain!r}" for key, domain in self.blocks) + "})"

    def _indexed(self) -> list[tuple[tuple[int, ...], ReflectingDomain]]:
        if not self.bound:
            raise ValueError(
                "a Product by names needs a problem that has these names: give it to a Posterior or a "
                f"Target, got {[key for key, _ in self.blocks]}"
            )
        return self.blocks  # type: ignore[return-value]


def _key(key: object) -> tuple[int, ...] | tuple[str, ...]:
    entries = tuple(key) if isinstance(key, tuple) else (key,)
    entries = tuple(int(entry) if isinstance(entry, int | np.integer) else entry for entry in entries)
    names, indices = (all(isinstance(entry, kind) for entry in entries) for kind in (str, int))
    if not entries or not (names or indices) or (indices and min(entries) < 0):
        raise ValueError(f"blocks must be keyed by names or by indices from 0, got {key!r}")
    return entries
