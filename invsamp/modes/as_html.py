"""Modes as a notebook shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from invsamp import html
from invsamp.protocols import Array

#: Modes, and parameters of each, that are shown.
_MODES, _PARAMETERS = 50, 20


def as_html(
    lines: Sequence[str],
    labels: Sequence[str],
    theta: Array,
    measures: Mapping[str, npt.NDArray[np.generic] | None],
    notes: Sequence[str],
) -> str:
    """A row for each mode: what is known of it, its parameters, and what is said of it.

    Parameters
    ----------
    lines : sequence of str
        The headline, then what is said of all of them together.
    labels : sequence of str
        Of the d parameters.
    theta : ndarray, shape (k, d)
    measures : dict of str to ndarray (k,), or None
        By name; those that are None are left out.
    notes : sequence of str
        One for each mode, empty where there is nothing to say.
    """
    known = {name: values for name, values in measures.items() if values is not None}
    said = [""] if any(notes) else []
    rows = [
        [
            *(_number(values[k]) for values in known.values()),
            *theta[k, :_PARAMETERS].tolist(),
            *([notes[k]] if said else []),
        ]
        for k in range(min(len(theta), _MODES))
    ]
    more = [f"... and {len(theta) - _MODES} more modes"] * (len(theta) > _MODES)
    more += [f"The first {_PARAMETERS} of {len(labels)} parameters are shown"] * (len(labels) > _PARAMETERS)
    return html.table(lines[0], [*known, *labels[:_PARAMETERS], *said], rows) + html.sentences([*more, *lines[1:]])


def _number(value: Any) -> float | int | str:
    """With as many digits as differences of energies need."""
    return int(value) if isinstance(value, np.integer) else f"{float(value):.6g}" if np.isfinite(float(value)) else "-"
