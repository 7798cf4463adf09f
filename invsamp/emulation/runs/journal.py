"""Waves of simulations that an emulation has asked for, stored in its directory, so that it resumes after a kill.

An emulation is repeated from its seed; what it simulates is looked up in the database. The positions of each wave are
kept here too, so that a machine that rounds in another way asks for the same simulations.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from invsamp.protocols import Array, Plain
from invsamp.storage.files import write_whole

NAME, SETTINGS = "waves.jsonl", "emulation.json"
#: Positions that differ by less than this are those that were asked for before.
SAME = 1e-6


class Journal:
    """The waves of one emulation.

    Parameters
    ----------
    folder : Path
        Of the emulation; it is made if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._waves = _read(folder / NAME)
        if (folder / NAME).exists():
            _write(folder / NAME, self._waves, "w")  # without a last line that a kill has torn
        self._next = 0

    @property
    def begun(self) -> bool:
        """Whether there are settings on file."""
        return (self.folder / SETTINGS).exists()

    def settings(self, wanted: Plain) -> Plain:
        """The settings on file, or those that are wanted, where there are none yet.

        Raises
        ------
        ValueError
            If others are on file.
        """
        place = self.folder / SETTINGS
        if not place.exists():
            write_whole(place, [json.dumps(wanted).encode()])
            return wanted
        known: Plain = json.loads(place.read_text())
        for name, value in wanted.items():
            if value is not None and known.get(name, value) != value:
                raise ValueError(
                    f"{name} must be that of the emulation in {self.folder}, {known.get(name)!r}, got {value!r}"
                )
        return known

    def wave(self, position: Array) -> Array:
        """The positions of the next wave: those on file if they are nearly the same; else these, which are noted."""
        number, self._next = self._next, self._next + 1
        if number < len(self._waves):
            before = np.array(self._waves[number])
            if before.shape == position.shape and np.allclose(before, position, rtol=SAME, atol=SAME):
                return before
            self._waves = self._waves[:number]  # another version of the package, say
            _write(self.folder / NAME, self._waves, "w")
        self._waves.append(position.tolist())
        _write(self.folder / NAME, self._waves[-1:], "a")
        return position


def _read(place: Path) -> list[list[list[float]]]:
    """All waves that were written whole."""
    found = []
    for line in place.read_text().splitlines() if place.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:  # the last one, torn by a kill
            break
    return found


def _write(place: Path, waves: list[list[list[float]]], mode: str) -> None:
    with open(place, mode) as file:
        file.writelines(json.dumps(wave) + "\n" for wave in waves)
        file.flush()
        os.fsync(file.fileno())
