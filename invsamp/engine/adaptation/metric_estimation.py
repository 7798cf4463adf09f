r"""Estimates of a rung's metric in a window of warm-up, from draws and gradients.

The metric is the one in which these spread alike (`invsamp.transport.linear`), in coordinates whitened by the present
one, so that few draws change little.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from invsamp.engine.adaptation.metric_from_curvature import WIDEST, floored
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.stationarity import Stationarity
from invsamp.kernels.metric import DenseMetric, Metric
from invsamp.protocols import Array
from invsamp.transport.linear import matched_factor

#: Numbers in the draws of a window that are kept, and as many in their gradients.
MOST = 4_000_000
#: Of those that a diagonal metric is learned from, whose sums are kept, one in so many of these is.
SPARING = 10
#: Chains whose means are so far apart, in variances within them, are in modes of their own (R-hat 2.2): what is between
#: them is no width.
APART = 4.0
#: Draws from which variances are learned, all chains together, times d^(1/3), in which a Langevin step relaxes: of so
#: many independent ones a variance has an error of 20%.
INDEPENDENT = 50


def far(d: int) -> float:
    """By how much the medians of the reduced energies of one mode of d unknowns differ at most."""
    return max(10.0, 3.0 * math.sqrt(0.5 * d) + 0.5 * d)


class _MetricEstimator(Lasting, ABC):
    """Base of the estimators of dense and diagonal metrics: the positions and gradients of the chains that they use."""

    def __init__(self, length: int, chains: int, d: int) -> None:
        self.dimension = d
        self._every, self._seen = max(1, -(-length * chains * d // MOST)), 0
        self._positions: list[Array] = []
        self._gradients: list[Array] = []
        self._energies: list[Array] = []

    def sample(self) -> tuple[Array, Array]:
        """Positions and gradients (steps, chains, d) that were kept, of the chains that teach."""
        teach = self.arrived_chains()
        positions, gradients = self.kept()
        return positions[:, teach], gradients[:, teach]

    def kept(self) -> list[Array]:
        """The same of all chains."""
        return [np.array(self._positions), np.array(self._gradients)]

    def _keep(self, position: Array, gradient: Array) -> bool:
        """Keep a step for the sample, if it is one of those that are; so many that memory has room."""
        self._seen += 1
        if (self._seen - 1) % self._every:
            return False
        self._positions.append(position.copy())
        self._gradients.append(gradient.copy())
        return True

    def stationarity(self) -> Stationarity:
        """Whether these chains are where the target is; its virial is that of those that teach."""
        arrived_chains = self.arrived_chains()
        position, gradient, product = (part[arrived_chains] for part in self._products())
        mean, variance, _ = self._sequences(arrived_chains)
        if (mean.var(axis=0) > APART * variance.mean(axis=0)).any():  # the mean of all is far from each
            centered = (position * gradient).sum(axis=1).mean()
        else:
            centered = position.mean(axis=0) @ gradient.mean(axis=0)
        return Stationarity(float(product.mean() - centered) / self.dimension, float(1.0 - arrived_chains.mean()))

    def lower(self) -> npt.NDArray[np.intp]:
        """Numbers of the chains whose energies are the lower ones: half of them, and all that teach."""
        medians = np.median(self._energies, axis=0)
        return np.flatnonzero(self.arrived_chains() | (medians <= np.median(medians)))

    @abstractmethod
    def _products(self) -> tuple[Array, Array, Array]:
        """Of each chain, means of x - o and of the gradient (chains, d), and of their product; o is one for all."""

    def __len__(self) -> int:
        return len(self._energies)

    def median_energy(self) -> float:
        """Median of v over the chains that teach."""
        return float(np.median(np.median(self._energies, axis=0)[self.arrived_chains()]))

    def falling(self) -> bool:
        """Whether the chains are still on their way down: then their draws show no width."""
        first, second = (float(np.median(part)) for part in np.array_split(np.array(self._energies), 2))
        return first - second > far(self.dimension)

    def disagreement(self) -> float:
        """The largest R-hat of a coordinate, of the chains that teach; 1 where there is nothing to compare."""
        mean, variance, count = self._sequences(self.arrived_chains())
        if len(mean) < 2 or count < 2:
            return 1.0
        between, within = mean.var(axis=0, ddof=1), variance.mean(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.sqrt((count - 1.0) / count + between / within)
        return float(np.max(ratios, where=within > 0.0, initial=1.0))

    @abstractmethod
    def _sequences(self, arrived_chains: npt.NDArray[np.bool_]) -> tuple[Array, Array, int]:
        """Means and variances (n, d) of sequences of these chains' draws, and of how many draws each is."""

    def arrived_chains(self) -> npt.NDArray[np.bool_]:
        """Chains (chains,) whose energies are not far above those of the lowest, by their medians."""
        medians = np.median(self._energies, axis=0)
        return np.asarray(medians <= medians.min() + far(self.dimension))


class DenseMetricEstimator(_MetricEstimator, lasting=("_every", "_seen", "_positions", "_gradients", "_energies")):
    """Draws of a window, and the dense metric that comes of them.

    Parameters
    ----------
    length : int
        Steps of the window.
    chains, d : int
    """

    def add(self, position: Array, gradient: Array, energy: Array) -> None:
        """Positions and gradients of v (chains, d), and v (chains,), after a step."""
        if self._keep(position, gradient):
            self._energies.append(energy.copy())

    def _sequences(self, arrived_chains: npt.NDArray[np.bool_]) -> tuple[Array, Array, int]:
        """As of all estimates of the metric: halves of the chains."""
        positions = np.array(self._positions)[:, arrived_chains]
        n = len(positions) // 2
        halves = np.concatenate([positions[:n], positions[-n:]], axis=1)
        return halves.mean(axis=0), halves.var(axis=0), n

    def _products(self) -> tuple[Array, Array, Array]:
        """As of all estimates of the metric."""
        moved, slopes = np.array(self._positions) - self._positions[0].mean(axis=0), np.array(self._gradients)
        return moved.mean(axis=0), slopes.mean(axis=0), (moved * slopes).sum(axis=2).mean(axis=0)

    def metric(self, present: Metric, scale: Array, step_scale: float, *, draws: bool, gradients: bool) -> Metric:
        """The metric from draws, gradients or both.

        ``scale`` (d,) is the spread of the starting points; the metric is that of v times the step scale.
        """
        positions, slopes = self.sample()
        moved = present.uncolor(positions - positions.mean(axis=(0, 1)))
        own = moved.mean(axis=0)
        if (np.square(own).mean(axis=0) > APART * moved.var(axis=0).mean(axis=0)).any():
            moved -= own
        moved /= math.sqrt(step_scale)
        pull = present.whiten(slopes) * math.sqrt(step_scale)
        factor = matched_factor(moved if draws else None, pull if gradients else None)
        return floored(present.color(factor.T).T, _widest(present, scale))


class DiagonalMetricEstimator(
    _MetricEstimator,
    lasting=("_every", "_seen", "_positions", "_gradients", "_origin", "_energies", "_sums", "_product"),
):
    """Sums over the draws of a window, and the diagonal metric that comes of them; memory is linear in d."""

    def __init__(self, length: int, chains: int, d: int) -> None:
        super().__init__(length, chains, d)
        self._every *= SPARING
        self._origin = np.zeros((chains, d))
        self._sums = np.zeros((4, chains, d))
        self._product = np.zeros(chains)

    def add(self, position: Array, gradient: Array, energy: Array) -> None:
        """Positions and gradients of v (chains, d), and v (chains,), after a step."""
        if not self._energies:
            self._origin = position.copy()
        moved = position - self._origin
        self._sums += (moved, moved * moved, gradient, gradient * gradient)
        self._product += (moved * gradient).sum(axis=1)
        self._energies.append(energy.copy())
        self._keep(position, gradient)

    def _sequences(self, arrived_chains: npt.NDArray[np.bool_]) -> tuple[Array, Array, int]:
        """As of all estimates of the metric: the chains."""
        mean, square = self._sums[:2, arrived_chains] / len(self)
        return mean + self._origin[arrived_chains], square - mean * mean, len(self)

    def _products(self) -> tuple[Array, Array, Array]:
        """As of all estimates of the metric."""
        mean, _, slope, _ = self._sums / len(self)
        apart = self._origin - self._origin.mean(axis=0)
        return mean + apart, slope, self._product / len(self) + (apart * slope).sum(axis=1)

    def metric(self, present: Metric, scale: Array, step_scale: float, *, draws: bool, gradients: bool) -> Metric:
        """As of `DenseMetricEstimator`; the variances of the coordinates, and of their gradients, alone."""
        n, arrived_chains = len(self), self.arrived_chains()
        if n * int(arrived_chains.sum()) < INDEPENDENT * self.dimension ** (1 / 3):
            return present
        mean, square, _, steep = self._sums[:, arrived_chains] / n
        wide = (square - mean * mean).mean(axis=0)
        between = (mean + self._origin[arrived_chains]).var(axis=0)
        wide = (wide + np.where(between > APART * wide, 0.0, between)) / step_scale
        steep = steep.mean(axis=0) * step_scale
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.sqrt(wide / steep) if draws and gradients else wide if draws else 1.0 / steep
        own = present.color(np.ones((1, self.dimension)))[0]
        known = np.isfinite(variance) & (variance > 0.0)
        return floored(np.sqrt(np.where(known, variance, own**2)), WIDEST * np.maximum(scale, own))


#: Of either kind.
MetricEstimator = DenseMetricEstimator | DiagonalMetricEstimator


def narrowed(metric: Metric, points: Array | None, scale: Array) -> Metric:
    """A metric that is nowhere wider than points (n, d) of a domain are spread, where there are enough of them."""
    if points is None or len(points) < 2 * points.shape[1]:
        return metric
    # by singular values: of a covariance those of a narrow domain would be lost to rounding
    moved = metric.uncolor(points - points.mean(axis=0)) / math.sqrt(len(points))
    _, widths, axes = np.linalg.svd(moved, full_matrices=False)
    widths = widths / np.hypot(1.0, widths)
    return floored(metric.color(widths[:, None] * axes).T, WIDEST * scale)


def change(old: Metric, new: Metric, d: int) -> float:
    """How far a metric is from another: the largest log of a ratio of their widths."""
    if isinstance(old, DenseMetric) and isinstance(new, DenseMetric):
        ratios = np.linalg.svd(old.uncolor(new.factor.T), compute_uv=False)
    else:
        ratios = old.uncolor(new.color(np.ones((1, d))))[0]
    return float(np.abs(np.log(np.maximum(np.abs(ratios), 1e-300))).max())


def _widest(present: Metric, scale: Array) -> Array:
    own = np.sqrt(np.square(present.color(np.eye(len(scale)))).sum(axis=0))
    return np.asarray(WIDEST * np.maximum(scale, own))
