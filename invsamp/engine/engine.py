"""A run at work: steps, what a draw keeps, and a state from which the same steps go on."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from invsamp.automatic import Automatic
from invsamp.boundary import as_boundary
from invsamp.contract import Array, Problem, SplitPotential
from invsamp.cooling import label
from invsamp.engine import gradients, reporting
from invsamp.engine.choosing import Choice
from invsamp.engine.fitting import (
    check_kernels,
    check_laws,
    check_swaps,
    check_weights,
    fidelity_of,
    potentials_of,
)
from invsamp.engine.ladder_search import Heir, LadderSearch
from invsamp.engine.leading import is_led
from invsamp.engine.noise_models import share_pilots
from invsamp.engine.plan import Plan
from invsamp.engine.preconditioner import check_memory
from invsamp.engine.priors import Priors
from invsamp.engine.record import Record
from invsamp.engine.rung import Counts, RungAtWork, SolvesFailed, take_gradients_along
from invsamp.engine.scouting import MOST_POINTS, Scouted, Visits, scout, starts_of
from invsamp.engine.starts import failure_message, place, place_again
from invsamp.engine.streams import Saved
from invsamp.engine.swaps.exchange import Exchange
from invsamp.engine.swaps.pair import check_paired
from invsamp.engine.warmup import HALVES, SHORTEST, WINDOWS, WarmUp, check_length, shortest_length
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Answer, Asks, Result, answered, gathered
from invsamp.ladder import Sampler
from invsamp.names import check_names, labels
from invsamp.storage.manifest import posed

#: Where the random streams of a ladder's later rounds stand among those that are spawned from the seed, and how far
#: apart those of stages are.
ROUNDS, STAGES = 2**30, 2**10
#: Steps in which a ladder that nobody asked for is found, at the least.
LEAST_SEARCH = 1500


class Engine:
    """A run at work. After `begin` or `restore`, `step` makes one step of every rung, and of the swaps.

    A run that is restored goes on bit for bit as the one that was saved.

    Parameters
    ----------
    problem : Problem
    sampler : Sampler
    plan : Plan
    potentials : mapping of fidelities to CountedPotential, optional
        Those of another engine, of which this one is a part. Default: its own.

    Attributes
    ----------
    done : int
        Steps made, warm-up included.
    kept : int
        Draws of each chain and rung that were taken from `Draws`.
    rungs : list of RungAtWork
        The rungs from cold to hot.
    exchange, potentials
        The swaps (None for one rung), and the potential of each fidelity.

    Raises
    ------
    ValueError
        If the parts do not fit together, or warm-up is too short. Nothing has been solved by then.
    """

    def __init__(
        self,
        problem: Problem,
        sampler: Sampler,
        plan: Plan,
        potentials: Mapping[str, CountedPotential] | None = None,
    ) -> None:
        self.problem, self.sampler, self.plan = problem, sampler, plan
        check_names(problem.shapes)  # of problems that somebody else wrote, too: the first solve is dear
        self.boundary = as_boundary(sampler.boundary)
        self.sampled = self.boundary.apply(problem)
        self._priors = Priors(problem, self.sampled, self.boundary)
        self.choice: Choice | None = None
        if isinstance(sampler, Automatic):
            split = isinstance(self.sampled.potential(), SplitPotential)
            to_prior = split and self._priors.drawable
            self.choice = Choice(sampler, problem.dimension, len(problem.fidelities), to_prior)
        #: What was asked for, or is chosen now; and what needs most: the same, or all that may be chosen.
        self._chosen, widest = (sampler, sampler) if self.choice is None else (self.choice.sampler, self.choice.widest)
        fidelities = [fidelity_of(problem, rung.fidelity) for rung in widest.rungs]
        check_swaps(widest, fidelities)
        self._preconditioner = widest.preconditioner_at(problem.dimension)
        most = len(widest.rungs) if widest.ladder is None else widest.ladder.most
        check_memory(self._preconditioner, most, plan.chains, problem.dimension)
        self.potentials = dict(potentials or potentials_of(problem.fidelities, self.sampled, widest, fidelities))
        self.search = self._new_search()
        #: What is at work: the sampler itself, or what its ladder has come to by now.
        self.composition = self._chosen if self.search is None else self.search.sampler()
        #: What descents found of the posterior's modes, where they were made.
        self.visits = Visits()
        self._on_trial = False
        self._check_warm_up()
        check_laws(self.composition, self.potentials)
        apart = any(rung.law.needs_prior for rung in self.composition.rungs)
        for potential in self.potentials.values():
            potential.apart = apart
        self._priors.check(self.composition.rungs)
        self.answer: Answer = next(iter(self.potentials.values())).answer_all
        self.rungs: list[RungAtWork] = []
        self._assemble()
        gradients.check_known(problem, self.rungs)
        for colder, hotter in itertools.pairwise(self.rungs):
            check_paired(self._chosen.swap, colder, hotter)
        check_kernels(self._chosen, self.sampled.sampling_domain)
        #: What draws keep.
        self.record = Record()
        #: Where the user lets the chains start, (chains, d).
        self.given: Array | None = None
        #: Whether what all rungs ask for at a time is to be answered together.
        self.parallel = False
        #: A signal that another process got, if one did.
        self.signalled: Callable[[], int | None] = lambda: None
        #: Of other processes that help, for the report.
        self.processes: Callable[[], dict[str, Any]] = lambda: {"count": 1}
        self.exchange: Exchange | None = None
        #: Where the second rung was on the way to this step (steps, chains, d), if it took several.
        self.between: Array | None = None
        self.done = self.kept = 0
        #: Steps of warm-up, once it is over.
        self.warmed: int | None = None
        self._warm_up: WarmUp | None = None
        self._warm_up_evaluations: dict[str, int] = {}
        self._messages_before: list[str] = []  # by solves that failed before the run was restored
        self._check_evaluations: dict[str, int] = {}
        self._mistakes: list[str] = []  # in gradients, of the fidelities checked here
        self._seconds, self._since = 0.0, time.perf_counter()

    def begin(self, positions: Array | None = None) -> None:
        """Place the chains at positions (chains, d), or (rungs * chains, d), or at starts of the problem; solve there.

        Raises
        ------
        RuntimeError
            If the energy is not finite there.
        ModelError
            If a gradient is not that of its energy, and no acceptance step sets the draws right.
        """
        chains = self.plan.chains
        for k, rung in enumerate(self.rungs):
            own = positions[k * chains :][:chains] if positions is not None and len(positions) > chains else positions
            place(self.problem, rung, own, chains)
        check_weights(self.rungs[0])
        if self.plan.check_gradient:
            self._check_gradients()
        if self._looks_around(positions):
            self._scout(positions)
        if self.search is not None:
            self.search.begun(self.rungs)
        self._meet()
        self._warm_up = self._new_warm_up()
        self._warm_up.begin(lead=self._leads)
        self._end_warm_up(0)

    @property
    def drawn(self) -> int:
        """Steps made since warm-up was over."""
        return 0 if self.warmed is None else self.done - self.warmed

    @property
    def steps(self) -> int:
        """Steps of the whole run: at the most, while it warms up."""
        # what was chosen first may have failed, and another warm-up have followed
        warmup = max(self.plan.warmup, self.done + 1) if self.warmed is None else self.warmed
        return warmup + self.plan.draws * self.plan.thin

    @property
    def warming(self) -> bool:
        """Whether the next step is one of warm-up."""
        return self._warm_up is not None or self._on_trial

    def step(self) -> None:
        """One step.

        Raises
        ------
        RuntimeError
            If every solve fails for 200 steps in a row. If gradients are noisier than a rung may have them
            (`invsamp.ladder.GradientNoise`), at the end of warm-up.
        """
        try:
            if self._warm_up is not None:
                self._warm_up.step()
                self._end_warm_up(self.done + 1)
            elif self._on_trial:
                self._try(self.done + 1)
            else:
                if self.parallel:
                    self.do([rung.moves() for rung in self.rungs])
                else:
                    for rung in self.rungs:
                        rung.step()
                if self.exchange is not None and self.exchange.due():
                    self.do([self.exchange.meet()])
        except SolvesFailed as failure:
            theta = self.problem.to_theta(failure.position).tolist()
            message = failure_message(self.problem, self.potentials[failure.fidelity])
            reason = f": {message}" if message else ""
            raise RuntimeError(f"{failure}; the chains stand at the parameters {theta}{reason}") from failure
        self.done += 1

    def share(self, answer: Answer) -> None:
        """Let others answer, all that is asked for at a time at once."""
        self.answer, self.parallel = answer, True
        for rung in self.rungs:
            rung.answer = answer

    def do(self, askings: Sequence[Asks[Result]]) -> list[Result]:
        """What comes of some that ask and do not depend on each other."""
        if self.parallel:
            return answered(gathered(askings), self.answer)
        answer = self.answer
        return [answered(asking, answer) for asking in askings]

    def uncounted(self) -> dict[str, gradients.Uncounted]:
        """The potentials by fidelity, evaluated by whoever evaluates for the run, and not counted."""
        return {name: gradients.Uncounted(potential, self.answer) for name, potential in self.potentials.items()}

    def recognised(self) -> dict[str, gradients.Uncounted]:
        """Those by whose energies a run that goes on is recognised."""
        return self.uncounted()

    def state(self) -> Saved:
        """All that the next steps depend on, for `invsamp.engine.state.encode`; between two steps."""
        potentials = self.potentials.values()
        return {
            "failure_messages": self._failure_messages(),
            "gradient_check_evaluations": dict(self._check_evaluations),
            "gradient_mistakes": list(self._mistakes),
            "rungs": [rung.state() for rung in self.rungs],
            "exchange": None if self.exchange is None else self.exchange.state(),
            "warm_up": None if self._warm_up is None else self._warm_up.state(),
            "choice": None if self.choice is None else self.choice.state(),
            "on_trial": self._on_trial,
            "visits": self.visits.state(),
            "search": None if self.search is None else self.search.state(),
            "outside": list(self._outside),
            "evaluations": {e.fidelity: e.evaluations for e in potentials},
            "evaluation_seconds": {e.fidelity: e.seconds for e in potentials},
            "failed_solves": {e.fidelity: e.failed for e in potentials},
            "warm_up_evaluations": dict(self._warm_up_evaluations),
            "step": self.done,
            "warmed": self.warmed,
            "kept": self.kept,
            "seconds": self.seconds,
        }

    def restore(self, state: Saved) -> None:
        """Go on from a state, in place of `begin`; nothing is solved."""
        self.done, self.kept, self.warmed = state["step"], state["kept"], state["warmed"]
        self.visits.restore(state["visits"])
        self._on_trial = state["on_trial"]
        if self.choice is not None:
            self.choice.restore(state["choice"])
            self._take_stage()
        if self.search is not None:
            self.search.restore(state["search"])
        if self.search is not None or self.choice is not None:
            self._assemble()
        for rung, own in zip(self.rungs, state["rungs"], strict=True):
            rung.restore(own)
            if rung.position.shape != (shape := (self.plan.chains, self.problem.dimension)):
                # compiled code takes it as it is
                raise ValueError(f"the state must hold positions of shape {shape}, got {rung.position.shape}")
        self._outside = list(state["outside"])
        self._meet()
        if self.exchange is not None:
            self.exchange.restore(state["exchange"])
        if state["warm_up"] is not None:
            self._warm_up = self._new_warm_up()
            self._warm_up.restore(state["warm_up"])
        self._warm_up_evaluations = dict(state["warm_up_evaluations"])
        self._messages_before = list(state["failure_messages"])
        self._check_evaluations = dict(state["gradient_check_evaluations"])
        self._mistakes = list(state["gradient_mistakes"])
        for name, potential in self.potentials.items():
            potential.evaluations = state["evaluations"][name]
            potential.seconds = state["evaluation_seconds"][name]
            potential.failed = state["failed_solves"][name]
        self.restart_clock(state["seconds"])

    def restart_clock(self, seconds: float) -> None:
        """Count on from the seconds that the run has taken already."""
        self._seconds, self._since = seconds, time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time so far, of all processes that carried the run on one after the other."""
        return self._seconds + time.perf_counter() - self._since

    def count(self, positions: Array) -> None:
        """Count draws (rungs, chains, draws, d), and which of them lie outside the domain, before they leave memory."""
        self.kept += positions.shape[2]
        self.visits.count(positions[0].reshape(-1, positions.shape[-1]))
        if self.boundary.leaves:
            domain, d = self.problem.sampling_domain, positions.shape[-1]
            for k, rung in enumerate(positions):
                self._outside[k] += int((~domain.contains(rung.reshape(-1, d))).sum())

    def report(self) -> dict[str, Any]:
        """Settings, counts and figures of the run so far, in plain types."""
        report = reporting.report(self.composition, self.rungs, self.exchange, self.potentials)
        return report | {
            "ladder": None if self.search is None else self.search.report(),
            "decisions": [] if self.choice is None else self.choice.report(),
            "led_astray": None if self.choice is None else self.choice.astray,
            "modes": self.visits.report(self.problem),
            "warnings": [*self._labels(), *map(gradients.slow, self._mistakes), *report["warnings"]],
            "warmup_evaluations": dict(self._warm_up_evaluations),
            "gradient_check_evaluations": dict(self._check_evaluations),
            "failure_message": next(iter(self._failure_messages()), None),
            "boundary": str(self.boundary),
            "outside": [count / max(1, self.kept * self.plan.chains) for count in self._outside],
            "seed": self.plan.seed,
            "draws": self.kept,
            "warmup": self.plan.warmup if self.warmed is None else self.warmed,
            "warmup_most": self.plan.warmup,
            "thin": self.plan.thin,
            "chains": self.plan.chains,
            "seconds": self.seconds,
            "interrupted": self.kept < self.plan.draws,
            "processes": self.processes(),
            "posed": posed(self.problem),
        }

    def _labels(self) -> list[str]:
        """What draws are that are not those of the posterior."""
        if not self.rungs:
            return []
        cold = self.rungs[0]
        found = label(cold.law, cold.law_memory, cold.iteration, self.plan.thin * max(1, self.kept))
        return [] if found is None else [found]

    def _failure_messages(self) -> list[str]:
        """What the last failed solves said, the finest first; of the time before a restore if none has failed since."""
        found = [failure_message(self.problem, potential) for potential in reversed(self.potentials.values())]
        return [message for message in found if message is not None] or self._messages_before

    def _check_gradients(self) -> None:
        """Refuse gradients that would bias the draws, warn of those that only slow them down."""
        checked = gradients.check(self.problem, self.sampled, self.rungs, self.uncounted(), self.plan.seed)
        self._check_evaluations, self._mistakes = checked.solves, list(checked.mistakes.values())
        gradients.tell(checked.mistakes, self.rungs)

    def _meet(self) -> None:
        if len(self.rungs) > 1:
            self.exchange = Exchange(self._chosen.swap, self.rungs, self._swap_seed)

    def _assemble(self) -> None:
        """Make the rungs of the present composition, which are not placed yet."""
        seed = np.random.SeedSequence(self.plan.seed, spawn_key=self._streams())
        self.composition = self._chosen if self.search is None else self.search.sampler()
        settings, domain = self.composition.rungs, self.sampled.sampling_domain
        apart = any(rung.law.needs_prior for rung in settings)
        self._swap_seed, *seeds = seed.spawn(len(settings) + 1)
        self.rungs = [
            RungAtWork(
                rung,
                self.potentials[fidelity_of(self.problem, rung.fidelity)],
                domain,
                own,
                self.plan.schedule_steps,
                apart,
                self._priors,
            )
            for rung, own in zip(settings, seeds, strict=True)
        ]
        share_pilots(self.rungs)
        take_gradients_along(self.rungs)
        for rung in self.rungs:
            rung.answer = self.answer
        self._outside = [0] * len(self.rungs)  # draws outside the domain, by rung

    def _streams(self) -> tuple[int, ...]:
        """Where the random streams of the present rungs are spawned from the seed."""
        round_ = 0 if self.search is None else self.search.round
        failed = 0 if self.choice is None else self.choice.failed
        return () if round_ == failed == 0 else (ROUNDS + round_ + STAGES * failed,)

    def _looks_around(self, positions: Array | None) -> bool:
        """Whether descents look for modes: where nothing was chosen, or all chains are to start together."""
        if self.choice is not None:
            return True
        together = positions is not None and bool((positions == positions[0]).all())
        return together and self.plan.warmup > 0 and is_led(self.rungs[0])

    def _scout(self, positions: Array | None) -> None:
        """Look for modes; where nothing was chosen, choose, and let the chains begin there."""
        rng = np.random.default_rng(np.random.SeedSequence(self.plan.seed, spawn_key=(ROUNDS - 1,)))
        starts, scale = starts_of(self.problem, rng, self.rungs[0].position)
        if positions is not None:
            starts = np.concatenate([np.unique(positions, axis=0), starts])
        before = sum(potential.evaluations for potential in self.potentials.values())
        finest = self.rungs[0].fidelity
        names = tuple(self.potentials) if self.choice is not None else (finest,)
        wider = self._wider(rng) if self.choice is not None else None
        (found,) = self.do([scout(names, starts, scale, self.sampled.sampling_domain, wider)])
        self.visits.found(found, scale)
        if self.choice is None:
            return
        evaluations = sum(potential.evaluations for potential in self.potentials.values()) - before
        self.choice.scouted(found, evaluations, labels(self.problem.shapes))
        if self.choice.sampler != self._chosen:
            self._take_stage()
            self._assemble()
            self._begin_in(found)
        elif self.choice.led:
            self._begin_in(found)

    def _wider(self, rng: np.random.Generator) -> Callable[[float], Array]:
        """Draws of the prior to look for more modes at: as many as there will be draws, each of several solves."""
        plan = self.plan
        count = min(plan.chains * plan.draws * plan.thin, MOST_POINTS)
        return lambda share: self.problem.sample_start(rng, max(1, round(share * count)))

    def _begin_in(self, found: Scouted) -> None:
        """Place the chains of all rungs at minima of some weight, evenly; at starts where there are none."""
        places = found.minima.position[found.heavy]
        chains = np.arange(self.plan.chains)
        for k, rung in enumerate(self.rungs):
            own = places[(chains + k) % len(places)] if len(places) else self.given
            place(self.problem, rung, own, self.plan.chains)

    def _take_stage(self) -> None:
        """The sampler that is chosen now, and the search for its ladder."""
        assert self.choice is not None
        self._chosen = self.choice.sampler
        self.search = self._new_search()
        composition = self._chosen if self.search is None else self.search.sampler()
        check_laws(composition, self.potentials)
        for potential in self.potentials.values():
            potential.apart = any(rung.law.needs_prior for rung in composition.rungs)

    def _try(self, done: int) -> None:
        """A step of a trial; at its end draws begin, or the next stage does."""
        assert self.choice is not None
        self.do([rung.moves() for rung in self.rungs])
        cold = self.rungs[0]
        self.choice.add(cold.position, cold.estimate.energy)
        if not self.choice.complete:
            return
        self._on_trial, led = False, self.choice.led
        if self.choice.judged(self.problem.dimension):
            for rung in self.rungs:
                rung.counts = Counts()
            self._begin_draws(done)
            return
        self._take_stage()
        if self.search is None and self.choice.led == led:
            self._next_round([Heir(cold.position, cold.metric, float(np.mean(cold.step_size)))])
            return
        self._assemble()
        if self.choice.led and self.visits.scouted is not None:
            self._begin_in(self.visits.scouted)
        else:
            for rung in self.rungs:
                place(self.problem, rung, self.given, self.plan.chains)
        if self.search is not None:
            self.search.begun(self.rungs)
        self._meet()
        self._warm_up = self._new_warm_up()
        self._warm_up.begin(lead=self._leads)

    @property
    def _leads(self) -> bool:
        return self.choice is None or self.choice.led

    def _new_search(self) -> LadderSearch | None:
        if self._chosen.ladder is None:
            return None
        warmup = self.plan.warmup
        if self.choice is not None:  # what is long enough for a kernel may be too short for a ladder
            warmup = max(warmup, LEAST_SEARCH if self.plan.stops_early else 3 * SHORTEST)
        return LadderSearch(
            self._chosen,
            [fidelity_of(self.problem, rung.fidelity) for rung in self._chosen.rungs],
            split=all(potential.split for potential in self.potentials.values()),
            drawable=self._priors.drawable,
            warmup=warmup,
            shortest=shortest_length(self._chosen.rungs, self.plan.chains),
        )

    def _check_warm_up(self) -> None:
        steps = self.plan.warmup if self.search is None else self.search.lengths[0]
        check_length(self.composition.rungs, self._preconditioner, steps, self.plan.chains)

    def _new_warm_up(self) -> WarmUp:
        steps, windows = self.plan.warmup, WINDOWS
        if self.search is not None:
            steps, windows = self.search.length, WINDOWS if self.search.last else HALVES
        return WarmUp(
            self.problem,
            self.rungs,
            self.exchange,
            steps,
            self._preconditioner,
            self.do,
            windows,
            may_stop=self.plan.stops_early and self.search is None,
        )

    def _end_warm_up(self, done: int) -> None:
        if self._warm_up is None or not self._warm_up.over:
            return
        if self.search is not None and self.exchange is not None:
            if not self.search.last:
                self._next_round(self.search.advance(self.rungs, self.exchange))
                return
            self.search.measured(self.exchange)
        self._warm_up = None
        if self.choice is not None and not self.choice.last:
            self._on_trial = True
        else:
            self._begin_draws(done)

    def _begin_draws(self, done: int) -> None:
        self.warmed = done
        self._warm_up_evaluations = {name: e.evaluations for name, e in self.potentials.items()}

    def _next_round(self, heirs: Sequence[Heir]) -> None:
        """Go on with another ladder, from what the rungs of the last one have found."""
        self._assemble()
        for rung, heir in zip(self.rungs, heirs, strict=True):
            place_again(self.problem, rung, heir.position)
        self._meet()
        self._warm_up = self._new_warm_up()
        self._warm_up.begin(heirs)
