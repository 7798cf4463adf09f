r"""A mode's Gaussian of low rank as the reference of kernels, for any power of the prior and the likelihood.

With the prior N(m, L L^T) in positions and a mode at :math:`x^*`, whose Hessian in the coordinates :math:`z = L^{-1} (x
- m)` is :math:`I + V \Lambda V^T`, the reference of a target that takes the prior a times and the misfit b times has

.. math:: \text{precision } a\, (I + \beta V \Lambda V^T), \qquad
          z_\beta = \beta\, (I + \beta V \Lambda V^T)^{-1} (I + V \Lambda V^T)\, z^*, \qquad \beta = b / a,

which is exact where the misfit is quadratic. At :math:`\beta = 0` it is the prior's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from invsamp.arguments import instance
from invsamp.kernels.contract import Kernel, Whitened
from invsamp.kernels.defaults import Wrapping
from invsamp.kernels.metric import LowRankMetric
from invsamp.protocols import Array
from invsamp.stored import stored


@stored
@dataclass(frozen=True, eq=False)
class ModeReference:
    """N(mean, C) with the covariance C of ``metric``, and the prior's mean. All costs are linear in d and the rank.

    Parameters
    ----------
    mean, prior_mean : ndarray, shape (d,)
    metric : LowRankMetric
        Times, transposed and solve are its `color`, `whiten` and `uncolor`.
    """

    mean: Array
    prior_mean: Array
    metric: LowRankMetric

    @property
    def dimension(self) -> int:
        """Unknowns."""
        return len(self.mean)

    @property
    def diagonal(self) -> Array:
        """Variances (d,)."""
        return self.metric.variances

    def at(self, prior: float, misfit: float) -> Whitened:
        """That of a target which takes the prior's energy and the misfit so many times."""
        beta, own = misfit / prior, self.metric
        prior_metric = LowRankMetric(own.factor, own.vectors[:, :0], own.values[:0])
        white = prior_metric.uncolor(self.mean - self.prior_mean)
        along = white @ own.vectors
        share = beta * ((1.0 + own.values) / (1.0 + beta * own.values) - 1.0)
        white = beta * white + own.vectors @ (share * along)
        metric = LowRankMetric(own.factor / math.sqrt(prior), own.vectors, beta * own.values)
        return Whitened(self.prior_mean + prior_metric.color(white), metric)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModeReference) or self.dimension != other.dimension:
            return False
        probe = np.cos(np.arange(self.dimension))[None]
        same = np.array_equal(self.metric.color(probe), other.metric.color(probe))
        return same and np.array_equal(self.mean, other.mean) and np.array_equal(self.prior_mean, other.prior_mean)

    def __hash__(self) -> int:
        return hash((self.dimension, len(self.metric.values)))

    def __repr__(self) -> str:
        return f"ModeReference({self.dimension} unknowns, {len(self.metric.values)} directions)"

    def __str__(self) -> str:
        return f"a mode's Gaussian ({len(self.metric.values)} directions apart from the prior's)"


def as_reference(name: str, value: object) -> ModeReference:
    """A reference, or that of modes; `ValueError` for what is none."""
    own = value if isinstance(value, type) else getattr(value, "reference", value)
    return instance(name, own, ModeReference, "modes of invsamp.maximize, or None for the prior")


@runtime_checkable
class AboutReference(Protocol):
    """A kernel whose moves keep a Gaussian distribution."""

    @property
    def reference(self) -> ModeReference | None:
        """That of a mode; None: the prior's."""


def about_reference(kernel: Kernel) -> AboutReference | None:
    """The kernel, or the one within it, if it keeps a Gaussian distribution."""
    while isinstance(kernel, Wrapping):
        kernel = kernel.kernel
    return kernel if isinstance(kernel, AboutReference) else None


def mode_of(kernel: Kernel) -> ModeReference | None:
    """The mode's Gaussian that a kernel keeps, or the one within it; None where it keeps the prior's, or none."""
    keeping = about_reference(kernel)
    return None if keeping is None else keeping.reference
