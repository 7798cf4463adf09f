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


def pairwise_gains(u: Array) -> Array:
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


def ordered(gains: Array) -> list[int]:
    """Coordinates, first those that say more about the others than these about them."""
    left, order = list(range(len(gains))), []
    while left:
        net = [(gains[j, left] - gains[left, j]).sum() for j in left]
        order.append(left.pop(int(np.argmax(net))))
    return order


def selected(u: Array, k: int, parents: list[int]) -> Features:
    """Features of the parents that the shift and the log scale of coordinate k are made of."""
    n, d = u.shape
    y, one = u[:, k], np.ones((n, 1))
    before = u[:, parents]
    of_shift = np.column_stack([before, before * before])
    of_scale = np.column_stack([before, 0.5 * np.log1p(before * before)])
    shifts, scales = list[int](), list[int]()
    now = _regression(y, one, one)
    for _ in range(2 * len(parents) + 2):
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
    shift, log_scale, count = np.zeros((2, d)), np.zeros((2, d)), len(parents)
    for place, value in zip(shifts, now.shift[1:], strict=True):
        shift[place // count, parents[place % count]] = value
    for place, value in zip(scales, now.scale[1:], strict=True):
        log_scale[place // count, parents[place % count]] = value
    return Features(shift, log_scale, float(now.shift[0]), now.residual * np.exp(now.scale[0] - now.log))


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
