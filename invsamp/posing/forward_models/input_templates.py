"""Texts with places for parameters, ``{{rate}}`` or ``{{rate:.6e}}``, for the input files of a program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: A place: anything between double braces, then a format. What is between them has to name a parameter.
_PLACE = re.compile(r"\{\{\s*([^{}]*?)\s*(?::([^{}]*))?\}\}")
_LABEL = re.compile(r"([^\W\d]\w*)(?:\[(\d+)\])?")


@dataclass(frozen=True)
class Template:
    """A text with places for parameters.

    Attributes
    ----------
    origin : str
        What messages call it.
    text : str
    """

    origin: str
    text: str

    def labels(self) -> list[str]:
        """Names in the places of the template, in their order.

        Raises
        ------
        ValueError
            If a place names nothing that a parameter may be called, or its format is none of a number.
        """
        found = []
        for label, spec in _PLACE.findall(self.text):
            if not _LABEL.fullmatch(label):
                raise ValueError(
                    f"{self.origin} must have names of parameters between double braces, got {{{{{label}}}}}"
                )
            try:
                format(1.0, spec)
            except ValueError:
                raise ValueError(
                    f"{self.origin} must have a format of a float behind the colon, such as {label}:.6e, got {spec!r}"
                ) from None
            found.append(label)
        return found

    def filled(self, values: Mapping[str, float]) -> str:
        """The text with values in its places: all digits, unless a place has a format."""

        def shown(place: re.Match[str]) -> str:
            value = values[place[1]]
            return format(value, place[2]) if place[2] else repr(value)

        return _PLACE.sub(shown, self.text)


def split_command(text: str) -> list[str]:
    """The words of a command, as a shell splits them, but for places, which may have blanks.

    `ValueError` where a quotation does not end.
    """
    places = iter([place[0] for place in _PLACE.finditer(text)])
    words = shlex.split(_PLACE.sub("\0", text))
    return [re.sub("\0", lambda _: next(places), word) for word in words]


def sizes_of(found: Iterable[str]) -> dict[str, int]:
    """Name -> number of entries of the parameters that some labels name: ``x`` is one, ``k[0]`` and ``k[1]`` are two.

    Raises
    ------
    ValueError
        If an entry is missing, which the program would not see, or a name stands for a number and for several.
    """
    entries: dict[str, set[int]] = {}
    for label in found:
        match = _LABEL.fullmatch(label)
        assert match is not None  # `Template.labels` has seen to it
        entries.setdefault(match[1], set()).add(-1 if match[2] is None else int(match[2]))
    for name, indices in entries.items():
        if indices == {-1}:
            continue
        if -1 in indices:
            raise ValueError(f"templates must name either {name} or its entries, got both {name} and {name}[...]")
        if missing := set(range(max(indices))) - indices:
            raise ValueError(f"templates must name all entries of {name}, got none for {name}[{min(missing)}]")
    return {name: max(indices) + 1 if indices != {-1} else 0 for name, indices in entries.items()}
