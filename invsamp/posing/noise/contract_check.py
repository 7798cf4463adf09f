"""Whether a noise keeps its contract: what it is given, what it returns, and what it says of its quantities."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import numpy as np

from invsamp.errors import ModelError
from invsamp.posing.noise.base import Noise
from invsamp.protocols import AnyArray, Array


def check_noise(noise: Noise) -> None:
    """`ValueError` unless its methods take what they will be given, and its limits are those of its quantities."""
    kind, names = type(noise).__name__, list(noise.quantities)
    for name, ends in noise.limits.items():
        if name not in names:
            raise ValueError(f"limits of {kind} must be of its quantities {names}, got {name!r}")
        if np.shape(ends) != (2,) or not ends[0] < ends[1]:
            raise ValueError(f"limits[{name!r}] of {kind} must be a lower and an upper end, got {ends!r}")
    for method, first in (("evaluate", ("y", "data")), ("sample", ("rng", "y"))):
        given = (*first, *names)
        try:
            inspect.signature(getattr(noise, method)).bind(*given)
        except TypeError as error:
            raise ValueError(
                f"{method} of {kind} must take ({', '.join(given)}), of which {names or 'none'} are its quantities: "
                f"{error}"
            ) from None


def checked_terms(noise: Noise, found: object, y: Array, data: Array, names: Sequence[str]) -> list[AnyArray]:
    """Values that `Noise.evaluate` returned for y and data, as arrays; `ModelError` where their shapes are wrong."""
    kind = type(noise).__name__
    wanted = ["the log-likelihoods", "the derivative in y", *(f"that in {name}" for name in names)]
    if not isinstance(found, tuple) or len(found) != len(wanted):
        said = f"a tuple of {len(found)}" if isinstance(found, tuple) else f"a {type(found).__name__}"
        raise ModelError(f"evaluate of {kind} must return {', '.join(wanted)}, a tuple of {len(wanted)}, got {said}")
    arrays = [np.asarray(part) for part in found]
    terms = (len(y), data.shape[-1])
    for what, array in zip(wanted, arrays, strict=True):
        shape = y.shape if what == wanted[1] else terms
        if array.shape != shape:
            raise ModelError(f"evaluate of {kind} must return {what} in shape {shape}, got {array.shape}")
    return arrays
