"""The rungs of one composition and their swaps."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np

from invsamp.engine.ensemble.compiled_blocks import PATIENCE, CompiledBlocks, Recorder, executions, obstacles
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.mode_search.mode_occupancy import ModeOccupancy
from invsamp.engine.rungs.bound_problem import BoundProblem
from invsamp.engine.rungs.compatibility import check_targets
from invsamp.engine.rungs.lasting_state import Lasting, LastingState
from invsamp.engine.rungs.rung_chains import RungChains, StepCounts
from invsamp.evaluate.requests import EvaluationRequests, Queue, answered, as_they_come, done, gathered
from invsamp.evaluate.speculation import FutureRequests
from invsamp.kernels.prior_sampler import PriorDraws
from invsamp.ladder import Sampler
from invsamp.protocols import Array

#: Steps that rungs make at most, and seconds that these may take, before all of them stand at the same one: the
#: signal that ends a run waits for that.
AHEAD, LONGEST = 16, 0.25
#: Is given the number of a rung, and how many steps it has made, after each but the last of some.
Keep = Callable[[int, int], None]


class Ensemble(Lasting, lasting=("mode_occupancy", "rungs", "outside", "exchange")):
    """The parts of steps: rungs from cold to hot, and their swaps (None for one rung).

    Parameters
    ----------
    bound : BoundProblem
    plan : Plan

    Attributes
    ----------
    composition : Sampler
        That the rungs are made of.
    mode_occupancy : ModeOccupancy
        What descents found of the posterior's modes, where they were made.
    outside : list of int
        Draws of each rung that lie outside the domain.
    """

    composition: Sampler

    def __init__(self, bound: BoundProblem, plan: Plan) -> None:
        self.bound, self.plan = bound, plan
        self.rungs: list[RungChains] = []
        self.exchange: Exchange | None = None
        self.mode_occupancy = ModeOccupancy()
        self.outside: list[int] = []
        self._pace = LONGEST  # seconds of a step
        self._twin: Ensemble | None = None  # that runs ahead
        #: Stretches of draws in compiled loops, once there are draws.
        self.compiled: CompiledBlocks | None = None

    def assemble(self, composition: Sampler, streams: tuple[int, ...]) -> None:
        """Make the rungs of a composition, which are not placed yet; their random streams are spawned from there.

        Raises
        ------
        ValueError
            If the potentials do not give what the targets need, or a kernel cannot draw from the prior.
        """
        bound, seed = self.bound, np.random.SeedSequence(self.plan.seed, spawn_key=streams)
        check_targets(composition, bound.potentials)
        if any(isinstance(rung.kernel, PriorDraws) for rung in composition.rungs):
            bound.check_drawable()
        apart = any(rung.target.needs_prior for rung in composition.rungs)
        for potential in bound.potentials.values():
            potential.apart |= apart
        self.composition = composition
        self._swap_seed, *seeds = seed.spawn(len(composition.rungs) + 1)
        self.rungs = [
            RungChains(
                rung,
                bound.potentials[bound.fidelity(rung.fidelity)],
                bound.domain,
                own,
                self.plan.schedule_steps,
                apart,
                bound,
            )
            for rung, own in zip(composition.rungs, seeds, strict=True)
        ]
        _connect(self.rungs)
        self.exchange, self.outside, self.compiled = None, [0] * len(self.rungs), None

    def attempt_swaps(self) -> None:
        """Let neighbors swap, once the rungs are placed or restored."""
        if len(self.rungs) > 1:
            self.exchange = Exchange(self.composition.swap, self.rungs, self._swap_seed)

    def move(self) -> None:
        """One step of every rung, and of the swaps."""
        dispatch = self.bound.dispatch
        if dispatch.shared:
            answered(self.moves(), dispatch.answer)
            return
        answer = dispatch.answer
        for rung in self.rungs:
            done(rung.moves(), answer)
        if self.exchange is not None and self.exchange.due():
            done(self.exchange.attempt_swaps(), answer)

    def moves(self) -> EvaluationRequests[None]:
        """The same, when what is asked for is answered."""
        yield from gathered([rung.moves() for rung in self.rungs])
        if self.exchange is not None and self.exchange.due():
            yield from self.exchange.attempt_swaps()

    def future(self, steps: int) -> FutureRequests:
        """The requests of so many steps from here on, as often as it is called; the ensemble itself stays as it is."""
        if self._twin is None or self._twin.composition is not self.composition:
            self._twin = Ensemble(self.bound, self.plan)
            self._twin.assemble(self.composition, ())
            for rung in self._twin.rungs:
                rung.trust()
        twin, state = self._twin, self.state()

        def requests() -> EvaluationRequests[None]:
            twin.restore(state)
            for _ in range(steps):
                yield from twin.moves()

        return requests

    def move_compiled(self, most: int, drawn: int, thin: int, recorder: Recorder) -> int:
        """At most so many steps of draws in compiled loops; how many were made, 0 where Python is to make the next one.

        The draws are those of as many times `move`.
        """
        if self.compiled is None:
            self.compiled = CompiledBlocks(self.rungs, self.exchange)
        return self.compiled.move(most, drawn, thin, recorder) if self.compiled.ready() else 0

    @property
    def execution(self) -> list[str]:
        """How the steps of each rung's draws are made: in compiled loops, or by Python and why."""
        if self.compiled is not None and self.compiled.execution is not None:
            return self.compiled.execution
        soon = f"Python: the draws took less than {PATIENCE:g} s, or each step is looked at"
        return executions(obstacles(self.rungs, self.exchange), soon)

    def move_on(self, queue: Queue, most: int, keep: Keep) -> int:
        """As many steps as rungs make before they attempt swaps, each at its own pace, and these attempts: how many.

        The draws are those of as many times `move`, as between swap attempts no rung depends on another.
        """
        begin, exchange = time.perf_counter(), self.exchange
        steps = max(1, min(most, AHEAD, int(LONGEST / self._pace)))
        groups = [[0]] if exchange is None else exchange.groups
        steps = steps if exchange is None else exchange.ahead(steps)
        as_they_come([self._way(group, steps, keep) for group in groups], queue)
        if exchange is not None:
            self.bound.dispatch.do([exchange.attempt_swaps()])
        self._pace = (time.perf_counter() - begin) / steps
        return steps

    def _way(self, group: Sequence[int], steps: int, keep: Keep) -> EvaluationRequests[None]:
        """Steps of rungs that attempt swaps after each."""
        for made in range(1, steps + 1):
            yield from gathered([self.rungs[k].moves() for k in group])
            if made < steps:
                if len(group) > 1 and self.exchange is not None:
                    self.exchange.swap_vectorized()
                for k in group:
                    keep(k, made)

    def count(self, positions: Array) -> None:
        """Count draws (rungs, chains, draws, d), and which of them lie outside the domain, before they leave memory."""
        self.mode_occupancy.count(positions[0].reshape(-1, positions.shape[-1]))
        if self.bound.boundary.leaves:
            domain, d = self.bound.problem.sampling_domain, positions.shape[-1]
            for k, rung in enumerate(positions):
                self.outside[k] += int((~domain.contains(rung.reshape(-1, d))).sum())

    def forget(self) -> None:
        """Begin to count anew."""
        for rung in self.rungs:
            rung.counts = StepCounts()
        self.mode_occupancy.forget()
        self.compiled = None
        self.outside = [0] * len(self.rungs)

    def restore(self, state: LastingState) -> None:
        """Put rungs and swaps of the present composition where they stood."""
        super().restore(state)
        shape = self.plan.chains, self.bound.dimension
        for rung in self.rungs:
            if rung.point is not None and rung.position.shape != shape:  # compiled code takes it as it is
                raise ValueError(f"the state must hold positions of shape {shape}, got {rung.position.shape}")

    def _renewed(self, name: str) -> Lasting:
        self.attempt_swaps()
        assert self.exchange is not None
        return self.exchange


def _connect(rungs: Sequence[RungChains]) -> None:
    """Let rungs, from cold to hot, share what they can.

    Those of one fidelity share a pilot where their settings agree; fidelities never do. Rungs that draw from the prior
    ask for gradients where a neighbor can take over what they know: then swaps between them cost nothing.
    """
    for k, rung in enumerate(rungs):
        sharing = (c for c in rungs[:k] if c.fidelity == rung.fidelity and c.noise.may_share(rung.noise))
        rung.noise = next(sharing, rung).noise
    for colder, hotter in itertools.pairwise(rungs):
        known = colder.estimator.exact and hotter.estimator.exact and colder.potential is hotter.potential
        if known and isinstance(hotter.settings.kernel, PriorDraws):
            hotter.gradients = colder.gradients
