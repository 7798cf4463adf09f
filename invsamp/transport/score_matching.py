"""Coefficients of a triangular map by score matching: least squares on the scores of the pulled-back density.

Draws that chains have not yet spread well give the density's curvature exactly all the same: gradients see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its optimizers take long to import: not before they are wanted

from invsamp.protocols import Array
from invsamp.transport.margins import Stretched, shrunk, stretched
from invsamp.transport.triangular import Places, Triangular, narrowed, scale_features, shift_features

#: What residuals that are not finite count as, and larger ones.
_LARGEST = 1e3
#: Relative change, of what is minimized and of coefficients, below which a fit ends: far below what J scatters.
_TOLERANCE = 1e-5
#: The constant precision, in the median's of the one that varies, from which it is fitted.
_FIRST = 0.1
#: Difference of z and of tail indices by which derivatives are taken that are not exact.
_STEP = 1e-5
#: Mean of log(1 + r^2) / 2 below which no second fit is made, from another constant precision.
_EXACT = 1e-4
#: Share of the precision up to which the constant part is none: it would bound scales beyond the draws.
_UNSEEN = 1e-3
#: Mean squared residual of scores above which a map does not fit at a point: that of z itself is 1.
MISFIT = 0.2
#: Tail indices at most.
_HEAVIEST = 0.8
#: First guess of a coefficient.
_FIRST_GUESS = 1e-12
#: What is fitted.
_CHANGED = (
    *("constant", "log_width", "offset", "shift", "log_scale"),
    *("precision", "other_constant", "other_shift", "left", "right"),
)

#: No tails to be fitted.
_NONE: Mapping[int, Array] = MappingProxyType({})


def refined(core: Triangular, u: Array, gradient: Array, tails: Mapping[int, Array] = _NONE) -> Triangular:
    """The map whose coefficients fit the scores at draws u (n, d), where the gradients are (n, d).

    Coordinates are fitted in turn, from those on which none depends to those that depend on none. The residual of each,
    its score plus z, has no other coefficients than its own and those fitted before. The mean of log(1 + r^2) is
    minimized. So what can be matched exactly is, whatever is left of others: where a scale is very small, as in the
    neck of a funnel, the least error of a center turns chains back. Tails are fitted of
    coordinates whose marginal scores at the last rows are given, by their numbers.
    """
    for level in range(int(core.level.max(initial=0)), -1, -1):
        received = core.received(core.located(u)[1], gradient, level)
        for k in map(int, np.flatnonzero(core.level == level)):
            if k in tails and not core.level[k]:
                received[len(u) - len(tails[k]) :, k] = tails[k]
            core = _matched(core, k, u, received[:, k], tails=k in tails)
    return core


def extended(core: Triangular, z: Array, along: Places, gradient: Array, coupled: npt.NDArray[np.bool_]) -> Triangular:
    """The map with what it lacks at points z (n, d) far out along coordinates (n,), with gradients in u (n, d).

    Draws do not show on what a coordinate depends where a scale is hardly ever very small. One that does not fit at
    these points is given a scale and a bend that depend on the coordinate that is far. It is also given a line of those
    coupled with it, by ``coupled`` (d, d). Of two, the one that is coupled with more comes first. The coefficients are
    first guesses.
    """
    image = core.forward(z)
    with np.errstate(over="ignore", invalid="ignore"):
        misfit = np.square(core.pull_back(image, gradient) - z)
    shift, log_scale, other_shift = core.shift.copy(), core.log_scale.copy(), core.other_shift.copy()
    number = coupled.sum(axis=0)
    for j in np.unique(along):
        rows = along == j
        for k in np.flatnonzero(misfit[rows].mean(axis=0) > MISFIT):
            first = np.flatnonzero(coupled[:, k] & (number > number[k]))
            shift[:, k, first] = log_scale[:, k, first] = other_shift[k, first] = 0.0
            after = _descendants(shift, log_scale, int(k))
            if j in after:
                continue
            for i in first:
                if i not in after and not shift[0, i, k]:
                    shift[0, i, k] = _FIRST_GUESS
            for of in (shift, log_scale):
                of[2, j, k] = of[2, j, k] or _FIRST_GUESS
            if not log_scale[0, j, k]:
                log_scale[0, j, k] = -0.5 * _steeper(image.u[rows, j], gradient[rows, k]) or _FIRST_GUESS
    depends = (shift != 0.0).any(axis=0) | (log_scale != 0.0).any(axis=0)
    level = np.zeros(len(depends), dtype=int)
    for _ in level:
        level = np.where(depends.any(axis=0), 1 + np.max(np.where(depends, level[:, None], -1), axis=0), 0)
    varies = (log_scale != 0.0).any(axis=(0, 1))  # where none does there is no other precision
    shared = {name: getattr(core, name) * varies for name in ("precision", "other_constant")}
    return replace(core, shift=shift, log_scale=log_scale, other_shift=other_shift * varies, level=level, **shared)


def _steeper(u: Array, gradient: Array) -> float:
    """The slope of the log of a gradient's size (n,) over u (n,), on the side of 0 where it is steeper."""
    sizes, slopes = np.log(np.abs(gradient) + 1e-300), [0.0]
    for side in (u < 0.0, u > 0.0):
        if side.sum() > 2:
            slopes.append(float(np.polyfit(u[side], sizes[side], 1)[0]))
    return max(slopes, key=abs)


def _descendants(shift: Array, log_scale: Array, k: int) -> set[int]:
    """A coordinate, and all that depend on it."""
    depends = (shift != 0.0).any(axis=0) | (log_scale != 0.0).any(axis=0)
    found, new = {k}, [k]
    while new:
        new = [int(j) for j in np.flatnonzero(depends[new].any(axis=0)) if j not in found]
        found.update(new)
    return found


class _Coordinate:
    """The scores of a coordinate k plus z, at draws u (n, d) with gradients (n,), by a vector of its coefficients."""

    def __init__(self, core: Triangular, k: int, u: Array, gradient: Array, *, tails: bool) -> None:
        self.core, self.k, self.u, self.gradient, self.tails = core, k, u[:, k], gradient, tails
        self.shifts, self.scales = np.nonzero(core.shift[..., k]), np.nonzero(core.log_scale[..., k])
        self.varies = len(self.scales[0]) > 0
        # the constant precision is offered to all scales that vary: scores show exactly where there is none
        self.others = np.flatnonzero(core.shift[0, :, k]) if self.varies else np.array([], dtype=int)
        self.of_shift = shift_features(u)[self.shifts[0], :, self.shifts[1]].T
        self.of_scale = scale_features(u)[self.scales[0], :, self.scales[1]].T
        self.of_other = u[:, self.others]
        lengths = 2, len(self.shifts[0]), len(self.scales[0]), len(self.others), 3 * self.varies, 2 * tails
        self._ends = np.cumsum(lengths)

    def parts(self, at: Array) -> list[Array]:
        """Constant and log width; coefficients of shift, scale and other center; precision, its center, offset; tails.

        The latter two are empty where no scale varies, as offset and constant are the same there, or tails are known.
        """
        return [at[start:end] for start, end in zip((0, *self._ends), self._ends, strict=False)]

    def bounds(self) -> tuple[Array, Array]:
        """Least and largest values."""
        low, high = np.full(self._ends[-1], -np.inf), np.full(self._ends[-1], np.inf)
        self.parts(low)[4][:1], self.parts(low)[5][:], self.parts(high)[5][:] = 0.0, 0.0, _HEAVIEST
        return low, high

    def residuals(self, at: Array) -> Array:
        """Scores plus z (n,)."""
        with np.errstate(all="ignore"):
            found = self._evaluated(at)[-1]
        return np.where(np.isfinite(found), np.clip(found, -_LARGEST, _LARGEST), _LARGEST)

    def jacobian(self, at: Array) -> Array:
        """Their derivatives (n, coefficients): those by tail indices from differences, all others exact."""
        with np.errstate(all="ignore"):
            log, share, away, value, z, margin, by_t, found = self._evaluated(at)
            bends = [self._stretched(z + step, at).bend for step in (_STEP, -_STEP)]
            by_value = (by_t * margin.bend - (bends[0] - bends[1]) / (2.0 * _STEP) - 1.0) * np.exp(
                -at[1] - margin.log_slope
            )
            by_center, by_log = -by_value * np.exp(-log), by_t - by_value * value
            by_scale = (1.0 - share) * (by_log + 2.0 * share * away * by_center)
            columns = [
                by_center,
                by_t - by_value * (value - self._shared(at)[2]),
                by_center[:, None] * self.of_shift,
                by_scale[:, None] * self.of_scale,
                (by_center * share)[:, None] * self.of_other,
            ]
            if self.varies:
                by_precision = np.exp(2.0 * log) * ((1.0 - share) * away * by_center - 0.5 * by_log)
                columns += [by_precision, by_center * share, -by_value]
            for index in range(self._ends[-2], self._ends[-1]):
                step = np.where(np.arange(len(at)) == index, -_STEP if at[index] > 0.5 * _HEAVIEST else _STEP, 0.0)
                columns.append((self._evaluated(at + step)[-1] - found) / step[index])
            slopes = np.column_stack(columns)
            known = np.isfinite(slopes).all(axis=1) & (np.abs(found) < _LARGEST)
        return np.where(known[:, None], slopes, 0.0)

    def replaced(self, at: Array) -> Triangular:
        """The map with these coefficients."""
        (constant, log_width), by_shift, by_scale, by_other, rest, ends = self.parts(at)
        k, changed = self.k, {name: getattr(self.core, name).copy() for name in _CHANGED}
        changed["constant"][k], changed["log_width"][k] = constant, log_width
        if self.tails:
            changed["left"][k], changed["right"][k] = ends
        changed["shift"][(*self.shifts, k)], changed["log_scale"][(*self.scales, k)] = by_shift, by_scale
        if self.varies:
            precision, other, changed["offset"][k] = rest
            seen = narrowed(self.of_scale @ by_scale, precision)[1].max() > _UNSEEN
            changed["precision"][k], changed["other_constant"][k] = (precision, other) if seen else (0.0, 0.0)
            changed["other_shift"][self.others, k] = by_other if seen else 0.0
        return replace(self.core, **changed)

    def _shared(self, at: Array) -> Array:
        """Precision, its center, offset."""
        return self.parts(at)[4] if self.varies else np.array([0.0, 0.0, self.core.offset[self.k]])

    def _stretched(self, z: Array, at: Array) -> Stretched:
        return Stretched(*(values[:, 0] for values in stretched(z[:, None], *self._tails(at))))

    def _tails(self, at: Array) -> list[Array]:
        ends = self.parts(at)[5] if self.tails else np.array([self.core.left[self.k], self.core.right[self.k]])
        return np.split(ends, 2)

    def _evaluated(self, at: Array) -> tuple[Any, ...]:
        (constant, log_width), by_shift, by_scale, by_other, *_ = self.parts(at)
        precision, other, offset = self._shared(at)
        log, share = narrowed(self.of_scale @ by_scale, precision)
        away = other + self.of_other @ by_other
        value = (self.u - constant - self.of_shift @ by_shift - share * away) * np.exp(-log)
        z = shrunk(((value - offset) * np.exp(-log_width))[:, None], *self._tails(at))[:, 0]
        margin = self._stretched(z, at)
        by_t = self.gradient * np.exp(log + log_width + margin.log_slope)
        return log, share, away, value, z, margin, by_t, by_t - margin.bend - z


def _matched(core: Triangular, k: int, u: Array, gradient: Array, *, tails: bool) -> Triangular:
    """The map with the coefficients of coordinate k fitted to gradients (n,) there."""
    of = _Coordinate(core, k, u, gradient, tails=tails)

    def fit(*start: Any) -> Any:
        first = np.concatenate(start)
        try:
            return scipy.optimize.least_squares(
                of.residuals,
                first,
                of.jacobian,
                of.bounds(),
                ftol=_TOLERANCE,
                xtol=_TOLERANCE,
                x_scale="jac",
                loss="cauchy",
            )
        except ValueError:  # a step beyond all that is finite
            return scipy.optimize.OptimizeResult(x=first, cost=np.inf)

    by_shift, by_scale = core.shift[(*of.shifts, k)], core.log_scale[(*of.scales, k)]
    median = np.exp(-2.0 * np.median(of.of_scale @ by_scale))
    ends = np.clip([core.left[k], core.right[k]], 0.05, 0.7)[: 2 * tails]
    more = [_FIRST * median, core.other_constant[k], core.offset[k]] if of.varies else []
    found = fit([core.constant[k], core.log_width[k]], by_shift, by_scale, core.other_shift[of.others, k], more, ends)
    if of.varies and found.cost > _EXACT * len(u) and np.isfinite(median):
        # given the scale and a normal margin, scores are linear in what makes the center
        log, share = narrowed(of.of_scale @ by_scale, median)
        width = np.exp(log + core.log_width[k])[:, None]
        columns = np.column_stack([np.ones(len(u)), of.of_shift, share[:, None] * of.of_other, share]) / width
        center = u[:, k] / width[:, 0] - gradient * width[:, 0]
        known = np.isfinite(columns).all(axis=1) & np.isfinite(center)
        center = np.linalg.lstsq(columns[known], center[known], rcond=None)[0]
        constant, by_shift, by_other, other = np.split(center, np.cumsum([1, len(by_shift), len(of.others)]))
        start = constant, [core.log_width[k]], by_shift, by_scale, by_other, [median], other, [0.0], ends
        found = min(found, fit(*start), key=lambda each: each.cost)
    return of.replaced(found.x) if np.isfinite(found.cost) else core
