"""SVGD: chains as particles that descend together and push each other away. A baseline."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from invsamp.evaluate.requests import EvaluationRequests, Memory
from invsamp.kernels.contract import NOTHING, ActiveRung, Moved, Point, where_solved
from invsamp.kernels.defaults import Baseline
from invsamp.protocols import Array
from invsamp.stored import stored_dataclass


@stored_dataclass
class Stein(Baseline):
    r"""Stein variational gradient descent. Approximate: no noise, and variances that collapse as dimensions grow.

    .. math:: x_i' = x_i + \frac{\eta}{n} \sum_j [-k(x_j, x_i) \nabla v(x_j) + \nabla_{x_j} k(x_j, x_i)],
              \qquad k(x, y) = e^{-|x - y|^2 / h},

    :math:`h = \mathrm{med}^2 / \log n` of the distances. All chains of the rung are the n particles, which go to a
    fixed point: draws of one chain do not mix, and give no errors.

    References
    ----------
    Liu and Wang (2016), "Stein variational gradient descent", NeurIPS, Algorithm 1.

    Examples
    --------
    >>> import invsamp as iv
    >>> print(iv.kernels.Stein())
    SVGD (approximate)
    """

    name: ClassVar[str] = "svgd"
    ensemble_size = None

    def __str__(self) -> str:
        return "SVGD (approximate)"

    def step(self, rung: ActiveRung, here: Point, memory: Memory) -> EvaluationRequests[Moved]:
        """Move every chain once."""
        end = here.position + rung.step_size * direction(here.position, rung.gradient(here.estimate))
        there = Point(end, (yield from rung.evaluate(end)))
        return where_solved(rung, there, here)[0], memory, NOTHING


def direction(position: Array, gradient: Array) -> Array:
    """Where particles (n, d) go."""
    n = len(position)
    apart = position[:, None] - position  # (j, i, d)
    squares = np.square(apart).sum(axis=2)
    width = max(float(np.median(squares[np.triu_indices(n, 1)])), 1e-300) / math.log(n) if n > 1 else 1.0
    kernel = np.exp(-squares / width)
    push = -2.0 / width * (kernel[:, :, None] * apart).sum(axis=0)
    return np.asarray((push - kernel.T @ gradient) / n)
