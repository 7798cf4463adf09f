"""Uniform draws from a bounding box, kept where they lie inside."""

from __future__ import annotations

import numpy as np

from invsamp.arguments import generator, integer
from invsamp.domains.contract import Array, Domain

#: Proposals after which a domain of which nothing was found is given up.
PROPOSALS = 10_000_000


def sample_by_rejection(domain: Domain, rng: np.random.Generator, n: int) -> Array:
    """Independent uniform draws, shape (n, d), from a domain with a finite bounding box.

    Raises
    ------
    ValueError
        If the dimension is open, the domain is not bounded, or less than one in a million draws lies inside.
    """
    generator("rng", rng), integer("n", n, least=0)
    if domain.dimension is None:
        raise ValueError(f"sample_uniform needs a domain of a fixed number of coordinates, got {domain!r}")
    lower, upper = domain.bounding_box(domain.dimension)
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise ValueError(f"sample_uniform needs a bounded domain, got {domain!r} within {lower} and {upper}")
    found = [np.empty((0, domain.dimension))]
    proposed = accepted = 0
    while accepted < n:
        size = int(np.clip(1.1 * (n - accepted) * (proposed + 1) / (accepted + 1), 1000, 1_000_000))
        points = rng.uniform(lower, upper, (size, domain.dimension))
        found.append(points[domain.contains(points)])
        proposed, accepted = proposed + size, accepted + len(found[-1])
        if proposed >= PROPOSALS and accepted < 1e-6 * proposed:
            raise ValueError(f"{accepted} of {proposed} draws from its bounding box lie inside {domain!r}")
    return np.concatenate(found)[:n]
