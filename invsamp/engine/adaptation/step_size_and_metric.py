r"""Warm-up of one rung: its preconditioner, its step size, its noise budget.

Where energies are exact the chains are first optimized, and the first preconditioner is the inverse of the energy's
Hessian where they arrive (`invsamp.engine.adaptation.initial_descent`). It is then renewed from the draws of each
window and their gradients (`invsamp.engine.adaptation.metric_estimation`). On a ladder, and of an unadjusted kernel, it
comes of the gradients of v alone,

.. math:: E[\nabla v\, \nabla v^T] = E[\nabla^2 v]

(Titsias 2023, "Optimal preconditioning and Fisher adaptive Langevin sampling"), times the target's step scale s. With s
= T of a tempered target that is the curvature of U. It does not grow with the distance between modes, as a covariance
does. With noisy gradients, and while energies still fall, it comes from Hessians, by differences of gradients at the
chains' positions. Common random numbers cancel the noise in differences, but not in outer products.

A diagonal preconditioner takes memory and work that are linear in the number of parameters. It uses only the variances
of draws and gradients. From a Hessian H it uses only the norms of rows, :math:`E[(H s)_i^2]` with random signs s
(Dauphin et al. 2015, "Equilibrated adaptive learning rates for non-convex optimization", eq. (11)). Estimates of its
diagonal, :math:`E[s_i (H s)_i]`, would be lost in the noise of a few stiff directions, whose curvature all parameters
share.

Step sizes are those in the whitened coordinates. An adjusted kernel aims at its best acceptance (`target_acceptance`).
An unadjusted one explores with MALA where energies are exact, and then takes a fraction of its stability limit (2 /
lambda without momentum). Here lambda is the largest curvature met, by power iteration on differences of gradients with
common random numbers. If a step size was given, that is used instead, in the metric that is found by then. What chains
share is estimated from those whose energies are not far above the others'. Gradients alone are not used where draws and
gradients together show that the chains are not stationary yet (`invsamp.engine.rungs.stationarity.Stationarity`). Then
Hessians are used.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from invsamp.diagnostics.limits import ERROR
from invsamp.engine.adaptation.coordinate_learning import learned, quality, relearned
from invsamp.engine.adaptation.gradient_noise_budget import NoiseBudget, largest_whitened
from invsamp.engine.adaptation.initial_descent import (
    descend_chains,
    heavier_start,
    log_mass,
    objective_of,
    spread,
    starts_by_descent,
)
from invsamp.engine.adaptation.metric_estimation import (
    DenseMetricEstimator,
    DiagonalMetricEstimator,
    MetricEstimator,
    change,
    far,
    narrowed,
)
from invsamp.engine.adaptation.metric_from_curvature import WIDEST, floored, metric_of, size
from invsamp.engine.adaptation.temperature_schedule import WarmStart
from invsamp.engine.rungs.lasting_state import Lasting, LastingState
from invsamp.engine.rungs.rung_chains import Mapped, RungChains
from invsamp.estimators.exact_energies import Exact
from invsamp.evaluate.requests import EvaluationRequests
from invsamp.kernels.metric import DiagonalMetric, Metric
from invsamp.ladder.preconditioner import Given, LearnedMap, Preconditioner
from invsamp.modes.curvature import confirmed_factor, hessian
from invsamp.protocols import Array, Problem, StartsAround
from invsamp.tempering.checks import noise_room
from invsamp.transport.fitting import GAUSSIAN

#: Step size of an unadjusted kernel as a fraction of the stability limit: the stiffest direction's variance
#: is then 1 / (1 - 0.05) of the right one.
STABILITY_FRACTION = 0.05
#: Part of a window that is left out of what its draws teach, as step size and metric are new; and the fewest draws of a
#: chain that teach.
FIRST_PART, FEWEST = 0.3, 10
#: How far a width of the metric may be from that of the window before (in logs) for it to be at rest: a step that is
#: too short by that costs two thirds more.
UNCHANGED = 0.5
#: A window has shown nothing new only if the R-hats in it are below this; by chance half chains of 14 draws reach it.
AGREED = 1.15
#: Bounces in one move of an adjusted kernel after which it counts as refused when the step size is adapted. A flat
#: energy accepts moves of any length, up to those that the domain gives up on.
LONG_PATH = 5
#: Of a kernel's longest step, where there is one: the first guess.
FIRST_STEP = 0.1
#: How often points far out are added to a new map at most.
_TURNS = 3
#: Probes of the rows of a Hessian, over all chains, and how often, each time in coordinates in which they were equal.
_PROBES, _ROUNDS = 16, 3
#: Numbers in the positions that a Hessian's differences are solved at together: what bounds the memory they take.
_AT_ONCE = 100_000
#: Numbers in the starting points whose spread is taken: 200 points, but fewer of very many parameters.
_AT_START = 20_000_000
_DIFFERENCE = 1e-3  # length of a finite difference in whitened coordinates, where posteriors have width one


class Tuner(
    Lasting,
    lasting=(
        *("_scale", "_direction", "_curvature", "_arrived_chains", "_metric_estimator", "settled", "_median_energy"),
        *("_reflected", "_length", "_tail", "_last", "_moves", "_budget", "_before"),
    ),
):
    """Warm-up of one rung."""

    def __init__(self, problem: Problem, rung: RungChains, preconditioner: Preconditioner, alone: bool = True) -> None:
        self.rung, self._diagonal, self._alone = rung, preconditioner == "diagonal", alone
        settings = rung.settings
        self._problem = problem
        self._finds_step = settings.step_size is None
        self._scaled = preconditioner is not None
        self._given = preconditioner if isinstance(preconditioner, Given) else None
        self._maps = isinstance(preconditioner, LearnedMap)
        self._finds_metric = self._scaled and settings.kernel.gradient and self._given is None
        # energies without noise let an unadjusted rung find the typical set with the adjusted kernel, which cannot
        # blow up on the way: a step that was given is one in the metric that is to be found, and may be far too long
        finds, exact = self._finds_step or self._finds_metric, isinstance(settings.estimator, Exact)
        self._explores_adjusted = finds and exact and not settings.kernel.adjusted
        # of noisy energies a given step is held back in the first window alone
        given = not (self._finds_step or callable(settings.step_size))
        self._holds_back = given and self._finds_metric and not (exact or settings.kernel.adjusted)
        self._metric_estimator: MetricEstimator | None = None
        #: Whether the metric has converged, and the energies with it; what it is judged by.
        self.settled, self._median_energy = False, math.inf
        self._reflected = 0
        self._starts: Array | None = None
        self._tail: list[float] = []
        self._last, self._moves = False, 0
        #: The draws and gradients of the window before, where maps are learned.
        self._before: list[Array] = []
        self._budget = NoiseBudget(rung)

    def begin(self, lead: bool = True) -> EvaluationRequests[None]:
        """Before the first step: a first metric and a first step size, from the spread of the starting points.

        The chains are optimized, where they can be, if they are to be.
        """
        rung, settings = self.rung, self.rung.settings
        unbounded = math.isinf(settings.kernel.longest_step)
        self._scale = self._spread() if self._scaled or (self._finds_step and unbounded) else np.ones(0)
        if self._scaled:
            rung.metric = DiagonalMetric(self._scale) if self._given is None else self._given.metric
        if self._finds_step or self._explores_adjusted:
            # a first guess only, in the coordinates that are stepped in; adaptation moves it by orders of magnitude
            if unbounded:
                first = 0.01 if self._scaled else 0.01 * float(np.min(self._scale)) ** 2
            else:
                first = FIRST_STEP * settings.kernel.longest_step
            rung.step_size = np.full((len(rung.position), 1), first)
        self._direction = rung.streams["probe"].standard_normal(rung.position.shape)
        self._curvature = np.zeros(len(rung.position))
        self._arrived_chains = np.ones(len(rung.position), dtype=bool)
        if lead and starts_by_descent(rung):
            yield from self._descend()
        self._starts = None

    def inherit(self, warm_start: WarmStart) -> None:
        """Continue from what another warm-up has found, after `begin`."""
        rung, step_size = self.rung, warm_start.step_size
        if self._finds_metric:
            rung.metric, rung.mapped = warm_start.metric, warm_start.mapped
        if self._finds_step and step_size is not None and rung.settings.kernel.adjusted:
            rung.step_size = np.full((len(rung.position), 1), min(step_size, rung.settings.kernel.longest_step))

    def restore(self, state: LastingState) -> None:
        """Continue from a state, in place of `begin`."""
        self._length = state.length
        self._metric_estimator = None if state.metric_estimator is None else self._new_metric_estimator()
        super().restore(state)

    def open(self, length: int, last: bool) -> EvaluationRequests[None]:
        """Begin a window of that many steps."""
        rung, settings = self.rung, self.rung.settings
        self._moves, self._last, self._length = 0, last, length
        self._reflected = rung.counts.reflected + rung.counts.cliffs
        teaches = self._finds_metric and rung.estimator.exact
        self._metric_estimator = self._new_metric_estimator() if teaches else None
        rung.exploring = self._explores_adjusted and not last
        if not (rung.exploring or settings.step_size is None or callable(settings.step_size)):
            rung.step_size = float(settings.step_size)
        if self._finds_step and not (last or rung.adjusted):
            # a guess, or a step of another metric, may throw the chains out of where they start
            yield from self._measure_curvature(iterations=5)
            rung.step_size = self._stable_step(self._curvature)[:, None]
        if self._finds_step and last:
            if rung.adjusted:
                pooled = float(np.exp(np.median(np.log(np.ravel(rung.step_size)[self._arrived_chains]))))
                rung.step_size = np.full((len(rung.position), 1), pooled)
            else:
                yield from self._measure_curvature(iterations=10)
                rung.step_size = float(self._stable_step(self._curvature).min())
        self._budget.open(length)
        if self._holds_back and not rung.iteration:
            # the first metric is that of the starts: a step that is right in the posterior's may blow chains up there
            yield from self._measure_curvature(iterations=5)
            rung.step_size = np.minimum(rung.step_size, self._stable_step(self._curvature)[:, None])

    def step(self, progress: float) -> EvaluationRequests[None]:
        """One step of the rung, and what is learned from it; ``progress`` in [0, 1) through the window."""
        rung = self.rung
        yield from rung.moves()
        self._moves += 1
        if self._last:
            self._budget.record()
        if self._metric_estimator is not None and progress >= FIRST_PART:
            found = rung.estimate
            self._metric_estimator.add(rung.position, rung.reduced_gradient(found), rung.reduced_energy(found))
        if not (self._finds_step or rung.exploring):
            return
        if rung.adjusted:
            self._adapt_to_acceptance(progress)
        elif not self._last and self._moves % 10 == 1:
            yield from self._measure_curvature(iterations=1)
            rung.step_size = self._stable_step(self._curvature)[:, None]

    def close(self, last: bool) -> EvaluationRequests[None]:
        """End a window."""
        rung = self.rung
        self._measure()
        if not last:
            if self._finds_metric and self._length:
                yield from self._renew_metric()
            if self._finds_step and not rung.settings.kernel.adjusted:
                yield from self._measure_curvature(iterations=5)
            return
        rung.exploring = False
        unadjusted = not rung.settings.kernel.adjusted
        if unadjusted and self._metric_estimator is not None and len(self._metric_estimator) >= FEWEST:
            rung.stationarity = self._metric_estimator.stationarity()
        if not self._finds_step:
            return
        if rung.adjusted:
            rung.step_size = float(np.exp(np.mean(self._tail))) if self._tail else float(np.ravel(rung.step_size)[0])

    def settle(self) -> None:
        """After the last window, when the variances have been learned."""
        self._budget.settle()
        self.rung.uncovered = self._budget.uncovered()

    def _spread(self) -> Array:
        """Of the problem's starting points, as a standard deviation (d,); 1 where there is none."""
        count = int(np.clip(_AT_START // self.rung.position.shape[1], 20, 200))
        points = self._starting_points(count)
        self._starts = points.copy() if self.rung.bounded and not self._diagonal else None
        # quartiles, not the standard deviation: a Cauchy prior has none
        low, high = np.quantile(points, (0.25, 0.75), axis=0, overwrite_input=True)
        spread = (high - low) / 1.349
        return np.where(spread > 0.0, spread, 1.0)

    def _starting_points(self, count: int) -> Array:
        """Points of the problem's, or near the chains where it finds none and these have given starts."""
        rng = self.rung.streams["start"]
        try:
            return self._problem.sample_start(rng, count)
        except ValueError:
            if not isinstance(self._problem, StartsAround):
                raise
            return self._problem.sample_inside(rng, count, self.rung.position)

    def _new_metric_estimator(self) -> MetricEstimator:
        chains, d = self.rung.position.shape
        return (DiagonalMetricEstimator if self._diagonal else DenseMetricEstimator)(self._length, chains, d)

    def _descend(self) -> EvaluationRequests[None]:
        """Lead the chains down, and take the first metric from the curvature there."""
        rung, starts = self.rung, self.rung.point
        rung.led = led = yield from descend_chains(rung, self._scale)
        if self._given is not None:
            yield from spread(rung)
        if not self._finds_metric:
            return
        if self._diagonal:
            yield from self._take_hessians()
        else:
            objective, lowest = objective_of(rung, self._scale), float(np.min(led.energies))
            found, _ = yield from hessian(objective, led.best, lowest, led.gradient)
            metric = metric_of(found * rung.step_scale, self._scale, at_minimum=not rung.bounded) or rung.metric
            metric = narrowed(metric, self._starts, self._scale) if rung.bounded else metric
            before = yield from heavier_start(rung, starts, self._scale, log_mass(lowest, metric, rung.step_scale))
            if before is not None:
                rung.point, rung.metric = starts, before
                return
            d, length = len(led.best), math.sqrt(rung.step_scale)
            factor = length * metric.color(np.eye(d)).T
            factor, whole = yield from confirmed_factor(objective, led.best, lowest, factor, far(d))
            rung.metric = metric if whole else floored(factor / length, np.full(d, np.inf))
        yield from spread(rung)

    def _adapt_to_acceptance(self, progress: float) -> None:
        """Robbins-Monro on the log step size: each chain its own while exploring, one for all at the end."""
        rung = self.rung
        acceptance = rung.acceptance
        if acceptance is None:
            return
        if rung.bounces is not None:
            acceptance = np.where(rung.bounces > LONG_PATH, 0.0, acceptance)
        excess = acceptance - rung.kernel.target_acceptance
        if self._last:
            excess = np.full_like(excess, excess[self._arrived_chains].mean())
        gain = 3.0 / (10.0 + self._moves) ** 0.6
        longer = rung.step_size * np.exp(gain * excess)[:, None]
        rung.step_size = np.minimum(longer, rung.kernel.longest_step)
        if self._last and progress >= 0.5:
            self._tail.append(float(np.log(np.ravel(rung.step_size)[0])))

    def _renew_metric(self) -> EvaluationRequests[None]:
        rung, metric_estimator = self.rung, self._metric_estimator
        old, before = rung.metric, rung.mapped
        # neither bounds nor cliffs are in the gradients; but how long an unadjusted step may be, curvature alone
        # decides, and the distance between modes must not be in the metric of a ladder
        adjusted = rung.settings.kernel.adjusted
        turns = rung.counts.reflected + rung.counts.cliffs - self._reflected
        turned = adjusted and turns > ERROR * self._length * len(rung.position)
        uses = {"draws": (adjusted and self._alone) or turned, "gradients": not turned}
        enough = metric_estimator is not None and len(metric_estimator) >= FEWEST
        rung.mapped, untried = None, self._maps and not self._before
        if self._maps and metric_estimator is not None and enough:
            rung.mapped = yield from self._mapped(metric_estimator, before)
        if metric_estimator is None or not enough or metric_estimator.falling():
            if rung.mapped is None:
                yield from self._take_hessians()
        elif not uses["draws"] and metric_estimator.stationarity().disturbed:
            # gradients alone are curvature where chains have arrived, and nothing else
            yield from self._take_hessians(metric_estimator.lower())
        else:
            rung.metric = metric_estimator.metric(old, self._scale, rung.step_scale, **uses)
            self._arrived_chains = metric_estimator.arrived_chains()
            self._settle_down(old, before, untried, metric_estimator)
        same = (rung.mapped and rung.mapped[0]) is (before and before[0])  # in others, too, the target is one wide
        if same and (self._finds_step or rung.exploring) and rung.adjusted:
            # the same move lengths as before the change, on average; adaptation does the rest
            ratio = size(old) / size(rung.metric)
            rung.step_size = np.clip(rung.step_size * ratio, 1e-3, 1.0)
        self._curvature[:] = 0.0

    def _mapped(self, metric_estimator: MetricEstimator, before: Mapped | None) -> EvaluationRequests[Mapped | None]:
        """A transport map that makes the target more normal than linear coordinates do, and the metric behind it."""
        window, self._before = self._before, metric_estimator.kept()
        if not window:
            return before
        teach = metric_estimator.arrived_chains()  # now: their window before is one of the same chains
        both = [np.concatenate(parts)[:, teach] for parts in zip(window, self._before, strict=True)]
        mapped = learned(both[0], both[1], self.rung.step_scale, before, self.rung.coordinates[-1].divergence)
        kept = mapped is not None and before is not None and mapped[0] is before[0]
        ends = yield from self.rung.reach(mapped and mapped[0])
        for turn in range(_TURNS):
            if mapped is None or ends is None:
                break
            far = yield from self.rung.far_points(mapped[0], ends)
            if far.fits.all() and (kept or turn):
                break
            mapped = relearned(both[0], both[1], self.rung.step_scale, mapped[0], far)
        return mapped

    def _measure(self) -> None:
        """Note how normal the target has been in the coordinates of the window that ends."""
        estimator, rung = self._metric_estimator, self.rung
        if estimator is not None and len(estimator) >= FEWEST and rung.settings.kernel.adjusted:
            found = quality(rung, *estimator.sample())
            rung.coordinates += () if found is None else (found,)

    def _settle_down(
        self, old: Metric, mapped: Mapped | None, untried: bool, metric_estimator: MetricEstimator
    ) -> None:
        """Whether this window has shown nothing new."""
        earlier, self._median_energy = self._median_energy, metric_estimator.median_energy()
        d = metric_estimator.dimension
        still = abs(earlier - self._median_energy) < max(1.0, 0.5 * math.sqrt(0.5 * d))
        same = change(old, self.rung.metric, d) < UNCHANGED
        if self._maps:  # coordinates in which the target is normal need no map, nor another one
            normal = self.rung.coordinates[-1].divergence <= GAUSSIAN
            same = normal if mapped is not None else same and self.rung.mapped is None and (normal or not untried)
        # chains that move slowly teach little, and little changes: they have to agree as well
        self.settled = still and same and bool(self._arrived_chains.all()) and metric_estimator.disagreement() < AGREED

    def _take_hessians(self, rows: npt.NDArray[np.intp] | None = None) -> EvaluationRequests[None]:
        """The metric of the mean curvature where the chains are, or those of these numbers."""
        rung = self.rung
        rows = np.arange(len(rung.position)) if rows is None else rows
        for _ in range(_ROUNDS if self._diagonal else 1):
            found = yield from (self._row_norms(rows) if self._diagonal else self._mean_hessian(rows))
            metric = metric_of(found, self._scale)
            if metric is None:
                return  # the rung diverges: no metric helps, and the failed solves will show it
            rung.metric = metric

    def _mean_hessian(self, rows: npt.NDArray[np.intp]) -> EvaluationRequests[Array]:
        """Mean over these chains of v's Hessian times the step scale, by differences of gradients.

        Each is taken without the signs of its eigenvalues (as in Betancourt 2013, "A general metric for Riemannian
        manifold Hamiltonian Monte Carlo"). Away from the modes, signed Hessians of a few chains cancel, and a target
        seems far wider than it is.
        """
        rung = self.rung
        chains, d = len(rows), rung.position.shape[1]
        along = np.tile(rung.metric.color(_DIFFERENCE * np.eye(d)), (chains, 1))
        change, known = yield from self._gradient_change(along, rows)
        white = (change / _DIFFERENCE).reshape(chains, d, d)
        complete = known.reshape(chains, d).all(axis=1) & np.isfinite(white).all(axis=(1, 2))
        if not complete.any():
            return np.full((d, d), np.nan)
        values, vectors = np.linalg.eigh(0.5 * (white[complete] + white[complete].transpose(0, 2, 1)))
        mean = ((vectors * np.abs(values)[:, None]) @ vectors.transpose(0, 2, 1)).mean(axis=0)
        back = rung.metric.uncolor(np.eye(d))
        return back @ mean @ back.T

    def _row_norms(self, rows: npt.NDArray[np.intp]) -> EvaluationRequests[Array]:
        """Norms of the rows of v's Hessian times the step scale, in whitened coordinates, (d,), as curvatures."""
        rung, scale = self.rung, np.sqrt(np.asarray(self.rung.metric.matrix))
        chains, d = len(rows), rung.position.shape[1]
        squares, count = np.zeros(d), 0
        for _ in range(math.ceil(_PROBES / chains)):
            signs = rung.streams["probe"].choice((-1.0, 1.0), (chains, d))
            # one short move in all directions together: it seldom leaves the domain
            change, known = yield from self._gradient_change(rung.metric.color(_DIFFERENCE / np.sqrt(d) * signs), rows)
            squares += np.square(change[known] / _DIFFERENCE).sum(axis=0)
            count += int(known.sum())
        return np.sqrt(d * squares / count) / scale**2 if count else np.full(d, np.nan)

    def _gradient_change(
        self, along: Array, of: npt.NDArray[np.intp] | None = None
    ) -> EvaluationRequests[tuple[Array, npt.NDArray[np.bool_]]]:
        """Change of the whitened gradient from each chain along n moves (chains * n, d), and which could be solved.

        Of all chains, or of those of these numbers. The gradient is that of v times the step scale: of a tempered
        target, that of U. A move out of the domain is made backwards, and the change taken with the other sign.
        """
        d = self.rung.position.shape[1]
        of = np.arange(len(self.rung.position)) if of is None else of
        chain = np.repeat(of, len(along) // len(of))
        rows = max(1, _AT_ONCE // d)
        parts = []
        for i in range(0, len(along), rows):
            parts.append((yield from self._change_of_rows(along[i : i + rows], chain[i : i + rows])))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _change_of_rows(
        self, along: Array, chain: npt.NDArray[np.intp]
    ) -> EvaluationRequests[tuple[Array, npt.NDArray[np.bool_]]]:
        """The same for some of the moves, each from the position of its own chain."""
        rung, probe = self.rung, self.rung.streams["probe"]
        here = rung.position[chain]
        sign = np.where(rung.domain.contains(here + along), 1.0, -1.0)[:, None]
        # common random numbers: the noise of both estimates is the same and cancels
        state = probe.bit_generator.state
        there = yield from rung.estimates("probe", here + sign * along, chain, rung.gradients)
        if rung.estimator.exact:
            start = rung.estimate.take(chain)
        else:
            probe.bit_generator.state = state
            start = yield from rung.estimates("probe", here, chain, rung.gradients)
        known = np.isfinite(rung.reduced_energy(start)) & np.isfinite(rung.reduced_energy(there))
        change = rung.reduced_gradient(there) - rung.reduced_gradient(start)
        return sign * rung.metric.whiten(change) * rung.step_scale, known

    def _stable_step(self, curvature: Array) -> Array:
        rung = self.rung
        # a flat energy has no stability limit; a whitened posterior is one wide, others hardly wider than their starts
        least = 1.0 if self._finds_metric or self._given else 1.0 / (WIDEST * float(self._scale.max())) ** 2
        kernel = rung.settings.kernel
        step = STABILITY_FRACTION * kernel.stability_limit / np.maximum(curvature, least)
        noise = rung.gradient_variance()
        if noise is not None:
            largest = largest_whitened(rung.metric, noise).max()
            # half of the noise budget 2 alpha tau / s^2: room for states noisier than those met so far
            step = np.minimum(step, kernel.friction * noise_room(rung.settings.target) / max(float(largest), 1e-300))
        return step

    def _measure_curvature(self, iterations: int) -> EvaluationRequests[None]:
        """Largest curvature at each chain's position by power iteration; keeps the largest, slowly forgotten."""
        rung = self.rung
        d = rung.position.shape[1]
        for _ in range(iterations):
            norm = np.linalg.norm(self._direction, axis=1, keepdims=True)
            unit = np.where(norm > 0.0, self._direction / np.where(norm > 0.0, norm, 1.0), 1.0 / np.sqrt(d))
            change, known = yield from self._gradient_change(rung.metric.color(_DIFFERENCE * unit))
            difference = change / _DIFFERENCE
            self._direction = np.where(known[:, None], difference, unit)
            found = np.where(known, np.linalg.norm(difference, axis=1), 0.0)
            self._curvature = np.maximum(found, 0.9 * self._curvature)
