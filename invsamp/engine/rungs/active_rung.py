"""A rung at work as its kernel sees it: reduced energies, whitened coordinates, moves within the domain."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from invsamp.domains import Unbounded
from invsamp.domains.contract import Domain
from invsamp.engine.rungs.rung_estimates import RungEstimates
from invsamp.estimators.exact_energies import Exact
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Memory, Rows
from invsamp.kernels.contract import Path, Point, StepSize, Whitened
from invsamp.kernels.metric import IdentityMetric, Metric
from invsamp.protocols import Array
from invsamp.tempering.target_distribution import LocallyScaledTarget, TargetDistribution
from invsamp.transport import TransportMap
from invsamp.transport.triangular import Image

#: A path that a transport map takes farther than this is given up: squares of such positions overflow.
FARTHEST = 1e150


class ActiveRung:
    """A rung at work as its kernel sees it; see `invsamp.kernels.contract.ActiveRung`.

    What a step asks for again and again is at hand here; `invsamp.engine.rungs.rung_chains` renews what changes.

    Parameters
    ----------
    of : RungEstimates
    domain : Domain
        Of the positions.
    follow : callable
        Where moves of whitened coordinates end, in positions, and who gave up.
    """

    __slots__ = (
        *("_of", "contains", "evaluate", "follow", "gradient_noise", "log_uniform", "normal", "solve"),
        *("free", "target", "target_memory", "metric", "step_scale", "step_size", "transport", "warming"),
        *("_bounded", "_evaluate_plain", "_follow_plain", "_last"),
    )

    target: TargetDistribution
    target_memory: Memory
    metric: Metric
    step_scale: float  # how many times the step size as given `step_size` is
    warming: bool  # whether this is a step of warm-up
    free: bool
    transport: TransportMap | None
    _last: tuple[Array, Image] | None
    evaluate: Callable[..., EvaluationRequests[Estimate]]
    follow: Callable[..., Path]
    normal: Callable[[], Array]
    log_uniform: Callable[[], Array]

    def __init__(self, of: RungEstimates, domain: Domain, follow: Callable[..., Path]) -> None:
        self._of, self._follow_plain, self._bounded = of, follow, not isinstance(domain, Unbounded)
        self.step_size: StepSize = 0.0
        self.step_scale, self.warming = 1.0, False
        self.contains, self.solve = domain.contains, of.solve
        # one of a user's own that is derived from `Exact` may say something else
        self._evaluate_plain = of.evaluate_exactly if type(of.settings.estimator) is Exact else of.evaluate
        spends = of.settings.gradient_noise is not None and not of.estimator.exact
        self.gradient_noise = self._gradient_noise if spends else _no_noise

    @property
    def reference(self) -> Whitened:
        """A Gaussian distribution for comparison with proposals."""
        assert self._of.bound is not None  # an engine's rungs have it
        return self._of.bound.reference(self.target, self._of.settings.kernel)

    def prior_draws(self) -> Array:
        """Fresh positions (chains, d) of the prior."""
        of = self._of
        assert of.bound is not None
        return of.bound.draw_prior(of.streams["kernel"], len(of.position))

    def move_by(self, transport: TransportMap | None, metric: Metric) -> None:
        """Let steps be made in the coordinates of a transport map, or in positions, with their preconditioner."""
        self.transport, self.metric, self._last = transport, metric, None
        self.free = not self._bounded and transport is None and isinstance(metric, IdentityMetric)
        plain = self._evaluate_plain, self._follow_plain
        self.evaluate, self.follow = plain if transport is None else (self._evaluate, self._follow)

    def entered(self, here: Point) -> Point:
        """A point with its coordinates, by the position alone: a resumed run knows no more."""
        self._last = None
        return Point(here.position, here.estimate._replace(mapped=self._coordinates(here.position)))

    def energy(self, estimate: Estimate) -> Array:
        """Reduced energies (chains,)."""
        found = self.target.energy(estimate, self.target_memory)
        return found if estimate.mapped is None else found - self._image(estimate.mapped).log_det

    def position_energy(self, estimate: Estimate) -> Array:
        """The same with respect to positions (chains,)."""
        return self.target.energy(estimate, self.target_memory)

    def gradient(self, estimate: Estimate) -> Array:
        """Their gradients in whitened coordinates (chains, d)."""
        found = self.target.gradient(estimate, self.target_memory)
        if estimate.mapped is not None:
            assert self.transport is not None  # who made the estimate
            found = self.transport.pull_back(self._image(estimate.mapped), found)
        return self.metric.whiten(found)

    def misfit_of_map(self, estimate: Estimate) -> Array:
        """Squared differences of scores to those of a standard normal distribution, per unknown (chains,)."""
        assert estimate.mapped is not None
        length = math.sqrt(self.step_scale)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = self.gradient(estimate) * length - self.metric.uncolor(estimate.mapped) / length
            return np.square(apart).mean(axis=1)

    def _evaluate(self, position: Array, rows: Rows | None = None) -> EvaluationRequests[Estimate]:
        found = yield from self._evaluate_plain(position, rows)
        return found._replace(mapped=self._coordinates(position))

    def _follow(self, position: Array, straight: Array, spent: bool = False) -> Path:
        assert self.transport is not None
        before = self._coordinates(position)
        z = before + self.metric.color(straight)
        image = self.transport.forward(z)
        lost = ~(np.abs(image.u) < FARTHEST).all(axis=1)
        if failed := bool(lost.any()):
            z[lost] = before[lost]
            image = self.transport.forward(z)
        self._last = z, image
        return image.u, straight, np.asarray(lost) if failed else None

    def _coordinates(self, position: Array) -> Array:
        """Of the map, at positions (chains, d)."""
        assert self.transport is not None
        if self._last is None or self._last[1].u is not position:
            z = self.transport.inverse(position)
            self._last = z, self.transport.forward(z)._replace(u=position)
        return self._last[0]

    def _image(self, z: Array) -> Image:
        """Positions at coordinates of the map; the last ones are kept, as energies and gradients ask again."""
        assert self.transport is not None
        if self._last is not None and self._last[0] is z:
            return self._last[1]
        return self.transport.forward(z)

    def step_factor(self, estimate: Estimate) -> Array:
        """How much longer steps may be where each chain is (chains,)."""
        assert isinstance(self.target, LocallyScaledTarget)  # for others the kernel is refused
        return self.target.step_factor(estimate, self.target_memory)

    def energy_noise(self, point: Point) -> Array | None:
        """Variances (chains,) of their noise."""
        of, factors = self._of, self.target.factors
        if of.estimator.exact_energy or not of.noise.ready or factors is None:
            return None
        variance = of.energy_variance(point.position, point.estimate.energy_variance)
        return None if variance is None else variance * factors[1] ** 2

    def _gradient_noise(self, point: Point) -> Array | None:
        noise, factors = self._of.noise, self.target.factors
        if factors is None or not noise.ready:
            return None
        variance = noise.gradient_variance(point.position, point.estimate.gradient_variance)
        assert variance is not None  # else `_no_noise` stands here
        whitened = self.metric.whiten_covariance(variance)
        return whitened if factors[1] == 1.0 else whitened * factors[1] ** 2


def _no_noise(point: Point) -> Array | None:
    """Of gradients without noise, or with some that is not taken out of what is injected."""
    return None
