"""Domains from their descriptions, as a run in a directory stores them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from invsamp.arguments import mapping
from invsamp.domains.ball import Ball, Ellipsoid
from invsamp.domains.box import Box
from invsamp.domains.contract import Domain
from invsamp.domains.formula_level import FormulaLevel
from invsamp.domains.half_spaces import HalfSpaces
from invsamp.domains.intersection import intersect
from invsamp.domains.level_set import LevelSet, SavedLevelSet
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
    settings = dict(mapping("description", description))
    kind = settings.pop("kind", None)
    if kind not in _BY_KIND:
        raise ValueError(f"kind must be that of a domain, such as 'box', got {kind!r} in the description")
    return _BY_KIND[kind](settings)


def _level_set(settings: Facts) -> Domain:
    if "formula" not in settings:
        return SavedLevelSet(settings)
    level = FormulaLevel(*settings["formula"])
    return LevelSet(level, level.gradient, settings["dimension"])


_BY_KIND: dict[object, Callable[[Facts], Domain]] = {
    "unbounded": lambda _: Unbounded(),
    "box": Box.from_dict,
    "level_set": _level_set,
    "product": lambda given: Product({tuple(key): from_dict(domain) for key, domain in given["blocks"]}),
    "intersection": lambda given: reduce(intersect, map(from_dict, given["parts"])),
    "half_spaces": lambda given: HalfSpaces(**given),
    "ball": lambda given: Ball(**given),
    "ellipsoid": lambda given: Ellipsoid(**given),
    "polygon": lambda given: Polygon(**given),
}
