"""Learning in warm-up what a coarse model lacks: it is sampled alone, then solved beside the fine one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from invsamp.diagnostics.draws import ess, rhat
from invsamp.diagnostics.limits import APART_LIMIT
from invsamp.diagnostics.report import LearnedLevel, LearntCorrection
from invsamp.engine.adaptation.temperature_schedule import WarmStart
from invsamp.engine.automatic.kernel_selection import JUDGED
from invsamp.engine.automatic.phases import Phases
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.multifidelity.support_check import Probe, check_support
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.evaluate.requests import EvaluationRequests, Request
from invsamp.kernels.prior_sampler import PriorDraws
from invsamp.ladder import Sampler
from invsamp.ladder.automatic import Automatic
from invsamp.ladder.corrected_exchange import CorrectedExchange, exchange
from invsamp.posing.posterior.posterior import Posterior
from invsamp.protocols import Array
from invsamp.surrogates.chain import Chain, CoarseSide, acceptance, chosen
from invsamp.surrogates.costs import Costs
from invsamp.surrogates.learning import (
    GATE_RATIO,
    GATE_SD,
    Correction,
    Learned,
    LevelCorrection,
    Refittable,
    learned,
    predicted_apart,
    refitted,
    whole,
)
from invsamp.surrogates.pairs import KINDS

#: Steps of the coarse side after its warm-up, whose draws are judged, and how often so many more are made at most.
STEPS, MOST_ROUNDS = 300, 5


class Found(NamedTuple):
    """The result of training."""

    levels: tuple[LevelCorrection, ...]  # that the exchange has, the coarsest first
    corrections: tuple[Correction, ...]
    sampler: Sampler  # the exchange
    warm_starts: list[WarmStart]  # of its rungs
    every: int  # coarse steps from draw to draw
    pays: bool  # by costs, acceptances and failures
    learned: tuple[str, ...]  # what was learned of the levels, in words
    passing: tuple[str, ...]  # and how they pass on to each other
    doubt: str | None = None  # what makes draws slow to come where no coarse model goes

    def report(self) -> LearntCorrection:
        """In plain types: of the level that moves, and of those between it and the finest."""
        first, *between = [_plain(level) for level in self.levels]
        return {**first, "pays": self.pays, "every": self.every, "between": between}


def _plain(level: LevelCorrection) -> LearnedLevel:
    found: LearnedLevel = {name: getattr(level, name) for name in LearnedLevel.__annotations__}  # type: ignore[assignment]
    return {**found, "sd": dict(level.sd)}


class Training(
    Lasting,
    lasting=(
        *("coarse", "_drawn", "_wanted", "_before", "_failed", "_probe", "_states", "_solved"),
        *("decisions", "_steps", "_gradients"),
    ),
):
    """The coarse side of one fidelity alone, and the pairs; `step` by step, until it is `over`.

    Parameters
    ----------
    bound : BoundProblem
        Of the run.
    levels : sequence of str
        The coarse fidelity that moves, and those between it and the finest that may pass on.
    settings : CorrectedExchange
    plan : Plan
        Of the whole run.
    costs : Costs
        Of solves.
    """

    def __init__(
        self,
        bound: BoundProblem,
        levels: Sequence[str],
        settings: CorrectedExchange,
        plan: Plan,
        costs: Costs,
    ) -> None:
        assert isinstance(bound.problem, Posterior)
        self.posterior, self.levels, self._settings, self._do = (
            bound.problem,
            tuple(levels),
            settings,
            bound.dispatch.do,
        )
        self.fidelity = fidelity = levels[0]
        self._names, self._costs = (*levels, bound.fidelities[-1]), costs
        self._potential = bound.potentials[fidelity]
        sampler = Automatic() if settings.alone is None else settings.alone
        budget = None if plan.evaluations is None else max(1, plan.evaluations // 2)
        own = replace(plan, draws=STEPS, thin=1, schedule_steps=None, evaluations=budget)
        alone = BoundProblem(self.posterior.alone(fidelity), sampler, {fidelity: self._potential}, bound.dispatch)
        #: The run of the coarse fidelity alone.
        self.coarse = Phases(alone, sampler, own)
        self._drawn: list[Array] = []
        self._wanted, self._before, self._failed = STEPS, 0, 0
        self._states: Array | None = None  # of the pairs, positions (n, d)
        self._solved: list[tuple[Array, ...]] = []  # observations there by level, each of the model's own data
        self._probe: Probe | None = None  # of failures, where there were any
        self.decisions: list[str] = []
        self._steps, self._gradients = 1.0, 1.0

    @property
    def over(self) -> bool:
        """Whether all pairs are solved, and it is known what failures mean."""
        return self._all_solved and (self._failed == 0 or self._probe is not None)

    @property
    def states(self) -> Array:
        """Positions (n, d) of the pairs: draws of the coarse side."""
        assert self._states is not None
        return self._states

    @property
    def _all_solved(self) -> bool:
        return self._states is not None and sum(len(found[-1]) for found in self._solved) == len(self._states)

    def begin(self, positions: Array | None) -> None:
        """Place the coarse chains."""
        chains = self.coarse.plan.chains
        self.coarse.begin(positions if positions is None else positions[-chains:])

    def step(self) -> None:
        """A step of the coarse chains, some pairs, or a look at what failures mean."""
        if self._all_solved:
            self._do([self._look()])
            return
        if self._states is not None:
            self._do([self._solve(self._states)])
            return
        coarse = self.coarse
        if coarse.warming:
            coarse.step()
            return
        if not self._drawn:
            self._before, self._failed = self._potential.evaluations, self._potential.failed
            coarse.ensemble.forget()
        coarse.ensemble.move()
        self._drawn.append(coarse.ensemble.rungs[0].position.copy())
        if len(self._drawn) == self._wanted:
            self._judge()

    def _judge(self) -> None:
        """Go on with the coarse chains, or take the states of the pairs."""
        draws = np.stack(self._drawn, axis=1)
        some = draws[:, :, :: max(1, -(-draws.shape[2] // JUDGED))]
        worst = 1.0 if len(draws) == 1 else float(np.nanmax(rhat(some), initial=1.0))
        if worst > APART_LIMIT and self._wanted < MOST_ROUNDS * STEPS:
            self._wanted += STEPS
            return
        self._steps = time_of(some)
        solves = self._potential.evaluations - self._before
        self._gradients = solves / draws[..., 0].size
        self._failed = self._potential.failed - self._failed
        agreed = "" if worst <= APART_LIMIT else f"; they do not agree yet, R-hat {worst:.3f} is above {APART_LIMIT:g}"
        drawn = (
            f"{self.fidelity!r} alone: {draws[..., 0].size:,} draws, {self._steps:.3g} of them for one effective "
            f"draw{agreed}"
        )
        self.decisions = [*self.coarse.report()["decisions"], drawn]
        rows = draws.swapaxes(0, 1).reshape(-1, draws.shape[2])
        self._states = rows[np.linspace(0, len(rows) - 1, min(self._settings.pairs, len(rows))).round().astype(int)]
        self._drawn = []

    def _solve(self, states: Array) -> EvaluationRequests[None]:
        begin = sum(len(found[-1]) for found in self._solved)
        # few at a time: by the first ones processes find out whether they can share the others, and what these take
        at = states[begin : begin + self.coarse.plan.chains]
        answers = yield tuple([Request(name, at, gradient=False, observations=True) for name in self._names])
        for found in answers:
            found.gradient[~np.isfinite(found.energy)] = np.nan
        self._solved.append(tuple([found.gradient for found in answers]))

    def _look(self) -> EvaluationRequests[None]:
        assert self._states is not None
        rng = np.random.default_rng([self.coarse.plan.seed, *b"probe"])
        known = self._states[whole(np.concatenate([found[-1] for found in self._solved]))]
        domain = self.coarse.bound.domain
        self._probe = Probe(0, 0.0)
        if len(known):
            self._probe = yield from check_support(known, self.fidelity, self._names[-1], domain, rng)

    def found(self) -> Found:
        """The result, when it is complete; `ValueError` where fewer than ten pairs could be solved."""
        assert self._states is not None
        settings, costs, finest = self._settings, self._costs, self._names[-1]
        solved = [np.concatenate(part) for part in zip(*self._solved, strict=True)]
        fine, theta = self.posterior.among_data(solved[-1], finest), self.posterior.to_theta(self._states)
        rng = np.random.default_rng(self.coarse.plan.seed)
        learnts, corrections = {}, {}
        for name, own in zip(self.levels, solved, strict=False):
            learnts[name], corrections[name] = self._learn(name, theta, own, fine, rng)
        errors = {name: found.errors for name, found in learnts.items()}
        side = CoarseSide(self._steps, self._gradients)
        chain, alone = chosen(self.levels, finest, errors, costs, side)
        if settings.exchange_interval is not None:
            chain = chain._replace(every=settings.exchange_interval)
        warm_starts = [_warm_start(rung) for rung in self.coarse.ensemble.rungs]
        warm_starts[:0] = [WarmStart(warm_starts[0].position.copy(), warm_starts[0].metric, None) for _ in chain.levels]
        levels = [learnts[name].level(name, costs.ratio(name, finest), costs.source) for name in chain.levels]
        passes = max(chain.least, alone.least) >= acceptance(GATE_SD)
        doubt = None
        if self._probe is not None and not self._probe.passed:
            doubt = self._probe.described(self.fidelity, finest)
        pays = costs.ratio(self.fidelity, finest) >= GATE_RATIO and passes and doubt is None
        learned = [one.learned for one in levels] if len(levels) > 1 and pays else [str(levels[0])]
        learned += [] if doubt is None else [doubt]
        # there the fine rung gets by itself alone
        local = settings.local_move_interval if doubt is None else 1
        return Found(
            tuple(levels),
            tuple([corrections[name] for name in chain.levels]),
            exchange(self.coarse.ensemble.composition, chain, local, settings.rungs[0]),
            warm_starts,
            chain.steps,
            pays,
            tuple(learned),
            self._words(chain, alone),
            doubt,
        )

    def _learn(
        self, name: str, theta: Array, own: Array, fine: Array, rng: np.random.Generator
    ) -> tuple[Learned, Correction]:
        """Learn the correction of one fidelity from its own observations and those of the finest one."""
        posterior, settings = self.posterior, self._settings
        model, fitted = posterior.forward[name], None
        if isinstance(model, Refittable):
            rows = whole(fine)
            fitted = refitted(posterior, model, name, theta[rows], fine[rows])
            posterior = Correction(name, model=fitted).applied(posterior)
            own = np.full((len(theta), posterior.predict(theta[:1], name).size), np.nan)
            own[rows] = predicted_apart(self.posterior, model, name, theta[rows], fine[rows], rng)
        own = posterior.among_data(own, name)
        found = learned(posterior, name, theta, own, fine, settings.correct, rng, settings.enhanced, KINDS)
        return found, Correction(name, found.found, found.missing, fitted)

    def _words(self, chain: Chain, alone: Chain) -> tuple[str, ...]:
        """How levels pass on to each other, and which are left out."""
        finest, moving = self._names[-1], chain.levels[0]
        words = [f"every {chain.steps} steps of {moving!r} {finest!r} decides"]
        if len(chain.levels) > 1:
            passing = " and ".join(map(repr, chain.levels[1:]))
            saved = f"{chain.fine_solves:.2g} instead of {alone.fine_solves:.2g} solves of {finest!r}"
            words.append(
                f"{passing} between them, every {chain.every} steps: {saved} for an effective draw, by acceptances and "
                "costs"
            )
        left = [name for name in self.levels if name not in chain.levels]
        if left:
            words.append(f"{' and '.join(map(repr, left))} between them would add nothing, and is left out")
        return tuple(words)


def _warm_start(rung: RungChains) -> WarmStart:
    moves = rung.adjusted and not isinstance(rung.kernel, PriorDraws)
    return WarmStart(rung.position.copy(), rung.metric, float(np.mean(rung.step_size)) if moves else None)


def time_of(draws: Array) -> float:
    """Steps for one effective draw of the slowest parameter, or of its square, from draws (chains, n, d).

    Of their ranks and of themselves: ranks within a mode may hide how seldom chains pass to another.
    """
    centered = draws - draws.mean(axis=(0, 1))
    both = np.concatenate([draws, np.square(centered)], axis=2)
    least = float(np.nanmin([ess(both), ess(both, "mean")], initial=math.inf))
    return max(1.0, draws[..., 0].size / least) if least > 0.0 else math.inf
