"""Priors that stand in a table of bounds and scales."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import Any

from invsamp.arguments import mapping, one_of, real, text
from invsamp.posing.distributions.base import Distribution
from invsamp.posing.distributions.univariate import Uniform
from invsamp.posing.distributions.univariate_more import LogUniform
from invsamp.protocols import Facts

#: The columns that say something, and how alike a name must be to be taken for a slip of the pen.
_COLUMNS, _ALIKE = ("lower", "upper", "scale", "fixed"), 0.75


def distributions_of(table: object) -> dict[str, Distribution | float]:
    """By name, in the order of the rows; see `Prior.from_table`."""
    rows = _rows(table)
    if not rows:
        raise ValueError("table must have a row for at least one parameter, got none")
    names = [text("the column name, or the labels of rows, in table", name) for name in rows]
    return {name: _distribution(name, rows[name]) for name in names}


def _rows(table: Any) -> Facts:
    if getattr(table, "ndim", 0) != 2 or not hasattr(table, "to_dict"):
        return mapping("table", table, "a table of parameters")
    if not table.columns.is_unique:
        raise ValueError(f"table must have no column twice, got {list(table.columns)}")
    labeled = table.set_index("name") if "name" in table.columns else table
    if not labeled.index.is_unique:
        raise ValueError(f"table must have one row for each parameter, got the names {list(labeled.index)}")
    found: Facts = labeled.to_dict("index")
    return found


def _distribution(name: str, row: object) -> Distribution | float:
    """Distribution of a parameter, or its fixed value, from a row."""
    given = mapping(f"table[{name!r}]", row)
    for key in given:
        if key not in _COLUMNS and (meant := get_close_matches(str(key).strip().lower(), _COLUMNS, 1, _ALIKE)):
            raise ValueError(
                f"table must have a column {meant[0]!r}, or another name where this is not meant, got {key!r}"
            )
    cells = {key: cell for key, cell in given.items() if key in _COLUMNS and not _is_empty(cell)}
    if "fixed" in cells:
        return real(f"fixed of {name!r}", cells["fixed"])
    if missing := [key for key in ("lower", "upper") if key not in cells]:
        raise ValueError(f"table must have lower and upper, or fixed, of every parameter, got no {missing} of {name!r}")
    scale = one_of(f"scale of {name!r}", cells.get("scale", "linear"), ("linear", "lin", "log", "log10"))
    family = {"linear": Uniform, "log": LogUniform}[{"lin": "linear", "log10": "log"}.get(scale, scale)]
    ends = (real(f"{key} of {name!r}", cells[key]) for key in ("lower", "upper"))
    try:
        return family(*ends)
    except ValueError as error:
        raise ValueError(f"table[{name!r}]: {error}") from None


def _is_empty(cell: object) -> bool:
    """Whether a cell is `None`, NaN, or what pandas takes for nothing, which is not even equal to itself."""
    return cell is None or cell is getattr(sys.modules.get("pandas"), "NA", None) or bool(cell != cell)
