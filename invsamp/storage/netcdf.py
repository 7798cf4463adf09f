"""A whole run in one netCDF file that appears whole or not at all, and errors that say what is wrong with a file."""

from __future__ import annotations

import os
import re
import sys
import uuid
import zlib
from pathlib import Path

from invsamp.protocols import InferenceData
from invsamp.storage import arviz_data
from invsamp.storage.files import checksum, explained, flush, flush_folder

try:
    # Eagerly, although only save and load need it: once dolfinx is loaded, importing h5py fails for good
    # ("Not a datatype"), because dolfinx brings another HDF5 library into the process.
    import h5py  # type: ignore[import-untyped]
except ValueError:
    if "dolfinx" not in sys.modules:
        raise
    h5py = None  # sampling still works, so the error waits for save and load

#: Value of the attribute "format" that marks a file as one of ours.
FORMAT = "invsamp run"
#: Raised when a reader of an older invsamp could misread the file. From 2 on the file ends in a checksum.
FORMAT_VERSION = 2
#: The last bytes of a file, behind what HDF5 reads: the CRC-32 of all before.
_LAST = re.compile(rb"\ninvsamp crc32 ([0-9a-f]{8})\n")
_LENGTH = 24
_BLOCK = 1 << 20


def write(data: InferenceData, path: str | os.PathLike[str]) -> None:
    """Write an InferenceData to a netCDF file, by h5netcdf.

    The file is written under another name in the same folder and renamed, so that a crash leaves the old file or
    the new one under ``path``, never half of one. A checksum ends it, which other readers of netCDF pass over.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    RuntimeError
        If dolfinx was imported before invsamp.
    """
    require_h5py()
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot save {target}: its folder {target.parent} does not exist")
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.part")
    data.attrs.update({"format": FORMAT, "format_version": FORMAT_VERSION})
    try:
        with explained(target):
            arviz_data.write(data, str(aside))
            crc = checksum(aside)[1]
            with open(aside, "ab") as file:
                file.write(b"\ninvsamp crc32 %08x\n" % crc)
            flush(aside)
            aside.replace(target)
            flush_folder(target.parent)
    finally:
        aside.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> InferenceData:
    """Read an InferenceData that `write` wrote, into memory.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no netCDF file, is truncated or damaged, was not written by invsamp or by a newer one.
    RuntimeError
        If dolfinx was imported before invsamp.
    """
    require_h5py()
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"no run at {source}: the file does not exist")
    if not source.is_file():
        raise ValueError(f"{source} is no saved run: it is a folder, not a file")
    if source.stat().st_size == 0:
        raise ValueError(f"{source} is no saved run: it is empty (0 bytes)")
    if not h5py.is_hdf5(source):
        raise ValueError(f"{source} is no saved run: it is not a netCDF-4 (HDF5) file")
    try:
        with h5py.File(source) as file:
            found, version = file.attrs.get("format"), file.attrs.get("format_version")
            groups = list(file)
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(f"{source} is truncated or damaged and cannot be read: {error}") from error
    if found != FORMAT or "posterior" not in groups:
        raise ValueError(
            f"{source} is no saved run: it is an HDF5 file, but not one that Run.save wrote "
            f"(its attribute 'format' is {found!r}, not {FORMAT!r})"
            if found != FORMAT
            else f"{source} is no complete run: it has no group 'posterior', only {sorted(groups)}"
        )
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{source} was written by a newer invsamp, in format {version}; this one reads formats up to "
            f"{FORMAT_VERSION}. Upgrade invsamp"
        )
    if fault := _fault(source, wanted=version != 1):
        raise ValueError(f"{source} is truncated or damaged: {fault}")
    try:
        return arviz_data.read(str(source), groups)
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise ValueError(f"{source} is truncated or damaged and cannot be read: {error}") from error


def _fault(path: Path, wanted: bool) -> str | None:
    """Fault of the checksum of a file, in words; None if it is right, or missing where it is not wanted."""
    crc, last = 0, b""
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            block = last + block
            crc, last = zlib.crc32(block[:-_LENGTH], crc), block[-_LENGTH:]
    found = _LAST.fullmatch(last)
    if found is None:
        return None if not wanted else "it does not end in its checksum, or another program has written to it"
    return None if int(found[1], 16) == crc else "its checksum is wrong"


def require_h5py() -> InferenceData:
    """The module h5py; `RuntimeError` where dolfinx was imported first."""
    if h5py is None:
        raise RuntimeError(
            "runs cannot be saved or loaded in this process, because dolfinx was imported before h5py. Write "
            "`import invsamp` above `import dolfinx`"
        )
    return h5py
