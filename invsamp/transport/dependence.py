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
#: Draws by which features are chosen.
ROWS = 1000


class Features(NamedTuple):
    """Coefficients of one coordinate: shift and log scale (2, d) by feature and parent, and residuals (n,).

    Residuals are what the shift leaves, divided by the scale but for its constant.
    """

    shift: Array
    log_scale: Array
    constant: float
    residual: Array


class Place(NamedTuple):
    """A coordinate, all before it, those of them that bend it, and features (f, j) that its scale is seen to have."""

    coordinate: int
    before: list[int]
    bends: list[int]
    scale: list[tuple[int, int]]


def ordered(u: Array, gradient: Array) -> list[Place]:
    """The order of the coordinates of draws (n, d), with the gradients (n, d) there.

    First come those that bend others more than these bend them. Among equals the one that most others depend on comes
    first, so that these need not depend on one another, as effects on their mean.
    """
    gains, scales = _bending_gains(u, gradient)
    dependence = _dependence(gradient)
    left, before, places = list(range(u.shape[1])), list[int](), list[Place]()
    while left:
        net = (gains - gains.T)[np.ix_(left, left)].sum(axis=1)
        equal = [j for j, value in zip(left, net, strict=True) if value >= net.max() - GAIN]
        k = max(equal, key=lambda j: dependence[j, left].sum())
        bends = [j for j in before if gains[j, k] > 0.0 or gains[k, j] > 0.0]
        places.append(Place(k, before.copy(), bends, [(feature, j) for feature, j in scales[k] if j in bends]))
        left.remove(k)
        before.append(k)
    return places


def selected(u: Array, place: Place) -> Features:
    """Features of the coordinates before one that its shift and log scale are made of.

    Squares and scales are of those that bend it. The line may be of all: where the scale varies, no metric sees it.
    Features of the scale that scores show are there from the start, or none: shift and scale may hide one another.
    """
    bends, d = place.bends, u.shape[1]
    line, bent = u[:, place.before], u[:, bends]
    of_shift = np.column_stack([line, bent * bent])
    of_scale = np.column_stack([bent, 0.5 * np.log1p(bent * bent)])
    shifts, scales, now = _forward(u[:, place.coordinate], of_shift, of_scale, [])
    if place.scale:
        seen = [feature * len(bends) + bends.index(j) for feature, j in place.scale]
        then = _forward(u[:, place.coordinate], of_shift, of_scale, seen)
        if then[2].loss < now.loss - GAIN:
            shifts, scales, now = then
    shift, log_scale = np.zeros((2, d)), np.zeros((2, d))
    terms = [(0, j) for j in place.before] + [(1, j) for j in bends]
    for at, value in zip(shifts, now.shift[1:], strict=True):
        shift[terms[at]] = value
    terms = [(feature, j) for feature in (0, 1) for j in bends]
    for at, value in zip(scales, now.scale[1:], strict=True):
        log_scale[terms[at]] = value
    return Features(shift, log_scale, float(now.shift[0]), now.residual * np.exp(now.scale[0] - now.log))


def _forward(y: Array, of_shift: Array, of_scale: Array, scales: list[int]) -> tuple[list[int], list[int], _Regression]:
    """Columns of shift and scale, chosen one by one from some of the scale on."""
    one, shifts = np.ones((len(y), 1)), list[int]()
    now = _regression(y, one, np.column_stack([one, of_scale[:, scales]]))
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
    return shifts, scales, now


def _bending_gains(u: Array, gradient: Array) -> tuple[Array, list[list[tuple[int, int]]]]:
    """Nats per draw (d, d) that coordinate j gives, beyond a line of all others, about the place and the scale of k.

    And features (f, j) of the scale of each.

    Scales are seen by squared scores. Draws do not separate a scale from what it scales, but squared scores do: effects
    have no influence on the precision of others. Places are seen by draws, weighed by the precision.
    """
    n, d = u.shape
    gains, squares, chosen = np.zeros((d, d)), u * u, [list[tuple[int, int]]() for _ in range(d)]
    logs = 0.5 * np.log1p(squares)
    features = np.column_stack([u, logs])
    for k in range(d):
        sizes = gradient[:, k] ** 2
        scores = np.log(sizes / (sizes.mean() + 1e-300) + _OFFSET)
        taken = np.column_stack([np.ones(n), u[:, k], logs[:, k]])
        for _ in range(d):
            found = _score_gains(features, taken, _residuals(taken, scores)) / (0.5 * _OF_LOG_SQUARES)
            best = int(np.argmax(found))
            if found[best] < GAIN:
                break
            gains[best % d, k] += found[best]
            chosen[k].append((best // d, best % d))
            taken = np.column_stack([taken, features[:, best]])
        others = np.arange(d) != k
        known = scores - _residuals(taken[:, 3:], scores) if taken.shape[1] > 3 else np.zeros(n)
        weight = np.exp(0.5 * (known - known.max()))[:, None]
        line = weight * np.column_stack([np.ones(n), u[:, others]])
        rest = _residuals(line, weight[:, 0] * u[:, k])
        rest = np.clip(rest / (rest.std() + 1e-300), -4.0, 4.0)
        gains[others, k] += _score_gains(weight * squares[:, others], line, rest)
    return np.where(gains > GAIN, gains, 0.0), chosen


def _dependence(gradient: Array) -> Array:
    """Squared correlations (d, d) of the gradients' directions: 0 of what is independent given all others."""
    with np.errstate(divide="ignore", invalid="ignore"):
        direction = np.nan_to_num(gradient / np.linalg.norm(gradient, axis=1)[:, None])
        sizes = np.linalg.norm(direction, axis=0)
        return np.square(np.nan_to_num(direction.T @ direction / np.multiply.outer(sizes, sizes)))


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
