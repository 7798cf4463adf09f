"""Coefficients of a triangular map by score matching: least squares on the scores of the pulled-back density.

Draws that chains have not yet spread well give the density's curvature exactly all the same: gradients see it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from invsamp.protocols import Array
from invsamp.transport.triangular import Places, Triangular

#: Gauss-Newton steps at most, and the decrease of J below which they end.
_STEPS, _CONVERGED = 8, 1e-4
#: Numbers in the draws that are used, and the fewest draws.
_NUMBERS, _FEWEST = 4000, 120
_DIFFERENCE = 1e-5
#: What residuals that are not finite count as.
_LARGEST = 1e3


def refined(core: Triangular, u: Array, gradient: Array) -> Triangular:
    """The map with coefficients for which J is least, from draws u (n, d) and the gradients (n, d) there.

    J is minimized by Gauss-Newton steps on residuals that are weighed by 1 / (1 + |r|^2 / d), with Levenberg's damping.
    """
    count = max(_FEWEST, _NUMBERS // u.shape[1])
    if len(u) > count:
        rows = np.linspace(0, len(u) - 1, count).astype(int)
        u, gradient = u[rows], gradient[rows]
    places = _places(core)
    if len(_coefficients(core, places)) == 2 * len(core.constant) and not (core.left.any() or core.right.any()):
        return core
    values = _coefficients(core, places)

    def residuals(at: Array) -> Array:
        return _residuals(_with(core, places, at), u, gradient)

    now = residuals(values)
    least, damping = _divergence(now), 1e-2
    for _ in range(_STEPS):
        weight = np.sqrt(1.0 / (1.0 + np.square(now).mean(axis=1)))[:, None]
        change = np.stack([(residuals(values + _DIFFERENCE * e) - now) for e in np.eye(len(values))])
        slopes = (change * (weight / _DIFFERENCE)).reshape(len(values), -1)
        curvature, slope = slopes @ slopes.T, slopes @ (now * weight).ravel()
        for _ in range(4):
            move = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature) + 1e-8), -slope)
            then = residuals(values + move)
            divergence = _divergence(then)
            if divergence < least:
                break
            damping *= 10.0
        else:
            break
        converged = least - divergence < _CONVERGED
        values, now, least, damping = values + move, then, divergence, max(damping / 5.0, 1e-6)
        if converged:
            break
    return _with(core, places, values)


#: Arrays of a map whose entries are coefficients.
_ARRAYS = ("constant", "log_width", "shift", "log_scale", "offset", "precision", "other_constant", "other_shift")


def _places(core: Triangular) -> dict[str, Places]:
    """Where the coefficients are in the flattened arrays."""
    all_, scaled = np.arange(len(core.constant)), np.flatnonzero(core.log_scale.any(axis=(0, 1)))
    others = np.flatnonzero(core.precision)
    # where no scale varies, offset and constant are the same
    known = {"constant": all_, "log_width": all_, "offset": scaled, "precision": others, "other_constant": others}
    return {name: known.get(name, np.flatnonzero(getattr(core, name))) for name in _ARRAYS}


def _coefficients(core: Triangular, places: dict[str, Places]) -> Array:
    return np.concatenate([getattr(core, name).ravel()[at] for name, at in places.items()])


def _with(core: Triangular, places: dict[str, Places], values: Array) -> Triangular:
    changed, first = dict[str, Any](), 0
    for name, at in places.items():
        changed[name] = getattr(core, name).copy()
        changed[name].ravel()[at] = values[first : first + len(at)]
        first += len(at)
    changed["precision"] = np.maximum(changed["precision"], 0.0)
    return replace(core, **changed)


def _residuals(core: Triangular, u: Array, gradient: Array) -> Array:
    with np.errstate(all="ignore"):
        z, image = core.located(u)
        found = core.pull_back(image, gradient) - z
    return np.where(np.isfinite(found), np.clip(found, -_LARGEST, _LARGEST), _LARGEST)


def _divergence(residuals: Array) -> float:
    return float(np.mean(np.log1p(np.square(residuals).mean(axis=1))))
