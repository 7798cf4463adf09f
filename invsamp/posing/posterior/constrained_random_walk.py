"""Points of a density within a domain of which it has too little mass for its draws to lie inside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.protocols import Array

#: Moves of the one half or the other: so many for each coordinate, but not fewer nor more than these.
MOVES, FEWEST_MOVES, MOST_MOVES = 20, 100, 1000
#: Walkers for each coordinate, at least.
FEWEST_WALKERS = 4
#: Length of the first interval of a slice, in units of the density's spread without the domain; too long costs little.
WIDTH = 100.0
#: Halvings, about, after which a walker that has found no point of its slice stays where it is.
TRIES = 200


def walk(
    rng: np.random.Generator, start: Array, log_density: Callable[[Array], Array], domain: Domain, scale: Array
) -> Array:
    """Move walkers (n, d) from points inside a domain, until they are spread about as the density restricted to it is.

    Hit and run by slices: each move is one of a slice sampler along a random line, whose interval shrinks until a point
    of the slice inside is found. One half of the walkers moves along differences of two of the other half, or anywhere,
    then the other half: they find their way along a domain that is narrow in any direction. The restricted distribution
    is invariant; after finitely many moves, from where they start, the walkers follow it nearly. That is enough for
    starting points.

    Parameters
    ----------
    start : ndarray, shape (n, d)
        Inside, of positive density.
    log_density : callable
        Positions (k, d) -> (k,), up to a constant.
    scale : ndarray, shape (d,)
        Spread of the density in each coordinate.

    Returns
    -------
    ndarray, shape (n, d)

    References
    ----------
    Neal (2003), "Slice sampling", Annals of Statistics 31(3), section 4.2 (shrinking intervals) and 5 (along lines).
    Differences of other walkers: Goodman and Weare (2010), "Ensemble samplers with affine invariance", section 2.
    """
    n, d = start.shape
    # few walkers would know few directions
    position = np.resize(start, (max(n, FEWEST_WALKERS * d), d))
    value = log_density(position)
    halves = np.array_split(np.arange(len(position)), 2)
    for move in range(int(np.clip(MOVES * d, FEWEST_MOVES, MOST_MOVES))):
        moving, others = halves[move % 2], halves[1 - move % 2]
        along = np.zeros_like(position)
        along[moving] = _directions(rng, len(moving), position[others], scale)
        level = value + np.log1p(-rng.random(len(value)))
        low = np.multiply(-WIDTH, rng.random(len(value)))
        high = low + WIDTH
        for _ in range(TRIES):
            time = rng.uniform(low[moving], high[moving])
            there = position[moving] + time[:, None] * along[moving]
            found = domain.contains(there)
            value_there = np.full(len(moving), -np.inf)
            value_there[found] = log_density(there[found])
            found &= value_there >= level[moving]
            position[moving[found]], value[moving[found]] = there[found], value_there[found]
            moving, time = moving[~found], time[~found]
            if not len(moving):
                break
            before = time < 0.0
            low[moving[before]], high[moving[~before]] = time[before], time[~before]
    return position[:n]


def _directions(rng: np.random.Generator, n: int, others: Array, scale: Array) -> Array:
    """Lines (n, d) as long as the scale: along differences of two of the others, and every second one anywhere."""
    one, two = rng.integers(len(others), size=(2, n))
    along = (others[one] - others[two]) / scale
    length = np.linalg.norm(along, axis=1)
    anywhere = (rng.random(n) < 0.5) | (length == 0.0)
    along[anywhere] = rng.standard_normal((int(anywhere.sum()), along.shape[1]))
    return np.asarray(along * scale / np.linalg.norm(along, axis=1, keepdims=True))
