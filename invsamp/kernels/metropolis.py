"""Metropolis steps of proposals that are made without gradients, for some of the chains."""

from __future__ import annotations

import numpy as np

from invsamp.evaluate.requests import EvaluationRequests, Rows
from invsamp.kernels.contract import ActiveRung, Mask, Point, decided
from invsamp.protocols import Array


def proposed(
    rung: ActiveRung, here: Point, end: Array, log_factor: Array, rows: Rows
) -> EvaluationRequests[tuple[Point, Array, Mask]]:
    r"""Let some chains take what is proposed, each with probability :math:`\min(1, e^{v - v' + \text{log factor}})`.

    Nothing is solved for a proposal outside the domain, which is refused.

    Parameters
    ----------
    here : Point
        Of all chains.
    end : ndarray, shape (k, d)
        Proposals.
    log_factor : ndarray, shape (k,)
        What makes up for proposals that are not symmetric. Minus infinity and NaN: refused.
    rows : ndarray of int, shape (k,)
        The chains that they are of.

    Returns
    -------
    Point
        Where all chains are then.
    ndarray, shape (k,)
        Log ratios.
    ndarray of bool, shape (k,)
        Chains that moved.
    """
    inside = rung.contains(end) & np.isfinite(log_factor)
    log_ratio = np.full(len(rows), -np.inf)
    uniform = rung.log_uniform()[rows]
    accept = np.zeros(len(here.position), dtype=bool)
    if not inside.any():
        return here, log_ratio, accept[rows]
    within, position = rows[inside], here.position.copy()
    position[within] = end[inside]
    estimate = here.estimate.replaced(within, (yield from rung.evaluate(end[inside], within)))
    there = Point(position, estimate)
    with np.errstate(invalid="ignore"):  # where both solves have failed
        change = rung.energy(here.estimate)[within] - rung.energy(there.estimate)[within]
    log_ratio[inside] = change + log_factor[inside]
    log_ratio[np.isnan(log_ratio)] = -np.inf
    accept[rows] = uniform < log_ratio
    return decided(accept, there, here), log_ratio, accept[rows]
