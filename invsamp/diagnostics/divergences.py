"""The Kullback-Leibler divergence of draws from a known distribution, on a grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from invsamp.arguments import array, integer, real, sequence
from invsamp.diagnostics import weights
from invsamp.protocols import Array

#: What is added to the count of every cell, so that a cell without draws has a finite logarithm.
PSEUDO_COUNT = 0.5


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

    with c_k the count of cell k, a the pseudo-count and K the number of cells that the truth can reach. n counts all
    draws. Draws outside the grid, or in a cell of probability 0, are therefore mass that is missing in the other cells.
    It is not zero for perfect draws: see `iid_floor`.

    Parameters
    ----------
    draws : array_like, shape (..., n, d), or (..., n) for d = 1
        The leading axes are separate samples; edges of one axis mean d = 1.
    probabilities : array_like, one axis for each dimension
        Of the cells; they must sum to one.
    edges : ndarray (bins + 1,), or a sequence of them, one for each dimension
        A single array serves every dimension.
    pseudo_count : float, > 0
    log_weight : array_like, shape (..., n), optional
        Logs of the draws' weights, unnormalized, -inf for a draw of no weight; the counts are then of weights, whose
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

    Examples
    --------
    >>> import numpy as np
    >>> import invsamp as iv
    >>> draws = np.random.default_rng(0).uniform(size=1000)
    >>> float(iv.diagnostics.divergence_on_grid(draws, [0.5, 0.5], np.array([0.0, 0.5, 1.0])).round(3))
    0.001
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
        shares = [weights.normalized(weights.checked("log_weight", row, (n,))) for row in logs]
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
    """The value of `divergence_on_grid` for ``n`` independent draws from the truth itself.

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

    Examples
    --------
    >>> import invsamp as iv
    >>> floor = iv.diagnostics.iid_floor([0.5, 0.5], n=1000, rng=0)
    >>> bool(floor.mean() < 0.01)  # the divergence that independent draws have
    True
    """
    truth = _checked(probabilities, pseudo_count)
    n, repeats = integer("n", n, least=1), integer("repeats", repeats, least=1)
    generator = _generator(rng)
    counts = generator.multinomial(n, truth.ravel() / truth.sum(), size=repeats).astype(float)
    return _divergence(counts.reshape(repeats, *truth.shape), n, truth, pseudo_count)


def _checked(probabilities: npt.ArrayLike, pseudo_count: float) -> Array:
    truth = array("probabilities", probabilities, least=0)
    real("pseudo_count", pseudo_count, above=0)
    if truth.ndim < 1:
        raise ValueError(f"probabilities must have one axis for each dimension, got {truth}")
    if not abs(truth.sum() - 1.0) < 1e-3:
        raise ValueError(
            f"probabilities must sum to one: the grid must hold the whole distribution, got {truth.sum():.6g}"
        )
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


def _generator(rng: np.random.Generator | int | None) -> np.random.Generator:
    """Where numbers are drawn from, or a new one of that seed."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    return np.random.default_rng(integer("rng", rng, least=0, also=", a numpy.random.Generator or None"))
