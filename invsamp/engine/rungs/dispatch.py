"""The evaluator of a run: this process by default, or others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Answer, Estimate, EvaluationRequests, Queue, Request, Result, answered, gathered
from invsamp.evaluate.speculation import FutureRequests
from invsamp.protocols import Array


class Dispatch:
    """Sends what a run asks for to whoever evaluates.

    Attributes
    ----------
    answer : callable
        Evaluates requests.
    queue : Queue, optional
        Evaluates the requests of each rung as they come, in draws.
    shared : bool
        Whether others evaluate: what all rungs ask for at a time is sent together.
    corrected : callable
        Is given what has changed potentials here and has to elsewhere: each `Correction` of a coarse model that warm-up
        learned, and the `Recentering` of a run.
    follow : callable
        Is called before each step of draws, with a function that makes a generator of the requests to come.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.queue: Queue | None = None
        self.shared = False
        self.corrected: Callable[[object], object] = lambda change: None
        self.follow: Callable[[Callable[[], FutureRequests]], None] | None = None

    def share(self, answer: Answer, queue: Queue | None = None) -> None:
        """Let others evaluate, all that is asked for at a time at once; or each rung by itself, in draws."""
        self.answer, self.queue, self.shared = answer, queue, True

    def do(self, askings: Sequence[EvaluationRequests[Result]]) -> list[Result]:
        """The results of generators that ask for evaluations and do not depend on each other."""
        if self.shared:
            return answered(gathered(askings), self.answer)
        answer = self.answer
        return [answered(asking, answer) for asking in askings]


class Uncounted:
    """A potential as whoever evaluates for a run does, with evaluations that are not counted: those of checks."""

    def __init__(self, potential: CountedPotential, answer: Answer) -> None:
        self._potential, self._answer, self.dimension = potential, answer, potential.dimension

    def energy(self, position: Array) -> Array:
        """Energy (n,), +inf where it is not finite."""
        return self.answer((Request(self._potential.fidelity, position, gradient=False),))[0].energy

    def energy_and_gradient(self, position: Array) -> tuple[Array, Array]:
        """Energy and gradient (n, d); +inf and 0 where either is not finite."""
        (found,) = self.answer((Request(self._potential.fidelity, position),))
        return found.energy, found.gradient

    def answer(self, requests: tuple[Request, ...]) -> tuple[Estimate, ...]:
        """Requests of this fidelity."""
        potential = self._potential
        before = potential.counts
        found = self._answer(requests)
        potential.counts = before
        return found
