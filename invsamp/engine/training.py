"""Learning in warm-up what a coarse model lacks: it is sampled alone, then solved beside the fine one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from invsamp.automatic import Automatic
from invsamp.contract import Array, Plain
from invsamp.corrected_exchange import CorrectedExchange, exchange, how_often
from invsamp.corrections.learning import (
    Correction,
    LevelCorrection,
    Refittable,
    learnt,
    refitted,
    stated_cost,
    whole,
)
from invsamp.diagnostics.draws import ess, rhat
from invsamp.engine.engine import Engine
from invsamp.engine.ladder_search import Heir
from invsamp.engine.plan import Plan
from invsamp.engine.rung import RungAtWork
from invsamp.engine.streams import Saved
from invsamp.evaluate.counted import CountedPotential
from invsamp.evaluate.requests import Asks, Request
from invsamp.kernels import PriorDraws
from invsamp.ladder import Sampler
from invsamp.posing.posterior import Posterior

#: Steps of the coarse side after its warm-up, whose draws are judged, and how often so many more are made at the most.
STEPS, MOST_ROUNDS = 300, 5
#: The coarse chains agree below this R-hat.
AGREED = 1.05
#: Pairs that are solved in one step of the run.
AT_ONCE = 25
#: Parameters, evenly spread, by which the coarse side is judged.
JUDGED = 500


class Found(NamedTuple):
    """What training has come to."""

    level: LevelCorrection
    correction: Correction
    sampler: Sampler  # the exchange
    heirs: list[Heir]  # of its rungs
    every: int

    def report(self) -> Plain:
        """In plain types."""
        told = {name: getattr(self.level, name) for name in _TOLD}
        return told | {"sd": dict(self.level.sd), "pays": self.level.pays, "every": self.every}


#: Of a level.
_TOLD = "fidelity", "kind", "efficiency", "pairs", "failed", "relative_cost"


class Training:
    """The coarse side of one fidelity alone, and the pairs; `step` by step, until it is `over`.

    Parameters
    ----------
    posterior : Posterior
    fidelity : str
        The coarse one.
    settings : CorrectedExchange
    plan : Plan
        Of the whole run.
    potentials : mapping
        Counted ones, of the run.
    relative_cost : float
        Of a fine solve to a coarse one.
    do : callable
        `Engine.do` of the run.
    """

    def __init__(
        self,
        posterior: Posterior,
        fidelity: str,
        settings: CorrectedExchange,
        plan: Plan,
        potentials: dict[str, CountedPotential],
        relative_cost: float,
        do: Callable[[list[Asks[None]]], object],
    ) -> None:
        self.posterior, self.fidelity, self._settings, self._do = posterior, fidelity, settings, do
        self.relative_cost = relative_cost
        self._potential = potentials[fidelity]
        alone = posterior.with_forward({fidelity: posterior.forward[fidelity]})
        sampler = Automatic() if settings.alone is None else settings.alone
        own = replace(plan, draws=STEPS, thin=1, schedule_steps=None)
        #: The run of the coarse fidelity alone.
        self.coarse = Engine(alone, sampler, own, {fidelity: self._potential})
        self._drawn: list[Array] = []
        self._wanted, self._before = STEPS, 0
        self._states: Array | None = None  # of the pairs, positions (n, d)
        self._solved: list[tuple[Array, Array]] = []  # coarse and fine observations there, of the model's own data
        self.told: list[str] = []
        self._steps, self._gradients = 1.0, 1.0

    @property
    def over(self) -> bool:
        """Whether all pairs are solved."""
        return self._states is not None and sum(len(fine) for _, fine in self._solved) == len(self._states)

    def begin(self, positions: Array | None) -> None:
        """Place the coarse chains."""
        chains = self.coarse.plan.chains
        self.coarse.begin(positions if positions is None else positions[-chains:])

    def step(self) -> None:
        """A step of the coarse chains, or some pairs."""
        if self._states is not None:
            self._do([self._solve(self._states)])
            return
        coarse = self.coarse
        if not coarse.warming and not self._drawn:
            self._before = self._potential.evaluations
        coarse.step()
        if coarse.warmed is None or coarse.drawn == 0:
            return
        self._drawn.append(coarse.rungs[0].position.copy())
        if len(self._drawn) == self._wanted:
            self._judge()

    def _judge(self) -> None:
        """Go on with the coarse chains, or take the states of the pairs."""
        draws = np.stack(self._drawn, axis=1)
        some = draws[:, :, :: max(1, -(-draws.shape[2] // JUDGED))]
        worst = 1.0 if len(draws) == 1 else float(np.nanmax(rhat(some), initial=1.0))
        if worst > AGREED and self._wanted < MOST_ROUNDS * STEPS:
            self._wanted += STEPS
            return
        self._steps = time_of(some)
        solves = self._potential.evaluations - self._before
        self._gradients = solves / draws[..., 0].size
        agreed = "" if worst <= AGREED else f"; they do not agree, R-hat {worst:.3f} is above {AGREED:g}"
        told = f"{self.fidelity!r} alone: {draws[..., 0].size:,} draws, {self._steps:.3g} of them worth one{agreed}"
        self.told = [*self.coarse.report()["decisions"], told]
        rows = draws.swapaxes(0, 1).reshape(-1, draws.shape[2])
        self._states = rows[np.linspace(0, len(rows) - 1, min(self._settings.pairs, len(rows))).round().astype(int)]
        self._drawn = []

    def _solve(self, states: Array) -> Asks[None]:
        begin = sum(len(fine) for _, fine in self._solved)
        at = states[begin : begin + AT_ONCE]
        names = self.fidelity, self.posterior.fidelities[-1]
        coarse, fine = yield tuple([Request(name, at, gradient=False, observations=True) for name in names])
        for found in (coarse, fine):
            found.gradient[~np.isfinite(found.energy)] = np.nan
        self._solved.append((coarse.gradient, fine.gradient))

    def found(self) -> Found:
        """What came of it, when it is over; `ValueError` where fewer than ten pairs could be solved."""
        assert self._states is not None
        posterior, name, settings = self.posterior, self.fidelity, self._settings
        theta = posterior.to_theta(self._states)
        coarse, fine = (np.concatenate(part) for part in zip(*self._solved, strict=True))
        fine = posterior.among_data(fine, posterior.fidelities[-1])
        model = posterior.forward[name]
        fitted = None
        if isinstance(model, Refittable):
            solved = whole(fine)
            fitted = refitted(posterior, model, name, theta[solved], fine[solved])
            posterior = Correction(name, None, fitted).applied(posterior)
            y = posterior.predict(theta, name).reshape(len(theta), -1)
        else:
            y = posterior.among_data(coarse, name)
        rng = np.random.default_rng(self.coarse.plan.seed)
        level = learnt(posterior, name, theta, y, fine, settings.correct, rng)
        composition = self.coarse.work.composition
        every = settings.every or how_often(self._steps, self._gradients, self.relative_cost)
        heirs = [_heir(rung) for rung in self.coarse.rungs]
        heirs.insert(0, Heir(heirs[0].position.copy(), heirs[0].metric, None))
        sampler = exchange(composition, name, every, settings.local)
        return Found(
            level.level(name, self.relative_cost), Correction(name, level.found, fitted), sampler, heirs, every
        )

    def state(self) -> Saved:
        """For `restore`."""
        return {
            "coarse": self.coarse.state(),
            "drawn": np.array(self._drawn),
            "wanted": self._wanted,
            "before": self._before,
            "states": self._states,
            "solved": [list(pair) for pair in self._solved],
            "told": list(self.told),
            "steps": self._steps,
            "gradients": self._gradients,
        }

    def restore(self, state: Saved) -> None:
        """Go on from a state, in place of `begin`."""
        self.coarse.restore(state["coarse"])
        self._drawn, self._wanted, self._before = list(state["drawn"]), state["wanted"], state["before"]
        self._states, self._solved = state["states"], [(coarse, fine) for coarse, fine in state["solved"]]
        self.told, self._steps, self._gradients = list(state["told"]), state["steps"], state["gradients"]


def _heir(rung: RungAtWork) -> Heir:
    moves = rung.adjusted and not isinstance(rung.kernel, PriorDraws)
    return Heir(rung.position.copy(), rung.metric, float(np.mean(rung.step_size)) if moves else None)


def time_of(draws: Array) -> float:
    """Steps that are worth an independent draw (chains, n, d) of the slowest parameter, or of its square."""
    centred = draws - draws.mean(axis=(0, 1))
    sizes = ess(np.concatenate([draws, np.square(centred)], axis=2))
    least = float(np.nanmin(sizes, initial=math.inf))
    return max(1.0, draws[..., 0].size / least) if least > 0.0 else math.inf


def costs(posterior: Posterior, answer: Callable[[tuple[Request, ...]], object], at: Array) -> dict[str, float]:
    """What an energy of each fidelity costs: as the models state it, or else the seconds of one at ``at`` (1, d)."""
    stated = {name: stated_cost(model) for name, model in posterior.forward.items()}
    if all(cost is not None for cost in stated.values()):
        return {name: cost for name, cost in stated.items() if cost is not None}
    return {name: _seconds(name, answer, at) for name in stated}


def _seconds(name: str, answer: Callable[[tuple[Request, ...]], object], at: Array) -> float:
    shortest = math.inf
    for _ in range(2):  # the first one may have to compile
        began = time.perf_counter()
        answer((Request(name, at, gradient=False),))
        shortest = min(shortest, time.perf_counter() - began)
    return max(shortest, 1e-12)
