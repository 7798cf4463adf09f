"""Fitting a transport map to draws and the gradients there, and choosing its family on chains that were left out."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its optimizers take long to import: not before they are wanted

from invsamp.protocols import Array
from invsamp.transport import score_matching
from invsamp.transport.dependence import ROWS, ordered, selected
from invsamp.transport.fisher_divergence import fisher_divergence, squared_residuals
from invsamp.transport.linear import matched_factor
from invsamp.transport.margins import shrunk, stretched
from invsamp.transport.radial import Radial
from invsamp.transport.transport_map import TransportMap
from invsamp.transport.triangular import Places, Triangular, identity

#: What fits to chains, from the plainest on.
FAMILIES = ("linear", "triangular", "triangular with Student margins", "radial")
#: A family takes the place of a plainer one where its J on chains that were left out is below this share of the
#: other's: J scatters from one half of the chains to the other.
BETTER = 0.8
#: J of linear coordinates up to which nothing is to be gained: paths are as long as in a Gaussian there.
GAUSSIAN = 0.1
#: J of a map up to which no further family is tried.
_ENOUGH = 0.05
#: Draws that a fit uses, evenly spread.
_DRAWS = 2000
#: Degrees of freedom that are tried for a radial map.
_FREEDOMS = (1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0)


class Fitted(NamedTuple):
    """The fitted map, None where linear coordinates are as good; J by family on chains that were left out."""

    map: TransportMap | None
    divergences: dict[str, float]


class FarPoints(NamedTuple):
    """Points far out by a map."""

    z: Array  # (n, d), in its coordinates
    along: Places  # (n,), the coordinate in which each is far out
    position: Array  # (n, d)
    gradient: Array  # (n, d), NaN where a solve failed
    fits: npt.NDArray[np.bool_]  # (n,), whether the target is normal there in the map's coordinates
    scores: dict[int, tuple[Array, Array]]  # values of a coordinate in the frame, and its marginal scores there
    coupled: npt.NDArray[np.bool_]  # (d, d), which depend on each other given all others


def fit(draws: Array, gradients: Array) -> Fitted:
    """The map that makes draws (steps, chains, d), with gradients of the energy there, most like normal ones.

    Each family is fitted to half of the chains and judged by J on the other half, both ways; the best is fitted to all.
    A family that is not better than a plainer one by a margin is not taken.

    Raises
    ------
    ValueError
        If there are fewer than two chains, or shapes differ.
    """
    if draws.shape != gradients.shape or draws.ndim != 3 or draws.shape[1] < 2:
        raise ValueError(f"draws and gradients must be (steps, chains, d) of two chains or more, got {draws.shape}")
    every = max(1, -(-draws.shape[0] * draws.shape[1] // _DRAWS))
    draws, gradients = draws[::every], gradients[::every]
    half = np.arange(draws.shape[1]) % 2 == 0
    found = dict[str, float]()
    for family in FAMILIES:
        if found and (found["linear"] <= GAUSSIAN or min(found.values()) <= _ENOUGH):
            break
        found[family] = np.mean([_left_out(family, draws, gradients, part) for part in (half, ~half)]).item()
    best = "linear"
    for family in list(found)[1:]:
        if found[family] < BETTER * found[best]:
            best = family
    return Fitted(None if best == "linear" else fitted(best, draws, gradients), found)


def extended(found: TransportMap, draws: Array, gradients: Array, far: FarPoints) -> TransportMap:
    """A triangular map with what it lacks far out, fitted to draws (steps, chains, d) and points there alike.

    It stays as it is where that would fit the draws clearly worse.
    """
    assert isinstance(found.core, Triangular)
    every, known = max(1, -(-draws.shape[0] * draws.shape[1] // _DRAWS)), np.isfinite(far.gradient).all(axis=1)
    draws, gradients = (values[::every].reshape(-1, found.dimension) for values in (draws, gradients))
    slopes = far.gradient[known] * found.frame
    core = score_matching.extended(found.core, far.z[known], far.along[known], slopes, far.coupled)
    u = (np.concatenate([draws, far.position[known]]) - found.center) / found.frame
    slopes = np.concatenate([gradients, far.gradient[known]]) * found.frame
    # far points are no draws: what others make of a coordinate's score there is not its mean
    tails = {j: np.interp(u[len(draws) :, j], *of) for j, of in far.scores.items()}
    with np.errstate(over="ignore", invalid="ignore"):
        after = replace(found, core=score_matching.refined(core, u, slopes, tails))
        before, now = (fisher_divergence(*pulled_back(each, draws, gradients)) for each in (found, after))
    return after if now <= max(GAUSSIAN, before / BETTER) else found


def fitted(family: str, draws: Array, gradients: Array) -> TransportMap:
    """The map of a family, fitted to all draws (steps, chains, d).

    Raises
    ------
    LinAlgError
        If these determine none.
    """
    flat = draws.reshape(-1, draws.shape[2])
    low, center, high = np.quantile(flat, (0.16, 0.5, 0.84), axis=0)
    width = 0.5 * (high - low)
    width = np.where(width > 0.0, width, flat.std(axis=0) + 1e-300)
    u, slopes = (draws - center) / width, gradients * width
    if family == "radial":
        return _radial(u, slopes, center, width)
    if family == "linear":
        return TransportMap(family, center, width, identity(len(center)))
    u, slopes = u.reshape(flat.shape), slopes.reshape(flat.shape)
    core = _triangular(u, slopes, margins="margins" in family)
    return TransportMap(family, center, width, score_matching.refined(core, u, slopes))


def pulled_back(found: TransportMap, draws: Array, gradients: Array) -> tuple[Array, Array]:
    """Draws and gradients (..., d) in the map's coordinates."""
    z = found.inverse(draws.reshape(-1, found.dimension))
    slopes = found.pull_back(found.forward(z), gradients.reshape(z.shape))
    return z.reshape(draws.shape), slopes.reshape(draws.shape)


def _left_out(family: str, draws: Array, gradients: Array, part: npt.NDArray[np.bool_]) -> float:
    """J on the chains that are not of that part, in coordinates fitted to it; infinite where it determines none."""
    try:
        with np.errstate(all="ignore"):
            found = fitted(family, draws[:, part], gradients[:, part])
            z, slopes = pulled_back(found, draws[:, part], gradients[:, part])
            center = z.mean(axis=(0, 1))
            factor = matched_factor(z - center, slopes)
            z, slopes = pulled_back(found, draws[:, ~part], gradients[:, ~part])
            away = np.linalg.solve(factor, (z - center).reshape(-1, len(center)).T).T
            residuals = squared_residuals(away, slopes.reshape(away.shape) @ factor, np.zeros(len(center)))
        return float(np.log1p(residuals).mean())
    except np.linalg.LinAlgError:
        return np.inf


def _triangular(u: Array, gradient: Array, *, margins: bool) -> Triangular:
    """A triangular core by the likelihood of draws u (n, d); gradients (n, d) say which depend on which."""
    d, every = u.shape[1], max(1, len(u) // ROWS)
    u, gradient = u[::every], gradient[::every]
    level, shift, log_scale = np.zeros(d, dtype=int), np.zeros((3, d, d)), np.zeros((3, d, d))
    constant, offset, log_width, left, right = np.zeros((5, d))
    for place in ordered(u, gradient):
        k, rest = place.coordinate, u[:, place.coordinate]
        if place.bends:
            shift[:2, :, k], log_scale[:2, :, k], constant[k], rest = selected(u, place)
            used = np.flatnonzero((shift[:, :, k] != 0.0).any(axis=0) | (log_scale[:, :, k] != 0.0).any(axis=0))
            level[k] = 1 + level[used].max(initial=-1)
        offset[k], log_width[k], left[k], right[k] = _margin(rest, margins)
    none = np.zeros(d)
    beside = none, none, np.zeros((d, d))  # another precision: scores show it, draws do not
    return Triangular(level, shift, log_scale, *beside, constant, offset, log_width, left, right)


#: What Student's tails gain in nats per draw over a normal margin to be taken, and tail indices that are tried.
_TAILS_GAIN, _TAILS = 0.01, (1e-3, 0.7)


def _margin(values: Array, margins: bool) -> tuple[float, float, float, float]:
    """Offset, log width and both tail indices of values (n,).

    Indices are made a little larger than the likelihood has them: tails that a map makes too light are never visited,
    ones that it makes too heavy cost a little.
    """
    mean, sd = float(values.mean()), float(values.std()) + 1e-300
    normal = mean, float(np.log(sd)), 0.0, 0.0
    if not margins:
        return normal
    low, median, high = np.quantile(values, (0.16, 0.5, 0.84))

    def loss(p: Array) -> float:
        t = (values - p[0]) * np.exp(-p[1])
        z = shrunk(t[:, None], p[2:3], p[3:4])
        return float(np.mean(0.5 * z[:, 0] ** 2 + stretched(z, p[2:3], p[3:4]).log_slope[:, 0]) + p[1])

    first = np.array([median, np.log(0.5 * (high - low) + 1e-300), 0.1, 0.1])
    found = scipy.optimize.minimize(
        loss, first, method="L-BFGS-B", bounds=[(None, None), (None, None), _TAILS, _TAILS], options={"maxiter": 40}
    )
    if not 0.5 + np.log(sd) - found.fun > _TAILS_GAIN:
        return normal
    left, right = (min(0.8, 1.15 * q + 0.03) if q > 0.02 else 0.0 for q in found.x[2:])
    return float(found.x[0]), float(found.x[1]), left, right


def _radial(u: Array, slopes: Array, center: Array, width: Array) -> TransportMap:
    """The radial map whose degrees of freedom, and frame, leave the least J."""
    flat = u.reshape(-1, u.shape[2])
    middle = flat.mean(axis=0)
    best, least = None, np.inf
    for freedom in _FREEDOMS:
        frame = matched_factor(u - middle, slopes)
        for _ in range(3):
            found = TransportMap("radial", middle, frame, Radial(freedom))
            z, pulled = pulled_back(found, u, slopes)
            frame = frame @ matched_factor(z - z.mean(axis=(0, 1)), pulled)
        found = TransportMap("radial", center + width * middle, width[:, None] * frame, Radial(freedom))
        z, pulled = pulled_back(replace(found, center=middle, frame=frame), u, slopes)
        divergence = float(np.log1p(squared_residuals(z.reshape(flat.shape), pulled.reshape(flat.shape))).mean())
        if divergence < least:
            best, least = found, divergence
    if best is None:
        raise np.linalg.LinAlgError("no degrees of freedom fit")
    return best
