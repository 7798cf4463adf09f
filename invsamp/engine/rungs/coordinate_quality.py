"""How normal the target of a rung is in the coordinates in which its kernel moves."""

from __future__ import annotations

from typing import NamedTuple

from invsamp.stored import stored


@stored
class CoordinateQuality(NamedTuple):
    """The quality of the coordinates in a window of warm-up.

    Attributes
    ----------
    family : str
        Of the coordinates: "linear", or that of a transport map.
    divergence : float
        J of `invsamp.transport.fisher_divergence`: 0 where the target is a normal distribution there.
    largest : tuple of int
        Numbers of the unknowns that contribute most to it.
    unmatched : float
        Share of the mass at values of a log scale, also where no draw may have been, at which the target is not normal
        in a map's coordinates; 1 where no map says so.
    """

    family: str
    divergence: float
    largest: tuple[int, ...]
    unmatched: float = 1.0
