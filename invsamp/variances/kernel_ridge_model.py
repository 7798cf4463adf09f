"""Kernel ridge regression of variances on the position: the model behind `invsamp.variances.kernel_ridge`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from invsamp.stored import stored, stored_dataclass
from invsamp.variances.ridge import RidgeFit, fit_ridge, predict_ridge, standard_error, tabulated
from invsamp.variances.sample_variances import (
    Array,
    Mask,
    Shape,
    checked_samples,
    diagonal,
    finite_rows,
    log_noise,
    unbiased_log,
)

#: The pilot grows where the regression is worse than probes of so many states at the position itself.
WANTED = 10.0
#: Growth of a pilot after which it is fitted anew.
_REFIT = 1.25


@stored
class KernelRidgeState(NamedTuple):
    """The pilot: what was seen at its states, and the fit once there are enough of them."""

    shape: Shape
    positions: Array  # (k, d)
    variances: Array  # (k, *shape)
    degrees_of_freedom: Array  # (k,)
    fit: RidgeFit | None  # of the log variances, or of the logs of the diagonal
    correlation: Array | None  # (d, d), for full covariances
    fitted: int = 0  # states that the fit is of


@stored_dataclass
class KernelRidge:
    """Variance by regression on the states of a pilot. Made by `kernel_ridge`."""

    states: int = 100
    length_scale: float | None = None
    ridge: float | None = None
    max_states: int = 500

    def init(self, shape: Shape) -> KernelRidgeState:
        """State before any data."""
        return KernelRidgeState(tuple(shape), np.empty((0, 0)), np.empty((0, *shape)), np.empty(0), None, None)

    def update(
        self, state: KernelRidgeState, position: Array, sample_variance: Array, degrees_of_freedom: int
    ) -> KernelRidgeState:
        """Add rows to the pilot, up to ``max_states``; fit at ``states`` rows, and again as it grows by a quarter."""
        samples = checked_samples(sample_variance, state.shape, degrees_of_freedom)
        position = np.asarray(position, dtype=float)
        kept = np.flatnonzero(finite_rows(samples))[: self.max_states - len(state.degrees_of_freedom)]
        if not len(kept):
            return state
        state = state._replace(
            positions=np.concatenate([state.positions.reshape(-1, position.shape[1]), position[kept]]),
            variances=np.concatenate([state.variances, samples[kept]]),
            degrees_of_freedom=np.append(state.degrees_of_freedom, np.full(len(kept), float(degrees_of_freedom))),
        )
        n = len(state.degrees_of_freedom)
        return self._fitted(state) if n >= self.states and n >= _REFIT * state.fitted else state

    def predict(self, state: KernelRidgeState, position: Array) -> Array:
        """Variances (n, *shape): the regression, or the pooled average of the pilot while it is not complete."""
        if not len(state.degrees_of_freedom):
            raise RuntimeError("kernel_ridge has no sample variance yet: call update before predict")
        if state.fit is None:
            pooled = np.average(state.variances, axis=0, weights=state.degrees_of_freedom)
            return np.repeat(pooled[None], len(position), axis=0)
        variance = np.exp(predict_ridge(state.fit, np.asarray(position, dtype=float)))
        if state.correlation is None:
            return variance.reshape(len(position), *state.shape)
        sd = np.sqrt(variance)
        return np.asarray(sd[:, :, None] * state.correlation * sd[:, None, :])

    def wants_samples(self, state: KernelRidgeState, position: Array) -> Mask:
        """Everywhere until the first fit, then where the pilot does not cover; nowhere once it has ``max_states``."""
        if len(state.degrees_of_freedom) >= self.max_states:
            return np.zeros(len(position), dtype=bool)
        return ~self._known_as_by(WANTED, state, position)

    def covers(self, state: KernelRidgeState, position: Array) -> Mask:
        """Whether the regression is as good at each position (n, d) as probes there; nowhere before the first fit."""
        return self._known_as_by(1.0, state, position)

    def finish(self, state: KernelRidgeState) -> KernelRidgeState:
        """The state fitted to all of the pilot, and tabulated in one and two dimensions."""
        if state.fit is None:
            return state
        state = self._fitted(state) if len(state.degrees_of_freedom) > state.fitted else state
        assert state.fit is not None
        return state._replace(fit=tabulated(state.fit))

    def _known_as_by(self, states: float, state: KernelRidgeState, position: Array) -> Mask:
        """Whether the regression has the standard error of so many pilot states at each position itself, or less."""
        if state.fit is None:
            return np.zeros(len(position), dtype=bool)
        error = standard_error(state.fit, np.asarray(position, dtype=float))
        return np.asarray(error**2 <= log_noise(state.degrees_of_freedom) / states)

    def _fitted(self, state: KernelRidgeState) -> KernelRidgeState:
        """The state with its regression and, for full covariances, its correlation matrix."""
        full, n = len(state.shape) == 2, len(state.degrees_of_freedom)
        diagonals = (diagonal(state.variances) if full else state.variances).reshape(n, -1)
        targets = unbiased_log(diagonals, state.degrees_of_freedom[:, None])
        noise = log_noise(state.degrees_of_freedom)
        fit = fit_ridge(state.positions, targets, self.length_scale, self.ridge, noise)
        state = state._replace(fit=fit, fitted=n)
        if not full:
            return state
        sd = np.exp(0.5 * predict_ridge(fit, state.positions))
        scaled = state.variances / (sd[:, :, None] * sd[:, None, :])
        correlation = _correlation(np.average(scaled, axis=0, weights=state.degrees_of_freedom))
        return state._replace(correlation=correlation)


def _correlation(covariance: Array) -> Array:
    """The correlation matrix of one covariance; an entry without variance is uncorrelated."""
    variance = np.diag(covariance)
    sd = np.sqrt(np.where(variance > 0.0, variance, 1.0))
    correlation = covariance / np.outer(sd, sd)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)
