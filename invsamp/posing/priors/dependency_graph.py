"""The dependencies in a prior, for display."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from invsamp.posing.distributions.base import ScalarFamily


@dataclass(frozen=True)
class Graph:
    """Dependencies between parameters; prints a line for each name.

    Attributes
    ----------
    parents : mapping from name to tuple of names
        On what the distribution, or the formula, of each depends.
    lines : tuple of str
    """

    parents: Mapping[str, tuple[str, ...]]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def described_variable(name: str, shape: tuple[int, ...], value: object, how: str = "") -> str:
    """One line: a distribution with its parameters, a formula, or numbers."""
    sizes = f"[{', '.join(map(str, shape))}]" if shape else ""
    if isinstance(value, str):
        return f"{name}{sizes} = {value}"
    if isinstance(value, np.ndarray):
        return f"{name}{sizes} = {value.tolist() if value.size <= 5 else 'numbers'}"
    if isinstance(value, ScalarFamily):
        parameters = ", ".join(_short(getattr(value, parameter)) for parameter in value.parameter_names())
        value = f"{type(value).__name__}({parameters})"
    return f"{name}{sizes} ~ {value}{f'  ({how})' if how else ''}"


def _short(parameter: object) -> str:
    if isinstance(parameter, str):
        return parameter
    return f"{parameter:g}" if isinstance(parameter, float) else "numbers"
