"""A run for which no sampler was chosen: what it is made with, and why, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from invsamp.diagnostics.draws import ess, rhat
from invsamp.diagnostics.report import Pilot
from invsamp.engine.adaptation.metric_estimation import far
from invsamp.engine.adaptation.temperature_schedule import WarmStart
from invsamp.engine.automatic.field_selection import FieldSelection, field_sampler
from invsamp.engine.mode_search.mode_occupancy import diverged
from invsamp.engine.mode_search.multistart import ModeSearchResult
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.kernels.contract import Kernel, Mask
from invsamp.kernels.gaussian_reference import ModeReference
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.ladder import Sampler
from invsamp.ladder.automatic import LENGTHS
from invsamp.protocols import Array

#: Steps of a trial after warm-up, whose draws decide; of runs of twice as many steps they are kept if it passes.
TRIAL = 200
#: It ends after half of them where there is one mode, all R-hats are below this by then, and a draw is worth twice what
#: it has to be; after twice as many where the worth alone is too low, by less than half: so few draws do not estimate
#: it any better, and longer paths in vain are expensive.
CLEAR_RHAT = 1.05
#: A trial has failed if some R-hat is above, or a draw worth too little (`invsamp.engine.automatic.evaluation_budget`).
WORST_RHAT = 1.1
#: Above this R-hat chains that began in several modes have stayed there: longer paths would not help. Where they began
#: in one, they are in others by now, that no descent has found.
APART = 1.5
#: A chain that moved in less than this share of a trial's steps, half of what is aimed at, is where these are too long.
STUCK = 0.4
#: Parameters, evenly spread, by which a trial is judged.
JUDGED = 500


class KernelSelection(
    Lasting,
    lasting=(
        *("stage", "failed", "led", "astray", "again", "returned", "decisions", "pilot", "_positions", "_energies"),
        *("_modes", "_lowest", "_jumps", "_tried", "field"),
    ),
):
    """The stage of an `Automatic` sampler that a run is at, and the trial of it.

    Parameters
    ----------
    stages : sequence of Sampler
        In the order in which they are tried; see `Automatic.stages`.
    dimension : int
        Of the problem.
    to_prior : bool
        Whether a ladder can reach the prior.
    has_prior : bool
        Whether descents begin at its draws; otherwise wherever chains may start.
    """

    def __init__(self, stages: Sequence[Sampler], dimension: int, to_prior: bool, has_prior: bool = True) -> None:
        self._from, self._points = ("the prior", "draws of the prior") if has_prior else 2 * ("starting points",)
        self._stages, self._to_prior = stages, to_prior
        self.stage = 0
        #: Trials that have failed.
        self.failed = 0
        #: Whether chains begin where descents end; otherwise at their starts, as no mass is down there.
        self.led = True
        #: By how much the draws lay above the lowest minimum, where chains that began at minima had to begin again.
        self.astray: float | None = None
        #: Of a Gaussian prior of many unknowns the Gaussian that the kernel keeps; it has no trial.
        self.field: ModeReference | None = None
        self._modes, self._lowest = 1, np.inf
        self._jumps: tuple[Array, Array] | None = None  # centers and factors of the modes that kernels jump between
        #: Stages that failed: their numbers, what a draw was worth, and what they had come to, but for positions.
        self._tried: list[tuple[int, float, WarmStart]] = []
        #: Whether the first stage has its warm-up once more, as a chain was stuck in its trial.
        self.again = False
        #: What a stage goes on from that has failed, and is taken all the same, as nothing was better.
        self.returned: WarmStart | None = None
        #: What was chosen, and why.
        self.decisions: list[str] = []
        #: What the pilot run promised that passed.
        self.pilot: Pilot | None = None
        self._every = max(1, -(-dimension // JUDGED))
        self._positions: list[Array] = []
        self._energies: list[Array] = []

    @property
    def sampler(self) -> Sampler:
        """Of the present stage."""
        if self.field is not None:
            return field_sampler(self.field)
        chosen = self._stages[self.stage]
        if self._jumps is None or chosen is self.widest:
            return chosen
        (rung,) = chosen.rungs
        return replace(chosen, rungs=(replace(rung, kernel=ModeJumps(rung.kernel, *self._jumps)),))

    @property
    def widest(self) -> Sampler:
        """The last one, which needs all fidelities."""
        return self._stages[-1]

    @property
    def last(self) -> bool:
        """Whether there is no trial of this stage."""
        return self.field is not None or self.returned is not None or self.stage == len(self._stages) - 1

    @property
    def steps(self) -> int:
        """Of the trial so far."""
        return len(self._positions)

    def complete(self, least: float) -> bool:
        """Whether the trial's draws leave no doubt by now, or are all that there may be; ``least`` as of `judged`."""
        if self.steps == TRIAL // 2 and self._modes == 1:
            worst, worth = self._measured()
            return worst <= CLEAR_RHAT and worth >= 2.0 * least
        if self.steps == TRIAL:
            worst, worth = self._measured()
            return not (worst <= WORST_RHAT and 0.5 * least <= worth < least)
        return self.steps == 2 * TRIAL

    @property
    def _kernel(self) -> Kernel:
        return self.sampler.rungs[0].kernel

    def choose_field(self, found: FieldSelection | None) -> bool:
        """Whether a kernel about one mode's Gaussian is taken."""
        if found is not None:
            self.field = found.reference
            self.decisions.append(found.decision)
        return self.field is not None

    def choose(self, found: ModeSearchResult, evaluations: int, names: Sequence[str], where: str = "") -> None:
        """Choose the first stage by what descents have found.

        ``names`` are those of the unknowns, ``where`` says which region was searched, if there is no prior.
        """
        minima, heavy = found.minima, found.heavy
        descents = f"{found.descents} descents from {self._from}{where} ({evaluations:,} evaluations)"
        self._lowest = float(np.min(minima.energies, initial=np.inf))
        if found.endless:
            self.led = False
            run = diverged(found, names) if len(names) == len(found.away) else []
            along = f", along {', '.join(run[:4])}" if run else ""
            self.decisions.append(
                f"{found.endless} of {descents} diverge{along}: the posterior is improper there, or has a "
                f"spike; chains begin at {self._points}, not at minima, with one kernel, {self._kernel}"
            )
        elif not len(heavy):
            self.decisions.append(f"{descents} found no minimum: one kernel, {self._kernel}")
        elif len(heavy) == 1:
            others = f", and {len(minima.weights) - 1} others of no weight" if len(minima.weights) > 1 else ""
            self.decisions.append(f"{descents} found one mode{others}: one kernel, {self._kernel}")
        elif found.ridge:
            self.decisions.append(
                f"{descents} found {len(heavy)} minima that are flat in some direction, as on a ridge: one kernel, "
                f"{self._kernel}"
            )
        else:
            self._several(found, descents, "points there" if where else self._points)

    def _several(self, found: ModeSearchResult, descents: str, points: str) -> None:
        minima, heavy = found.minima, found.heavy
        self._modes = len(heavy)
        shares = ", ".join(f"{weight:.2g}" for weight in minima.weights[heavy][:6])
        self._jumps = minima.position[heavy], np.asarray(np.linalg.cholesky(minima.extents[heavy]))
        looked = f", some of them from the lowest of {found.searched:,} {points}" if found.searched else ""
        self.decisions.append(
            f"{descents}{looked} found {len(heavy)} modes, of weights {shares} by their Gaussians: on trial, whether "
            f"chains pass between them, by {self._kernel}"
        )

    def add(self, position: Array, energy: Array) -> None:
        """Positions (chains, d) and energies (chains,) after a step of the trial."""
        self._positions.append(position[:, :: self._every].copy())
        self._energies.append(energy.copy())

    def judged(self, dimension: int, warm_start: WarmStart, least: float, affords: Callable[[float], bool]) -> bool:
        """Whether the trial, which ends, lets this stage pass; otherwise the next one is that of the run.

        ``warm_start`` is what it has come to, ``least`` the share of an independent draw that one has to be worth, and
        ``affords`` says whether there may be a trial of paths so many times as long.
        """
        worst, worth = self._measured()
        steps, above = self.steps, float(np.median(self._energies)) - self._lowest
        stuck = self._stuck(least)
        self._positions, self._energies = [], []
        if worst <= WORST_RHAT and worth >= least:
            self.pilot = {"steps": steps, "r_hat": worst, "promised": min(worth, 1.0), "asked": least}
            self.decisions.append(
                f"a trial of {steps} steps passed: R-hat {worst:.3f}, a draw is worth {min(worth, 1.0):.2g}"
            )
            return True
        self.failed += 1
        failed = _failed(steps, worst, worth)
        if self.led and self._modes == 1 and above > far(dimension) + dimension:
            self.led, self.astray, self.again = False, above, False
            self.decisions.append(
                f"{failed}; the draws lie {above:.3g} above the lowest minimum, where there is next to "
                f"no mass: chains begin at {self._points}, not at minima"
            )
        elif stuck is not None and not self.again:
            self.again = True
            self.decisions.append(
                f"{failed}; but for one chain, which moved in {stuck:.0%} of them as they are too long where it is: "
                f"warm-up goes on from there"
            )
        else:
            self._next(failed, worst, worth, warm_start, self._longer(worth, least, affords))
        return False

    def stop(self, budget: int) -> None:
        """Take this stage as it is: the budget leaves no evaluations for its warm-up, or its trial."""
        cut = f"a trial was cut short after {self.steps} steps" if self.steps else "warm-up was cut short"
        self.decisions.append(f"{cut} by the budget of {budget:,} evaluations: {self._kernel}, untested")
        self._positions, self._energies = [], []

    def _stuck(self, least: float) -> float | None:
        """The share of steps in which a stuck chain has moved, where the others pass by themselves, or nearly."""
        moved = np.diff(self._positions, axis=0).any(axis=2).mean(axis=0)
        if self.stage or len(moved) < 3 or moved.min() >= STUCK:
            return None
        worst, worth = self._measured(np.arange(len(moved)) != np.argmin(moved))
        return float(moved.min()) if worst <= WORST_RHAT and worth >= 0.5 * least else None

    def _measured(self, chains: Mask | None = None) -> tuple[float, float]:
        """The largest R-hat of the trial's draws so far, and the share of an independent draw that one is worth.

        Of those chains (default: all).
        """
        chosen = slice(None) if chains is None else chains
        draws = np.stack(self._positions, axis=1)[chosen]
        energies = np.stack(self._energies, axis=1)[chosen][..., None]
        values = np.concatenate([draws, np.square(draws - draws.mean(axis=(0, 1))), energies], axis=2)
        worst = 1.0 if len(draws) == 1 else float(np.nanmax(rhat(values), initial=1.0))
        return worst, float(np.nanmin(ess(values), initial=np.inf)) / values[..., 0].size

    def _longer(self, worth: float, least: float, affords: Callable[[float], bool]) -> int | None:
        """The next stage of longer paths that may be tried; None if there is none.

        Draws of a random walk are worth as the square of its steps: what would still be worth too little by that is
        left out, but not the longest.
        """
        ahead = [(stage, LENGTHS[stage] / LENGTHS[self.stage]) for stage in range(self.stage + 1, len(LENGTHS))]
        possible = [(stage, times) for stage, times in ahead if affords(times)]
        enough = [stage for stage, times in possible if worth * times**2 >= least or stage + 1 == len(LENGTHS)]
        return enough[0] if enough else possible[0][0] if possible else None

    def _next(self, failed: str, worst: float, worth: float, warm_start: WarmStart, longer: int | None) -> None:
        """The stage after one that has failed; ``longer`` that of longer paths, if there is one."""
        self._tried.append((self.stage, worth, warm_start))
        apart, short = self._modes > 1 and worst > APART, self.stage + 1 < len(LENGTHS)
        if longer is not None and not apart:
            self.decisions.append(f"{failed}: paths {LENGTHS[longer] / LENGTHS[self.stage]:g} times as long")
            self.stage = longer
            return
        if short and not apart:
            failed += "; to try longer paths would take more evaluations than draws are worth"
        if self._modes > 1 or (self._to_prior and worst > APART):
            self.stage = len(self._stages) - 1
            ladder = "from the prior to the posterior" if self._to_prior else "of temperatures"
            self.decisions.append(f"{failed}: a ladder {ladder}")
        else:
            # where there is one mode, and chains go about in it, however slowly, a ladder would only be slower
            self.stage, _, best = max(self._tried, key=lambda tried: tried[1])
            self.returned = best._replace(position=warm_start.position)
            self.decisions.append(f"{failed}: back to {self._kernel}, which was the best")

    def report(self) -> list[str]:
        """What was chosen, and why."""
        return (
            [*self.decisions, f"a trial is under way, {self.steps} steps of it by now"]
            if self.steps
            else list(self.decisions)
        )


def _failed(steps: int, worst: float, worth: float) -> str:
    return f"a trial of {steps} steps failed: R-hat {worst:.3f}, a draw is worth {worth:.2g}"
