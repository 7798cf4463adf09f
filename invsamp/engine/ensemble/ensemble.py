"""The rungs of one composition at work, their swaps, and who answers for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from invsamp.domains.boundary import Boundary
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.mode_search.mode_occupancy import ModeOccupancy
from invsamp.engine.rungs.compatibility import check_targets, fidelity_of
from invsamp.engine.rungs.noise_estimates import share_pilots
from invsamp.engine.rungs.prior_access import Priors
from invsamp.engine.rungs.random_streams import Saved
from invsamp.engine.rungs.rung_chains import Counts, RungChains, take_gradients_along
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Answer, EvaluationRequests, Queue, Result, answered, as_they_come, done, gathered
from invsamp.ladder import Sampler
from invsamp.protocols import Array, Problem

#: Steps that rungs make at the most, and seconds that these may take, before all of them stand at the same one: the
#: signal that ends a run waits for that.
AHEAD, LONGEST = 16, 0.25
#: Is told the number of a rung, and how many steps it has made, after each but the last of some.
Keep = Callable[[int, int], None]


class Ensemble:
    """What steps are made of: rungs from cold to hot, and their swaps (None for one rung).

    Parameters
    ----------
    problem : Problem
    plan : Plan
    boundary : Boundary
        Of the sampler.

    Attributes
    ----------
    sampled : SampledProblem
        The problem as the sampler sees it.
    potentials : dict of str to CountedPotential
        By fidelity.
    composition : Sampler
        That the rungs are made of.
    visits : Visits
        What descents found of the posterior's modes, where they were made.
    outside : list of int
        Draws of each rung that lie outside the domain.
    given : ndarray (chains, d), optional
        Where the user lets the chains start.
    parallel : bool
        Whether what all rungs ask for at a time is to be answered together.
    queue : Queue, optional
        Who answers each rung as soon as its own answers are there.
    """

    composition: Sampler
    answer: Answer

    def __init__(self, problem: Problem, plan: Plan, boundary: Boundary) -> None:
        self.problem, self.plan, self.boundary = problem, plan, boundary
        self.sampled = boundary.apply(problem)
        self.priors = Priors(problem, self.sampled, boundary)
        self.potentials: dict[str, CountedPotential] = {}
        self.rungs: list[RungChains] = []
        self.exchange: Exchange | None = None
        self.mode_occupancy = ModeOccupancy()
        self.outside: list[int] = []
        self.given: Array | None = None
        self.parallel = False
        self.queue: Queue | None = None
        self._pace = LONGEST  # seconds of a step

    def answered_by(self, potentials: dict[str, CountedPotential]) -> None:
        """Let these answer."""
        self.potentials = potentials
        self.answer = next(iter(potentials.values())).answer_all

    def share(self, answer: Answer, queue: Queue | None = None) -> None:
        """Let others answer, all that is asked for at a time at once; or each rung by itself, in draws."""
        self.answer, self.queue, self.parallel = answer, queue, True
        for rung in self.rungs:
            rung.share(answer)

    def do(self, askings: Sequence[EvaluationRequests[Result]]) -> list[Result]:
        """What comes of some that ask and do not depend on each other."""
        if self.parallel:
            return answered(gathered(askings), self.answer)
        answer = self.answer
        return [answered(asking, answer) for asking in askings]

    def fit(self, composition: Sampler) -> None:
        """See that the potentials can tell what these laws need, and that they do."""
        check_targets(composition, self.potentials)
        for potential in self.potentials.values():
            potential.apart = _apart(composition)

    def assemble(self, composition: Sampler, streams: tuple[int, ...]) -> None:
        """Make the rungs of a composition, which are not placed yet; their random streams are spawned from there."""
        seed = np.random.SeedSequence(self.plan.seed, spawn_key=streams)
        self.composition = composition
        settings, domain = composition.rungs, self.sampled.sampling_domain
        self._swap_seed, *seeds = seed.spawn(len(settings) + 1)
        self.rungs = [
            RungChains(
                rung,
                self.potentials[fidelity_of(self.problem, rung.fidelity)],
                domain,
                own,
                self.plan.schedule_steps,
                _apart(composition),
                self.priors,
            )
            for rung, own in zip(settings, seeds, strict=True)
        ]
        share_pilots(self.rungs)
        take_gradients_along(self.rungs)
        if self.parallel:
            self.share(self.answer, self.queue)
        self.exchange, self.outside = None, [0] * len(self.rungs)

    def meet(self) -> None:
        """Let neighbors swap, once the rungs are placed or restored."""
        if len(self.rungs) > 1:
            self.exchange = Exchange(self.composition.swap, self.rungs, self._swap_seed)

    def move(self) -> None:
        """One step of every rung, and of the swaps."""
        if self.parallel:
            self.do([rung.moves() for rung in self.rungs])
        else:
            answer = self.answer
            for rung in self.rungs:
                done(rung.moves(), answer)
        if self.exchange is not None and self.exchange.due():
            self.do([self.exchange.meet()])

    def move_on(self, queue: Queue, most: int, keep: Keep) -> int:
        """As many steps as rungs make before they meet others, each at its own pace, and that meeting: how many.

        The draws are those of as many times `move`, as between meetings no rung looks at another.
        """
        begin, exchange = time.perf_counter(), self.exchange
        steps = max(1, min(most, AHEAD, int(LONGEST / self._pace)))
        groups = [[0]] if exchange is None else exchange.groups
        steps = steps if exchange is None else exchange.ahead(steps)
        as_they_come([self._way(group, steps, keep) for group in groups], queue)
        if exchange is not None:
            self.do([exchange.meet()])
        self._pace = (time.perf_counter() - begin) / steps
        return steps

    def _way(self, group: Sequence[int], steps: int, keep: Keep) -> EvaluationRequests[None]:
        """Steps of rungs that meet after each."""
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
        if self.boundary.leaves:
            domain, d = self.problem.sampling_domain, positions.shape[-1]
            for k, rung in enumerate(positions):
                self.outside[k] += int((~domain.contains(rung.reshape(-1, d))).sum())

    def forget(self) -> None:
        """Begin to count anew."""
        for rung in self.rungs:
            rung.counts = Counts()
        self.mode_occupancy.forget()
        self.outside = [0] * len(self.rungs)

    def state(self) -> Saved:
        """For `restore`."""
        return {
            "rungs": [rung.state() for rung in self.rungs],
            "exchange": None if self.exchange is None else self.exchange.state(),
            "mode_occupancy": self.mode_occupancy.state(),
            "outside": list(self.outside),
        }

    def restore(self, state: Saved) -> None:
        """Put rungs and swaps of the present composition where they stood."""
        self.mode_occupancy.restore(state["mode_occupancy"])
        for rung, own in zip(self.rungs, state["rungs"], strict=True):
            rung.restore(own)
            if rung.position.shape != (shape := (self.plan.chains, self.problem.dimension)):
                # compiled code takes it as it is
                raise ValueError(f"the state must hold positions of shape {shape}, got {rung.position.shape}")
        self.outside = list(state["outside"])
        self.meet()
        if self.exchange is not None:
            self.exchange.restore(state["exchange"])


def _apart(composition: Sampler) -> bool:
    """Whether some law needs prior and misfit apart."""
    return any(rung.target.needs_prior for rung in composition.rungs)
