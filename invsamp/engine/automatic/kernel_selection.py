"""A run for which no sampler was chosen: what it is made with, and why, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from invsamp.diagnostics.draws import ess, rhat
from invsamp.diagnostics.limits import DIVERGENCE_LIMIT
from invsamp.diagnostics.report import Pilot
from invsamp.engine.adaptation.metric_estimation import far
from invsamp.engine.adaptation.temperature_schedule import WarmStart
from invsamp.engine.automatic.field_selection import FieldSelection, field_sampler
from invsamp.engine.mode_search.mode_occupancy import diverged
from invsamp.engine.mode_search.multistart import ModeSearchResult
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.kernels.contract import Kernel
from invsamp.kernels.gaussian_reference import ModeReference
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.ladder import Sampler
from invsamp.ladder.automatic import LENGTHS
from invsamp.protocols import Array

#: Steps of a trial after warm-up, whose draws decide; of runs of twice as many steps they are kept if it passes.
TRIAL = 200
#: Steps after which a run is compared with what its trial promised: a quarter of its own. Where the target is far from
#: normal in the sampler's coordinates all of these: on a bent ridge 5 of 12 runs passed a trial of 200 steps by chance,
#: 1 of 12 one of 800.
SECOND_LOOK = 1000
#: A trial has failed if some R-hat is above, or a draw worth too little (`invsamp.engine.automatic.evaluation_budget`).
WORST_RHAT = 1.1
#: Above this R-hat chains that began in several modes have stayed there: longer paths would not help. Where they began
#: in one, they are in others by now, that no descent has found.
APART = 1.5
#: Parameters, evenly spread, by which a trial is judged.
JUDGED = 500


class KernelSelection(
    Lasting,
    lasting=(
        *("stage", "failed", "led", "astray", "returned", "decisions", "pilot", "_positions", "_energies"),
        *("_modes", "_lowest", "_jumps", "_tried", "bent", "field"),
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
    draws : int
        Steps of the run, of each chain.
    """

    def __init__(
        self, stages: Sequence[Sampler], dimension: int, to_prior: bool, has_prior: bool = True, draws: int = 0
    ) -> None:
        self._from, self._points = ("the prior", "draws of the prior") if has_prior else 2 * ("starting points",)
        self._stages, self._to_prior, self._draws = stages, to_prior, draws
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
        #: Whether the target is far from normal in the coordinates of the present stage, but for modes.
        self.bent = False
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
        jumping = replace(rung, kernel=ModeJumps(rung.kernel, *self._jumps))
        return replace(chosen, rungs=(jumping,), preconditioner="auto")  # a map would be one for all modes

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

    @property
    def _second(self) -> int:
        """Steps of the trial at its second look."""
        return min(self._draws // (2 if self.bent else 4), SECOND_LOOK)

    @property
    def complete(self) -> bool:
        """Whether the trial is to be judged now: at its end, and if it passes once more."""
        return self.steps == (TRIAL if self.pilot is None else self._second)

    def begin(self, divergence: float | None) -> None:
        """A trial begins, of coordinates in which the target is so far from normal, if that is known."""
        self.bent = divergence is not None and divergence > DIVERGENCE_LIMIT and self._modes == 1
        self.pilot = None

    @property
    def _kernel(self) -> Kernel:
        return self.sampler.rungs[0].kernel

    def choose_field(self, found: FieldSelection | None) -> bool:
        """Whether a kernel about one mode's Gaussian is taken."""
        if found is not None:
            self.field = found.reference
            self.decisions.append(found.decision)
        return self.field is not None

    def choose(
        self, found: ModeSearchResult, evaluations: int, names: Sequence[str], where: str = "", heavier: bool = False
    ) -> None:
        """Choose the first stage by what descents have found.

        ``names`` are those of the unknowns, ``where`` says which region was searched, if there is no prior, ``heavier``
        that there is more mass around the starts than at all minima.
        """
        minima, heavy = found.minima, found.heavy
        descents = f"{found.descents} optimizations from {self._from}{where} ({evaluations:,} evaluations)"
        self._lowest = float(np.min(minima.energies, initial=np.inf))
        if found.endless:
            self.led = False
            run = diverged(found, names) if len(names) == len(found.away) else []
            along = f", along {', '.join(run[:4])}" if run else ""
            self.decisions.append(
                f"{found.endless} of {descents} diverged{along}: the posterior may be improper or unbounded there; "
                f"chains begin at {self._points}, not at minima, with one kernel, {self._kernel}"
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
        if heavier and self.led:
            self.led = False
            self.decisions[-1] += f"; chains begin at {self._points}, around which there is more mass than at minima"

    def _several(self, found: ModeSearchResult, descents: str, points: str) -> None:
        minima, heavy = found.minima, found.heavy
        self._modes = len(heavy)
        shares = ", ".join(f"{weight:.2g}" for weight in minima.weights[heavy][:6])
        self._jumps = minima.position[heavy], np.asarray(np.linalg.cholesky(minima.extents[heavy]))
        looked = f", some of them from the lowest of {found.searched:,} {points}" if found.searched else ""
        self.decisions.append(
            f"{descents}{looked} found {len(heavy)} modes, of weights {shares} by their Gaussians: a pilot run shows "
            f"whether chains pass between them, by {self._kernel}"
        )

    def add(self, position: Array, energy: Array) -> None:
        """Positions (chains, d) and energies (chains,) after a step of the trial."""
        self._positions.append(position[:, :: self._every].copy())
        self._energies.append(energy.copy())

    def judged(self, dimension: int, warm_start: WarmStart, least: float, affords: Callable[[float], bool]) -> bool:
        """Whether this stage passes its trial; otherwise the next one is that of the run.

        One that has passed is judged once more, by what it promised. ``warm_start`` is what it has come to, ``least``
        the share of an independent draw that one has to be worth, and ``affords`` says whether there may be a trial of
        paths so many times as long.
        """
        worst, worth = self._measured()
        steps, above = self.steps, float(np.median(self._energies)) - self._lowest
        first, promised = self.pilot is None, 1.0 if self.pilot is None else self.pilot["promised"]
        # of coordinates that fit, so few draws as a pilot run has are nearly enough
        wanted = least if first or self.bent else min(least, 0.5 * promised)
        if worst <= WORST_RHAT and worth >= wanted:
            if self.pilot is None:
                self.pilot = {"steps": steps, "r_hat": worst, "promised": min(worth, 1.0), "asked": least}
                self.decisions.append(
                    f"a pilot run of {steps} steps passed: R-hat {worst:.3f}, ESS per draw {min(worth, 1.0):.2g}"
                )
            return True
        self._positions, self._energies = [], []
        self.failed += 1
        failed = _failed(steps, worst, worth)
        if not first:
            failed = f"the first {steps} draws fell short of the pilot run: R-hat {worst:.3f}, ESS per draw {worth:.2g}"
        if self.led and self._modes == 1 and above > far(dimension) + dimension:
            self.led, self.astray = False, above
            self.decisions.append(
                f"{failed}; the draws lie {above:.3g} above the lowest minimum, where there is next to "
                f"no mass: chains begin at {self._points}, not at minima"
            )
        else:
            self._next(failed, worst, worth, warm_start, affords)
        return False

    @property
    def over(self) -> bool:
        """Whether a trial that has passed need not be judged again."""
        return self.pilot is not None and self.steps >= self._second

    def finish(self) -> None:
        """The trial is over."""
        self._positions, self._energies = [], []

    def stop(self, budget: int) -> None:
        """Take this stage as it is: the budget leaves no evaluations for its warm-up, or its trial."""
        cut = f"a pilot run was cut short after {self.steps} steps" if self.steps else "warm-up was cut short"
        if self.pilot is None:
            self.decisions.append(f"{cut} by the budget of {budget:,} evaluations: {self._kernel}, untested")
        self.finish()

    def _measured(self) -> tuple[float, float]:
        """The largest R-hat of the trial's draws so far, and the share of an independent draw that one is worth."""
        draws = np.stack(self._positions, axis=1)
        energies = np.stack(self._energies, axis=1)[..., None]
        values = np.concatenate([draws, np.square(draws - draws.mean(axis=(0, 1))), energies], axis=2)
        worst = 1.0 if len(draws) == 1 else float(np.nanmax(rhat(values), initial=1.0))
        return worst, float(np.nanmin(ess(values), initial=np.inf)) / values[..., 0].size

    def _next(
        self, failed: str, worst: float, worth: float, warm_start: WarmStart, affords: Callable[[float], bool]
    ) -> None:
        """The stage after one that has failed: longer paths, while the budget has room for a run of them."""
        self._tried.append((self.stage, worth, warm_start))
        apart, short = self._modes > 1 and worst > APART, self.stage + 1 < len(LENGTHS)
        times = LENGTHS[self.stage + 1] / LENGTHS[self.stage] if short else 0.0
        if short and not apart and affords(times):
            self.decisions.append(f"{failed}: paths {times:g} times as long")
            self.stage += 1
            return
        if short and not apart:
            failed += "; longer paths would take more evaluations than the budget has"
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
            [*self.decisions, f"a pilot run is under way, {self.steps} steps of it by now"]
            if self.steps and self.pilot is None
            else list(self.decisions)
        )


def _failed(steps: int, worst: float, worth: float) -> str:
    return f"a pilot run of {steps} steps failed: R-hat {worst:.3f}, ESS per draw {worth:.2g}"
