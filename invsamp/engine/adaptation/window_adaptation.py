"""Warm-up: finds the preconditioner, the step sizes and the variances, then freezes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from invsamp.engine.adaptation.initial_descent import starts_by_descent
from invsamp.engine.adaptation.step_size_and_metric import Tuner
from invsamp.engine.adaptation.temperature_schedule import WarmStart
from invsamp.engine.exchange.swap_scheduler import Exchange
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.engine.rungs.rung_chains import RungChains
from invsamp.evaluate.requests import EvaluationRequests
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.ladder import Rung
from invsamp.ladder.preconditioner import Preconditioner
from invsamp.protocols import Problem
from invsamp.tempering.contours import Contour
from invsamp.variances.kernel_ridge_model import KernelRidge

#: Lengths of the windows as fractions of warm-up, which grow as Stan's do (Carpenter et al. 2017, J. Stat. Softw. 76).
#: The metric is renewed after each but the last, which finds the step size.
WINDOWS: tuple[float, ...] = (0.15, 0.15, 0.2, 0.2, 0.3)
#: The same for a warm-up that another one follows: its preconditioner is renewed once.
HALVES: tuple[float, ...] = (0.5, 0.5)
#: The same where warm-up may end before: when a window teaches nothing new, the last one follows at once.
STOPPING_WINDOWS: tuple[float, ...] = (0.08, 0.08, 0.14, 0.28, 0.3, 0.12)
SHORTEST = 100
#: Pilot states from which each variance model learns, over all chains, where it does not ask for another number.
PILOT_STATES = 100
#: How much more often than it takes for those states a pilot is shown where the chains are, to learn what it lacks.
MORE_OFTEN = 4


class WarmUp(Lasting, lasting=("_done", "_window", "_ends", "_tuners")):
    """Warm-up at work, step by step; afterwards every rung is ready to sample.

    Parameters
    ----------
    problem : Problem
    rungs : list of RungChains
        Placed, each at its start (`begin`) or where it was (`restore`).
    exchange : Exchange or None
    steps : int
        Length of warm-up, at most.
    preconditioner : None, "diagonal", "dense", Given or LearnedMap
    do : callable
        What comes of some generators that ask and do not depend on each other (`Engine.do`).
    windows : sequence of float
        `WINDOWS`, or `HALVES`.
    may_stop : bool
        Whether it ends once energies and metric have converged; with one rung that is optimized, and adjusted.
    """

    def __init__(
        self,
        problem: Problem,
        rungs: list[RungChains],
        exchange: Exchange | None,
        steps: int,
        preconditioner: Preconditioner,
        do: Callable[[Sequence[EvaluationRequests[Any]]], list[Any]],
        windows: Sequence[float] = WINDOWS,
        may_stop: bool = False,
    ) -> None:
        self._rungs, self._exchange, self._do = rungs, exchange, do
        self._tuners = [Tuner(problem, rung, preconditioner, alone=_alone(rungs)) for rung in self._rungs]
        self._may_stop = (
            may_stop and len(rungs) == 1 and starts_by_descent(rungs[0]) and rungs[0].settings.kernel.adjusted
        )
        windows = STOPPING_WINDOWS if self._may_stop else windows
        self._ends: list[int] = [0, *np.rint(np.cumsum(windows) * steps).astype(int).tolist()]
        count = _snapshots([rung.settings for rung in rungs], len(self._rungs[0].position))
        self._snapshots = _spread(count, steps)
        self._more = _spread(min(MORE_OFTEN * count, int(0.6 * steps)), steps)
        self._done, self._window = 0, 0

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._window == len(self._ends) - 1

    def begin(self, warm_starts: Sequence[WarmStart] = (), *, lead: bool = True) -> None:
        """Before the first step; ``warm_starts`` are what the rungs continue from, where there was a warm-up before.

        Otherwise the chains are optimized, if they are to be.
        """
        for rung in self._rungs:
            rung.warming = True
        self._do([tuner.begin(lead=lead and not warm_starts) for tuner in self._tuners])
        for tuner, warm_start in zip(self._tuners, warm_starts, strict=bool(warm_starts)):
            tuner.inherit(warm_start)
        self._open()
        self._turn()

    def step(self) -> None:
        """One step of every rung, and what is learned from it.

        Raises
        ------
        RuntimeError
            After the last one, if gradients are noisier than a rung may have them (`invsamp.ladder.GradientNoise`).
        """
        first, end = self._ends[self._window : self._window + 2]
        self._do([tuner.step((self._done - first) / (end - first)) for tuner in self._tuners])
        self._train()
        if self._exchange is not None and self._exchange.due():
            self._do([self._exchange.attempt_swaps()])
        self._done += 1
        self._turn()

    def stop(self) -> None:
        """End with what has been found by now: the metric of the last whole window, and the present step sizes."""
        if not self._last:
            self._do([tuner.open(0, True) for tuner in self._tuners])
        self._do([tuner.close(True) for tuner in self._tuners])
        self._window = len(self._ends) - 1
        self._finish()

    def _train(self) -> None:
        """Variance models learn from some of the steps: all rungs first probe, then learn, cold to hot."""
        due = [rung for rung in self._rungs if self._is_due(rung)]
        if not due:
            return
        found = self._do([rung.sample_variances() for rung in due])
        for rung, samples in zip(due, found, strict=True):
            if samples is not None:
                rung.noise.learn(samples)

    def _is_due(self, rung: RungChains) -> bool:
        models = rung.noise.energy_model, rung.noise.gradient_model
        has_pilot = any(isinstance(model, KernelRidge) for model in models)
        return rung.settings.learns_variance and self._done in (self._more if has_pilot else self._snapshots)

    @property
    def _last(self) -> bool:
        return self._window == len(self._ends) - 2

    def _open(self) -> None:
        first, end = self._ends[self._window : self._window + 2]
        if self._last and self._exchange is not None:
            self._exchange.reset()  # the measurement is of chains that are stationary, as far as possible
        self._do([tuner.open(end - first, self._last) for tuner in self._tuners])

    def _turn(self) -> None:
        """Close the windows that end here, and open those that begin; a short warm-up has empty ones."""
        while not self.over and self._done == self._ends[self._window + 1]:
            self._do([tuner.close(self._last) for tuner in self._tuners])
            self._window += 1
            if self._may_stop and self._window < len(self._ends) - 2 and self._tuners[0].settled:
                self._skip()
            if self._window < len(self._ends) - 1:
                self._open()
            else:
                self._finish()

    def _skip(self) -> None:
        """The last window follows at once."""
        last = self._ends[-1] - self._ends[-2]
        self._ends[-2:] = [self._done, self._done + last]
        self._window = len(self._ends) - 2

    def _finish(self) -> None:
        for rung in self._rungs:
            rung.noise.finish()
        for tuner in self._tuners:
            tuner.settle()
        if self._exchange is not None:
            self._exchange.resolve()
            self._exchange.reset()
        for rung in self._rungs:
            rung.warming = False


def _alone(rungs: Sequence[RungChains]) -> bool:
    """Whether draws show how wide the target is; not where swaps or jumps bring them from mode to mode."""
    return len(rungs) == 1 and not isinstance(rungs[0].settings.kernel, ModeJumps)


def check_length(rungs: Sequence[Rung], preconditioner: Preconditioner, steps: int, chains: int) -> None:
    """`ValueError` if warm-up has something to find and is too short for it."""
    learns = any(rung.learns_variance for rung in rungs)
    if steps < SHORTEST and (learns or preconditioner is not None or any(rung.step_size is None for rung in rungs)):
        raise ValueError(
            f"warmup must be at least {SHORTEST} steps to find step size, preconditioner or variances, got {steps}"
        )
    for rung in rungs:
        if isinstance(rung.target, Contour) and steps < rung.target.least_warmup:
            raise ValueError(
                f"warmup must be at least {rung.target.least_warmup} steps to find the knots of {rung.target} "
                f"and to learn its masses, got {steps}; or give knots and log_psi"
            )
    count = _snapshots(rungs, chains)
    if learns and count > 0.6 * steps:
        raise ValueError(
            f"warmup must be at least {math.ceil(count / 0.6)} steps for {count} pilot states of each of "
            f"{chains} chains, got {steps}"
        )


def shortest_length(rungs: Sequence[Rung], chains: int) -> int:
    """Steps that any warm-up takes."""
    if not any(rung.learns_variance for rung in rungs):
        return SHORTEST
    return max(SHORTEST, math.ceil(_snapshots(rungs, chains) / 0.6))


def _spread(count: int, steps: int) -> set[int]:
    """Steps spread over the last 60% of warm-up, so that they cover what is visited."""
    return set(np.rint(np.linspace(0.4, 1.0, count, endpoint=False) * steps).astype(int).tolist())


def _snapshots(rungs: Sequence[Rung], chains: int) -> int:
    """How often the variances are probed."""
    models = [rung.energy_variance for rung in rungs]
    models += [rung.gradient_noise.variance for rung in rungs if rung.gradient_noise]
    states = max([PILOT_STATES] + [model.states for model in models if isinstance(model, KernelRidge)])
    return max(5, math.ceil(states / chains))
