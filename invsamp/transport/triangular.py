r"""A triangular map: each coordinate is shifted and scaled by functions of those before it.

In an order of the coordinates,

.. math:: u_k = a_k + m_k(u_{<k}) + q_k\, (b_k + l_k \cdot u_{<k}) + e^{s_k}\, (c_k + \sigma_k\, t_k(z_k)),

with :math:`m` linear in the coordinates before, their squares and :math:`\sqrt{1 + u^2}`, which with the line itself
makes a bend that is flat on one side; and :math:`t` as in `invsamp.transport.margins`.
The precision is a sum of two, one that varies and a constant one, whose share is q,

.. math:: e^{-2 s_k} = e^{-2 r_k(u_{<k})} + p_k, \qquad q_k = p_k\, e^{2 s_k},

with :math:`r` linear in the coordinates before, :math:`\log(1 + u^2) / 2` and :math:`\sqrt{1 + u^2}`. So is a
product of two normal densities, of a prior whose mean and log scale are unknown and of data. The Jacobian is
triangular,
:math:`\log |\det| = \sum_k s_k + \log \sigma_k + \log t'_k`.
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


#: How many sds out a map is tried at most, and sds of the normal distribution that it maps: where a tail is
#: exponential 1e-4 of the mass lies farther out, and where it is normal 1e-6.
_FAR, _RARE = 10.0, 5.0
#: Difference by which slopes of a coordinate's own function are taken.
_STEP = 1e-4


#: Numbers of coordinates.
Places = npt.NDArray[np.intp]


class Image(NamedTuple):
    """Where points z (n, d) come to, u (n, d), with log |det du/dz| (n,), and what their pull-backs need."""

    u: Array
    log_det: Array
    kept: object


class _Level(NamedTuple):
    """Coordinates (m,) that depend on others (p,) of lower levels, and their coefficients, (3, p, m) or (p, m)."""

    members: Places
    parents: Places
    shift: Array
    log_scale: Array
    other_shift: Array


class _Kept(NamedTuple):
    margin: Stretched
    log_scale: Array
    value: Array
    share: Array
    other: Array


@stored
@dataclass(frozen=True, eq=False)
class Triangular:
    """The map of d coordinates.

    Parameters
    ----------
    level : ndarray of int, shape (d,)
        Coordinates depend on those of lower levels alone.
    shift, log_scale : ndarray, shape (3, d, d)
        Coefficients [f, j, k] of the features of coordinate j (`shift_features`, `scale_features`) in m_k and r_k.
    precision, other_constant : ndarray, shape (d,)
        p and b.
    other_shift : ndarray, shape (d, d)
        Coefficients [j, k] of l.
    constant, offset, log_width : ndarray, shape (d,)
        a, c and log sigma. Where s is very negative, as in the neck of a funnel, a and m alone are the center.
    left, right : ndarray, shape (d,)
        Tail indices 1 / nu of t; 0 for normal tails.
    """

    level: Places
    shift: Array
    log_scale: Array
    precision: Array
    other_constant: Array
    other_shift: Array
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
        u, log_scale, share, other = self.constant + value, *np.zeros((3, *value.shape))
        with np.errstate(over="ignore", invalid="ignore"):  # a path may leave all that is finite
            for members, parents, of_shift, of_log, of_other in self._levels:
                before = u[:, parents]
                log, part = narrowed(_combined(scale_features(before), of_log), self.precision[members])
                other[:, members] = away = self.other_constant[members] + before @ of_other
                shift = _combined(shift_features(before), of_shift) + part * away
                log_scale[:, members], share[:, members] = log, part
                u[:, members] = self.constant[members] + shift + np.exp(log) * value[:, members]
                log_det = log_det + log.sum(axis=1)
        return Image(u, log_det, _Kept(margin, log_scale, value, share, other))

    def inverse(self, u: Array) -> Array:
        """Points z (n, d) that come to u."""
        return self.located(u)[0]

    def located(self, u: Array) -> tuple[Array, Image]:
        """Points z (n, d) that come to u, with the image of these."""
        log, share = narrowed(_combined(scale_features(u), self.log_scale), self.precision)
        other = self.other_constant + u @ self.other_shift
        shift = self.constant + _combined(shift_features(u), self.shift) + share * other
        value = (u - shift) * np.exp(-log)
        z = shrunk((value - self.offset) * np.exp(-self.log_width), self.left, self.right)
        margin = stretched(z, self.left, self.right)
        log_det = self.log_width.sum() + margin.log_slope.sum(axis=1) + log.sum(axis=1)
        return z, Image(u, log_det, _Kept(margin, log, value, share, other))

    def bends(self) -> Places:
        """Coordinates on which scales depend, those of most others first."""
        number = (self.log_scale != 0.0).any(axis=0).sum(axis=1)
        return np.argsort(-number, kind="stable")[: np.count_nonzero(number)]

    def parents(self) -> Places:
        """Coordinates on which others depend."""
        return np.flatnonzero((self.shift != 0.0).any(axis=(0, 2)) | (self.log_scale != 0.0).any(axis=(0, 2)))

    def values(self, along: Places) -> tuple[Array, Array, Array]:
        """Points z (n, d) at values of coordinates (n,) between -10 and 10 sds of the draws; the others are 0.

        Also the coordinates themselves in u (n,), and the slopes du / dz (n,).
        """
        z, row = np.zeros((len(along), len(self.constant))), np.arange(len(along))
        u = self.forward(z).u.copy()
        for j in np.unique(along):
            u[along == j, j] = np.linspace(-_FAR, _FAR, np.count_nonzero(along == j))
        z[row, along] = self.inverse(u)[row, along]
        value = u[row, along]
        u[row, along] += _STEP
        with np.errstate(divide="ignore"):
            return z, value, _STEP / (self.inverse(u)[row, along] - z[row, along])

    def edges(self, along: Places) -> tuple[Array, Array]:
        """Values of coordinates (n,) in u, on both sides, beyond which hardly any mass lies if the map is right."""
        z, row = np.zeros((len(along), len(self.constant))), np.arange(len(along))
        z[row, along] = _RARE
        low, high = (np.clip(self.forward(side * z).u[row, along], -_FAR, _FAR) for side in (-1.0, 1.0))
        return low, high

    def far_points(self, low: Array, high: Array, normal: Array) -> tuple[Array, Places]:
        """Points z (n, d), each with one coordinate between values low and high (d,) of u where these differ; which.

        Coordinates and sides take turns. The others are those of standard normal points (n, d).
        """
        z, reaching = normal.copy(), np.flatnonzero(high > low)
        along, row = np.resize(reaching, len(z)), np.arange(len(z))
        turn, u = row // len(reaching), self.forward(z).u.copy()
        share = (turn + 1.0) / (turn.max(initial=0) + 1.0)
        u[row, along] = share * np.where(turn % 2 == 0, low[along], high[along])
        z[row, along] = self.inverse(u)[row, along]
        return z, along

    def pull_back(self, image: Image, gradient: Array) -> Array:
        """The gradient in z of U(u(z)) - log |det|, from that of U in u (n, d)."""
        kept = image.kept
        assert isinstance(kept, _Kept)
        with np.errstate(over="ignore", invalid="ignore"):
            by_u = self.received(image, gradient)
            return by_u * np.exp(kept.log_scale + self.log_width + kept.margin.log_slope) - kept.margin.bend

    def received(self, image: Image, gradient: Array, above: int = 0) -> Array:
        """The gradient in u (n, d) with what coordinates of levels above one pass on to those that they depend on."""
        kept, u, by_u = image.kept, image.u, gradient.copy()
        assert isinstance(kept, _Kept)
        with np.errstate(over="ignore", invalid="ignore"):
            for members, parents, of_shift, of_log, of_other in reversed(self._levels[above:]):
                before, own = u[:, parents], by_u[:, members]
                part = kept.share[:, members]
                by_log = own * np.exp(kept.log_scale[:, members]) * kept.value[:, members] - 1.0
                by_log = (1.0 - part) * (by_log + 2.0 * part * own * kept.other[:, members])
                roots = np.sqrt(1.0 + before * before)
                by_u[:, parents] += (
                    own @ of_shift[0].T
                    + (own * part) @ of_other.T
                    + by_log @ of_log[0].T
                    + (own @ of_shift[1].T) * (2.0 * before)
                    + (by_log @ of_log[1].T) * (before / (1.0 + before * before))
                    + (own @ of_shift[2].T + by_log @ of_log[2].T) * (before / roots)
                )
        return by_u

    @cached_property
    def _levels(self) -> list[_Level]:
        """Each level but the lowest."""
        found = []
        for level in range(1, int(self.level.max(initial=0)) + 1):
            members = np.flatnonzero(self.level == level)
            depends = np.concatenate([self.shift, self.log_scale, self.other_shift[None]])[:, :, members] != 0.0
            parents = np.flatnonzero(depends.any(axis=(0, 2)))
            block = slice(None), parents[:, None], members
            found.append(
                _Level(members, parents, self.shift[block], self.log_scale[block], self.other_shift[block[1:]])
            )
        return found


def shift_features(u: Array) -> Array:
    """Features (3, n, d) of coordinates (n, d) that shifts are linear in."""
    squares = u * u
    return np.stack([u, squares, np.sqrt(1.0 + squares)])


def scale_features(u: Array) -> Array:
    """Features (3, n, d) of coordinates (n, d) that the logs of scales are linear in."""
    squares = u * u
    return np.stack([u, 0.5 * np.log1p(squares), np.sqrt(1.0 + squares)])


def _combined(features: Array, coefficients: Array) -> Array:
    """Sums (n, m) of features (3, n, p) with coefficients (3, p, m)."""
    return np.asarray(np.concatenate(features, axis=1) @ coefficients.reshape(-1, coefficients.shape[2]))


def narrowed(log: Array, precision: Array) -> tuple[Array, Array]:
    """Logs of scales with precisions added to those of ``log``, and the share of what is added in all."""
    log = np.clip(log, -_LARGEST_LOG, _LARGEST_LOG)
    more = precision * np.exp(2.0 * log)
    return log - 0.5 * np.log1p(more), more / (1.0 + more)


def identity(d: int) -> Triangular:
    """The map that leaves d coordinates as they are."""
    none, coefficients = np.zeros(d), np.zeros((3, d, d))
    shared = none, none, coefficients[0]
    return Triangular(np.zeros(d, dtype=int), coefficients, coefficients, *shared, none, none, none, none, none)
