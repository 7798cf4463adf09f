r"""The difference between two rungs' energies, learned as a function of the position.

A coarse model is off by about the same amount at neighboring positions. What is known of that from the states at which
both models were solved anyway lets the coarse one, corrected, judge swaps almost as the fine one would. A wrong guess
costs swaps, never the target: the second stage of delayed acceptance takes back what the first one put in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from invsamp.arguments import integer, store
from invsamp.stored import stored, stored_dataclass
from invsamp.variances.ridge import RidgeFit, fit_ridge, leave_one_out_errors, predict_ridge, tabulated

Array = npt.NDArray[np.float64]
#: Fewer states than this say nothing about a function of the position.
LEAST_STATES = 10


@stored
class DiscrepancyState(NamedTuple):
    """The latest states at which both energies are known, and the fit, once it is made."""

    positions: Array  # (k, d)
    differences: Array  # (k,) colder rung's energy less hotter rung's
    fit: RidgeFit | None
    residual_sd: float | None  # of a difference about its prediction, by leave-one-out


@stored_dataclass
class Discrepancy:
    """Kernel ridge regression of the difference of two rungs' energies on the position.

    Learned in warm-up and frozen after. Predictions stay within the range of the differences seen and return to their
    mean far from the states seen.

    Parameters
    ----------
    states : int
        Number of states that are kept: the latest ones of warm-up at which both energies are known.

    Raises
    ------
    ValueError
        If ``states`` is below 10.

    Examples
    --------
    >>> import invsamp as iv
    >>> rule = iv.swaps.delayed_acceptance(iv.swaps.Discrepancy(states=100))
    >>> rule.discrepancy
    Discrepancy(states=100)
    """

    states: int = 300

    def __post_init__(self) -> None:
        store(self, states=integer("states", self.states, least=LEAST_STATES))

    def init(self) -> DiscrepancyState:
        """State before any data."""
        return DiscrepancyState(np.empty((0, 0)), np.empty(0), None, None)

    def update(self, state: DiscrepancyState, position: Array, difference: Array) -> DiscrepancyState:
        """Add differences (n,) at positions (n, d), where finite; the oldest make room. No effect on a fit."""
        if state.fit is not None:
            return state
        kept = np.isfinite(difference)
        positions = np.concatenate([state.positions.reshape(-1, position.shape[1]), position[kept]])
        differences = np.concatenate([state.differences, difference[kept]])
        return state._replace(positions=positions[-self.states :], differences=differences[-self.states :])

    def fitted(self, state: DiscrepancyState) -> DiscrepancyState:
        """The state with its regression; unchanged where there are too few states to learn from.

        Of a warm-up whose states are all still here the oldest quarter is left out: it may be of the way down, where
        differences are of another size.
        """
        seen = len(state.differences)
        if seen < LEAST_STATES:
            return state
        oldest = seen // 4 if seen < self.states else 0
        state = state._replace(positions=state.positions[oldest:], differences=state.differences[oldest:])
        targets = state.differences[:, None]
        fit = fit_ridge(state.positions, targets)
        errors = leave_one_out_errors((state.positions - fit.center) / fit.scale, targets, fit.ridge)[0]
        return state._replace(fit=tabulated(fit), residual_sd=float(np.sqrt(np.mean(errors**2))))

    def predict(self, state: DiscrepancyState, position: Array) -> Array:
        """Mean difference (n,) at positions (n, d): zero before a fit."""
        if state.fit is None:
            return np.zeros(len(position))
        return predict_ridge(state.fit, np.asarray(position, dtype=float))[:, 0]
