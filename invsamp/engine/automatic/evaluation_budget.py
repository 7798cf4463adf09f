"""The budget of evaluations of a run, and what they were spent on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from invsamp.diagnostics.report import Budget, Spent
from invsamp.engine.ensemble.run_settings import Plan
from invsamp.engine.mode_search.multistart import LEAST_LOOK, MOST_POINTS
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.evaluate.counted import CountedPotential
from invsamp.warning_codes import coded

#: What evaluations of all fidelities are booked for, in the order in which they are made: descents, with what separates
#: their ends; looks for modes that these miss; stages that failed their trials, and their warm-ups; the warm-up
#: of the stage that draws.
PURPOSES = ("descents", "looks", "failed", "warm-up")

#: Evaluations per step of a chain that the default budget allows for. On easy posteriors a path takes 3 to 5, on the
#: hardest of the battery (a funnel, a bent ridge) 20 to 60.
ALLOWED = 32
#: Shares of the budget: once the first is spent, the run reports what is slow; at the second, warm-up ends.
NOTICE_SHARE, WARMUP_SHARE = 0.5, 0.75
#: What messages call what evaluations are spent on.
NAMES = {"descents": "optimization", "looks": "mode search", "failed": "rejected pilot runs"}


class EvaluationBudget(Lasting, lasting=("_by", "stopped", "_allowed")):
    """The account of a run.

    Parameters
    ----------
    plan : Plan
    potentials : mapping of fidelities to CountedPotential
        Of the run.
    steps : int, optional
        Steps of all replicas of a chain, which the default budget is for. Default: those of the plan.

    Attributes
    ----------
    stopped : int or None
        Evaluations at which warm-up was stopped, where it was.
    descents_most : int
        Evaluations that descents may take: as many as there will be draws, at least `LEAST_LOOK`; at most a quarter of
        a budget that the user set.
    points_most : int
        Prior points that are looked at in few dimensions: as many as there will be draws, at most `MOST_POINTS`, and
        an eighth of a budget that the user set.
    """

    def __init__(self, plan: Plan, potentials: Mapping[str, CountedPotential], steps: int | None = None) -> None:
        draws = plan.chains * plan.draws * plan.thin
        self._plan = plan
        self.stopped: int | None = None
        self._allowed = ALLOWED * plan.chains * (plan.steps if steps is None else steps)
        self.descents_most, self.points_most = max(draws, LEAST_LOOK), min(draws, MOST_POINTS)
        if plan.evaluations is not None:
            self.descents_most = min(self.descents_most, max(1, plan.evaluations // 4))
            self.points_most = min(self.points_most, max(1, plan.evaluations // 8))
        self._potentials = potentials
        self._by = dict.fromkeys(PURPOSES, 0)

    @property
    def budget(self) -> int:
        """Evaluations of all fidelities that the run may take."""
        return self._plan.evaluations or self._allowed

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
        """Count the last phase, with its warm-up, as rejected."""
        self._by |= {"failed": self._by["failed"] + self._by["warm-up"] + self._unbooked, "warm-up": 0}

    def affords(self, steps: int, trial: int, longer: float) -> bool:
        """Whether a stage may follow whose warm-up and trial are so many steps: whether warm-up would not end in it.

        Each is ``longer`` times as expensive as those of the ``trial`` that ends now.
        """
        return self.total + longer * self._unbooked / trial * steps <= WARMUP_SHARE * self.budget

    @property
    def noticeable(self) -> bool:
        """Whether so much is spent that the run reports what is slow."""
        return self.total >= NOTICE_SHARE * self.budget

    @property
    def ends_warm_up(self) -> bool:
        """Whether the rest of the budget is for draws."""
        return self.total >= WARMUP_SHARE * self.budget

    def allow(self, steps: int) -> None:
        """Allow for so many steps of a chain from now on, where the user set no budget."""
        self._allowed = self.total + ALLOWED * self._plan.chains * steps

    def expected(self, done: int, steps: int) -> float:
        """Evaluations of the whole run, at the rate of the ``done`` of about ``steps`` steps."""
        return self.total + self._rate(done) * (steps - done)

    def notice(self, done: int, steps: int, *, warming: bool) -> str:
        """The warning of a slow run, after ``done`` of about ``steps`` steps."""
        phase = "warm-up" if warming else "sampling"
        by = {NAMES.get(name, name): count for name, count in self._by.items() if name != "draws"}
        by[phase] = by.get(phase, 0) + self._unbooked
        parts = ", ".join(f"{name} {count:,}" for name, count in by.items() if count)
        then = "warm-up ends once three quarters are spent, and " if warming else ""
        if self._plan.evaluations is None:
            then += "no draws are left out, unless evaluations= sets a limit"
        else:
            then += "sampling stops when all of it is spent"
        return coded(
            "IV-BUDGET",
            f"half of the budget of {self.budget:,} evaluations is spent at step {done:,} of about {steps:,}, most of "
            f"it on {max(by, key=lambda name: by[name])} ({parts}). One step of a chain takes "
            f"{self._rate(done) / self._plan.chains:.3g} evaluations. At this rate the run takes about "
            f"{self.expected(done, steps):,.0f}; {then}. Steps are expensive where the posterior is narrow or "
            "strongly curved in some direction, or where a ladder has many replicas",
        )

    def warnings(self, kept: int, *, exhausted: bool) -> list[str]:
        """Warnings of phases that the budget has cut short; ``kept`` draws of each chain were made."""
        found = []
        if self.stopped is not None:
            found.append(
                coded(
                    "IV-BUDGET",
                    f"warm-up was stopped after {self.stopped:,} evaluations, as three quarters of the budget "
                    f"of {self.budget:,} were spent. Step size and metric have not converged, so draws may be "
                    f"more correlated than necessary. Allow more, evaluations={4 * self.budget}, or "
                    "reparametrize so that the posterior is less narrow or curved.",
                )
            )
        if exhausted and kept < self._plan.draws:
            found.append(
                coded(
                    "IV-BUDGET",
                    f"sampling stopped after {kept} of {self._plan.draws} draws, as the budget of {self.budget:,} "
                    "evaluations was spent. Raise evaluations=. A run in a directory continues with "
                    "iv.resume(directory, evaluations=...).",
                )
            )
        return found

    def report(self) -> Spent:
        """In plain types, with the limits."""
        found = {"draws": self._unbooked, "descents_most": self.descents_most, "points_most": self.points_most}
        return cast(Spent, self._by | found)

    def limits(self) -> Budget:
        """The budget, in plain types."""
        return {"evaluations": self.budget, "given": self._plan.evaluations is not None, "stopped": self.stopped}

    def _rate(self, done: int) -> float:
        """Evaluations of a step of all chains, on average, without the search for modes."""
        return (self.total - self._by["descents"] - self._by["looks"]) / max(1, done)

    @property
    def _unbooked(self) -> int:
        return self.total - sum(self._by.values())
