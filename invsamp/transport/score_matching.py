"""Coefficients of a triangular map by score matching: least squares on the scores of the pulled-back density.

Draws that chains have not yet spread well give the density's curvature exactly all the same: gradients see it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy  # its optimizers take long to import: not before they are wanted

from invsamp.protocols import Array
from invsamp.transport.margins import shrunk, stretched
from invsamp.transport.triangular import Triangular, narrowed

#: What residuals that are not finite count as, and larger ones.
_LARGEST = 1e3
#: Evaluations of a coordinate's residuals at most, beside those for derivatives.
_EVALUATIONS = 50
#: The constant precision, in the median's of the one that varies, from which it is fitted.
_FIRST = 0.1
#: Mean of log(1 + r^2) / 2 below which no second fit is made, from another constant precision.
_EXACT = 1e-4
#: Share of the precision up to which the constant part is none: it would bound scales beyond the draws.
_UNSEEN = 1e-3
#: What is fitted.
_CHANGED = (
    *("constant", "log_width", "offset", "shift", "log_scale"),
    *("precision", "other_constant", "other_shift"),
)


def refined(core: Triangular, u: Array, gradient: Array) -> Triangular:
    """The map whose coefficients fit the scores at draws u (n, d), where the gradients are (n, d).

    Coordinates are fitted in turn, from those on which none depends to those that depend on none. The residual of each,
    its score plus z, has no other coefficients than its own and those fitted before. The mean of log(1 + r^2) is
    minimized. So what can be matched exactly is, whatever is left of others: where a scale is very small, as in the
    neck of a funnel, the least error of a center turns chains back.
    """
    for level in range(int(core.level.max(initial=0)), -1, -1):
        received = core.received(core.located(u)[1], gradient, level)
        for k in np.flatnonzero(core.level == level):
            core = _matched(core, int(k), u, received[:, k])
    return core


def _matched(core: Triangular, k: int, u: Array, gradient: Array) -> Triangular:
    """The map with the coefficients of coordinate k fitted to gradients (n,) there."""
    shifts, scales = np.nonzero(core.shift[..., k]), np.nonzero(core.log_scale[..., k])
    # the constant precision is offered to all scales that vary: scores show exactly where there is none
    others = np.flatnonzero(core.shift[0, :, k]) if len(scales[0]) else np.array([], dtype=int)
    squares, of_other, left, right = u * u, u[:, others], core.left[k : k + 1], core.right[k : k + 1]
    of_shift = np.stack([u, squares])[shifts[0], :, shifts[1]].T
    of_scale = np.stack([u, 0.5 * np.log1p(squares)])[scales[0], :, scales[1]].T
    counts = np.cumsum([2, len(shifts[0]), len(scales[0]), len(others)])

    def residuals(at: Array) -> Array:
        (constant, log_width), by_shift, by_scale, by_other, rest = np.split(at, counts)
        # where no scale varies, offset and constant are the same, and nothing is shared
        precision, other, offset = rest if len(rest) else (0.0, 0.0, core.offset[k])
        with np.errstate(all="ignore"):
            log, share = narrowed(of_scale @ by_scale, np.asarray(precision))
            value = (u[:, k] - constant - of_shift @ by_shift - share * (other + of_other @ by_other)) * np.exp(-log)
            z = shrunk(((value - offset) * np.exp(-log_width))[:, None], left, right)
            margin = stretched(z, left, right)
            found = gradient * np.exp(log + log_width + margin.log_slope[:, 0]) - margin.bend[:, 0] - z[:, 0]
        return np.where(np.isfinite(found), np.clip(found, -_LARGEST, _LARGEST), _LARGEST)

    by_scale, varies = core.log_scale[(*scales, k)], len(scales[0]) > 0
    known = [core.constant[k], core.log_width[k]], core.shift[(*shifts, k)], by_scale, core.other_shift[others, k]
    low = np.full(counts[-1] + 3 * varies, -np.inf)
    low[counts[-1] :][:1] = 0.0
    median = np.exp(-2.0 * np.median(of_scale @ by_scale))

    def fit(first: float) -> Any:
        start = np.concatenate([*known, [first, core.other_constant[k], core.offset[k]] if varies else []])
        return scipy.optimize.least_squares(
            residuals, start, bounds=(low, np.inf), loss="cauchy", x_scale="jac", max_nfev=_EVALUATIONS
        )

    found = fit(_FIRST * median)
    if varies and found.cost > _EXACT * len(u):
        found = min(found, fit(median), key=lambda each: each.cost)
    (constant, log_width), by_shift, by_scale, by_other, rest = np.split(found.x, counts)
    changed = {name: getattr(core, name).copy() for name in _CHANGED}
    changed["constant"][k], changed["log_width"][k] = constant, log_width
    changed["shift"][(*shifts, k)], changed["log_scale"][(*scales, k)] = by_shift, by_scale
    if varies:
        precision, other, changed["offset"][k] = rest
        seen = narrowed(of_scale @ by_scale, precision)[1].max() > _UNSEEN
        changed["precision"][k], changed["other_constant"][k] = (precision, other) if seen else (0.0, 0.0)
        changed["other_shift"][others, k] = by_other if seen else 0.0
    return replace(core, **changed)
