"""A run in a directory, for reading: what there is, and what is wrong with the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from invsamp.protocols import Array
from invsamp.storage import segments
from invsamp.storage.contents import mean_and_sd
from invsamp.storage.state import Entry, Header, OtherFormatError, read_state
from invsamp.warning_codes import coded

CONSTANTS = "problem.nc"


class StoredDraws:
    """A run in a directory, for reading; it may be unfinished, and be written to at the same time.

    Attributes
    ----------
    path : Path
        Absolute: a model may change the working directory.
    about : dict
        What the run is; of one whose state is lost, only the shapes of its parameters.
    report : dict
        With a warning for every file that cannot be read.
    draws : segments.Draws
    constants : dict of dicts

    Raises
    ------
    FileNotFoundError
        If there is no run.
    ValueError
        If no draw can be read, or another version wrote it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path = path.absolute()
        try:
            header, lost, made = _whole(path)
        except OtherFormatError:
            raise
        except ValueError as error:
            entries, faults = segments.found(path)
            header, made = Header(segments=tuple(entries)), 0
            lost = [f"{error}. The counts of the run are lost, and it cannot be resumed", *faults]
        if not header.segments:
            reason = header.report.get("stopped") or "there was no checkpoint with draws so far"
            why = "; ".join(lost) or reason
            raise ValueError(f"no draws in {path}: {why}")
        constants, more = _constants(path, header)
        lost += more
        self.report = header.report | {"draws": header.draws}
        if header.about:  # the draws of segments that are damaged were made
            planned = header.about["plan"]["draws"]
            self.report |= {"draws_planned": planned, "interrupted": made < planned}
        if lost:
            self.report["warnings"] = [
                *header.report.get("warnings", []),
                *(coded("IV-LOST", one) for one in lost),
            ]
        self.draws = segments.Draws(path, header.segments, lambda: read_state(path)[0].segments)
        sums, count = self.draws.sums()
        chains = next((shape[0] for shape, _ in self.draws.variables["posterior"].values()), 0)
        moments = {name: mean_and_sd(both, chains * count) for name, both in sums.items()}
        self.constants = constants | ({"moments": moments} if moments else {})
        self.about = header.about or {"parameters": self.draws.shapes, "domain": None}


def _constants(path: Path, header: Header) -> tuple[dict[str, dict[str, Array]], list[str]]:
    """The groups that do not grow, and what is wrong with the file that holds them."""
    entry = next((file for file in header.files if file.name == CONSTANTS), None)
    if entry is None and (header.about or not (path / CONSTANTS).exists()):
        return {}, []
    fault = None if entry is None else segments.fault(path, entry)
    if fault is None:
        try:
            return segments.read_constants(path / CONSTANTS), []
        except (OSError, RuntimeError, LookupError, ValueError):
            fault = f"{path / CONSTANTS} is truncated or damaged"
    return {}, [f"{fault}: the data and the draws from the prior are not in this run"]


def _whole(path: Path) -> tuple[Header, list[str], int]:
    """The header with those of its segments that are whole, what is wrong with the others, and draws in all of them."""
    faults: dict[Entry, str | None] = {}
    header = read_state(path)[0]
    # while the run goes on, a longer segment may take the place of one that is yet to be looked at
    while new := [entry for entry in header.segments if entry not in faults]:
        faults |= {entry: segments.fault(path, entry) for entry in new}
        header = read_state(path)[0]
    whole = tuple(entry for entry in header.segments if faults[entry] is None)
    lost = [f"{fault}: its draws are not in this run" for entry in header.segments if (fault := faults[entry])]
    return replace(header, segments=whole), lost, header.draws
