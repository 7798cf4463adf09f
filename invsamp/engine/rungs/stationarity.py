"""Whether the chains of a rung are stationary in a window of warm-up."""

from __future__ import annotations

from typing import NamedTuple

from invsamp.diagnostics.limits import STRAY_LIMIT, VIRIAL_LIMIT
from invsamp.stored import stored


@stored
class Stationarity(NamedTuple):
    r"""Statistics of a window that show whether its chains have arrived, and whether long steps throw them about.

    Attributes
    ----------
    virial : float
        :math:`E[(x - c) \cdot \nabla v] / d`, c the mean of the draws, of each chain where these lie apart. It is 1 of
        any distribution, whatever c is, and less at bounds. Of chains that are on their way, or
        whose steps are too long, it is their energy over that of the target.
    stray : float
        Share of the chains whose energies are far above those of the lowest.
    """

    virial: float
    stray: float

    @property
    def disturbed(self) -> bool:
        """Whether gradients show no curvature."""
        return self.virial > VIRIAL_LIMIT or self.stray > STRAY_LIMIT
