"""A run that begins on a coarse fidelity alone and learns what it lacks, so that few fine solves are enough."""

from __future__ import annotations

import numpy as np

from invsamp.diagnostics.report import Report
from invsamp.domains.boundary import Reflect
from invsamp.engine.adaptation.window_adaptation import SHORTEST
from invsamp.engine.automatic.phases import ROUNDS, Phases
from invsamp.engine.ensemble.ensemble import Ensemble
from invsamp.engine.mode_search.mode_refinement import Jumps, jumping, refined_modes
from invsamp.engine.multifidelity.mode_check import missed_mode
from invsamp.engine.multifidelity.surrogate_training import Found, Training
from invsamp.engine.rungs.lasting_state import Lasting, LastingState
from invsamp.ladder import Sampler
from invsamp.ladder.automatic import Automatic
from invsamp.ladder.corrected_exchange import CorrectedExchange
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.surrogates.costs import costs_of
from invsamp.surrogates.learning import GATE_RATIO, Correction, cheaper, check_kind
from invsamp.warning_codes import coded

#: Exchanges in the warm-up of the fine rung, and the most steps that they take.
EXCHANGES, LONGEST = 20, 1000
#: Coarse positions that are kept of each draw at most, and numbers in them.
BETWEEN, MOST_BETWEEN = 10, 10_000


def coarse_run(phases: Phases, sampler: Sampler) -> CoarseRun | None:
    """The first phase of a run whose sampler learns from pairs of solves, or may; the rest is ``phases``.

    Raises
    ------
    ValueError
        If a coarse model is to be corrected, and there is none.
    """
    problem, boundary = phases.bound.problem, phases.bound.boundary
    if isinstance(problem, Posterior) and problem.predicts and len(problem.fidelities) > 1:
        wanted = isinstance(sampler, CorrectedExchange | Automatic) and boundary == Reflect()
        return CoarseRun(phases, problem, sampler) if wanted else None
    if isinstance(sampler, CorrectedExchange):
        raise ValueError(
            "problem must be a Posterior with forward models of several fidelities where a coarse one is to be "
            f"corrected, got {problem!r}"
        )
    return None


class CoarseRun(Lasting, lasting=("decisions", "_names", "_level", "learning", "_training", "_jumps", "_missed")):
    """The first phase of some runs: `step` by step, while it is `learning`, until the exchange is `found` and follows.

    Where no sampler was chosen, only if that pays: otherwise the run begins as any other.

    Attributes
    ----------
    learning : bool
        Whether the next step is one of this phase.
    found : Found or None
        What the exchange moves by.
    decisions : list of str
        What was decided, and why.
    """

    def __init__(self, phases: Phases, posterior: Posterior, sampler: Sampler) -> None:
        self._phases, self._bound, self._posterior = phases, phases.bound, posterior
        self._asked = isinstance(sampler, CorrectedExchange)
        self._settings = settings = sampler if isinstance(sampler, CorrectedExchange) else CorrectedExchange()
        for name in posterior.fidelities[:-1]:
            check_kind(settings.correct, name, posterior.unknowns(name), settings.pairs)
        self.found: Found | None = None
        self.learning = False
        self.decisions: list[str] = []
        self._costs = costs_of(posterior)
        self._names: list[str] = []  # coarse fidelities that are yet to be tried
        self._level = ""  # the one that is tried
        self._training: Training | None = None
        self._jumps: Jumps | None = None  # of the corrected target, where its kernel jumps
        self._missed: str | None = None  # the mode of the fine model that the coarse one does not have

    @property
    def ensemble(self) -> Ensemble:
        """The coarse rungs."""
        assert self._training is not None
        return self._training.coarse.ensemble

    def begin(self, positions: Array | None) -> None:
        """Place the chains of a coarse fidelity, unless it is known already that none can pay."""
        self._names = [self._phases.ensemble.rungs[1].fidelity] if self._asked else self._candidates()
        self._next_level(positions)

    def step(self) -> None:
        """A step of training; at its end the exchange begins, or training on the next fidelity."""
        training = self._training
        assert training is not None
        training.step()
        if not training.over:
            return
        self.decisions += training.decisions
        try:
            found = training.found()
        except ValueError as error:  # too few pairs that both models solve
            if self._asked:
                raise
            self.decisions.append(f"no exchange with {training.fidelity!r}: {error}")
            self._next_level(self._bound.given)
            return
        self.decisions += found.learned
        if not (self._asked or found.pays):
            self._next_level(self._bound.given)
            return
        rng = np.random.default_rng([self._phases.plan.seed, *b"modes"])
        looking = missed_mode(self._bound, training.fidelity, training.states, rng)
        (self._missed,) = self._bound.dispatch.do([looking])
        if self._missed is not None and not self._asked:
            self.decisions.append(f"no exchange with {training.fidelity!r}: {self._missed}")
            self._next_level(self._bound.given)
            return
        self.decisions += found.passing
        self.learning = False
        self._correct(found)
        modes = refined_modes(found.sampler, training.fidelity, self._bound.domain)
        (self._jumps,) = self._bound.dispatch.do([modes])
        self._follow(found)
        self._phases.inherit(found.warm_starts)

    def restore(self, state: LastingState) -> None:
        """Continue from a state; what was found is learned again from the same pairs."""
        super().restore(state)
        if self._training is not None and not self.learning:
            found = self._training.found()
            self._correct(found)
            self._follow(found)

    def correct(self, correction: Correction) -> None:
        """Let a fidelity answer with its correction, in this process."""
        name = correction.fidelity
        self._bound.potentials[name].renew(correction.applied(self._posterior).potential(name))

    def report(self, report: Report) -> Report:
        """The report of the run, with what was learned."""
        found, warnings = self.found, report["warnings"]
        if found is not None and (why := found.doubt or self._missed) is not None:
            doubt = coded(
                "IV-COARSE",
                f"{why}. The fine rung reaches that region by its own moves alone, one at each "
                "exchange. The draws are right in the limit of many, but visit it rarely. Sample the fine "
                "model by itself, or make the coarse one work there.",
            )
            warnings = [doubt, *warnings]
        return report | {
            "decisions": [*self.decisions, *report["decisions"]],
            "correction": None if found is None else found.report(),
            "warnings": warnings,
        }

    @property
    def kept_steps(self) -> frozenset[int]:
        """Coarse steps on the way to a draw whose positions it keeps, evenly spread."""
        assert self.found is not None
        every = self.found.every
        count = min(every, BETWEEN, MOST_BETWEEN // self._bound.dimension)
        if count <= 1:
            return frozenset()
        return frozenset(np.linspace(every, 0, count, endpoint=False).round().astype(int) - 1)

    def _candidates(self) -> list[str]:
        """Coarse fidelities that are cheap enough, from the coarsest on; what is said of the others."""
        *coarse, finest = self._posterior.fidelities
        ratios = {name: self._costs.ratio(name, finest) for name in coarse}
        cheap = [name for name in coarse if ratios[name] >= GATE_RATIO]
        if len(cheap) < len(coarse):
            expensive = " and ".join(f"{name!r} is {cheaper(ratios[name])}" for name in coarse if name not in cheap)
            self.decisions.append(
                f"no moves on a coarse model where {expensive} than {finest!r} ({self._costs.source}): they "
                f"save evaluations if it is {GATE_RATIO:g} times cheaper or more"
            )
        return cheap

    def _next_level(self, positions: Array | None) -> None:
        """Begin with the next coarse fidelity, if there is one left."""
        self.learning, self._training = bool(self._names), None
        if self._names:
            self._level = self._names.pop(0)
            self._training = self._renewed()
            self._training.begin(positions)

    def _renewed(self, name: str = "_training") -> Training:
        *coarse, _ = self._posterior.fidelities
        levels = coarse[coarse.index(self._level) :]
        return Training(self._bound, levels, self._settings, self._phases.plan, self._costs)

    def _correct(self, found: Found) -> None:
        """Let the coarse fidelities answer with their corrections, wherever they do."""
        for correction in found.corrections:
            self.correct(correction)
            self._bound.dispatch.corrected(correction)

    def _follow(self, found: Found) -> None:
        """Make the rungs of the exchange, which are not placed yet."""
        self.found = found
        sampler = jumping(found.sampler, self._jumps)
        steps, often = min(LONGEST, max(SHORTEST, EXCHANGES * found.every)), sampler.swap.every or found.every
        # so few steps of warm-up are needed for their size, whatever the exchanges
        seldom = steps * often // (EXCHANGES * found.every)
        self._phases.follow(sampler, (ROUNDS - 2,), steps, max(often, seldom))
