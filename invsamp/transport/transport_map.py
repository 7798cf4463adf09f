r"""A transport map as a run uses it: a frame, and a core within it.

.. math:: x = \mu + A\, T(z), \qquad \log |\det dx/dz| = \log |\det A| + \log |\det T'(z)|
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from invsamp.protocols import Array
from invsamp.stored import stored
from invsamp.transport.radial import Radial
from invsamp.transport.triangular import Image, Triangular


@stored
@dataclass(frozen=True, eq=False)
class TransportMap:
    """Coordinates z of positions x, with their exact Jacobian.

    Parameters
    ----------
    family : str
        Its name in reports.
    center : ndarray, shape (d,)
    frame : ndarray, shape (d,) or (d, d)
        Diagonal, or any invertible matrix.
    core : Triangular or Radial

    Examples
    --------
    >>> import numpy as np
    >>> from invsamp.transport import TransportMap
    >>> from invsamp.transport.radial import Radial
    >>> heavy = TransportMap("radial", np.zeros(2), np.ones(2), Radial(3.0))
    >>> z = np.array([[1.0, 0.0], [3.0, 0.0]])
    >>> np.allclose(heavy.inverse(heavy.forward(z).u), z)
    True
    """

    family: str
    center: Array
    frame: Array
    core: Triangular | Radial

    @property
    def dimension(self) -> int:
        """Unknowns."""
        return len(self.center)

    def forward(self, z: Array) -> Image:
        """Positions (n, d) of points z, with the log of the determinant (n,)."""
        inner = self.core.forward(z)
        moved = inner.u * self.frame if self.frame.ndim == 1 else inner.u @ self.frame.T
        return Image(self.center + moved, inner.log_det + self._log_volume, inner)

    def inverse(self, position: Array) -> Array:
        """Points z (n, d) of positions."""
        away = position - self.center
        return self.core.inverse(away / self.frame if self.frame.ndim == 1 else away @ self._inverse_frame.T)

    def pull_back(self, image: Image, gradient: Array) -> Array:
        """The gradient in z of U(x(z)) - log |det dx/dz|, from that of U in x (n, d)."""
        inner = image.kept
        assert isinstance(inner, Image)
        return self.core.pull_back(inner, gradient * self.frame if self.frame.ndim == 1 else gradient @ self.frame)

    @cached_property
    def _inverse_frame(self) -> Array:
        return np.asarray(np.linalg.inv(self.frame))

    @cached_property
    def _log_volume(self) -> float:
        if self.frame.ndim == 1:
            return float(np.log(np.abs(self.frame)).sum())
        return float(np.linalg.slogdet(self.frame)[1])
