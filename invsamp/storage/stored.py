"""A run in a directory, for reading: what there is, and what is wrong with the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from invsamp.storage import manifest as manifests
from invsamp.storage import segments
from invsamp.storage.state import Entry, Header, read_state

CONSTANTS = "problem.nc"


class StoredDraws:
    """A run in a directory, for reading; it may be unfinished, and be written to at the same time.

    Attributes
    ----------
    path : Path
        Absolute: a model may change the working directory.
    manifest : dict
    report : dict
        With a warning for every segment that cannot be read.
    draws : segments.Draws
    constants : dict of dicts

    Raises
    ------
    FileNotFoundError
        If there is no run.
    ValueError
        If no draw can be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path = path.absolute()
        self.manifest = manifests.read_manifest(path)
        lost: list[str] = []
        try:
            header, lost = _whole(path)
            entries, report = list(header.segments), header.report
        except ValueError as error:
            entries, lost = segments.found(path)
            lost.insert(0, f"{error}. The counts of the run are lost with it, and so is the way to resume it")
            report = {"sampler": self.manifest["sampler"], **self.manifest["plan"]}
        if not entries:
            why = "; ".join(lost) or "there was no checkpoint with draws so far"
            raise ValueError(f"no draws in {path}: {why}")
        try:
            self.constants = segments.read_constants(path / CONSTANTS)
        except (OSError, RuntimeError, KeyError):
            self.constants = {}
            lost.append(f"{path / CONSTANTS} is truncated or damaged: the data and the draws from the prior are lost")
        self.report = report | {"draws": sum(entry.count for entry in entries)}
        if lost:
            self.report["warnings"] = [*report.get("warnings", []), *lost]
        self.draws = segments.Draws(path, entries, lambda: read_state(path)[0].segments)


def _whole(path: Path) -> tuple[Header, list[str]]:
    """The header with those of its segments that are whole, and what is wrong with the others."""
    faults: dict[Entry, str | None] = {}
    header = read_state(path)[0]
    # while the run goes on, a longer segment may take the place of one that is yet to be looked at
    while new := [entry for entry in header.segments if entry not in faults]:
        faults |= {entry: segments.fault(path, entry) for entry in new}
        header = read_state(path)[0]
    whole = tuple(entry for entry in header.segments if faults[entry] is None)
    lost = [f"{fault}: its draws are not in this run" for entry in header.segments if (fault := faults[entry])]
    return replace(header, segments=whole), lost
