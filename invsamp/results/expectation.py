"""Posterior means with their standard errors, of the draws alone or with those of a coarse fidelity."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import numbers
from invsamp.diagnostics.draws import mcse
from invsamp.protocols import Array

#: Fewer draws of a chain do not show their autocorrelation.
LEAST = 16
#: The coarse draws are taken along where the standard error falls below this share.
WORTH = 0.9


class Expectation(NamedTuple):
    """A posterior mean. `Run.expectation` makes it."""

    mean: Array  # (...)
    standard_error: Array  # (...)
    alone: Array  # (...) standard error of the mean of the draws of the posterior alone
    coarse: npt.NDArray[np.bool_]  # (...) whether coarse draws are in it: where that pays

    @property
    def gain(self) -> Array:
        """How many times as many draws of the posterior alone would give the same error (...)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio: Array = np.square(self.alone / self.standard_error)
        return ratio

    def __str__(self) -> str:
        flat = zip(*(np.ravel(part) for part in (*self, self.gain)), strict=True)
        return "\n".join(
            f"{mean:.6g} +- {error:.2g}"
            + (
                f", with coarse draws, equal to {gain:.3g} times as many fine ones"
                if coarse
                else ", of the draws alone"
            )
            for mean, error, _, coarse, gain in flat
        )


def expectation(
    quantity: Callable[[Array], npt.ArrayLike],
    theta: Array,
    weight: Array | None = None,
    between: Array | None = None,
    coarse: Array | None = None,
    ensemble_size: int = 1,
) -> Expectation:
    """Mean of a quantity; see `invsamp.results.run.Run.expectation`.

    Parameters
    ----------
    quantity : callable
        (n, d) -> (n, ...).
    theta : ndarray, shape (chains, draws, d)
        Draws of the posterior.
    weight : ndarray, shape (chains, draws), optional
        Their weights.
    between : ndarray, shape (chains, draws, steps, d), optional
        Of a coarse rung, on the way to each draw.
    coarse : ndarray, shape (chains, draws, d), optional
        Of the same at the draws.
    ensemble_size : int
        As for `invsamp.diagnostics.ess`.
    """
    if theta.shape[1] < LEAST:
        raise ValueError(f"draws must be at least {LEAST} of each chain for a standard error, got {theta.shape[1]}")
    fine = _values(quantity, theta)
    if weight is not None:
        with np.errstate(divide="ignore"):
            error = mcse(fine, log_weight=np.log(weight), ensemble_size=ensemble_size)
        by = weight.reshape(*weight.shape, *[1] * (fine.ndim - 2))
        mean = (fine * by).sum(axis=(0, 1)) / weight.sum()
        return Expectation(mean, error, error, np.zeros(np.shape(mean), dtype=bool))
    mean, alone = fine.mean(axis=(0, 1)), _error(fine, ensemble_size)
    if between is None or coarse is None:
        return Expectation(mean, alone, alone, np.zeros(np.shape(mean), dtype=bool))
    # what the fine rung holds is what the coarse one gets back at the next exchange that is accepted: a time apart both
    # are equal mostly, and their difference is that of the targets, without the noise of what each has just drawn
    both = _values(quantity, between[:, 1:]).mean(axis=2) + fine[:, :-1] - _values(quantity, coarse[:, 1:])
    error = np.maximum(_error(both, ensemble_size), _of_batches(both, ensemble_size))
    pays = np.asarray(error < WORTH * alone)
    return Expectation(np.where(pays, both.mean(axis=(0, 1)), mean), np.where(pays, error, alone), alone, pays)


def _values(quantity: Callable[[Array], npt.ArrayLike], theta: Array) -> Array:
    """Values (*theta.shape[:-1], ...)."""
    rows = theta.reshape(-1, theta.shape[-1])
    values = numbers("what quantity gives", quantity(rows))
    if values.shape[:1] != (len(rows),):
        raise ValueError(
            f"quantity must give a value, or an array, for each of {len(rows)} rows, got the shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError("quantity must be finite at all draws, got nan or inf")
    return values.reshape(*theta.shape[:-1], *values.shape[1:])


def _error(values: Array, size: int) -> Array:
    """Standard errors (...) of means of values (chains, draws, ...); 0 where they do not vary."""
    varies = np.ptp(values, axis=(0, 1)) > 0.0
    return np.where(varies, mcse(values, ensemble_size=size), 0.0)


def _of_batches(values: Array, ensemble_size: int) -> Array:
    """The same by means of batches of time as long as the square root of the draws."""
    values = values.reshape(-1, ensemble_size, *values.shape[1:]).mean(axis=1)
    chains, draws = values.shape[:2]
    size = max(1, math.isqrt(draws))
    count = draws // size
    batches = values[:, draws - count * size :].reshape(chains, count, size, *values.shape[2:]).mean(axis=2)
    flat = batches.reshape(chains * count, *values.shape[2:])
    return np.asarray(flat.std(axis=0, ddof=1) / math.sqrt(len(flat)))
