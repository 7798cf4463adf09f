"""A run at work: steps, what a draw keeps, and a state from which the same steps go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from invsamp.diagnostics.report import Report
from invsamp.engine.automatic.phases import Phases
from invsamp.engine.driver import run_report
from invsamp.engine.driver.recorded_variables import Record
from invsamp.engine.ensemble.compiled_blocks import Recorder
from invsamp.engine.ensemble.ensemble import Ensemble
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.multifidelity.corrected_run import coarse_run
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.dispatch import Uncounted
from invsamp.engine.rungs.initial_points import failure_message
from invsamp.engine.rungs.lasting_state import Lasting, LastingState
from invsamp.engine.rungs.rung_chains import RungChains, SolvesFailed
from invsamp.evaluate.counted import Counts
from invsamp.evaluate.requests import Answer, Queue
from invsamp.ladder import Sampler
from invsamp.protocols import Array, Facts, Problem
from invsamp.storage.manifest import posed
from invsamp.tempering.cooling import label
from invsamp.warning_codes import coded


class Engine(
    Lasting,
    lasting=(
        *("done", "kept", "warmed", "seconds", "counts", "_failure_messages", "_warm_up_evaluations"),
        *("coarse", "phases"),
    ),
):
    """A run at work. After `begin` or `restore`, `step` makes one step of every rung, and of the swaps.

    Its phases follow each other: what is learned of a coarse model, where that may pay; the search for modes, warm-up
    and pilot runs; sampling. A run that is restored goes on bit for bit as the one that was saved.

    Parameters
    ----------
    problem : Problem
    sampler : Sampler
    plan : Plan

    Attributes
    ----------
    bound : BoundProblem
        The problem as this run takes it.
    potentials : dict of str to CountedPotential
        By fidelity.
    coarse : CoarseRun or None
        The phase on a coarse fidelity alone.
    phases : Phases
        All phases that come between that and the draws.
    done : int
        Steps made, warm-up included.
    kept : int
        Draws of each chain and rung that were taken from `Draws`.

    Raises
    ------
    ValueError
        If the parts do not fit together, or warm-up is too short. Nothing has been solved by then.
    """

    def __init__(self, problem: Problem, sampler: Sampler, plan: Plan) -> None:
        self.sampler, self.plan = sampler, plan
        self.bound = BoundProblem(problem, sampler)
        self.boundary, self.potentials = self.bound.boundary, self.bound.potentials
        self.phases = Phases(self.bound, sampler, plan)
        self.coarse = coarse_run(self.phases, sampler)
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
        self.seconds = 0.0

    def begin(self, positions: Array | None = None) -> None:
        """Place the chains at positions (chains, d), or (rungs * chains, d), or at starts of the problem; solve there.

        Raises
        ------
        RuntimeError
            If the energy is not finite there.
        ModelError
            If a gradient is not that of its energy, and no acceptance step sets the draws right.
        """
        if self.coarse is not None:
            self.coarse.begin(positions)
        if not self.learning:
            self.phases.begin(positions)
            self._turn()

    @property
    def problem(self) -> Problem:
        """The problem in the positions in which the run moves."""
        return self.bound.problem

    def take_form(self, state: LastingState) -> None:
        """Move in the positions of a state, which is restored after."""
        self.phases.parameterization.restore(state.phases.parameterization)

    @property
    def learning(self) -> bool:
        """Whether the next step is one of a coarse fidelity alone."""
        return self.coarse is not None and self.coarse.learning

    @property
    def ensemble(self) -> Ensemble:
        """The rungs at work and their swaps."""
        return self.coarse.ensemble if self.coarse is not None and self.coarse.learning else self.phases.ensemble

    @property
    def rungs(self) -> list[RungChains]:
        """The rungs at work, from cold to hot."""
        return self.ensemble.rungs

    @property
    def exchange(self) -> Exchange | None:
        """The swaps; None for one rung."""
        return self.ensemble.exchange

    @property
    def given(self) -> Array | None:
        """Where the user lets the chains start, (chains, d)."""
        return self.bound.given

    @given.setter
    def given(self, positions: Array | None) -> None:
        self.bound.given = positions

    @property
    def drawn(self) -> int:
        """Steps of draws, since warm-up was over; of those of a trial that fails, none."""
        return 0 if self.warmed is None else self.done - self.warmed

    @property
    def steps(self) -> int:
        """Steps of the whole run: at most, while it warms up."""
        # what was chosen first may have failed, and another warm-up have followed
        warmup = max(self.plan.warmup, self.done + 1) if self.warmed is None else self.warmed
        return warmup + self.plan.draws * self.plan.thin

    @property
    def exhausted(self) -> bool:
        """Whether the budget that the user set is spent, and there is a draw."""
        if self.plan.evaluations is None or self.warming or self.drawn < self.plan.thin:
            return False
        return self.phases.evaluation_budget.total >= self.plan.evaluations

    @property
    def warming(self) -> bool:
        """Whether the next step is one of warm-up."""
        return self.learning or self.phases.warming

    def step(self, most: int = 1, recorder: Recorder | None = None) -> None:
        """One step; of draws, up to so many where the rungs can make them each at its own pace, or compiled loops can.

        ``recorder`` keeps all draws that are due but that of the last step.

        Raises
        ------
        RuntimeError
            If every solve fails for 200 steps in a row. If gradients are noisier than a rung may have them
            (`invsamp.ladder.GradientNoise`), at the end of warm-up.
        """
        try:
            if self.coarse is not None and self.coarse.learning:
                self.coarse.step()
                if not self.learning and self.coarse.found is None:
                    self.phases.take_stage()
                    self.phases.begin(self.given)
            elif self.phases.warming:
                self.phases.step()
            else:
                self.done += self._sample(most, recorder)
                return
        except SolvesFailed as failure:
            theta = self.problem.to_theta(failure.position).tolist()
            message = failure_message(self.problem, self.potentials[failure.fidelity])
            reason = f": {message}" if message else ""
            message = f"{failure}; the chains are at the parameters {theta}{reason}{failure.cause}"
            raise RuntimeError(message) from failure
        self.done += 1
        if not self.learning:
            self._turn()

    def _sample(self, most: int, recorder: Recorder | None) -> int:
        """Steps of draws, as `step`; with a coarse model all of its steps to the next exchange count as one."""
        ensemble, queue, thin = self.ensemble, self.bound.dispatch.queue, self.plan.thin
        if self.coarse is not None and self.coarse.found is not None:
            kept, seen = self.coarse.kept_steps, []
            for k in range(self.coarse.found.every):
                self._follow((self.steps - self.done) * self.coarse.found.every - k)
                ensemble.move()
                if k in kept:
                    seen.append(self.rungs[1].position)
            self.between = np.array(seen) if seen else None
            return 1
        most, drawn = min(most, self.steps - self.done), self.drawn
        if recorder is not None and self.record.whole:
            if queue is not None:

                def made(rung: int, steps: int) -> None:
                    if (drawn + steps) % thin == 0:
                        recorder.keep(rung)

                return ensemble.move_on(queue, most, made)
            alone = self.plan.evaluations is None and most > 1
            if alone and (steps := ensemble.move_compiled(most, drawn, thin, recorder)):
                return steps
        self._follow(self.steps - self.done)
        ensemble.move()
        return 1

    def _follow(self, steps: int) -> None:
        """Let whoever evaluates know what so many steps from here on will ask for."""
        if (follow := self.bound.dispatch.follow) is not None:
            follow(lambda: self.ensemble.future(steps))

    def finish(self) -> None:
        """After the last step: evaluate some positions again, which has to give the same energies."""
        if self.plan.check_gradient:
            self.phases.checks.end(self.rungs)

    def share(self, answer: Answer, queue: Queue | None = None) -> None:
        """Let others evaluate, all that is asked for at a time at once; or each rung by itself, in draws."""
        self.bound.dispatch.share(answer, queue)

    def uncounted(self) -> Mapping[str, Uncounted]:
        """The potentials by fidelity, evaluated by whoever evaluates for the run, and not counted."""
        return self.bound.uncounted()

    @property
    def counts(self) -> Mapping[str, Facts]:
        """Counts of evaluations, by fidelity."""
        return {name: potential.counts._asdict() for name, potential in self.potentials.items()}

    @counts.setter
    def counts(self, counts: Mapping[str, Facts]) -> None:
        for name, potential in self.potentials.items():
            potential.counts = Counts(**counts[name])

    @property
    def seconds(self) -> float:
        """Wall time so far, summed over all processes that continued the run."""
        return self._seconds + time.perf_counter() - self._since

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._seconds, self._since = seconds, time.perf_counter()

    def count(self, positions: Array) -> None:
        """Count draws (rungs, chains, draws, d), and which of them lie outside the domain, before they leave memory."""
        self.kept += positions.shape[2]
        self.ensemble.count(positions)

    def report(self) -> Report:
        """Settings, counts and figures of the run so far, in plain types."""
        ensemble, phases = self.ensemble, self.phases
        cut = phases.evaluation_budget.warnings(self.kept, exhausted=self.exhausted)
        report = run_report.report(ensemble, self.potentials)
        report |= {
            **phases.report(),
            "modes": ensemble.mode_occupancy.report(self.problem),
            "warnings": [
                *([] if self.stopped is None else [coded("IV-STOPPED", self.stopped)]),
                *self._labels(),
                *phases.checks.warnings,
                *cut,
                *report["warnings"],
            ],
            "warmup_evaluations": dict(self._warm_up_evaluations),
            "failure_message": next(iter(self._failure_messages), None),
            "boundary": str(self.boundary),
            "outside": [count / max(1, self.kept * self.plan.chains) for count in ensemble.outside],
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
            "warming": phases.warming,
            "processes": self.processes(),
            "posed": posed(self.problem),
            "grids": dict(getattr(self.problem, "grids", {})),
        }
        return report if self.coarse is None else self.coarse.report(report)

    def _labels(self) -> list[str]:
        """The description of draws that are not those of the posterior."""
        if not self.rungs:
            return []
        cold = self.rungs[0]
        found = label(cold.target, cold.iteration, self.plan.thin * max(1, self.kept))
        return [] if found is None else [found]

    @property
    def _failure_messages(self) -> list[str]:
        """Messages of the last failed solves, the finest first; those before a restore if none has failed since."""
        # a model that other runs have had keeps their messages
        failed = [potential for potential in reversed(self.potentials.values()) if potential.failed]
        found = [failure_message(self.problem, potential) for potential in failed]
        return [message for message in found if message is not None] or self._messages_before

    @_failure_messages.setter
    def _failure_messages(self, messages: list[str]) -> None:
        self._messages_before = messages

    def _turn(self) -> None:
        """Begin draws if that is due after a step; where a trial has failed there are none any more."""
        phases = self.phases
        if phases.drawing != (self.warmed is None):
            return
        drawing = phases.drawing
        self.warmed, self.kept = self.done if drawing else None, 0
        phases.ensemble.forget()
        phases.checks.draw(phases.ensemble.rungs[0] if drawing else None)
        if drawing and self.plan.check_gradient:
            phases.checks.stability.before(phases.ensemble.rungs, warmed=True)
        self._warm_up_evaluations = {name: e.evaluations for name, e in self.potentials.items()} if drawing else {}
        if self.coarse is not None and self.coarse.found is not None and self.exchange is not None:
            self.exchange.begin_count()
