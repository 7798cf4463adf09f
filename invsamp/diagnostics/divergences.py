"""Distances between draws and a known law: Kullback-Leibler divergence on a grid, Wasserstein in 1-D and sliced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, real, sequence
from invsamp.contract import Array
from invsamp.diagnostics import weights

#: What is added to the count of every cell, so that a cell without draws has a finite logarithm.
PSEUDO_COUNT = 0.5
#: Rule on either side of the crossing of a quantile function with a step of the draws' one.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)


def divergence_on_grid(
    draws: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    edges: Array | Sequence[Array],
    pseudo_count: float = PSEUDO_COUNT,
    log_weight: npt.ArrayLike | None = None,
) -> Array:
    r"""Kullback-Leibler divergence of binned draws from the truth.

    .. math:: \mathrm{KL}(p \,\|\, q) = \sum_{p_k > 0} p_k \log \frac{p_k}{q_k}, \qquad
              q_k = \frac{c_k + a}{n + a K}

    with c_k the count of cell k, a the pseudo-count and K the number of cells that the truth can reach. n counts
    every draw, so those that left the grid or lie in a cell of no probability are mass that the others miss. It is
    not zero for perfect draws: see `iid_floor`.

    Parameters
    ----------
    draws : array_like, shape (..., n, d), or (..., n) for d = 1
        The leading axes are separate samples; edges of one axis tell that d = 1.
    probabilities : array_like, one axis for each dimension
        Of the cells; they must sum to one.
    edges : ndarray (bins + 1,), or a sequence of them, one for each dimension
        A single array serves every dimension.
    pseudo_count : float, > 0
    log_weight : array_like, shape (..., n), optional
        Logs of the draws' weights, unnormalised, -inf for a draw of no weight; the counts are then of weights, whose
        sum is n in each sample.

    Returns
    -------
    ndarray, shape (...)
        In nats.

    Raises
    ------
    ValueError
        If the probabilities are negative, do not sum to one, or do not fit the edges, or if the draws
        do not, or are not finite.
    """
    truth = _checked(probabilities, pseudo_count)
    grids = _grids(edges, truth)
    values = array("draws", draws, empty=True)
    if truth.ndim == 1 and (values.ndim == 1 or values.shape[-1:] != (1,)):
        values = values[..., None]
    if values.ndim < 2 or values.shape[-1] != truth.ndim or not values.shape[-2]:
        raise ValueError(f"draws must have shape (..., n, {truth.ndim}) with n > 0, got {np.shape(draws)}")
    lead, n = values.shape[:-2], values.shape[-2]
    samples = values.reshape(-1, n, truth.ndim)
    if log_weight is None:
        shares: list[Array | None] = [None] * len(samples)
    else:
        logs = weights.checked("log_weight", log_weight, (*lead, n)).reshape(-1, n)
        shares = [weights.normalised(weights.checked("log_weight", row, (n,))) for row in logs]
    counts = np.stack(
        [np.histogramdd(sample, grids, weights=share)[0] for sample, share in zip(samples, shares, strict=True)]
    )
    return _divergence(counts.reshape(*lead, *truth.shape), n, truth, pseudo_count)


def iid_floor(
    probabilities: npt.ArrayLike,
    n: int,
    repeats: int = 100,
    rng: np.random.Generator | int | None = None,
    pseudo_count: float = PSEUDO_COUNT,
) -> Array:
    """What `divergence_on_grid` gives for ``n`` independent draws from the truth itself.

    About (K - 1) / (2 n) for K cells that are all well filled; more where many are not.

    Parameters
    ----------
    probabilities : array_like
        Of the cells, as for `divergence_on_grid`.
    n : int
        Number of draws.
    repeats : int
        Number of samples of n draws.
    rng : Generator or int, optional
        Source of randomness, or its seed.

    Returns
    -------
    ndarray, shape (repeats,)
        In nats.

    Raises
    ------
    ValueError
        If the probabilities are negative or do not sum to one, or ``n`` or ``repeats`` is below 1.
    """
    truth = _checked(probabilities, pseudo_count)
    n, repeats = integer("n", n, least=1), integer("repeats", repeats, least=1)
    generator = _generator(rng)
    counts = generator.multinomial(n, truth.ravel() / truth.sum(), size=repeats).astype(float)
    return _divergence(counts.reshape(repeats, *truth.shape), n, truth, pseudo_count)


def wasserstein(
    draws: npt.ArrayLike,
    reference: npt.ArrayLike | Callable[[Array], npt.ArrayLike],
    order: float = 1.0,
    log_weight: npt.ArrayLike | None = None,
) -> float:
    r"""Wasserstein distance in one dimension, :math:`\left(\int_0^1 |Q_a(u) - Q_b(u)|^p du\right)^{1/p}`.

    Parameters
    ----------
    draws : array_like, shape (n,)
    reference : array_like (m,), or callable
        Other draws, of any number: the integral is then exact. Or the quantile function Q(u) of the reference
        (`quantile_function` makes one from a distribution function on a grid), integrated by Gauss rules between the
        steps of the draws' quantiles: for a Gaussian the error is below 0.01 sd / n, from the tails where Q runs off.
    order : float, >= 1
        The order p.
    log_weight : array_like, shape (n,), optional
        Logs of the draws' weights, unnormalised, -inf for a draw of no weight.

    Returns
    -------
    float
        In the unit of the draws.

    Raises
    ------
    ValueError
        If the draws are empty, have more than one axis or are not finite, or ``order`` is below 1.
    """
    order = real("order", order, least=1)
    ours = _one_dimensional("draws", draws)
    shares = _shares(log_weight, len(ours))
    if callable(reference):
        order_of = np.argsort(ours)
        return float(_to_quantiles(ours[order_of], shares[order_of], reference, order) ** (1.0 / order))
    theirs = _one_dimensional("reference", reference)
    between = _between_samples(ours[:, None], None if log_weight is None else shares, theirs[:, None], order)
    return float(between[0] ** (1.0 / order))


def quantile_function(grid: npt.ArrayLike, cdf: npt.ArrayLike) -> Callable[[Array], Array]:
    """Quantile function from a distribution function on a grid, straight between its points.

    Parameters
    ----------
    grid : array_like, shape (k,)
        Increasing positions.
    cdf : array_like, shape (k,)
        Not decreasing; it is shifted and scaled to run from 0 to 1, so the grid must hold all but a negligible mass.

    Raises
    ------
    ValueError
        If the shapes differ, the grid does not increase, or the distribution function decreases or is constant.
    """
    at, values = array("grid", grid), array("cdf", cdf)
    if at.ndim != 1 or at.shape != values.shape or len(at) < 2:
        raise ValueError(f"grid and cdf must be vectors of one length >= 2, got shapes {at.shape} and {values.shape}")
    if not (np.diff(at) > 0.0).all():
        raise ValueError("grid must increase")
    if not (np.diff(values) >= 0.0).all() or not values[-1] > values[0]:
        raise ValueError(f"cdf must not decrease and not be constant, got values from {values[0]} to {values[-1]}")
    levels = (values - values[0]) / (values[-1] - values[0])

    def quantiles(u: Array) -> Array:
        """Positions below which the share u lies."""
        return np.interp(u, levels, at)

    return quantiles


def sliced_wasserstein(
    draws: npt.ArrayLike,
    reference: npt.ArrayLike,
    directions: int = 64,
    order: float = 1.0,
    rng: np.random.Generator | int | None = 0,
    log_weight: npt.ArrayLike | None = None,
) -> float:
    r"""Sliced Wasserstein distance between two samples in any dimension.

    .. math:: \left( E_\omega\, W_p(\omega \cdot A, \omega \cdot B)^p \right)^{1/p}

    over directions omega drawn uniformly from the sphere. A shift by v has ``E|v . omega|`` at p = 1, which is
    ``2 |v| / pi`` in the plane, and ``|v| / sqrt(d)`` at p = 2.

    Parameters
    ----------
    draws : array_like, shape (n, d)
    reference : array_like, shape (m, d)
    directions : int
        Number of random directions.
    order : float, >= 1
        The order p.
    rng : Generator or int, optional
        Source of the directions, or its seed: the default compares different samples along the same ones.
    log_weight : array_like, shape (n,), optional
        Logs of the draws' weights, unnormalised, -inf for a draw of no weight.

    Returns
    -------
    float
        In the unit of the draws.

    Raises
    ------
    ValueError
        If the samples are empty, not finite or of different dimension, or ``directions`` or ``order`` is below 1.

    References
    ----------
    Bonneel, Rabin, Peyre and Pfister (2015), J. Math. Imaging Vis. 51(1), definition 4.
    """
    order = real("order", order, least=1)
    directions = integer("directions", directions, least=1)
    ours = array("draws", draws, ("n", "d"))
    theirs = array("reference", reference, ("m", ours.shape[1]))
    omega = _generator(rng).standard_normal((ours.shape[1], directions))
    omega /= np.linalg.norm(omega, axis=0)
    shares = None if log_weight is None else _shares(log_weight, len(ours))
    powers = _between_samples(ours @ omega, shares, theirs @ omega, order)
    return float(powers.mean() ** (1.0 / order))


def _checked(probabilities: npt.ArrayLike, pseudo_count: float) -> Array:
    truth = array("probabilities", probabilities, least=0)
    real("pseudo_count", pseudo_count, above=0)
    if truth.ndim < 1:
        raise ValueError(f"probabilities must have one axis for each dimension, got {truth}")
    if not abs(truth.sum() - 1.0) < 1e-3:
        raise ValueError(f"probabilities must sum to one: the grid must hold the whole law, got {truth.sum():.6g}")
    return truth


def _grids(edges: Array | Sequence[Array], truth: Array) -> list[Array]:
    shared = isinstance(edges, np.ndarray) and edges.ndim == 1
    listed = [edges] * truth.ndim if shared else sequence("edges", edges, "a vector, or a sequence of vectors")
    grids = [array("edges", e, ("bins + 1",)) for e in listed]
    sizes = tuple(len(grid) - 1 for grid in grids)
    if sizes != truth.shape:
        raise ValueError(f"edges must have one more entry than probabilities along each axis, got {sizes} cells for "
                         f"probabilities of shape {truth.shape}")  # fmt: skip
    return grids


def _divergence(counts: Array, n: int, truth: Array, pseudo_count: float) -> Array:
    """Divergence (...) of counts (..., *truth.shape) of n draws, those outside the grid included in n."""
    reached = truth > 0.0
    p = truth[reached] / truth.sum()
    q = (counts[..., reached] + pseudo_count) / (n + pseudo_count * len(p))
    return np.asarray((p * np.log(p / q)).sum(axis=-1))


def _one_dimensional(name: str, values: npt.ArrayLike) -> Array:
    return array(name, values, ("n",))


def _generator(rng: np.random.Generator | int | None) -> np.random.Generator:
    """Where numbers are drawn from, or a new one of that seed."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    return np.random.default_rng(integer("rng", rng, least=0, also=", a numpy.random.Generator or None"))


def _shares(log_weight: npt.ArrayLike | None, n: int) -> Array:
    """Shares (n,) of the draws, whose sum is 1."""
    if log_weight is None:
        return np.full(n, 1.0 / n)
    return weights.normalised(weights.checked("log_weight", log_weight, (n,))) / n


def _between_samples(ours: Array, shares: Array | None, theirs: Array, order: float) -> Array:
    """Integrals of |Q_a - Q_b|^p for columns (n, k) and (m, k), shape (k,); the first may have shares (n,)."""
    if shares is not None:
        pairs = zip(ours.T, theirs.T, strict=True)
        return np.array([_between_weighted(mine, shares, other, order) for mine, other in pairs])
    ours, theirs = np.sort(ours, axis=0), np.sort(theirs, axis=0)
    n, m = len(ours), len(theirs)
    if n == m:
        return (np.abs(ours - theirs) ** order).mean(axis=0)
    # both quantile functions are steps: in units of 1 / (n m) they jump at whole numbers, without rounding
    jumps = np.union1d(np.arange(n + 1) * m, np.arange(m + 1) * n)
    begin = jumps[:-1]
    widths = np.diff(jumps) / (n * m)
    return widths @ np.abs(ours[begin // m] - theirs[begin // n]) ** order


def _between_weighted(ours: Array, shares: Array, theirs: Array, order: float) -> float:
    """The same for one column, at the jumps of either quantile function."""
    rising = np.argsort(ours)
    upto, steps = np.cumsum(shares[rising]), np.arange(1, len(theirs) + 1) / len(theirs)
    jumps = np.union1d(np.minimum(upto, 1.0), steps)
    middle = jumps - 0.5 * np.diff(jumps, prepend=0.0)
    mine, other = (np.minimum(np.searchsorted(at, middle), len(at) - 1) for at in (upto, steps))
    gap = np.abs(ours[rising][mine] - np.sort(theirs)[other]) ** order
    return float(np.diff(jumps, prepend=0.0) @ gap)


def _to_quantiles(ours: Array, shares: Array, quantiles: Callable[[Array], npt.ArrayLike], order: float) -> float:
    """Integral of |x_i - Q(u)|^p over the share of each of the draws, in rising order, summed."""
    ends = np.concatenate([[0.0], np.cumsum(shares[:-1]), [1.0]])
    low, high = ends[:-1], ends[1:]
    # |x - Q| has a kink where they cross: bisection for it, then a rule on either side
    left, right = low.copy(), high.copy()
    for _ in range(40):
        middle = 0.5 * (left + right)
        below = np.asarray(quantiles(middle)) < ours
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    total = 0.0
    for begin, end in ((low, left), (left, high)):
        half = 0.5 * (end - begin)
        at = (begin + half)[:, None] + half[:, None] * _NODES
        gap = np.abs(np.asarray(quantiles(at)) - ours[:, None]) ** order
        total += float((half * (gap @ _WEIGHTS)).sum())
    return total
