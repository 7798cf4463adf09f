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


class _Level(NamedTuple):
    """Coordinates (m,) that depend on others (p,) of lower levels, and their coefficients, each (2, p, m)."""

    members: Places
    parents: Places
    shift: Array
    log_scale: Array


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
            for members, parents, of_shift, of_log in self._levels:
                before = u[:, parents]
                squares = before * before
                shift = before @ of_shift[0] + squares @ of_shift[1]
                log = before @ of_log[0] + 0.5 * np.log1p(squares) @ of_log[1]
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
            for members, parents, of_shift, of_log in reversed(self._levels):
                before, own = u[:, parents], by_u[:, members]
                by_log = own * scale[:, members] * kept.value[:, members] - 1.0
                by_u[:, parents] += (
                    own @ of_shift[0].T
                    + by_log @ of_log[0].T
                    + (own @ of_shift[1].T) * (2.0 * before)
                    + (by_log @ of_log[1].T) * (before / (1.0 + before * before))
                )
            return by_u * scale * np.exp(self.log_width + kept.margin.log_slope) - kept.margin.bend

    @cached_property
    def _levels(self) -> list[_Level]:
        """Each level but the lowest."""
        found = []
        for level in range(1, int(self.level.max(initial=0)) + 1):
            members = np.flatnonzero(self.level == level)
            depends = (self.shift[:, :, members] != 0.0) | (self.log_scale[:, :, members] != 0.0)
            parents = np.flatnonzero(depends.any(axis=(0, 2)))
            block = slice(None), parents[:, None], members
            found.append(_Level(members, parents, self.shift[block], self.log_scale[block]))
        return found


def identity(d: int) -> Triangular:
    """The map that leaves d coordinates as they are."""
    none, pair = np.zeros(d), np.zeros((2, d, d))
    return Triangular(np.zeros(d, dtype=int), pair, pair, none, none, none, none, none)
