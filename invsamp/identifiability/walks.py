"""Walks along a profile: from a mode down and up one parameter, all others fitted anew at each step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from invsamp.domains.contract import Domain
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Estimate, EvaluationRequests, Request, answered
from invsamp.identifiability.intervals import Branch
from invsamp.modes import Modes
from invsamp.modes.descent import Descent, descend
from invsamp.modes.objective import Evaluate, Objective
from invsamp.protocols import Array, Problem

#: Rise of the energy from point to point, as a share of the rise at which a walk ends; and above which a step is
#: made again, and shorter.
SHARE, MOST_SHARE = 0.2, 0.6
#: A walk ends at so many times the rise.
BEYOND = 1.05
#: Points of one side at most, and halvings of the first step that come to one too short to try: what is left where
#: steps end outside, or cannot be fitted.
MOST_POINTS, HALVINGS = 60, 10
#: Energy that each fit leaves to gain.
TOLERANCE = 1e-4
#: Scales from the best point at which an unbounded side is given up.
FARTHEST = 1e4
#: A walk passes through a mode if it comes so near, in sds of the mode's Gaussian.
NEAR = 0.5


class Begun(NamedTuple):
    """A mode at which walks begin."""

    position: Array  # (d,)
    energy: float
    spread: Array  # (d,) of the mode's Gaussian, or a guess


@dataclass
class _Side:
    """A walk down or up from the best point."""

    positions: list[Array]
    energies: list[float]
    step: float
    least: float
    failed: list[float] = field(default_factory=list)
    end: str = ""

    def start(self, k: int, domain: Domain) -> Array:
        """Where the next fit begins: straight on from the last two, within the domain if that is inside."""
        here = self.positions[-1]
        ahead = here.copy()
        if len(self.positions) > 1:
            before = self.positions[-2]
            ahead = here + (here - before) * (self.step / (here[k] - before[k]))
        ahead[k] = here[k] + self.step
        if not domain.contains(ahead[None])[0]:
            ahead = here.copy()
            ahead[k] += self.step
        return ahead

    def shorten(self, end: str) -> None:
        """Try nearer by, or end so."""
        self.step *= 0.5
        if abs(self.step) < self.least:
            self.end = end

    def overshot(self, energy: float, rise: float) -> bool:
        """Whether a fit has risen by too much, as after a first step at a guess: then the next is nearer by."""
        gain = energy - self.energies[-1]
        shorter = self.step * float(np.clip(np.sqrt(SHARE * rise / max(gain, 1e-12)), 0.1, 0.5))
        if gain <= MOST_SHARE * rise or abs(shorter) < self.least:
            return False
        self.step = shorter
        return True

    def take(self, position: Array, energy: float, rise: float) -> None:
        """A fit that was had; the next step is to rise by its share."""
        gain = energy - self.energies[-1]
        self.positions.append(position)
        self.energies.append(energy)
        self.step *= float(np.clip(np.sqrt(SHARE * rise / max(gain, 1e-12)), 0.5, 2.0))
        if energy - self.energies[0] > BEYOND * rise:
            self.end = "reached"


@dataclass(frozen=True)
class Walks:
    """Everything that walks along profiles share, for any parameter.

    Attributes
    ----------
    scale : ndarray, shape (d,)
        Of positions.
    most : int
        Evaluations of one fit.
    rise : float
        Of the energy above the lowest mode, to which profiles go.
    likelihood : bool
        Whether they are of the misfit alone.
    """

    problem: Problem
    solver: CountedPotential
    scale: Array
    most: int
    rise: float
    likelihood: bool

    def begin(self, modes: Modes) -> list[Begun]:
        """The modes within the rise, the lowest first."""
        end = self._fit(modes.position, self.scale)
        spread = np.where(np.isfinite(modes.sds), modes.sds, 0.1 * self.scale)
        order = np.argsort(end.energy, kind="stable")
        within = order[end.energy[order] <= end.energy[order[0]] + self.rise]
        return [Begun(end.position[j], float(end.energy[j]), spread[j]) for j in within]

    def along(self, k: int, modes: list[Begun]) -> tuple[tuple[Branch, ...], tuple[float, ...]]:
        """Both sides of one parameter, from each mode through which no walk before has passed; where fits failed."""
        walked: list[tuple[_Side, _Side]] = []
        for mode in modes:
            if not any(_passes(sides, mode, k) for sides in walked):
                # its own rise, so that all walks end at one energy
                walked.append(self._walk(mode, k, self.rise - (mode.energy - modes[0].energy) / BEYOND))
        failed = [value for sides in walked for side in sides for value in side.failed]
        return tuple(self._branch(*sides, k) for sides in walked), tuple(failed)

    def _walk(self, mode: Begun, k: int, rise: float) -> tuple[_Side, _Side]:
        best, step = mode.position, np.sqrt(2.0 * rise * SHARE) * float(mode.spread[k])
        fixed = np.where(np.arange(len(best)) == k, 0.0, self.scale)
        energy = float(self._fit(best[None], fixed).energy[0])
        down, up = (_Side([best], [energy], sign * step, step / 2.0**HALVINGS) for sign in (-1.0, 1.0))
        domain: Domain = self.problem.sampling_domain
        while active := [side for side in (down, up) if not side.end]:
            starts = np.stack([side.start(k, domain) for side in active])
            inside = domain.contains(starts)
            for j in np.flatnonzero(~inside):
                active[j].shorten("bound")
            if not inside.any():
                continue
            end = self._fit(starts[inside], fixed)
            good = end.converged & np.isfinite(end.energy)
            for row, j in enumerate(np.flatnonzero(inside)):
                side = active[j]
                if not good[row]:
                    side.failed.append(float(self.problem.to_theta(starts[j : j + 1])[0, k]))
                    side.shorten("failed")
                    continue
                if side.overshot(float(end.energy[row]), rise):
                    continue
                side.take(end.position[row], float(end.energy[row]), rise)
                away = abs(end.position[row, k] - best[k])
                if not side.end and (len(side.positions) > MOST_POINTS or away > FARTHEST * self.scale[k]):
                    side.end = "open"
        return down, up

    def _branch(self, down: _Side, up: _Side, k: int) -> Branch:
        theta = self.problem.to_theta(np.array(down.positions[:0:-1] + up.positions))
        energies = np.array(down.energies[:0:-1] + up.energies)
        ends = (down.end, up.end)
        if theta[0, k] > theta[-1, k]:  # the parameter falls where its coordinate rises
            theta, energies, ends = theta[::-1], energies[::-1], (up.end, down.end)
        return Branch(theta[:, k], energies, theta, ends)

    def _fit(self, positions: Array, scale: Array) -> Descent:
        objective = Objective(self._evaluating(), scale, self.problem.sampling_domain)
        asking = descend(objective, positions, tolerance=TOLERANCE, most=self.most)
        return answered(asking, self.solver.answer_all)

    def _evaluating(self) -> Evaluate:
        def evaluate(at: Array) -> EvaluationRequests[Estimate]:
            (found,) = yield (Request(self.solver.fidelity, at, "apart" if self.likelihood else True),)
            if not self.likelihood:
                return found
            assert found.prior is not None and found.prior_gradient is not None  # as they were asked for
            energy = np.full(len(at), np.inf)
            known = np.isfinite(found.energy)
            energy[known] = found.energy[known] - found.prior[known]
            return Estimate(energy, found.gradient - found.prior_gradient, failed=found.failed)

        return evaluate


def _passes(sides: tuple[_Side, _Side], mode: Begun, k: int) -> bool:
    """Whether walks down and up come near a mode, on the straight way between two points."""
    positions = np.array(sides[0].positions[:0:-1] + sides[1].positions)
    at = mode.position[k]
    if not positions[0, k] <= at <= positions[-1, k]:
        return False
    there = np.array([np.interp(at, positions[:, k], column) for column in positions.T])
    return bool((np.abs(there - mode.position) <= NEAR * mode.spread).all())
