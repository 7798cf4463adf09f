"""Coefficients of a triangular map by score matching: least squares on the scores of the pulled-back density.

Draws that chains have not yet spread well give the density's curvature exactly all the same: gradients see it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import scipy  # its optimizers take long to import: not before they are wanted

from invsamp.protocols import Array
from invsamp.transport.margins import shrunk, stretched
from invsamp.transport.triangular import Places, Triangular, narrowed, scale_features, shift_features

#: What residuals that are not finite count as, and larger ones.
_LARGEST = 1e3
#: Evaluations of a coordinate's residuals at most, beside those for derivatives.
_EVALUATIONS = 200
#: The constant precision, in the median's of the one that varies, from which it is fitted.
_FIRST = 0.1
#: Mean of log(1 + r^2) / 2 below which no second fit is made, from another constant precision.
_EXACT = 1e-4
#: Share of the precision up to which the constant part is none: it would bound scales beyond the draws.
_UNSEEN = 1e-3
#: Mean squared residual of scores above which a map does not fit at a point: that of z itself is 1.
MISFIT = 1.0
#: Tail indices at most.
_HEAVIEST = 0.8
#: First guess of a coefficient.
_FIRST_GUESS = 1e-12
#: What is fitted.
_CHANGED = (
    *("constant", "log_width", "offset", "shift", "log_scale"),
    *("precision", "other_constant", "other_shift", "left", "right"),
)


def refined(core: Triangular, u: Array, gradient: Array, tailed: Collection[int] = ()) -> Triangular:
    """The map whose coefficients fit the scores at draws u (n, d), where the gradients are (n, d).

    Coordinates are fitted in turn, from those on which none depends to those that depend on none. The residual of each,
    its score plus z, has no other coefficients than its own and those fitted before. The mean of log(1 + r^2) is
    minimized. So what can be matched exactly is, whatever is left of others: where a scale is very small, as in the
    neck of a funnel, the least error of a center turns chains back. Tails of the coordinates ``tailed`` are fitted
    too.
    """
    for level in range(int(core.level.max(initial=0)), -1, -1):
        received = core.received(core.located(u)[1], gradient, level)
        for k in np.flatnonzero(core.level == level):
            core = _matched(core, int(k), u, received[:, k], tails=k in tailed)
    return core


def extended(core: Triangular, z: Array, along: Places, gradient: Array) -> Triangular:
    """The map with what it lacks at points z (n, d) far out along coordinates (n,), with gradients in u (n, d).

    Draws do not show on what a coordinate depends where a scale is hardly ever very small. One that does not fit at
    these points is given a scale and a bend that depend on the coordinate that is far, and a line of all on which
    others depend. The coefficients are first guesses.
    """
    image = core.forward(z)
    with np.errstate(over="ignore", invalid="ignore"):
        misfit = np.square(core.pull_back(image, gradient) - z)
    shift, log_scale = core.shift.copy(), core.log_scale.copy()
    parents = np.flatnonzero((core.shift != 0.0).any(axis=(0, 2)) | (core.log_scale != 0.0).any(axis=(0, 2)))
    for j in np.unique(along):
        rows = along == j
        for k in np.flatnonzero(misfit[rows].mean(axis=0) > MISFIT):
            after = _descendants(shift, log_scale, int(k))
            if j in after:
                continue
            for i in parents:
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
    return replace(core, shift=shift, log_scale=log_scale, level=level)


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


def _matched(core: Triangular, k: int, u: Array, gradient: Array, *, tails: bool) -> Triangular:
    """The map with the coefficients of coordinate k fitted to gradients (n,) there."""
    shifts, scales = np.nonzero(core.shift[..., k]), np.nonzero(core.log_scale[..., k])
    # the constant precision is offered to all scales that vary: scores show exactly where there is none
    others = np.flatnonzero(core.shift[0, :, k]) if len(scales[0]) else np.array([], dtype=int)
    of_other, margin = u[:, others], np.array([core.left[k], core.right[k]])
    of_shift, of_scale = shift_features(u)[shifts[0], :, shifts[1]].T, scale_features(u)[scales[0], :, scales[1]].T
    counts = np.cumsum([2, len(shifts[0]), len(scales[0]), len(others), 3 * (len(scales[0]) > 0)])

    def residuals(at: Array) -> Array:
        (constant, log_width), by_shift, by_scale, by_other, rest, ends = np.split(at, counts)
        left, right = np.split(ends if tails else margin, 2)
        # where no scale varies, offset and constant are the same, and nothing is shared
        precision, other, offset = rest if len(rest) else (0.0, 0.0, core.offset[k])
        with np.errstate(all="ignore"):
            log, share = narrowed(of_scale @ by_scale, np.asarray(precision))
            value = (u[:, k] - constant - of_shift @ by_shift - share * (other + of_other @ by_other)) * np.exp(-log)
            z = shrunk(((value - offset) * np.exp(-log_width))[:, None], left, right)
            curve = stretched(z, left, right)
            found = gradient * np.exp(log + log_width + curve.log_slope[:, 0]) - curve.bend[:, 0] - z[:, 0]
        return np.where(np.isfinite(found), np.clip(found, -_LARGEST, _LARGEST), _LARGEST)

    by_scale, varies = core.log_scale[(*scales, k)], len(scales[0]) > 0
    known = [core.constant[k], core.log_width[k]], core.shift[(*shifts, k)], by_scale, core.other_shift[others, k]
    low, high = np.full((2, counts[-1] + 2 * tails), -np.inf)
    low[counts[-2] : counts[-1]][:1], low[counts[-1] :], high = 0.0, 0.0, -high
    high[counts[-1] :] = _HEAVIEST
    median = np.exp(-2.0 * np.median(of_scale @ by_scale))

    def fit(start: Array) -> Any:
        try:
            return scipy.optimize.least_squares(
                residuals, start, bounds=(low, high), loss="cauchy", x_scale="jac", max_nfev=_EVALUATIONS
            )
        except ValueError:  # a step beyond all that is finite
            return scipy.optimize.OptimizeResult(x=start, cost=np.inf)

    ends = np.clip(margin, 0.05, 0.7)[: 2 * tails]
    more = [_FIRST * median, core.other_constant[k], core.offset[k]] if varies else []
    found = fit(np.concatenate([*known, more, ends]))
    if varies and found.cost > _EXACT * len(u):
        # given the scale and a normal margin, scores are linear in what makes the center
        log, share = narrowed(of_scale @ by_scale, median)
        width = np.exp(log + core.log_width[k])[:, None]
        columns = np.column_stack([np.ones(len(u)), of_shift, share[:, None] * of_other, share]) / width
        center = np.linalg.lstsq(columns, u[:, k] / width[:, 0] - gradient * width[:, 0], rcond=None)[0]
        constant, by_shift, by_other, other = np.split(center, np.cumsum([1, len(shifts[0]), len(others)]))
        start = [constant, known[0][1:], by_shift, by_scale, by_other, [median], other, [0.0], ends]
        found = min(found, fit(np.concatenate(start)), key=lambda each: each.cost)
    if not np.isfinite(found.cost):
        return core
    (constant, log_width), by_shift, by_scale, by_other, rest, ends = np.split(found.x, counts)
    changed = {name: getattr(core, name).copy() for name in _CHANGED}
    changed["constant"][k], changed["log_width"][k] = constant, log_width
    if tails:
        changed["left"][k], changed["right"][k] = ends
    changed["shift"][(*shifts, k)], changed["log_scale"][(*scales, k)] = by_shift, by_scale
    if varies:
        precision, other, changed["offset"][k] = rest
        seen = narrowed(of_scale @ by_scale, precision)[1].max() > _UNSEEN
        changed["precision"][k], changed["other_constant"][k] = (precision, other) if seen else (0.0, 0.0)
        changed["other_shift"][others, k] = by_other if seen else 0.0
    return replace(core, **changed)
