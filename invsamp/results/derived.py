"""Functions of the draws of a run, evaluated after it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invsamp.arguments import by_row
from invsamp.protocols import Array
from invsamp.results.predictive import by_blocks


def derived(
    name: str, function: Callable[[Array], object], theta: Array, predict: Callable[[Array], Array] | None = None
) -> Array:
    """Values (chains, draws, *shape) of a function of draws theta (chains, draws, d), or of what is predicted at them.

    Equal draws, as of a chain that stayed where it was, are evaluated once.
    """
    rows, again = np.unique(theta.reshape(-1, theta.shape[-1]), axis=0, return_inverse=True)
    shapes: dict[tuple[int, ...], None] = {}

    def of(block: Array) -> Array:
        found = by_row(
            f"the result of {name!r}", function(block.copy() if predict is None else predict(block)), len(block)
        )
        shapes[found.shape[1:]] = None
        if len(shapes) > 1:
            raise ValueError(f"the result of {name!r} must have one shape for all theta, got {list(shapes)}")
        return found

    values = by_blocks(of, rows)[np.ravel(again)]  # NumPy 2.0 keeps an axis
    return values.reshape(theta.shape[:2] + values.shape[1:])
