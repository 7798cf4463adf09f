"""Checks and conversions of arrays that the domains share."""

from __future__ import annotations

import numpy as np

from invsamp.domains.contract import Array


def copies(position: Array, move: Array) -> tuple[Array, Array]:
    """Fresh C-contiguous arrays (n, d) for the kernels to overwrite."""
    end, velocity = np.array(position, dtype=float, order="C"), np.array(move, dtype=float, order="C")
    if end.ndim != 2 or end.shape != velocity.shape:
        raise ValueError(f"position and move must both have shape (n, d), got {end.shape} and {velocity.shape}")
    return end, velocity


def check_metric(shape: tuple[int, ...], dimension: int) -> None:
    """Raise ValueError unless a preconditioner of this shape fits."""
    if shape not in ((dimension,), (dimension, dimension)):
        raise ValueError(f"metric must have shape ({dimension},) or ({dimension}, {dimension}), got {shape}")


def freeze(instance: object, **arrays: Array) -> None:
    """Set read-only arrays as attributes of a frozen dataclass."""
    for name, array in arrays.items():
        array.flags.writeable = False
        object.__setattr__(instance, name, array)


def entries(array: Array) -> tuple[float, ...]:
    """All numbers of an array, to hash."""
    return tuple(array.ravel().tolist())
