"""Domains from their descriptions, as a run in a directory stores them."""

from __future__ import annotations

from functools import reduce

import numpy as np

from invsamp.arguments import mapping
from invsamp.domains.ball import Ball, Ellipsoid
from invsamp.domains.box import Box, with_inf
from invsamp.domains.contract import Domain
from invsamp.domains.half_spaces import HalfSpaces
from invsamp.domains.intersection import intersect
from invsamp.domains.level_set import SavedLevelSet
from invsamp.domains.polygon import Polygon
from invsamp.domains.product import Product
from invsamp.domains.unbounded import Unbounded
from invsamp.protocols import Facts


def from_dict(description: Facts) -> Domain:
    """The domain that `to_dict` described.

    Raises
    ------
    ValueError
        If ``kind`` is not one of those of this module.
    """
    kind = mapping("description", description).get("kind")
    if kind == "unbounded":
        return Unbounded()
    if kind == "box":
        return Box(with_inf(description["lower"], -np.inf), with_inf(description["upper"], np.inf))
    if kind == "half_spaces":
        return HalfSpaces(description["normals"], description["offsets"])
    if kind == "ball":
        return Ball(description["center"], description["radius"])
    if kind == "ellipsoid":
        return Ellipsoid(description["center"], description["matrix"])
    if kind == "polygon":
        return Polygon(description["vertices"], description["holes"])
    if kind == "level_set":
        return SavedLevelSet.from_dict(description)
    if kind == "product":
        return Product({tuple(key): from_dict(domain) for key, domain in description["blocks"]})
    if kind == "intersection":
        return reduce(intersect, map(from_dict, description["parts"]))
    raise ValueError(f"kind must be that of a domain, such as 'box', got {kind!r} in the description")
