"""What a run for which no sampler was chosen has spent its evaluations on, before its draws."""

from __future__ import annotations

from collections.abc import Mapping

from invsamp.diagnostics.checks import ess_wanted
from invsamp.diagnostics.report import Spent
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.mode_search.multistart import LEAST_LOOK, MOST_POINTS
from invsamp.engine.rungs.random_streams import Saved
from invsamp.evaluate.counted import CountedPotential

#: What evaluations of all fidelities are booked for, in the order in which they are made: descents, with what tells
#: their ends apart; looks for modes that these miss; stages that failed their trials, and their warm-ups; the warm-up
#: of the stage that draws.
PURPOSES = ("descents", "looks", "failed", "warm-up")

#: By how much the effective draws that a trial promises have to exceed those below which a run warns, as a trial is too
#: short to tell of what is slow; and shares of an independent draw that one has to be worth, at the least and most.
MARGIN, LEAST_WORTH, MOST_WORTH = 2.0, 0.06, 0.12

#: Steps that a run is taken to have at the least: what is right for its posterior is worth that much.
LEAST_STEPS = 1000


class EvaluationBudget:
    """The account of a run.

    Parameters
    ----------
    plan : Plan
    potentials : mapping of fidelities to CountedPotential
        Of the run.

    Attributes
    ----------
    descents_most : int
        Evaluations that descents may take: as many as there will be draws, at least `LEAST_LOOK`.
    points_most : int
        Prior points that are looked at in few dimensions: as many as there will be draws, at most `MOST_POINTS`.
    worth : float
        Share of an independent draw that each has to be worth for a trial to pass.
    """

    def __init__(self, plan: Plan, potentials: Mapping[str, CountedPotential]) -> None:
        draws = plan.chains * plan.draws * plan.thin
        self.descents_most, self.points_most = max(draws, LEAST_LOOK), min(draws, MOST_POINTS)
        self.worth = min(max(MARGIN * ess_wanted(plan.chains) / draws, LEAST_WORTH), MOST_WORTH)
        self._potentials, self._steps = potentials, max(plan.draws * plan.thin, LEAST_STEPS)
        self._by = dict.fromkeys(PURPOSES, 0)

    @property
    def total(self) -> int:
        """Evaluations so far."""
        return sum(potential.evaluations for potential in self._potentials.values())

    def looked(self, looks: int) -> None:
        """All so far was for descents, and ``looks`` of it beside them."""
        self._by |= {"descents": self.total - looks, "looks": looks}

    def warmed(self) -> None:
        """A warm-up has ended, whose trial comes now, or draws."""
        self._by["warm-up"] = self._unbooked

    def failed(self) -> None:
        """What came last, and its warm-up, was for nothing."""
        self._by |= {"failed": self._by["failed"] + self._by["warm-up"] + self._unbooked, "warm-up": 0}

    def affords(self, steps: int, trial: int, longer: float) -> bool:
        """Whether a stage may follow whose warm-up and trial are so many steps.

        Each is ``longer`` times as dear as those of the ``trial`` that ends now. All stages that fail may together
        spend as much as its draws would, or `LEAST_STEPS` of them.
        """
        each = longer * self._unbooked / trial
        spent = self._by["failed"] + self._by["warm-up"] + self._unbooked
        return spent + steps * each <= self._steps * each

    def state(self) -> Saved:
        """For `restore`."""
        return dict(self._by)

    def restore(self, state: Saved) -> None:
        """Go on from a state."""
        self._by = dict(state)

    def report(self) -> Spent:
        """In plain types, with the limits."""
        by = self._by
        return {
            "descents": by["descents"],
            "looks": by["looks"],
            "failed": by["failed"],
            "warm-up": by["warm-up"],
            "draws": self._unbooked,
            "descents_most": self.descents_most,
            "points_most": self.points_most,
        }

    @property
    def _unbooked(self) -> int:
        return self.total - sum(self._by.values())
