"""A run whose warm-up corrects a coarse model, so that few fine solves are enough; or finds that it does not pay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invsamp.diagnostics.report import Report
from invsamp.domains.boundary import Reflect
from invsamp.engine.adaptation.window_adaptation import SHORTEST
from invsamp.engine.automatic.phases import ROUNDS
from invsamp.engine.driver.engine import Engine
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.mode_search.mode_refinement import Jumps, jumping, refined_modes
from invsamp.engine.multifidelity.surrogate_training import Found, Training
from invsamp.engine.rungs.random_streams import Saved
from invsamp.evaluate.counted import Counts
from invsamp.evaluate.requests import Answer, Queue
from invsamp.ladder import Sampler
from invsamp.ladder.automatic import Automatic
from invsamp.ladder.corrected_exchange import CorrectedExchange
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array, Problem
from invsamp.surrogates.costs import costs_of
from invsamp.surrogates.learning import GATE_RATIO, Correction, cheaper, check_kind

#: Exchanges in the warm-up of the fine rung, and the most steps that they take.
EXCHANGES, LONGEST = 20, 1000
#: Coarse positions that are kept of each draw at the most, and numbers in them.
BETWEEN, MOST_BETWEEN = 10, 10_000


def engine_of(problem: Problem, sampler: Sampler, plan: Plan) -> Engine:
    """The engine of a run: one that learns from pairs of solves where the sampler is to, or may.

    Raises
    ------
    ValueError
        As `Engine`; if a coarse model is to be corrected, and there is none.
    """
    able = isinstance(problem, Posterior) and problem.predicts and len(problem.fidelities) > 1
    if isinstance(sampler, CorrectedExchange) and not able:
        raise ValueError(
            "problem must be a Posterior with forward models of several fidelities where a coarse one is to be "
            f"corrected, got {problem!r}"
        )
    if able and isinstance(sampler, CorrectedExchange | Automatic) and sampler.boundary == Reflect():
        return CorrectedEngine(problem, sampler, plan)
    return Engine(problem, sampler, plan)


class CorrectedEngine(Engine):
    """A run at work that begins on a coarse fidelity alone, learns what it lacks, and goes on with the exchange.

    Where no sampler was chosen, only if that pays: otherwise it goes on as any other run.

    Attributes
    ----------
    found : Found or None
        What the exchange moves by, once it is learned.
    corrected : callable
        Tells whoever evaluates for the run of a `Correction`.
    """

    def __init__(self, problem: Problem, sampler: Sampler, plan: Plan) -> None:
        self.found: Found | None = None
        super().__init__(problem, sampler, plan)
        assert isinstance(problem, Posterior)
        self._posterior = problem
        self._asked = isinstance(sampler, CorrectedExchange)
        self._settings = settings = sampler if isinstance(sampler, CorrectedExchange) else CorrectedExchange()
        for name in problem.fidelities[:-1]:
            check_kind(settings.correct, name, problem.unknowns(name), settings.pairs)
        self._told: list[str] = []
        self._costs = costs_of(problem)
        self._names: list[str] = []  # coarse fidelities that are yet to be tried
        self._training: Training | None = None
        self._learning = False
        self._jumps: Jumps | None = None  # of the corrected law, where its kernel jumps
        self.corrected: Callable[[Correction], None] = lambda correction: None

    def correct(self, correction: Correction) -> None:
        """Let a fidelity answer with its correction, in this process."""
        name = correction.fidelity
        self.potentials[name].renew(correction.applied(self._posterior).potential(name))

    def begin(self, positions: Array | None = None) -> None:
        """Place the chains of a coarse fidelity, or of all rungs where it is known already that it cannot pay."""
        self._names = [self.rungs[1].fidelity] if self._asked else self._candidates()
        self._next_level(positions)

    def step(self, most: int = 1, keep: Callable[[int], None] | None = None) -> None:
        """One step: of training, or as of any run; of draws, all coarse steps to the next exchange."""
        if self._learning:
            self._learn()
            self.done += 1
            return
        if self.found is None or self.warming:
            super().step()
            return
        every, seen = self.found.every, []
        for k in range(every):
            super().step()
            if k in self._kept_steps:
                seen.append(self.rungs[1].position)
        self.between = np.array(seen) if seen else None
        self.done -= every - 1

    def share(self, answer: Answer, queue: Queue | None = None) -> None:
        """Let others answer."""
        super().share(answer, queue)
        if self._training is not None:
            self._training.coarse.share(answer)

    @property
    def warming(self) -> bool:
        """Whether the next step is one of warm-up."""
        return self._learning or super().warming

    def report(self) -> Report:
        """As of any run, with what was learned."""
        report = super().report()
        report["decisions"] = [*self._told, *report["decisions"]]
        report["correction"] = None if self.found is None else self.found.report()
        if self.found is not None and self.found.doubt is not None:
            report["warnings"] = [
                f"{self.found.doubt}. The fine rung gets there by its own moves alone, one at each exchange: the draws "
                "are right in the limit of many, and slow to come from there. Sample the fine model by itself, or make "
                "the coarse one answer there.",
                *report["warnings"],
            ]
        return report

    def state(self) -> Saved:
        """All that the next steps depend on."""
        own = {
            "told": list(self._told),
            "names": list(self._names),
            "level": None if self._training is None else self._training.fidelity,
            "training": None if self._training is None else self._training.state(),
            "learning": self._learning,
            "jumps": self._jumps,
        }
        if not self._learning:
            return super().state() | {"corrected": own}
        counts = {name: list(e.counts) for name, e in self.potentials.items()}
        return {"corrected": own, "step": self.done, "seconds": self.seconds, "counts": counts}

    def restore(self, state: Saved) -> None:
        """Go on from a state, in place of `begin`."""
        own = state["corrected"]
        self._told, self._names = list(own["told"]), list(own["names"])
        self._learning, self._jumps = own["learning"], own["jumps"]
        if own["training"] is not None:
            self._training = self._new_training(own["level"])
            self._training.restore(own["training"])
            if not self._learning:
                found = self._training.found()
                self._correct(found)
                self._take(found)
        if not self._learning:
            super().restore(state)
            return
        assert self._training is not None
        self._show(self._training)
        self.done = state["step"]
        self.restart_clock(state["seconds"])
        for name, counts in state["counts"].items():
            self.potentials[name].counts = Counts(*counts)

    def _candidates(self) -> list[str]:
        """Coarse fidelities that are cheap enough, from the coarsest on; what is said of the others."""
        *coarse, finest = self._posterior.fidelities
        ratios = {name: self._costs.ratio(name, finest) for name in coarse}
        cheap = [name for name in coarse if ratios[name] >= GATE_RATIO]
        if len(cheap) < len(coarse):
            dear = " and ".join(f"{name!r} is {cheaper(ratios[name])}" for name in coarse if name not in cheap)
            self._told.append(
                f"no moves on a coarse model where {dear} than {finest!r} ({self._costs.source}): they pay from "
                f"{GATE_RATIO:g} times on"
            )
        return cheap

    def _next_level(self, positions: Array | None) -> None:
        """Begin with the next coarse fidelity, or as any other run where there is none left."""
        while self._names:
            self._training = self._new_training(self._names.pop(0))
            self._learning = True
            self._training.begin(positions)
            self._show(self._training)
            return
        if self._training is not None:
            self._training, self.work = None, self._own
            self.stages.again()
        self._learning = False
        super().begin(positions)

    def _new_training(self, name: str) -> Training:
        *coarse, _ = self._posterior.fidelities
        levels = coarse[coarse.index(name) :]
        training = Training(self._posterior, levels, self._settings, self.plan, self.potentials, self._costs, self.do)
        if self._own.parallel:
            training.coarse.share(self.answer)
        return training

    def _learn(self) -> None:
        """A step of training; at its end the exchange begins, or what comes instead."""
        training = self._training
        assert training is not None
        training.step()
        self._show(training)
        if not training.over:
            return
        self._told += training.told
        try:
            found = training.found()
        except ValueError as error:  # too few pairs that both models solve
            if self._asked:
                raise
            self._told.append(f"no exchange with {training.fidelity!r}: {error}")
            self._next_level(self.given)
            return
        self._told += found.learned
        if not (self._asked or found.pays):
            self._next_level(self.given)
            return
        self._told += found.told
        self._learning = False
        self._correct(found)
        (self._jumps,) = self.do([refined_modes(found.sampler, training.fidelity, self.sampled.sampling_domain)])
        self._take(found)
        self.stages.inherit(found.warm_starts)

    def _correct(self, found: Found) -> None:
        """Let the coarse fidelities answer with their corrections, wherever they do."""
        for correction in found.corrections:
            self.correct(correction)
            self.corrected(correction)

    def _take(self, found: Found) -> None:
        """Make the rungs of the exchange, which are not placed yet."""
        self.found, self.work = found, self._own
        sampler = jumping(found.sampler, self._jumps)
        steps, often = min(LONGEST, max(SHORTEST, EXCHANGES * found.every)), sampler.swap.every or found.every
        # so few steps of warm-up are needed for their size, whatever the exchanges
        seldom = steps * often // (EXCHANGES * found.every)
        self.stages.follow(sampler, (ROUNDS - 2,), steps, max(often, seldom))

    def _show(self, training: Training) -> None:
        """Let the coarse run be what is seen of this one."""
        self.work = training.coarse.work

    def _begin_draws(self, done: int | None) -> None:
        super()._begin_draws(done)
        if self.found is not None and self.exchange is not None:
            self.exchange.begin_count()

    @property
    def _kept_steps(self) -> frozenset[int]:
        """Coarse steps on the way to a draw whose positions it keeps, evenly spread."""
        assert self.found is not None
        every, d = self.found.every, self.problem.dimension
        count = min(every, BETWEEN, MOST_BETWEEN // d)
        return (
            frozenset(np.linspace(every, 0, count, endpoint=False).round().astype(int) - 1)
            if count > 1
            else frozenset()
        )
