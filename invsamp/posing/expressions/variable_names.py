"""Names of parameters and of their entries: what files, tables and figures can distinguish."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain, product
from typing import NamedTuple, Protocol

import numpy as np

from invsamp.arguments import mapping
from invsamp.protocols import AxisLabels, LabelsAxes, Observed, PointwiseLikelihood, Predicts


class Named(Protocol):
    """An object that has parameters."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Name -> shape of every parameter."""


#: Leading dimensions of what the rungs above the cold one recorded; no parameter can have such a name.
DIMENSIONS = ("chain", "draw", "rung")


#: What draws keep beside the parameters, as runs call it; a kernel's own have other names.
STATISTICS = ("energy", "prior", "misfit", "replica", "step_size", "log_weight", "acceptance_rate")


def check_statistics(owner: str, statistics: object) -> None:
    """`ValueError` unless these are names for what draws keep, with the types of the numbers."""
    for name, kind in mapping(f"statistics of {owner}", statistics).items():
        _check_storable(f"a statistic of {owner}", name)
        if name in STATISTICS or name == "temperature":
            raise ValueError(f"a statistic of {owner} cannot be called {name!r}: a run has one of that name")
        if kind not in (float, int, bool):
            raise ValueError(f"statistics[{name!r}] of {owner} must be float, int or bool, got {kind!r}")


def labels(shapes: Mapping[str, tuple[int, ...]], axes: Mapping[str, AxisLabels] | None = None) -> tuple[str, ...]:
    """Name of every column of theta: ``x``, ``k[0]``, ``k[1]``, ``m[0, 1]``.

    Entries of a parameter whose ``axes`` have labels are called by these, as ArviZ calls them: ``clearance[Ann]``.
    `LabelTable` has some of them without the others.
    """
    return _labels(LabelTable(shapes, axes).blocks)


def labels_of(problem: Named) -> tuple[str, ...]:
    """Name of every column of a problem's theta, by the labels of its axes where it knows these."""
    return labels(problem.shapes, problem.axis_labels if isinstance(problem, LabelsAxes) else None)


class LabelTable:
    """The `labels`, each made when it is asked for: a million take most of a second.

    Parameters
    ----------
    shapes, axes : mapping
        As of `labels`.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], axes: Mapping[str, AxisLabels] | None = None) -> None:
        known = axes or {}
        self.blocks = tuple(
            _Block(name, tuple(shape), _ends(tuple(shape), known[name]) if name in known else ())
            for name, shape in shapes.items()
        )

    def __len__(self) -> int:
        return sum(block.size for block in self.blocks)

    def __getitem__(self, column: int) -> str:
        block, number = self.block(column)
        return block.label(number)

    def block(self, column: int) -> tuple[_Block, int]:
        """The parameter of a column, and which of its entries that is."""
        for block in self.blocks:
            if column < block.size:
                return block, column
            column -= block.size
        raise IndexError(column)

    def find(self, name: str) -> list[int]:
        """Columns of the parameters with a name, ``a`` also for ``a[x]``; or of the entry with this label."""
        found, begin = list[int](), 0
        for block in self.blocks:
            if name == block.name.split("[")[0]:
                found += range(begin, begin + block.size)
            elif (number := block.find(name)) is not None:
                found.append(begin + number)
            begin += block.size
        return found


class _Block(NamedTuple):
    """A parameter."""

    name: str
    shape: tuple[int, ...]
    ends: tuple[tuple[str, ...], ...]  # labels along each axis; none: entries are called by numbers

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def label(self, number: int) -> str:
        """Of one entry, in C order."""
        if not self.shape:
            return self.name
        index = np.unravel_index(number, self.shape)
        words = [end[k] for end, k in zip(self.ends, index, strict=True)] if self.ends else map(str, map(int, index))
        return f"{self.name}[{', '.join(words)}]"

    def labels(self) -> list[str]:
        """Of all entries."""
        if not self.shape:
            return [self.name]
        ends = self.ends or [list(map(str, range(size))) for size in self.shape]
        return [f"{self.name}[{', '.join(each)}]" for each in product(*ends)]

    def find(self, label: str) -> int | None:
        """Number of the entry with a label."""
        if label == self.name and not self.shape:
            return 0
        if not (label.startswith(f"{self.name}[") and label.endswith("]")):
            return None
        inner = label[len(self.name) + 1 : -1]
        if len(self.ends) == 1:
            return self.ends[0].index(inner) if inner in self.ends[0] else None
        if self.ends:
            return next((k for k, each in enumerate(product(*self.ends)) if ", ".join(each) == inner), None)
        words = inner.split(", ")
        if len(words) != len(self.shape) or not all(word.isdecimal() for word in words):
            return None
        index = [int(word) for word in words]
        if not all(k < size for k, size in zip(index, self.shape, strict=True)):
            return None
        number = int(np.ravel_multi_index(index, self.shape))
        return number if self.label(number) == label else None  # not k[01]


def _ends(shape: tuple[int, ...], axes: AxisLabels) -> tuple[tuple[str, ...], ...]:
    """Labels along the axes of an array, if they give every entry a name of its own."""
    ends = tuple(tuple(map(str, end)) for end in axes.values())
    if tuple(map(len, ends)) != shape:
        return ()
    if len(ends) > 1 and any(", " in label for end in ends for label in end):  # which joins them
        distinct = len({", ".join(each) for each in product(*ends)}) == math.prod(shape)
    else:
        distinct = all(len(set(end)) == len(end) for end in ends)
    return ends if distinct else ()


@lru_cache(maxsize=4)  # a run asks for them at many places
def _labels(blocks: tuple[_Block, ...]) -> tuple[str, ...]:
    return tuple(chain.from_iterable(block.labels() for block in blocks))


def check_names(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """`ValueError` unless the draws of parameters of these shapes can be stored by name."""
    axes = {f"{name}_dim_{axis}": name for name, shape in shapes.items() for axis in range(len(shape))}
    for name, shape in shapes.items():
        _check_storable("a parameter", name)
        if name in axes:
            raise ValueError(f"a parameter cannot be called {name!r} beside {axes[name]!r}, of which it is an axis")
        vector, _, index = name.removesuffix("]").rpartition("[")
        if not shape and name.endswith("]") and _is_entry(index, shapes.get(vector, ())):
            raise ValueError(f"a parameter cannot be called {name!r} beside {vector!r}, of which it is an entry")


def check_quantities(
    argument: str, parameters: Mapping[str, tuple[int, ...]], quantities: Mapping[str, tuple[int, ...]]
) -> None:
    """`ValueError` unless quantities of these names and shapes can be stored beside the parameters."""
    for name in quantities:
        if name in parameters or name in STATISTICS:
            raise ValueError(f"{argument} must have names that nothing else in a run has, got {name!r}")
    check_names(dict(parameters) | dict(quantities))


def _check_storable(what: str, name: object) -> None:
    """`ValueError` unless draws can be stored by this name."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"{what} must have a name that is a string and not empty, got {name!r}")
    if "/" in name or name in (".", "..") or name != name.strip() or not name.isprintable():
        raise ValueError(
            f"{what} cannot be called {name!r}: names of files exclude '/', '.', '..', spaces at the ends and "
            "characters that do not print"
        )
    if name in DIMENSIONS:
        raise ValueError(f"{what} cannot be called {name!r}: that is a dimension of the stored draws")


def _is_entry(index: str, shape: tuple[int, ...]) -> bool:
    """Whether a parameter of this shape has an entry of this index, such as "0, 1"."""
    parts = index.split(",")
    if len(parts) != len(shape) or not all(part.strip().isdecimal() for part in parts):
        return False
    return all(int(part) < size for part, size in zip(parts, shape, strict=True))


def check_modes(argument: str, found: tuple[str, ...], problem: Named) -> None:
    """`ValueError` unless modes with these labels have the parameters of a problem, in their order."""
    if found != (own := labels_of(problem)):
        raise ValueError(f"{argument} must be modes of this posterior, with parameters {list(own)}, got {list(found)}")


def check_predicts(posterior: object, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """`ValueError` unless something has data to predict and the parameters of a run."""
    if not isinstance(posterior, Predicts) or _posed_by_likelihood(posterior):
        said = ""
        if callable(posterior):
            said = ". A forward model of other times or conditions is predicted by posterior.for_prediction(model)"
        raise ValueError(f"posterior must have a forward model, data and noise, got {_kind(posterior)}{said}")
    check_shapes(posterior.shapes, shapes)


def check_gives_likelihood(posterior: object, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """`ValueError` unless something gives the likelihood of each datum, and has the parameters of a run."""
    if not isinstance(posterior, PointwiseLikelihood):
        raise ValueError(
            f"posterior must give the likelihood of each datum, as a Posterior does, got {_kind(posterior)}"
        )
    check_shapes(posterior.shapes, shapes)


def _kind(posterior: object) -> str:
    return "one posed by its log likelihood" if _posed_by_likelihood(posterior) else type(posterior).__name__


def _posed_by_likelihood(posterior: object) -> bool:
    return isinstance(posterior, PointwiseLikelihood) and not isinstance(posterior, Observed)


def check_shapes(found: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """`ValueError` unless the parameters of a posterior have the names, shapes and order of those of a run."""
    own, known = ({name: tuple(shape) for name, shape in each.items()} for each in (found, shapes))
    if own != known:
        raise ValueError(f"posterior must have the parameters of the run, {known}, got {own}")
    if [*own] != [*known]:  # columns of theta would be exchanged
        raise ValueError(f"posterior must have the parameters of the run in their order, {[*known]}, got {[*own]}")
