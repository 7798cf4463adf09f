"""Coefficients of a triangular map by score matching: least squares on the scores of the pulled-back density.

Draws that chains have not yet spread well give the density's curvature exactly all the same: gradients see it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy  # its optimizers take long to import: not before they are wanted

from invsamp.protocols import Array
from invsamp.transport.margins import shrunk, stretched
from invsamp.transport.triangular import Places, Triangular, narrowed

#: What residuals that are not finite count as, and larger ones.
_LARGEST = 1e3
#: Evaluations of a coordinate's residuals at most, beside those for derivatives.
_EVALUATIONS = 50
#: Share of the precision up to which the constant part is none: it would bound scales beyond the draws.
_UNSEEN = 1e-3


def refined(core: Triangular, u: Array, gradient: Array) -> Triangular:
    """The map whose coefficients fit the scores at draws u (n, d), where the gradients are (n, d).

    One coordinate after the other, from those on which none depends to those that depend on none: the residual of each,
    its score plus z, has no other coefficients than its own and those of the ones before. The mean of log(1 + r^2) is
    minimized. So what can be matched exactly is, whatever is left of others: where a scale is very small, as in the
    neck of a funnel, the least error of a center turns chains back.
    """
    for level in range(int(core.level.max(initial=0)), -1, -1):
        received = core.received(core.located(u)[1], gradient, level)
        for k in np.flatnonzero(core.level == level):
            core = _matched(core, int(k), u, received[:, k])
    return core


class _Terms(NamedTuple):
    """Where the coefficients of one coordinate are that are fitted: those of shift, log scale and other shift."""

    shift: tuple[Places, ...]
    log_scale: tuple[Places, ...]
    other_shift: tuple[Places, ...]


def _matched(core: Triangular, k: int, u: Array, gradient: Array) -> Triangular:
    """The map with the coefficients of coordinate k fitted to gradients (n,) there."""
    terms = _Terms(*(np.nonzero(part[..., k]) for part in (core.shift, core.log_scale, core.other_shift)))
    varies, other = len(terms.log_scale[0]) > 0, core.precision[k] > 0.0
    logs = 0.5 * np.log1p(u * u)
    of_shift, of_scale = (
        np.stack([u, second])[feature, :, parent].T
        for second, (feature, parent) in ((u * u, terms.shift), (logs, terms.log_scale))
    )
    of_other, left, right = u[:, terms.other_shift[0]], core.left[k : k + 1], core.right[k : k + 1]
    # where no scale varies, offset and constant are the same
    first = [core.constant[k], core.log_width[k], *([core.offset[k]] if varies else [])]
    if other:
        first += [core.precision[k], core.other_constant[k]]
    single = len(first)
    parts = (
        core.shift[(*terms.shift, k)],
        core.log_scale[(*terms.log_scale, k)],
        core.other_shift[(*terms.other_shift, k)],
    )
    ends = single + np.cumsum([len(part) for part in parts])[:2]

    def residuals(at: Array) -> Array:
        by_line, by_scale, by_other = np.split(at, [single, *ends])[1:]
        offset = at[2] if varies else core.offset[k]
        precision, constant = (at[3:4], at[4]) if other else (core.precision[k : k + 1], 0.0)
        with np.errstate(all="ignore"):
            log, share = narrowed(of_scale @ by_scale, precision)
            value = (u[:, k] - at[0] - of_shift @ by_line - share * (constant + of_other @ by_other)) * np.exp(-log)
            z = shrunk(((value - offset) * np.exp(-at[1]))[:, None], left, right)
            margin = stretched(z, left, right)
            found = gradient * np.exp(log + at[1] + margin.log_slope[:, 0]) - margin.bend[:, 0] - z[:, 0]
        return np.where(np.isfinite(found), np.clip(found, -_LARGEST, _LARGEST), _LARGEST)

    start = np.concatenate([first, *parts])
    low = np.full(len(start), -np.inf)
    if other:
        low[3] = 0.0
    found = scipy.optimize.least_squares(
        residuals, start, bounds=(low, np.inf), loss="cauchy", x_scale="jac", max_nfev=_EVALUATIONS
    ).x
    changed = {name: getattr(core, name).copy() for name in ("constant", "log_width", "offset", "precision")}
    changed |= {name: getattr(core, name).copy() for name in ("other_constant", *_Terms._fields)}
    changed["constant"][k], changed["log_width"][k] = found[:2]
    if varies:
        changed["offset"][k] = found[2]
    if other:
        share = narrowed(of_scale @ found[ends[0] : ends[1]], found[3:4])[1].max()
        changed["precision"][k], changed["other_constant"][k] = found[3:5] if share > _UNSEEN else (0.0, 0.0)
    for name, places, values in zip(_Terms._fields, terms, np.split(found, [single, *ends])[1:], strict=True):
        changed[name][(*places, k)] = values
    return replace(core, **changed)
