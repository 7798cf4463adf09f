"""Predictions of the data by the draws of a run, with observation noise, and the likelihood of each datum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from invsamp.arguments import integer, optional
from invsamp.diagnostics import weights
from invsamp.posing.expressions.variable_names import check_gives_likelihood, check_predicts
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, LabelsAxes
from invsamp.storage import layout

if TYPE_CHECKING:
    import xarray as xr

#: Draws that are predicted where the caller names no number: each costs a forward solve.
DEFAULT_DRAWS = 1000
#: Rows per call of the forward model.
BLOCK = 256


def predict(
    theta: Array,
    weight: Array | None,
    shapes: Mapping[str, tuple[int, ...]],
    posterior: Posterior,
    draws: int | None = None,
    seed: int = 0,
    fidelity: str | None = None,
) -> xr.Dataset:
    """Noisy and noise-free predictions of the data at draws of the posterior.

    Parameters
    ----------
    theta : ndarray, shape (chains, draws, d)
        Draws of the posterior.
    weight : ndarray, shape (chains, draws), or None
        Their weights.
    shapes : mapping
        Shape of every parameter in theta, checked against the posterior's.
    posterior, draws, seed, fidelity
        See `invsamp.results.run.Run.posterior_predictive`.

    Returns
    -------
    Dataset
        ``data`` and ``mean``, both (chain, draw, *shape of the data); the coordinate ``draw`` counts in the run, unless
        the draws were chosen by their weights.

    Raises
    ------
    ValueError
        If ``posterior`` cannot predict, its parameters are others, or ``draws`` < 1.
    """
    check_predicts(posterior, shapes)
    integer("seed", seed, least=0)
    rows, numbers = chosen(theta, weight, draws)
    leading, rows = rows.shape[:2], rows.reshape(-1, theta.shape[-1])
    again: slice | npt.NDArray[np.intp] = slice(None)
    once = rows
    if weight is not None:  # a draw that counts for many is solved once
        once, again = np.unique(rows, axis=0, return_inverse=True)
        again = np.ravel(again)  # NumPy 2.0 keeps an axis
    mean = by_blocks(lambda block: posterior.predict(block, fidelity), once)[again]
    noisy = np.asarray(posterior.sample_noise(np.random.default_rng(seed), mean, rows))
    values = {"data": noisy.reshape(leading + mean.shape[1:]), "mean": mean.reshape(leading + mean.shape[1:])}
    return _labeled(values, posterior).assign_coords(draw=numbers)


def chosen(theta: Array, weight: Array | None, draws: int | None) -> tuple[Array, npt.NDArray[np.intp]]:
    """Some of the draws theta (chains, draws, d), which count alike, and their numbers in their chains.

    Evenly spaced, the same for every chain, at least ``draws`` in all if there are as many, by default
    `DEFAULT_DRAWS`. Those that have weights are taken as often as these say, from all chains in turn, and are numbered
    anew.

    Raises
    ------
    ValueError
        If ``draws`` < 1, or weights are not finite.
    """
    chains, available, dimension = theta.shape
    numbers = evenly_spaced(chains, available, draws)
    per_chain = len(numbers)
    if weight is None:
        return theta[:, numbers], numbers
    if not np.isfinite(weight).all():
        raise ValueError("log_weight of the run must be finite, or -inf for some draws, to predict from them")
    taken = weights.resampled(weight.ravel(), chains * per_chain).reshape(per_chain, chains).T
    return theta.reshape(-1, dimension)[taken], np.arange(per_chain)


def evenly_spaced(chains: int, available: int, draws: int | None) -> npt.NDArray[np.intp]:
    """Numbers of as many draws of a chain as `chosen` takes; `ValueError` if ``draws`` < 1."""
    wanted = optional(integer, "draws", draws, least=1) or DEFAULT_DRAWS
    per_chain = min(-(-wanted // chains), available)
    # midpoints of equal parts, so that one draw is not the first of its chain
    return ((np.arange(per_chain) + 0.5) * available / per_chain).astype(int)


def log_likelihood(
    theta: Array, shapes: Mapping[str, tuple[int, ...]], posterior: Posterior, fidelity: str | None = None
) -> xr.Dataset:
    """Log-likelihood of each datum at every draw (chains, draws, d): ``data`` (chain, draw, *shape of the data).

    Raises
    ------
    ValueError
        If ``posterior`` does not give it, or its parameters are others.
    """
    check_gives_likelihood(posterior, shapes)
    rows = theta.reshape(-1, theta.shape[-1])
    values = by_blocks(lambda block: posterior.log_likelihood(block, fidelity), rows)
    return _labeled({"data": values.reshape(theta.shape[:2] + values.shape[1:])}, posterior)


def by_blocks(function: Callable[[Array], Array], rows: Array) -> Array:
    """Values (n, ...) of a function of some rows (m, d) at a time, of all rows (n, d)."""
    return np.concatenate([function(rows[i : i + BLOCK]) for i in range(0, len(rows), BLOCK)])


def _labeled(values: Mapping[str, Array], posterior: object) -> xr.Dataset:
    """Dataset of values (chains, draws, *shape of the data) with the labels of the data."""
    known = posterior.axis_labels if isinstance(posterior, LabelsAxes) else {}
    shape = next(iter(values.values())).shape[2:]
    labels = known.get("data") or {f"data_dim_{axis}": list(range(size)) for axis, size in enumerate(shape)}
    return layout.dataset(values, ("chain", "draw"), dict.fromkeys(values, labels))
