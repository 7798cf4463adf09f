"""How long a run is."""

from __future__ import annotations

from dataclasses import dataclass

from invsamp.arguments import boolean, integer, optional, store


@dataclass(frozen=True)
class Plan:
    """How long a run is, how many chains it has, and its seed.

    Parameters
    ----------
    draws, warmup, thin, chains : int
        As of `invsamp.sample`.
    seed : int
        Fixes the draws.
    schedule_steps : int, optional
        Steps over which schedules of the step size are spread. Default: those of this plan; a plan that more draws are
        asked of later (`dataclasses.replace`) keeps them.
    stops_early : bool
        Whether warm-up may end before, once what it learns has converged: then ``warmup`` is the most.
    check_gradient : bool
        Whether gradients are compared with energies before the first step.
    evaluations : int, optional
        Budget of evaluations of all fidelities. Default: estimated, for a notice and for warm-up alone
        (`invsamp.engine.evaluation_budget`).

    Raises
    ------
    ValueError
        If a number is below what makes sense.
    """

    draws: int
    warmup: int
    thin: int
    chains: int
    seed: int
    schedule_steps: int | None = None
    stops_early: bool = False
    check_gradient: bool = True
    evaluations: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("warmup", 0), ("thin", 1), ("chains", 1), ("seed", 0)):
            store(self, **{name: integer(name, getattr(self, name), least=least)})
        boolean("stops_early", self.stops_early)
        boolean("check_gradient", self.check_gradient)
        optional(integer, "evaluations", self.evaluations, least=1)
        if self.schedule_steps is None:
            object.__setattr__(self, "schedule_steps", self.steps)

    @property
    def steps(self) -> int:
        """Steps of the whole run, at most."""
        return self.warmup + self.draws * self.thin
