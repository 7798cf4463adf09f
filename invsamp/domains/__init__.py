"""Constraints on parameters: regions that proposals are reflected into, and what happens at their boundary.

`Box`, `Ball`, `Ellipsoid`, `HalfSpaces`, `Polygon` and `LevelSet` are regions, `Product` combines regions of different
parameters, `Unbounded` constrains nothing, and `constraint` reads an inequality such as ``"a + b < 1"``. `penalized`
and `projected` are alternatives to reflection. The contract of a region is `invsamp.domains.contract`.
"""

from invsamp.domains.ball import Ball, Ellipsoid
from invsamp.domains.boundary import penalized, projected
from invsamp.domains.box import Box
from invsamp.domains.constraints import constraint
from invsamp.domains.half_spaces import HalfSpaces
from invsamp.domains.level_set import LevelSet
from invsamp.domains.polygon import Polygon
from invsamp.domains.product import Product
from invsamp.domains.unbounded import Unbounded

__all__ = [
    "Ball",
    "Box",
    "Ellipsoid",
    "HalfSpaces",
    "LevelSet",
    "Polygon",
    "Product",
    "Unbounded",
    "constraint",
    "penalized",
    "projected",
]
