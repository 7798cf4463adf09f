"""A point inside a domain that draws hardly ever hit."""

from __future__ import annotations

import numpy as np

from invsamp.domains._polytope import interior_point
from invsamp.domains.box import Box
from invsamp.domains.contract import Array, Domain
from invsamp.domains.half_spaces import HalfSpaces
from invsamp.domains.intersection import Intersection
from invsamp.domains.product import Product


def point_inside(domain: Domain, dimension: int, rng: np.random.Generator) -> Array | None:
    """A position (d,) inside the domain; None where none is found.

    The center of a largest ball in the polytope of the half-spaces and the other domains' bounding boxes, by a linear
    program (`invsamp.domains._polytope.interior_point`). Where that lies outside of a curved domain, a uniform draw.
    """
    rows = [(normals, offsets) for normals, offsets in _rows(domain, dimension) if len(offsets)]
    if rows:
        normals, offsets = (np.concatenate(part) for part in zip(*rows, strict=True))
        try:
            point = interior_point(normals, offsets)
        except ValueError:
            return None
        if domain.contains(point[None])[0]:
            return point
    try:
        return domain.sample_uniform(rng, 1)[0]
    except ValueError:
        return None


def _rows(domain: Domain, dimension: int) -> list[tuple[Array, Array]]:
    """Normals (k, d) and offsets (k,) of half-spaces that the domain lies in."""
    if isinstance(domain, Intersection):
        return [row for part in domain.parts for row in _rows(part, dimension)]
    if isinstance(domain, HalfSpaces):
        return [(domain.normals, domain.offsets)]
    if isinstance(domain, Product):
        found = []
        for key, block in domain.blocks:
            columns = np.array(key, dtype=np.intp)
            for normals, offsets in _rows(block, len(key)):
                placed = np.zeros((len(offsets), dimension))
                placed[:, columns] = normals
                found.append((placed, offsets))
        return found
    return [Box(*domain.bounding_box(dimension)).rows(dimension)]
