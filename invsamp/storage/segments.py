"""Draws on disk, some at a time: each segment is a netCDF file of its own, with the groups of a whole run.

Two groups have no entry for each draw. ``thinned`` has every k-th one of the run, k being the attribute ``every``.
``sums`` has means and sums of squared deviations over all draws up to the last one of the segment.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp.protocols import AnyArray, Facts, Hdf5
from invsamp.storage import layout, netcdf
from invsamp.storage.files import checksum, open_plain, write_whole
from invsamp.storage.state import Entry, File, segment_name, segment_paths

FORMAT, FORMAT_VERSION = "invsamp segment", 1

Groups = Mapping[str, Mapping[str, AnyArray]]
#: Of the axes behind those of chains and draws, one entry each, or some together.
Rest = tuple[int | npt.NDArray[np.intp], ...]
#: Some of the draws: a slice, or increasing numbers.
Some = slice | npt.NDArray[np.intp]


def write_segment(directory: Path, number: int, first: int, groups: Groups, every: int = 1) -> Entry:
    """Write one segment whose first draw is the run's draw number ``first``; ``every``: the k of its thinned draws.

    Raises
    ------
    OSError
        As `invsamp.storage.files.write_whole` raises it.
    """
    path = directory / segment_name(number)
    attributes = {"format": FORMAT, "format_version": FORMAT_VERSION, "first": first, "count": count(groups)}
    attributes["every"] = every
    image = _image(groups, attributes)
    return Entry(path.name, len(image), write_whole(path, [image]), first, count(groups))


def count(groups: Groups) -> int:
    """Number of draws."""
    return next(iter(groups["posterior"].values())).shape[1]


def joined(directory: Path, entry: Entry, groups: Groups) -> Groups:
    """The draws of a segment and those that follow it."""
    with _open(directory / entry.name) as file:
        return {
            group: {
                name: values
                if group == "sums"  # which include those before
                else np.concatenate([_values(_variable(file, group, name), ()), values], axis=1)
                for name, values in variables.items()
            }
            for group, variables in groups.items()
        }


def read_sums(directory: Path, entry: Entry) -> dict[str, AnyArray]:
    """Means and sums of squared deviations (2, *shape) of large blocks, over all draws up to the last of a segment."""
    with _open(directory / entry.name) as file:
        return {n: _values(_variable(file, "sums", n), ()) for n in _variables(file, "sums")} if "sums" in file else {}


def write_constants(path: Path, groups: Groups) -> File:
    """Write groups that do not grow: ``observed_data`` without leading dimensions, ``prior`` with chain and draw."""
    image = _image(groups, {"format": FORMAT, "format_version": FORMAT_VERSION})
    return File(path.name, len(image), write_whole(path, [image]))


def read_constants(path: Path) -> dict[str, dict[str, AnyArray]]:
    """Read the file of `write_constants`."""
    with _open(path) as file:
        return {group: {n: _values(_variable(file, group, n), ()) for n in _variables(file, group)} for group in file}


def fault(directory: Path, file: File) -> str | None:
    """Fault of a file of a run, in words that name it; None if it is whole."""
    where = f"{directory / file.name}"
    if isinstance(file, Entry):
        where += f" (draws {file.first} to {file.first + file.count - 1})"
    try:
        size, crc = checksum(directory / file.name)
    except FileNotFoundError:
        return f"{where} is missing"
    except OSError as error:
        return f"{where} cannot be read: {error.strerror}"
    except ValueError as error:
        return f"{where} cannot be read: {error}"
    if size < file.size:
        return f"{where} is truncated: it has {size} bytes of {file.size}"
    if size > file.size or crc != file.crc:
        return f"{where} is damaged: its checksum is wrong"
    return None


def found(directory: Path) -> tuple[list[Entry], list[str]]:
    """Whole segments of a directory whose state file is lost, and messages about the others."""
    entries: list[Entry] = []
    faults = []
    for path in reversed(segment_paths(directory)):
        try:
            with _open(path) as file:
                first, count = (int(np.ravel(file.attrs[name])[0]) for name in ("first", "count"))
                # wrong checksums show when all is read
                read = {(g, name): _variable(file, g, name)[()].shape for g in file for name in _variables(file, g)}
                counts = {shape[1] for (g, _), shape in read.items() if g not in ("thinned", "sums")}
                if first < 0 or counts != {count} or not _variables(file, "posterior"):
                    raise ValueError
                entry = Entry(path.name, path.stat().st_size, 0, first, count)
        except (OSError, RuntimeError, LookupError, ValueError, TypeError):
            faults.append(f"{path} is truncated or damaged")
            continue
        # a later segment may have replaced an earlier one that a crash left over
        if not any(entry.first < e.first + e.count and e.first < entry.first + entry.count for e in entries):
            entries.append(entry)
    return sorted(entries, key=lambda entry: entry.first), faults


class Draws:
    """The segments of a run as one set of arrays that are read when they are asked for.

    Parameters
    ----------
    directory : Path
    entries : sequence of Entry
        In the order of their draws.
    refresh : callable, optional
        The entries as they are now: while the run goes on, a segment may be replaced by a longer one.
    """

    def __init__(
        self, directory: Path, entries: Sequence[Entry], refresh: Callable[[], Sequence[Entry]] | None = None
    ) -> None:
        self._directory, self._entries, self._refresh = directory, tuple(entries), refresh
        self.count = sum(entry.count for entry in entries)
        #: Number of every draw in the run: with a gap where a segment was lost.
        self.numbers = np.concatenate([np.arange(e.first, e.first + e.count) for e in entries] or [np.arange(0)])
        #: group -> name -> (shape without the draws, dtype); and the k of the every k-th draw of the group ``thinned``.
        self.variables, self.every = self._described()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter."""
        return {name: shape[1:] for name, (shape, _) in self.variables["posterior"].items()}

    def held(self, group: str) -> npt.NDArray[np.intp]:
        """Numbers of the draws that a group has."""
        return self.numbers if group != "thinned" else self.numbers[self.numbers % self.every == 0]

    def read(self, group: str, name: str, draws: Some = slice(None), rest: Rest = ()) -> AnyArray:
        """Array (chain, draw, ...) of one variable, of some draws, and some entries of what follows the draw."""
        numbers = self.held(group)[draws]
        try:
            return self._read(self._entries, group, name, numbers, rest)
        except FileNotFoundError:
            if self._refresh is None:
                raise
        return self._read(self._refresh(), group, name, numbers, rest)

    def sums(self) -> tuple[dict[str, AnyArray], int]:
        """Means and sums of squared deviations (2, *shape) of large blocks, and over how many draws of a chain."""
        last = self._entries[-1]
        try:
            return read_sums(self._directory, last), last.first + last.count
        except FileNotFoundError:
            if self._refresh is None:
                raise
        last = self._refresh()[-1]
        return read_sums(self._directory, last), last.first + last.count

    def _described(self) -> tuple[dict[str, dict[str, tuple[tuple[int, ...], np.dtype[Any]]]], int]:
        name = self._entries[0].name
        if self._refresh is not None and not (self._directory / name).exists():
            name = self._refresh()[0].name
        with _open(self._directory / name) as file:
            variables = {
                group: {name: _described(_variable(file, group, name)) for name in _variables(file, group)}
                for group in file
                if group != "sums"
            }
            every = int(np.ravel(file.attrs.get("every", 1))[0])
        if every < 1:
            raise ValueError(f"{self._directory / name} claims to hold every {every}-th draw")
        return variables, every

    def _read(
        self, entries: Sequence[Entry], group: str, name: str, numbers: npt.NDArray[np.intp], rest: Rest
    ) -> AnyArray:
        """Of the draws of these numbers in the run."""
        every = self.every if group == "thinned" else 1
        out: AnyArray | None = None
        for entry in entries:
            done, end = np.searchsorted(numbers, (entry.first, entry.first + entry.count))
            if done == end:
                continue
            places = numbers[done:end] // every - -(-entry.first // every)
            with _open(self._directory / entry.name) as file:
                whole = _values(_variable(file, group, name), np.s_[:, places[0] : places[-1] + 1])
            # HDF5 takes scattered entries one by one: many times slower than all of them and a choice here
            part = whole[(slice(None), slice(None), *rest)][:, places - places[0]]
            if out is None:
                out = np.empty((part.shape[0], len(numbers), *part.shape[2:]), part.dtype)
            out[:, done:end] = part
        if out is None:
            shape, dtype = self.variables[group][name]
            return np.empty((shape[0], 0, *np.empty(shape[1:])[rest].shape), dtype)
        return out


def _image(groups: Groups, attributes: Facts) -> memoryview:
    """The bytes of a netCDF-4 file: made in memory, so that whatever befalls the disk befalls plain bytes."""
    netcdf.require_h5py()
    import h5netcdf  # type: ignore[import-untyped]

    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        for key, value in attributes.items():
            file.attrs[key] = value
        for name, variables in groups.items():
            group = file.create_group(name)
            for variable, values in variables.items():
                _add(group, variable, np.asarray(values), layout.LEADING[name])
    return buffer.getbuffer()


def _add(group: Hdf5, name: str, values: AnyArray, leading: Sequence[str]) -> None:
    dimensions = (*leading, *(f"{name}_dim_{axis}" for axis in range(values.ndim - len(leading))))
    for dimension, size in zip(dimensions, values.shape, strict=True):
        if dimension not in group.dimensions:
            group.dimensions[dimension] = size
    # one chunk, so that HDF5 keeps a checksum of it: where the state file is lost there is no other
    settings = {"chunks": values.shape, "fletcher32": True} if values.size and values.ndim else {}
    if values.dtype == bool:  # which netCDF does not have: as xarray does it
        group.create_variable(name, dimensions, "i1", data=values.astype("i1"), **settings).attrs["dtype"] = "bool"
        return
    group.create_variable(name, dimensions, values.dtype, data=values, **settings)


def _open(path: Path) -> Hdf5:
    """A file, which another user may have written."""
    os.close(open_plain(path))  # HDF5 would follow a link, and wait for a pipe
    return netcdf.require_h5py().File(path, "r")


def _variables(file: Hdf5, group: str) -> list[str]:
    """Names of the variables of a group, in the order in which they were written, without the bare dimensions."""
    held = _group(file, group)
    return [name for name in held if not _is_dimension(_member(held, name))]


def _variable(file: Hdf5, group: str, name: str) -> Hdf5:
    """A variable; `ValueError` unless all that it claims to hold is in the file itself."""
    item = _member(_group(file, group), name)
    numbers = isinstance(item, netcdf.require_h5py().Dataset) and item.dtype.kind in "biufc"
    own = numbers and not item.external and not item.is_virtual
    if not own or item.id.get_storage_size() < item.size * item.dtype.itemsize:
        raise ValueError(f"{file.filename} does not hold the numbers of {group}/{name} itself")
    return item


def _group(file: Hdf5, name: str) -> Hdf5:
    group = _member(file, name)
    if not isinstance(group, netcdf.require_h5py().Group):
        raise ValueError(f"{file.filename} holds no group {name!r}")
    return group


def _member(group: Hdf5, name: str) -> Hdf5:
    """Member of a group by its name; `ValueError` if it is a link, which may lead to another file."""
    link = group.get(name, getlink=True) if name in group.keys() else None  # noqa: SIM118  which opens nothing
    if not isinstance(link, netcdf.require_h5py().HardLink):
        raise ValueError(f"{group.file.filename} holds no {name!r} of its own")
    return group[name]


def _is_dimension(item: Hdf5) -> bool:
    return item.attrs.get("CLASS") == b"DIMENSION_SCALE"


def _described(item: Hdf5) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return (item.shape[0], *item.shape[2:]), np.dtype(bool) if _is_boolean(item) else item.dtype


def _values(item: Hdf5, key: object) -> AnyArray:
    """Some of the values of a variable."""
    found: AnyArray = item[key]
    return found.astype(bool) if _is_boolean(item) else found


def _is_boolean(item: Hdf5) -> bool:
    return item.dtype == np.int8 and item.attrs.get("dtype") in ("bool", b"bool")
