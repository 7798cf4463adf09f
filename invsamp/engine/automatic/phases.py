"""The phases before the first draw: a search for modes, rounds of a ladder's search, warm-ups, and pilot runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np

from invsamp.diagnostics.report import Report
from invsamp.engine.adaptation.initial_descent import heavier_start, spread, starts_by_descent
from invsamp.engine.adaptation.metric_from_curvature import check_memory
from invsamp.engine.adaptation.temperature_schedule import LadderSearch, WarmStart
from invsamp.engine.adaptation.window_adaptation import HALVES, SHORTEST, WINDOWS, WarmUp, check_length, shortest_length
from invsamp.engine.automatic.evaluation_budget import EvaluationBudget
from invsamp.engine.automatic.field_selection import select_field, warm_up_steps
from invsamp.engine.automatic.kernel_selection import LOOKS, KernelSelection
from invsamp.engine.ensemble.ensemble import Ensemble
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.exchange.replica_pair import check_paired
from invsamp.engine.mode_search.mode_occupancy import described_region, searched_region
from invsamp.engine.mode_search.multistart import (
    MOST_GAUSSIAN,
    MOST_SCOUTS,
    SCOUTS,
    ModeSearchResult,
    search_modes,
    starts_of,
)
from invsamp.engine.mode_search.parameterization import Parameterization
from invsamp.engine.mode_search.search_points import Region, at_several_scales
from invsamp.engine.rungs import gradient_check
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.compatibility import check_kernels, check_swaps, check_weights
from invsamp.engine.rungs.initial_points import place, place_again
from invsamp.engine.rungs.lasting_state import Lasting, LastingState
from invsamp.engine.rungs.model_checks import ModelChecks
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.ladder import Sampler
from invsamp.ladder.automatic import Automatic
from invsamp.ladder.preconditioner import LearnedMap, Preconditioner
from invsamp.modes.gauss_newton import has_bounds
from invsamp.protocols import Array
from invsamp.tempering.contours import Contour

#: Where the random streams of a ladder's later rounds stand among those that are spawned from the seed, and how far
#: apart those of stages are.
ROUNDS, STAGES = 2**30, 2**10
#: Steps in which a ladder that no one asked for is found, at least.
LEAST_SEARCH = 1500


class Phases(
    Lasting,
    lasting=(
        *("parameterization", "choice", "search", "evaluation_budget", "checks", "unlooked", "_on_trial", "ensemble"),
        "_warm_up",
    ),
):
    """The way to the first draw. After `begin` or `restore`, `step` by step, until one of these says that draws begin.

    Parameters
    ----------
    bound : BoundProblem
    sampler : Sampler
        What was asked for, or `Automatic`.
    plan : Plan

    Attributes
    ----------
    ensemble : Ensemble
        The rungs, which are assembled here, and again whenever another sampler or ladder follows.
    choice : KernelSelection or None
        What is chosen, where nothing was asked for.
    search : LadderSearch or None
        For the ladder, where warm-up finds it.
    checks : ModelChecks
        What came of them.
    parameterization : Parameterization
        Which entries of parameters that depend on others are sampled centered.
    unlooked : bool
        Whether all chains began at one point, and no descents have looked for modes.
    evaluation_budget : EvaluationBudget
        What came before the draws, in evaluations.

    Raises
    ------
    ValueError
        If the parts do not fit together, or warm-up is too short.
    """

    def __init__(self, bound: BoundProblem, sampler: Sampler, plan: Plan) -> None:
        self.bound, self.plan = bound, plan
        self.ensemble = Ensemble(bound, plan)
        self.checks = ModelChecks(bound)
        self.parameterization = Parameterization(bound)
        self.choice: KernelSelection | None = None
        if isinstance(sampler, Automatic):
            steps = plan.draws * plan.thin
            self.choice = KernelSelection(bound.stages, bound.dimension, bound.path_to_prior, bound.has_prior, steps)
        #: What was asked for, or is chosen now; and what needs most: the same, or all that may be chosen.
        self._chosen, widest = bound.stages[0], bound.stages[-1]
        check_swaps(widest, [bound.fidelity(rung.fidelity) for rung in widest.rungs])
        most = len(widest.rungs) if widest.ladder is None else widest.ladder.max_rungs
        check_memory(self._preconditioner, most, plan.chains, bound.dimension)
        self.evaluation_budget = EvaluationBudget(plan, bound.potentials, self._allowed(most))
        self.unlooked = False
        self.search = self._new_search()
        self._on_trial = False
        self._warm_up: WarmUp | None = None
        #: Of what follows a coarse run: where its streams are spawned, the steps of its warm-up, and those there from
        #: one swap attempt to the next.
        self._following: tuple[tuple[int, ...], int, int] | None = None
        steps = plan.warmup if self.search is None else self.search.lengths[0]
        check_length(self._composition.rungs, self._preconditioner, steps, plan.chains)
        self._assemble()
        gradient_check.check_known(bound.problem, self.ensemble.rungs)
        for colder, hotter in itertools.pairwise(self.ensemble.rungs):
            check_paired(self._chosen.swap, colder, hotter)
        check_kernels(self._chosen, bound.domain, plan.chains)

    @property
    def warming(self) -> bool:
        """Whether the next step is one of these."""
        return self._warm_up is not None or self._on_trial

    @property
    def drawing(self) -> bool:
        """Whether the next step is one of draws, or of a trial whose draws are kept if it passes."""
        if self._on_trial:  # where draws are few, that these pass selects too many of them
            return self.plan.draws * self.plan.thin >= 2 * LOOKS[0]
        return self._warm_up is None

    def begin(self, positions: Array | None) -> None:
        """Place the chains, check the models, search for modes where it has to be, and open warm-up.

        The chains are placed at positions (chains, d), or (rungs * chains, d), or at starts of the problem.

        Raises
        ------
        RuntimeError
            If the energy is not finite there.
        ModelError
            If a gradient is not that of its energy, and no acceptance step sets the draws right.
        """
        rungs, chains = self.ensemble.rungs, self.plan.chains
        for k, rung in enumerate(rungs):
            own = positions[k * chains :][:chains] if positions is not None and len(positions) > chains else positions
            place(self.bound, rung, own, chains)
        check_weights(rungs[0])
        if self.plan.check_gradient:
            self.checks.begin(rungs, self.plan.seed, chosen=self.choice is not None)
            if self._preconditioner is None:
                self.checks.stability.before(rungs, warmed=False)
        together = positions is not None and len(positions) > 1 and bool((positions == positions[0]).all())
        # where nothing was chosen, or all chains are to start together
        if self._choose_field(positions):
            together = False  # its descents began at several points
        elif self.choice is not None or (together and self.plan.warmup > 0 and starts_by_descent(rungs[0])):
            self._search_modes(positions)
        elif self.parameterization.open and self._led_alone:
            self._choose_form()
        self.unlooked = together and self.ensemble.mode_occupancy.mode_search_result is None
        self._begin_warm_up()
        self._warmed()

    def step(self) -> None:
        """One step; the last one, where the budget leaves the rest of the evaluations for draws."""
        if self._warm_up is None:
            self._try()
        else:
            self._warm_up.step()
            self._warmed()
        if self.warming and self._may_stop and self.evaluation_budget.ends_warm_up:
            self._stop()

    def follow(self, sampler: Sampler, streams: tuple[int, ...], steps: int, every: int) -> None:
        """Have that sampler follow a coarse run: nothing is left to choose, its warm-up is one window."""
        self.choice, self.search, self._chosen = None, None, sampler
        self._following = streams, steps, every
        self.evaluation_budget.allow(len(sampler.rungs) * every * self.plan.draws * self.plan.thin)
        self._assemble()

    def inherit(self, warm_starts: Sequence[WarmStart]) -> None:
        """Continue from what the rungs before have found."""
        for rung, warm_start in zip(self.ensemble.rungs, warm_starts, strict=True):
            place_again(self.bound, rung, warm_start.position)
        self.ensemble.attempt_swaps()
        if self._following is not None and self.ensemble.exchange is not None:
            self.ensemble.exchange.every = self._following[2]
        self._warm_up = self._new_warm_up()
        self._warm_up.begin(warm_starts)

    def report(self) -> Report:
        """The results of the phases, in plain types."""
        return {
            **self.checks.report(),
            "centering": self.parameterization.report(),
            "ladder": None if self.search is None else self.search.report(),
            "decisions": [] if self.choice is None else self.choice.report(),
            "unlooked": self.unlooked,
            "at_minima": self.choice is None or self.choice.led,
            "led_astray": None if self.choice is None else self.choice.astray,
            "spent": None if self.choice is None else self.evaluation_budget.report(),
            "budget": self.evaluation_budget.limits(),
            "pilot": None if self.choice is None else self.choice.pilot,
        }

    def restore(self, state: LastingState) -> None:
        """Continue from a state: of the stage and the round that it was taken in."""
        if self.choice is not None:
            self.choice.restore(state.choice)
            self.take_stage()
        if self.search is not None:
            self.search.restore(state.search)
            self._assemble()
        super().restore(state)

    def _renewed(self, name: str) -> Lasting:
        return self._new_warm_up()

    @property
    def _composition(self) -> Sampler:
        """The sampler itself, or with its ladder as found so far."""
        return self._chosen if self.search is None else self.search.sampler()

    @property
    def _preconditioner(self) -> Preconditioner:
        if self.choice is not None and self.choice.field is not None:
            return None
        return self._chosen.preconditioner_at(self.bound.dimension)

    @property
    def _streams(self) -> tuple[int, ...]:
        """Where the random streams of the present rungs are spawned from the seed."""
        if self._following is not None:
            return self._following[0]
        round_ = 0 if self.search is None else self.search.round
        failed = 0 if self.choice is None else self.choice.failed
        return () if round_ == failed == 0 else (ROUNDS + round_ + STAGES * failed,)

    def _assemble(self) -> None:
        self.ensemble.assemble(self._composition, self._streams)

    def _choose_field(self, positions: Array | None) -> bool:
        """Whether a kernel about one mode's Gaussian is chosen, where chains begin then if no one said where."""
        if self.choice is None:
            return False
        rng = np.random.default_rng(np.random.SeedSequence(self.plan.seed, spawn_key=(ROUNDS - 2,)))
        (found,) = self.bound.dispatch.do([select_field(self.bound, rng)])
        if not self.choice.choose_field(found):
            return False
        self.evaluation_budget.looked(0)
        self.take_stage()
        for rung in self.ensemble.rungs:
            place(self.bound, rung, positions, self.plan.chains)
        return True

    def _search_modes(self, positions: Array | None) -> None:
        """Look for modes; where nothing was chosen, choose, and let the chains begin there."""
        bound, ensemble, budget, choice = self.bound, self.ensemble, self.evaluation_budget, self.choice
        problem, domain, count, chosen = bound.problem, bound.domain, budget.points_most, choice is not None
        rng = np.random.default_rng(np.random.SeedSequence(self.plan.seed, spawn_key=(ROUNDS - 1,)))
        own = np.unique(positions, axis=0) if positions is not None else np.empty((0, bound.dimension))
        starts, scale = starts_of(problem, rng, ensemble.rungs[0].position, MOST_SCOUTS if chosen else SCOUTS)
        before, few = budget.total, bound.dimension <= MOST_GAUSSIAN
        names = tuple(bound.potentials) if chosen else (ensemble.rungs[0].fidelity,)
        potentials = [bound.potentials[name] for name in names]
        curved = has_bounds(domain) or all(potential.bounded for potential in potentials)

        def drawn(share: float) -> Array:
            """Draws of the prior to look for more modes at: as many as there will be draws, each of several solves."""
            return problem.sample_start(rng, max(1, round(share * count)))

        def around(region: Region, n: int) -> Array:
            """Points around a box, where there is no prior to say where to look."""
            return at_several_scales(region, rng, n, domain)

        search = search_modes(
            names,
            np.concatenate([own, starts]),
            scale,
            domain,
            drawn if chosen and bound.has_prior else None,
            budget.descents_most,
            SCOUTS + len(own),
            curved and few and all(potential.curved for potential in potentials),
            around if chosen and few and not bound.has_prior else None,
            count,
        )
        (found,) = bound.dispatch.do([search])
        if self.parameterization.open and self._led_alone:
            ((found, scale),) = bound.dispatch.do([self.parameterization.choose_by(found, scale)])
            self._take_given()
        budget.looked(found.looks)
        ensemble.mode_occupancy.found(found, scale)
        if choice is None:
            return
        where = described_region(searched_region(problem, found))
        heavier = self._heavier_starts(found, scale)
        choice.choose(found, budget.total - before, bound.names, where, heavier)
        stays = choice.sampler == self._chosen
        if not stays:
            self.take_stage()
        if choice.led or not stays:
            self._begin_in(found)

    def _heavier_starts(self, found: ModeSearchResult, scale: Array) -> bool:
        """Whether there is more mass around the chains' starts than at all minima, by their Gaussians."""
        cold, heavy, minima = self.ensemble.rungs[0], found.heavy, found.minima
        if not minima.measured or not len(heavy) or self.parameterization.moved:  # then starts are of the form before
            return False
        volumes = 0.5 * np.linalg.slogdet(minima.extents[heavy])[1]
        least = float(np.max(volumes - minima.energies[heavy]))
        (metric,) = self.bound.dispatch.do([heavier_start(cold, cold.point, scale, least)])
        return metric is not None

    @property
    def _led_alone(self) -> bool:
        """Whether one rung of the posterior begins where descents end, and finds all that is learned in positions."""
        rungs, metric = self.ensemble.rungs, self._preconditioner
        finds = isinstance(metric, LearnedMap) or metric in ("diagonal", "dense")
        cold = rungs[0].settings
        free = cold.target.factors == (1.0, 1.0) and (self.choice is not None or not isinstance(cold.kernel, ModeJumps))
        return finds and free and len(rungs) == 1 and starts_by_descent(rungs[0]) and self.plan.warmup > 0

    def _choose_form(self) -> None:
        """Choose the form of parameters that depend on others where descents from the chains end, and begin there."""
        (rung,), stream = self.ensemble.rungs, np.random.SeedSequence(self.plan.seed, spawn_key=(ROUNDS - 1,))
        _, scale = starts_of(self.bound.problem, np.random.default_rng(stream), rung.position, SCOUTS)
        (position,) = self.bound.dispatch.do([self.parameterization.choose_from(rung, scale)])
        self._take_given()
        place(self.bound, rung, position, self.plan.chains)

    def _take_given(self) -> None:
        """Starts that the user gave, in the positions of the form that was chosen."""
        if self.parameterization.moved and self.bound.given is not None:
            self.bound.given = self.parameterization.taken(self.bound.given)

    def _begin_in(self, found: ModeSearchResult) -> None:
        """Place the chains of all rungs at minima of some weight, evenly; at starts where there are none."""
        heaviest = found.heavy[np.argsort(-found.minima.weights[found.heavy], kind="stable")]
        places = found.minima.position[heaviest]
        chains = np.arange(self.plan.chains)
        for k, rung in enumerate(self.ensemble.rungs):
            own = places[(chains + k) % len(places)] if len(places) else self.bound.given
            place(self.bound, rung, own, self.plan.chains)

    def take_stage(self) -> None:
        """Assemble the sampler that is chosen now, if one is, with the search for its ladder."""
        if self.choice is not None:
            self._chosen = self.choice.sampler
        self.search = self._new_search()
        self._assemble()

    def _begin_warm_up(self) -> None:
        if self.search is not None:
            self.search.begun(self.ensemble.rungs)
        self.ensemble.attempt_swaps()
        self._warm_up = self._new_warm_up()
        led, diagonal = self.choice is None or self.choice.led, self._preconditioner == "diagonal"
        metric = self.parameterization.metric(diagonal=diagonal) if led else None
        if metric is None or self.search is not None:
            self._warm_up.begin(lead=led and metric is None)
            return
        # not optimized: where something is centered the density may be unbounded as a scale goes to 0
        rungs = self.ensemble.rungs
        for rung in rungs:
            rung.metric = metric
        self.bound.dispatch.do([spread(rung) for rung in rungs])
        self._warm_up.begin([WarmStart(rung.position, metric, None) for rung in rungs])

    def _warmed(self) -> None:
        """End a warm-up that is over."""
        if self._warm_up is None or not self._warm_up.over:
            return
        exchange = self.ensemble.exchange
        if self.search is not None and exchange is not None:
            if not self.search.last:
                warm_starts = self.search.advance(self.ensemble.rungs, exchange)
                self._assemble()
                self.inherit(warm_starts)
                return
            self.search.measured(exchange)
        self._warm_up = None
        self.bound.dispatch.do([rung.try_map() for rung in self.ensemble.rungs])
        self._on_trial = self.choice is not None and not self.choice.last
        self.evaluation_budget.warmed()

    def _try(self) -> None:
        """A step of a trial; at its end draws begin, if they have not with it, or the next stage does."""
        assert self.choice is not None
        choice, rungs = self.choice, self.ensemble.rungs
        self.bound.dispatch.do([rung.moves() for rung in rungs])
        cold = rungs[0]
        choice.add(cold.position, cold.estimate.energy)
        if not choice.complete or (self._may_stop and self.evaluation_budget.ends_warm_up):
            return
        led, jumping, steps = choice.led, choice.jumping, choice.steps
        affords = partial(self.evaluation_budget.affords, self._shortened + LOOKS[0], steps)
        passed = choice.judged(self.bound.dimension, affords)
        self._on_trial = passed and not choice.over
        if passed:
            return
        self.evaluation_budget.failed()
        self.take_stage()
        if self.search is None and choice.led == led and (choice.jumping == jumping or cold.mapped is None):
            self.inherit([WarmStart(cold.position, cold.metric, float(np.mean(cold.step_size)), cold.mapped)])
            return
        if choice.led and self.ensemble.mode_occupancy.mode_search_result is not None:
            self._begin_in(self.ensemble.mode_occupancy.mode_search_result)
        else:
            for rung in self.ensemble.rungs:
                place(self.bound, rung, self.bound.given, self.plan.chains)
        self._begin_warm_up()

    def _allowed(self, most: int) -> int:
        """Steps of all replicas of a chain, ``most`` of them, for the default budget."""
        plan = self.plan
        if self.choice is None:
            return most * plan.steps
        return max(plan.warmup, LEAST_SEARCH) + plan.draws * plan.thin

    @property
    def _may_stop(self) -> bool:
        """Whether the budget may end warm-up: the settings leave its cost open, and draws are right wherever it ends.

        They are where energies decide exactly on acceptance and targets learn nothing.
        """
        limited = self.choice is not None or self.plan.evaluations is not None
        return (
            limited
            and self._following is None
            and all(
                rung.settings.kernel.adjusted
                and rung.estimator.exact
                and not (rung.settings.learns_variance or isinstance(rung.target, Contour))
                for rung in self.ensemble.rungs
            )
        )

    def _stop(self) -> None:
        """Begin draws with what there is."""
        if self.choice is not None:
            self.choice.stop(self.evaluation_budget.budget)
        self._on_trial = False
        if self._warm_up is None:
            return
        exchange = self.ensemble.exchange
        met = exchange is not None and bool(exchange.attempts.all())
        self._warm_up.stop()
        if self.search is not None and exchange is not None and met:
            self.search.measured(exchange)
        self._warm_up = None
        self.evaluation_budget.warmed()
        self.evaluation_budget.stopped = self.evaluation_budget.total

    @property
    def _shortened(self) -> int:
        """Steps of a warm-up that continues from one of shorter paths: metric and step size are nearly known."""
        return max(SHORTEST, self.plan.warmup // 3)

    def _new_search(self) -> LadderSearch | None:
        if self._chosen.ladder is None:
            return None
        bound, warmup = self.bound, self.plan.warmup
        if self.choice is not None:  # what is long enough for a kernel may be too short for a ladder
            warmup = max(warmup, LEAST_SEARCH if self.plan.stops_early else 3 * SHORTEST)
        return LadderSearch(
            self._chosen,
            [bound.fidelity(rung.fidelity) for rung in self._chosen.rungs],
            split=all(potential.split for potential in bound.potentials.values()),
            drawable=bound.drawable,
            warmup=warmup,
            shortest=shortest_length(self._chosen.rungs, self.plan.chains),
        )

    def _new_warm_up(self) -> WarmUp:
        ensemble, steps, windows = self.ensemble, self.plan.warmup, WINDOWS
        if self._following is not None:
            # one window: the metric stays that of the coarse side, whose draws taught it more than these few would
            steps, windows = self._following[1], (1.0,)
        elif self.choice is not None and self.choice.field is not None:
            windows = (1.0,)
            steps = warm_up_steps(self.plan.chains) if self.plan.stops_early else self.plan.warmup
        elif self.choice is not None and self.choice.stage and self.search is None:
            steps = self._shortened
        elif self.search is not None:
            steps, windows = self.search.length, WINDOWS if self.search.last else HALVES
        return WarmUp(
            self.bound.problem,
            ensemble.rungs,
            ensemble.exchange,
            steps,
            self._preconditioner,
            self.bound.dispatch.do,
            windows,
            may_stop=self.plan.stops_early and self.search is None and len(windows) > 1,
        )
