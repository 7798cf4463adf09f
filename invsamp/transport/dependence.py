"""Which coordinates bend which: features of parents, chosen forward by the likelihood of what they leave."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from invsamp.protocols import Array

#: Nats per draw that a feature has to gain: of the least bends that cost a sampler anything, some three times as much.
GAIN = 0.03
#: Variance of the log of a squared normal number is pi^2 / 2; with the offset below it is about this.
_OF_LOG_SQUARES = 5.0
#: Added to squared residuals, of size 1, before their logs are taken.
_OFFSET = 1e-4


class Features(NamedTuple):
    """Coefficients of one coordinate: shift and log scale (2, d) by feature and parent, and residuals (n,).

    Residuals are what the shift leaves, divided by the scale but for its constant.
    """

    shift: Array
    log_scale: Array
    constant: float
    residual: Array


class Place(NamedTuple):
    """A coordinate, those before it that bend it, and the others before it."""

    coordinate: int
    bends: list[int]
    before: list[int]


def ordered(u: Array, gradient: Array) -> list[Place]:
    """The order of the coordinates of draws (n, d), with the gradients (n, d) there.

    First come those that bend others more than these bend them, given all that came before. Among equals the one that
    most others depend on comes first, so that these need not depend on one another, as effects on their mean.
    """
    left, bends, places = list(range(u.shape[1])), [list[int]() for _ in u.T], list[Place]()
    with np.errstate(divide="ignore", invalid="ignore"):
        direction = np.nan_to_num(gradient / np.linalg.norm(gradient, axis=1)[:, None])
        sizes = np.linalg.norm(direction, axis=0)
        dependence = np.square(np.nan_to_num(direction.T @ direction / np.multiply.outer(sizes, sizes)))
    gains = _pairwise_gains(u)
    while left:
        net = gains[np.ix_(left, left)].sum(axis=1) - gains[np.ix_(left, left)].sum(axis=0)
        equal = [j for j, value in zip(left, net, strict=True) if value >= net.max() - GAIN]
        j = max(equal, key=lambda k: dependence[k, left].sum())
        left.remove(j)
        places.append(Place(j, bends[j], [place.coordinate for place in places]))
        bent = [k for k in left if gains[j, k] > 0.0]
        for k in bent:
            bends[k].append(j)
        if bent:
            u = _given(u, j, bent)
            gains = _pairwise_gains(u)
    return places


def selected(u: Array, place: Place) -> Features:
    """Features of the coordinates before one that its shift and log scale are made of.

    Squares and scales are of those that bend it. The line may be of all: where the scale varies, no metric sees it.
    """
    n, d = u.shape
    k, bends, before = place
    y, one = u[:, k], np.ones((n, 1))
    line, bent = u[:, before], u[:, bends]
    of_shift = np.column_stack([line, bent * bent])
    of_scale = np.column_stack([bent, 0.5 * np.log1p(bent * bent)])
    shifts, scales = list[int](), list[int]()
    now = _regression(y, one, one)
    for _ in range(of_shift.shape[1] + of_scale.shape[1]):
        weight = np.exp(-now.log)
        standard = now.residual * weight
        gain_shift = _score_gains(
            of_shift * weight[:, None],
            np.column_stack([one, of_shift[:, shifts]]) * weight[:, None],
            np.clip(standard, -4.0, 4.0),
        )
        logs = np.log(standard**2 + _OFFSET)
        gain_scale = _score_gains(of_scale, np.column_stack([one, of_scale[:, scales]]), logs - logs.mean())
        gain_scale /= 0.5 * _OF_LOG_SQUARES
        gain_shift[shifts], gain_scale[scales] = 0.0, 0.0
        if max(gain_shift.max(), gain_scale.max()) < GAIN:
            break
        wider = gain_scale.max() > gain_shift.max()
        more_shifts = shifts if wider else [*shifts, int(np.argmax(gain_shift))]
        more_scales = [*scales, int(np.argmax(gain_scale))] if wider else scales
        then = _regression(
            y, np.column_stack([one, of_shift[:, more_shifts]]), np.column_stack([one, of_scale[:, more_scales]])
        )
        if not now.loss - then.loss > 0.5 * GAIN:
            break
        shifts, scales, now = more_shifts, more_scales, then
    shift, log_scale = np.zeros((2, d)), np.zeros((2, d))
    terms = [(0, j) for j in before] + [(1, j) for j in bends]
    for at, value in zip(shifts, now.shift[1:], strict=True):
        shift[terms[at]] = value
    terms = [(feature, j) for feature in (0, 1) for j in bends]
    for at, value in zip(scales, now.scale[1:], strict=True):
        log_scale[terms[at]] = value
    return Features(shift, log_scale, float(now.shift[0]), now.residual * np.exp(now.scale[0] - now.log))


def _pairwise_gains(u: Array) -> Array:
    """Nats per draw (d, d) that coordinate j gives about k beyond a line: by its square, and about the scale."""
    n, d = u.shape
    gains = np.zeros((d, d))
    for j in range(d):
        v = u[:, [j]]
        line = np.column_stack([np.ones(n), v])
        curve = np.column_stack([line, v * v])
        wide = np.column_stack([line, np.log1p(v * v)])
        plain, bent = (_residuals(basis, u) for basis in (line, curve))
        with np.errstate(divide="ignore", invalid="ignore"):
            curved = 0.5 * np.log(np.square(plain).mean(axis=0) / np.square(bent).mean(axis=0))
            logs = np.log(np.square(bent) / np.square(bent).mean(axis=0) + _OFFSET)
        fitted = logs - _residuals(wide, logs)
        gains[j] = curved + fitted.var(axis=0) / _OF_LOG_SQUARES
        gains[j, j] = 0.0
    return np.where(np.isfinite(gains) & (gains > GAIN), gains, 0.0)


def _given(u: Array, j: int, bent: list[int]) -> Array:
    """Draws (n, d) with coordinates bent by j replaced by what it leaves of them, in units of their scale there."""
    v, one, rest = u[:, [j]], np.ones((len(u), 1)), u.copy()
    for k in bent:
        found = _regression(u[:, k], np.column_stack([one, v, v * v]), np.column_stack([one, v, 0.5 * np.log1p(v * v)]))
        rest[:, k] = found.residual * np.exp(-found.log)
    return rest


class _Regression(NamedTuple):
    shift: Array
    scale: Array
    log: Array
    residual: Array
    loss: float


def _regression(y: Array, of_shift: Array, of_scale: Array) -> _Regression:
    """Normal regression with a log-linear sd, by turns; far residuals count as if they were five sds out."""
    scale = np.zeros(of_scale.shape[1])
    for turn in range(1 if of_scale.shape[1] == 1 else 6):
        weight = np.exp(-(of_scale @ scale))
        shift = np.linalg.lstsq(of_shift * weight[:, None], y * weight, rcond=None)[0]
        residual = y - of_shift @ shift
        if turn == 0:
            scale[0] = 0.5 * np.log(np.mean(residual**2) + 1e-12)
        for _ in range(0 if of_scale.shape[1] == 1 else 4):
            ratio = np.minimum(residual**2 * np.exp(-2.0 * (of_scale @ scale)), 25.0)
            curvature = 2.0 * (of_scale.T * np.clip(ratio, 0.3, 3.0)) @ of_scale
            scale += np.clip(np.linalg.lstsq(curvature, of_scale.T @ (ratio - 1.0), rcond=None)[0], -1.0, 1.0)
    log = of_scale @ scale
    loss = float(np.mean(log + 0.5 * np.minimum(residual**2 * np.exp(-2.0 * log), 1e4)))
    return _Regression(np.asarray(shift), scale, log, residual, loss)


def _score_gains(candidates: Array, taken: Array, residual: Array) -> Array:
    """Nats per draw that each candidate (n, c) would gain beyond those that are taken, by a score test."""
    base, _ = np.linalg.qr(taken)
    rest = candidates - base @ (base.T @ candidates)
    size = np.square(rest).sum(axis=0)
    known = size > 1e-10 * len(residual)
    return np.where(known, 0.5 * np.square(residual @ rest) / np.where(known, size, 1.0) / len(residual), 0.0)


def _residuals(basis: Array, values: Array) -> Array:
    root, _ = np.linalg.qr(basis)
    return np.asarray(values - root @ (root.T @ values))
