"""A run at work: steps, what a draw keeps, and a state from which the same steps go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from invsamp.diagnostics.report import Report
from invsamp.domains.boundary import as_boundary
from invsamp.engine.automatic.phases import Phases
from invsamp.engine.driver import run_report
from invsamp.engine.driver.recorded_variables import Record
from invsamp.engine.driver.repeated_evaluations import Repeats
from invsamp.engine.driver.step_stability import StepStabilityCheck
from invsamp.engine.ensemble.ensemble import Ensemble
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.rungs import gradient_check
from invsamp.engine.rungs.compatibility import check_weights
from invsamp.engine.rungs.initial_points import failure_message, place
from invsamp.engine.rungs.random_streams import Saved
from invsamp.engine.rungs.rung_chains import RungChains, SolvesFailed
from invsamp.evaluate.counted import CountedPotential, Counts
from invsamp.evaluate.requests import Answer, EvaluationRequests, Queue, Result
from invsamp.ladder import Sampler
from invsamp.posing.expressions.variable_names import check_names
from invsamp.protocols import Array, Problem
from invsamp.storage.manifest import posed
from invsamp.tempering.cooling import label


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
    rungs : list of RungChains
        The rungs from cold to hot.
    exchange, potentials
        The swaps (None for one rung), and the potential of each fidelity.

    Raises
    ------
    ValueError
        If the parts do not fit together, or warm-up is too short. Nothing has been solved by then.
    """

    def __init__(
        self, problem: Problem, sampler: Sampler, plan: Plan, potentials: Mapping[str, CountedPotential] | None = None
    ) -> None:
        self.problem, self.sampler, self.plan = problem, sampler, plan
        check_names(problem.shapes)  # of problems that somebody else wrote, too: the first solve is dear
        self.boundary = as_boundary(sampler.boundary)
        #: What is at work; of a run that begins on a coarse fidelity, that of the coarse one for so long.
        self.work = self._own = Ensemble(problem, plan, self.boundary)
        self.sampled = self._own.sampled
        self.stages = Phases(self._own, sampler, potentials)
        self.potentials = self._own.potentials
        #: What draws keep.
        self.record = Record()
        #: A signal that another process got, if one did.
        self.signaled: Callable[[], int | None] = lambda: None
        #: Of other processes that help, for the report.
        self.processes: Callable[[], dict[str, object]] = lambda: {"count": 1}
        #: Where the second rung was on the way to this step (steps, chains, d), if it took several.
        self.between: Array | None = None
        self.done = self.kept = 0
        #: Why the run ended before its last step, in words: the first of its warnings.
        self.stopped: str | None = None
        #: Steps of warm-up, once it is over.
        self.warmed: int | None = None
        self._warm_up_evaluations: dict[str, int] = {}
        self._messages_before: list[str] = []  # by solves that failed before the run was restored
        self._check_evaluations: dict[str, int] = {}
        self._mistakes: list[str] = []  # in gradients, of the fidelities checked here, as warnings
        self._repeats = Repeats(problem.fidelities[-1])
        self._step_stability = StepStabilityCheck()
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
            self._repeats.begin(self.rungs, self.uncounted())
            if self.sampler.preconditioner is None:
                self._step_stability.before(self.rungs, warmed=False)
        self.stages.begin(positions)
        self._turn(0)

    @property
    def rungs(self) -> list[RungChains]:
        """The rungs at work, from cold to hot."""
        return self.work.rungs

    @property
    def exchange(self) -> Exchange | None:
        """The swaps; None for one rung."""
        return self.work.exchange

    @property
    def given(self) -> Array | None:
        """Where the user lets the chains start, (chains, d)."""
        return self._own.given

    @given.setter
    def given(self, positions: Array | None) -> None:
        self._own.given = positions

    @property
    def answer(self) -> Answer:
        """Who answers."""
        return self._own.answer

    @property
    def drawn(self) -> int:
        """Steps of draws, since warm-up was over; of those of a trial that fails, none."""
        return 0 if self.warmed is None else self.done - self.warmed

    @property
    def steps(self) -> int:
        """Steps of the whole run: at the most, while it warms up."""
        # what was chosen first may have failed, and another warm-up have followed
        warmup = max(self.plan.warmup, self.done + 1) if self.warmed is None else self.warmed
        return warmup + self.plan.draws * self.plan.thin

    @property
    def exhausted(self) -> bool:
        """Whether the budget that the user set is spent, and there is a draw."""
        most = self.plan.evaluations
        if most is None or self.warming or self.drawn < self.plan.thin:
            return False
        return self.stages.evaluation_budget.total >= most

    @property
    def warming(self) -> bool:
        """Whether the next step is one of warm-up."""
        return self.stages.warming

    def step(self, most: int = 1, keep: Callable[[int], None] | None = None) -> None:
        """One step; of draws, up to so many where the rungs can make them each at its own pace.

        ``keep`` is told the number of a rung that stands where a draw is due, for all draws but that of the last step.

        Raises
        ------
        RuntimeError
            If every solve fails for 200 steps in a row. If gradients are noisier than a rung may have them
            (`invsamp.ladder.GradientNoise`), at the end of warm-up.
        """
        steps, queue = 1, self.work.queue
        try:
            if not self.stages.warming and queue is not None and keep is not None and self.record.whole:
                drawn, thin = self.drawn, self.plan.thin

                def made(rung: int, steps: int) -> None:
                    if (drawn + steps) % thin == 0:
                        keep(rung)

                steps = self.work.move_on(queue, min(most, self.steps - self.done), made)
            elif not self.stages.warming:
                self.work.move()
            else:
                self.stages.step()
                self._turn(self.done + 1)
        except SolvesFailed as failure:
            theta = self.problem.to_theta(failure.position).tolist()
            message = failure_message(self.problem, self.potentials[failure.fidelity])
            reason = f": {message}" if message else ""
            told = f"{failure}; the chains stand at the parameters {theta}{reason}{failure.cause}"
            raise RuntimeError(told) from failure
        self.done += steps

    def finish(self) -> None:
        """After the last step: evaluate some positions again, which has to give the same energies."""
        if self.plan.check_gradient:
            self._repeats.end(self.rungs, self.uncounted())
            self._step_stability.after(self.rungs)

    def share(self, answer: Answer, queue: Queue | None = None) -> None:
        """Let others answer, all that is asked for at a time at once; or each rung by itself, in draws."""
        self._own.share(answer, queue)

    def do(self, askings: Sequence[EvaluationRequests[Result]]) -> list[Result]:
        """What comes of some that ask and do not depend on each other."""
        return self._own.do(askings)

    def uncounted(self) -> dict[str, gradient_check.Uncounted]:
        """The potentials by fidelity, evaluated by whoever evaluates for the run, and not counted."""
        return {name: gradient_check.Uncounted(potential, self.answer) for name, potential in self.potentials.items()}

    def state(self) -> Saved:
        """All that the next steps depend on, for `invsamp.engine.driver.serialization.encode`; between two steps."""
        potentials = self.potentials.values()
        return {
            "failure_messages": self._failure_messages(),
            "gradient_check_evaluations": dict(self._check_evaluations),
            "gradient_mistakes": list(self._mistakes),
            "repeats": self._repeats.state(),
            "step_stability": self._step_stability.state(),
            **self._own.state(),
            **self.stages.state(),
            "evaluations": {e.fidelity: e.evaluations for e in potentials},
            "evaluation_seconds": {e.fidelity: e.seconds for e in potentials},
            "failed_solves": {e.fidelity: e.failed for e in potentials},
            "function_calls": {e.fidelity: e.calls for e in potentials},
            "warm_up_evaluations": dict(self._warm_up_evaluations),
            "step": self.done,
            "warmed": self.warmed,
            "kept": self.kept,
            "seconds": self.seconds,
        }

    def restore(self, state: Saved) -> None:
        """Go on from a state, in place of `begin`; nothing is solved."""
        self.done, self.kept, self.warmed = state["step"], state["kept"], state["warmed"]
        self.stages.restore(state)
        self._warm_up_evaluations = dict(state["warm_up_evaluations"])
        self._messages_before = list(state["failure_messages"])
        self._check_evaluations = dict(state["gradient_check_evaluations"])
        self._mistakes = list(state["gradient_mistakes"])
        counts = [state[key] for key in ("evaluations", "evaluation_seconds", "failed_solves", "function_calls")]
        self._repeats.restore(state["repeats"])
        self._step_stability.restore(state["step_stability"])
        for name, potential in self.potentials.items():
            potential.counts = Counts(*(each[name] for each in counts))
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
        self.work.count(positions)

    def report(self) -> Report:
        """Settings, counts and figures of the run so far, in plain types."""
        work = self.work
        cut = self.stages.evaluation_budget.warnings(self.kept, exhausted=self.exhausted)
        report = run_report.report(work.composition, work.rungs, work.exchange, self.potentials)
        return report | {
            **self.stages.report(),
            "modes": work.mode_occupancy.report(self.problem),
            "warnings": [
                *([] if self.stopped is None else [self.stopped]),
                *self._labels(),
                *self._mistakes,
                *self._repeats.warnings,
                *cut,
                *report["warnings"],
            ],
            "warmup_evaluations": dict(self._warm_up_evaluations),
            "gradient_check_evaluations": dict(self._check_evaluations),
            "repeated": dict(self._repeats.found),
            "step_stability": list(self._step_stability.found),
            "failure_message": next(iter(self._failure_messages()), None),
            "boundary": str(self.boundary),
            "outside": [count / max(1, self.kept * self.plan.chains) for count in work.outside],
            "seed": self.plan.seed,
            "draws": self.kept,
            "warmup": self.plan.warmup if self.warmed is None else self.warmed,
            "warmup_most": self.plan.warmup,
            "thin": self.plan.thin,
            "chains": self.plan.chains,
            "seconds": self.seconds,
            "draws_planned": self.plan.draws,
            "interrupted": self.kept < self.plan.draws,
            "stopped": self.stopped,
            "warming": self.stages.warming,
            "processes": self.processes(),
            "posed": posed(self.problem),
        }

    def _labels(self) -> list[str]:
        """What draws are that are not those of the posterior."""
        if not self.rungs:
            return []
        cold = self.rungs[0]
        found = label(cold.target, cold.iteration, self.plan.thin * max(1, self.kept))
        return [] if found is None else [found]

    def _failure_messages(self) -> list[str]:
        """What the last failed solves said, the finest first; of the time before a restore if none has failed since."""
        found = [failure_message(self.problem, potential) for potential in reversed(self.potentials.values())]
        return [message for message in found if message is not None] or self._messages_before

    def _check_gradients(self) -> None:
        """Refuse gradients that would bias the draws, warn of those that only slow them down."""
        chosen = self.stages.choice is not None  # descents, and a ladder if there will be one, have all fidelities
        others = list(self.potentials) if chosen else []
        checked = gradient_check.check(self.problem, self.sampled, self.rungs, self.uncounted(), self.plan.seed, others)
        self._check_evaluations, self._mistakes = checked.solves, checked.warnings
        gradient_check.tell(checked.mistakes, self.rungs, chosen=chosen)

    def _turn(self, done: int) -> None:
        """After so many steps begin draws if that is due; where a trial has failed there are none any more."""
        if self.stages.drawing == (self.warmed is None):
            self._begin_draws(done if self.stages.drawing else None)

    def _begin_draws(self, done: int | None) -> None:
        self.warmed, self.kept = done, 0
        self.work.forget()
        self._repeats.draw(None if done is None else self.rungs[0])
        if done is not None and self.plan.check_gradient:
            self._step_stability.before(self.rungs, warmed=True)
        counts = {} if done is None else {name: e.evaluations for name, e in self.potentials.items()}
        self._warm_up_evaluations = counts
