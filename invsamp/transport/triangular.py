r"""A triangular map: each coordinate is shifted and scaled by functions of those before it.

In an order of the coordinates,

.. math:: u_k = a_k + m_k(u_{<k}) + e^{s_k(u_{<k})}\, (c_k + \sigma_k\, t_k(z_k)),

with :math:`m` linear in the coordinates before and their squares, :math:`s` linear in them and in
:math:`\log(1 + u^2) / 2`, and :math:`t` as in `invsamp.transport.margins`. The Jacobian is
triangular, :math:`\log |\det| = \sum_k s_k + \log \sigma_k + \log t'_k`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.protocols import Array
from invsamp.stored import stored
from invsamp.transport.margins import Stretched, shrunk, stretched

#: Logs of scales lie within these: e^50 is beyond all that is sampled.
_LARGEST_LOG = 50.0


#: Numbers of coordinates.
Places = npt.NDArray[np.intp]


class Image(NamedTuple):
    """Where points z (n, d) come to, u (n, d), with log |det du/dz| (n,), and what their pull-backs need."""

    u: Array
    log_det: Array
    kept: object


class _Kept(NamedTuple):
    margin: Stretched
    log_scale: Array
    value: Array


@stored
@dataclass(frozen=True, eq=False)
class Triangular:
    """The map of d coordinates.

    Parameters
    ----------
    level : ndarray of int, shape (d,)
        Coordinates depend on those of lower levels alone.
    shift, log_scale : ndarray, shape (2, d, d)
        Coefficients [f, j, k] of features of coordinate j in m_k and s_k: u_j and its square, or u_j and its log.
    constant, offset, log_width : ndarray, shape (d,)
        a, c and log sigma. Where s is very negative, as in the neck of a funnel, a alone is the center.
    left, right : ndarray, shape (d,)
        Tail indices 1 / nu of t; 0 for normal tails.
    """

    level: Places
    shift: Array
    log_scale: Array
    constant: Array
    offset: Array
    log_width: Array
    left: Array
    right: Array

    def forward(self, z: Array) -> Image:
        """Points z (n, d) mapped."""
        margin = stretched(z, self.left, self.right)
        value = self.offset + np.exp(self.log_width) * margin.value
        log_det = self.log_width.sum() + margin.log_slope.sum(axis=1)
        u, log_scale = self.constant + value, np.zeros_like(value)
        with np.errstate(over="ignore", invalid="ignore"):  # a path may leave all that is finite
            for members, parents in self._levels:
                before = u[:, parents]
                shift = before @ self.shift[0][np.ix_(parents, members)]
                shift += (before * before) @ self.shift[1][np.ix_(parents, members)]
                log = before @ self.log_scale[0][np.ix_(parents, members)]
                log += 0.5 * np.log1p(before * before) @ self.log_scale[1][np.ix_(parents, members)]
                log_scale[:, members] = log = np.clip(log, -_LARGEST_LOG, _LARGEST_LOG)
                u[:, members] = self.constant[members] + shift + np.exp(log) * value[:, members]
                log_det = log_det + log.sum(axis=1)
        return Image(u, log_det, _Kept(margin, log_scale, value))

    def inverse(self, u: Array) -> Array:
        """Points z (n, d) that come to u."""
        shift = self.constant + u @ self.shift[0] + (u * u) @ self.shift[1]
        log = u @ self.log_scale[0] + 0.5 * np.log1p(u * u) @ self.log_scale[1]
        value = (u - shift) * np.exp(-np.clip(log, -_LARGEST_LOG, _LARGEST_LOG))
        return shrunk((value - self.offset) * np.exp(-self.log_width), self.left, self.right)

    def pull_back(self, image: Image, gradient: Array) -> Array:
        """The gradient in z of U(u(z)) - log |det|, from that of U in u (n, d)."""
        kept, u = image.kept, image.u
        assert isinstance(kept, _Kept)
        by_u = gradient.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.exp(kept.log_scale)
            for members, parents in reversed(self._levels):
                before, own = u[:, parents], by_u[:, members]
                by_log = own * scale[:, members] * kept.value[:, members] - 1.0
                block = np.ix_(parents, members)
                by_u[:, parents] += own @ self.shift[0][block].T + by_log @ self.log_scale[0][block].T
                by_u[:, parents] += (own @ self.shift[1][block].T) * (2.0 * before)
                by_u[:, parents] += (by_log @ self.log_scale[1][block].T) * (before / (1.0 + before * before))
            return by_u * scale * np.exp(self.log_width + kept.margin.log_slope) - kept.margin.bend

    @cached_property
    def _levels(self) -> list[tuple[Places, Places]]:
        """Coordinates of each level but the lowest, and those that they depend on."""
        found = []
        for level in range(1, int(self.level.max(initial=0)) + 1):
            members = np.flatnonzero(self.level == level)
            depends = (self.shift[:, :, members] != 0.0) | (self.log_scale[:, :, members] != 0.0)
            found.append((members, np.flatnonzero(depends.any(axis=(0, 2)))))
        return found


def identity(d: int) -> Triangular:
    """The map that leaves d coordinates as they are."""
    none, pair = np.zeros(d), np.zeros((2, d, d))
    return Triangular(np.zeros(d, dtype=int), pair, pair, none, none, none, none, none)
