"""A calibration in a directory: a file for each replicate, and one that describes the calibration."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from invsamp.calibration.replicates import Replicate, Settings
from invsamp.protocols import Facts, Plain
from invsamp.storage.files import new_folder, write_whole
from invsamp.storage.lock import Lock
from invsamp.storage.manifest import describe, differences

ABOUT = "calibration.json"
FORMAT = 1


class Records:
    """Replicates that are there, in a directory or in memory.

    Parameters
    ----------
    path : Path or None
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @contextlib.contextmanager
    def held(self, about: Facts) -> Iterator[dict[int, Replicate]]:
        """Within, no other process writes here; the replicates that were made before.

        Raises
        ------
        ValueError
            If the directory holds something else, or a calibration of another posterior, sampler or plan.
        """
        if self._path is None:
            yield {}
            return
        if self._path.exists() and not (self._path / ABOUT).exists() and any(self._path.iterdir()):
            raise ValueError(f"directory must be new, empty, or that of a calibration, got {self._path}")
        new_folder(self._path)
        with Lock(self._path):
            self._check(about)
            yield self._made()

    def seed(self) -> int | None:
        """The seed of the calibration that is there."""
        about = self._about()
        return None if about is None else int(about["seed"])

    def add(self, number: int, made: Replicate) -> None:
        """Keep one."""
        if self._path is not None:
            _write(self._path / f"{number:06d}.json", asdict(made))

    def _about(self) -> Plain | None:
        if self._path is None or not (self._path / ABOUT).is_file():
            return None
        try:
            found: Plain = json.loads((self._path / ABOUT).read_text())
        except ValueError as error:
            raise ValueError(f"directory holds a damaged {ABOUT}: {self._path} ({error})") from None
        return found

    def _check(self, about: Facts) -> None:
        assert self._path is not None
        before = self._about()
        if before is None:
            _write(self._path / ABOUT, about)
        elif changed := differences(before, json.loads(json.dumps(about))):
            raise ValueError(
                f"directory must hold a calibration of the same posterior, sampler and plan, got {self._path}, where "
                + "; ".join(changed[:3])
            )

    def _made(self) -> dict[int, Replicate]:
        assert self._path is not None
        found = {}
        for file in sorted(self._path.glob("[0-9]*.json")):
            with contextlib.suppress(ValueError, TypeError):  # one that is damaged is made again
                found[int(file.stem)] = Replicate(**json.loads(file.read_text()))
        return found


def about(settings: Settings) -> Plain:
    """Describe the calibration that a directory stores: problem, sampler and settings."""
    plan = {name: getattr(settings, name) for name in ("ranks", "draws", "warmup", "chains", "seed")}
    return {"format": FORMAT, "of": describe(settings.posterior, settings.sampler)} | plan


def _write(path: Path, values: Facts) -> None:
    write_whole(path, [json.dumps(values, indent=1).encode()])
