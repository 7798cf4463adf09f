"""Where positions may lie, and how a move is reflected there: see `invsamp.domains.contract`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from invsamp.domains.box import Box, with_inf
from invsamp.domains.contract import MAX_BOUNCES, Domain, Reflection
from invsamp.domains.half_spaces import HalfSpaces
from invsamp.domains.unbounded import Unbounded

__all__ = ["MAX_BOUNCES", "Box", "Domain", "HalfSpaces", "Reflection", "Unbounded", "from_dict"]


def from_dict(description: Mapping[str, Any]) -> Domain:
    """The domain that `to_dict` described.

    Raises
    ------
    ValueError
        If ``kind`` is not one of those of this module.
    """
    kind = description.get("kind")
    if kind == "unbounded":
        return Unbounded()
    if kind == "box":
        return Box(with_inf(description["lower"], -np.inf), with_inf(description["upper"], np.inf))
    if kind == "half_spaces":
        return HalfSpaces(description["normals"], description["offsets"])
    raise ValueError(f"kind must be 'unbounded', 'box' or 'half_spaces', got {kind!r}")
