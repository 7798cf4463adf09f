"""The sampler of a run for which none was given, and the reasons for it, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from invsamp.diagnostics.draws import ess, rhat
from invsamp.diagnostics.limits import LEAST_ESS_PER_DRAW
from invsamp.diagnostics.report import Pilot
from invsamp.engine.adaptation.metric_estimation import far
from invsamp.engine.automatic.field_selection import FieldSelection, field_sampler
from invsamp.engine.mode_search.mode_occupancy import diverged
from invsamp.engine.mode_search.multistart import ModeSearchResult
from invsamp.engine.rungs.lasting_state import Lasting
from invsamp.kernels import InfinityHamiltonian
from invsamp.kernels.contract import Kernel
from invsamp.kernels.mode_jumps import ModeJumps
from invsamp.ladder import Sampler
from invsamp.ladder.automatic import LENGTHS
from invsamp.protocols import Array

#: Steps after which the draws of a stage are judged, those of these within half of the run: few steps flatter. On a
#: bent ridge 5 of 12 runs passed at 200 steps by chance, 1 of 12 at 800.
LOOKS = (200, 400, 800)
#: Above this R-hat chains that began in several modes have stayed there: longer paths would not help. Where they began
#: in one, they are in others by now, that no descent has found. The ESS of four chains is about eight then.
APART = 1.5
#: Parameters, evenly spread, by which draws are judged: what bounds the memory and the time that this takes.
JUDGED = 500


class KernelSelection(
    Lasting,
    lasting=(
        *("stage", "failed", "led", "astray", "decisions", "pilot", "over", "_positions", "_energies"),
        *("_modes", "_lowest", "_jumps", "jumping", "field"),
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
        #: Of a Gaussian prior of many unknowns the kernel that keeps a Gaussian; it has no trial.
        self.field: InfinityHamiltonian | None = None
        self._modes, self._lowest = 1, np.inf
        self._jumps: tuple[Array, Array] | None = None  # centers and factors of the minima, where there are several
        #: Whether the kernel jumps between them.
        self.jumping = False
        #: What was chosen, and why.
        self.decisions: list[str] = []
        #: What the pilot run promised that passed.
        self.pilot: Pilot | None = None
        #: Whether the judgment is final: further draws are those of the run.
        self.over = False
        self._every = max(1, -(-dimension // JUDGED))
        self._positions: list[Array] = []
        self._energies: list[Array] = []

    @property
    def sampler(self) -> Sampler:
        """Of the present stage."""
        if self.field is not None:
            return field_sampler(self.field)
        chosen = self._stages[self.stage]
        if not (self._jumps and self.jumping) or chosen is self.widest:
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
        return self.field is not None or self.stage == len(self._stages) - 1

    @property
    def steps(self) -> int:
        """Of the trial so far."""
        return len(self._positions)

    @property
    def complete(self) -> bool:
        """Whether the trial is to be judged now."""
        return self.steps in LOOKS

    @property
    def _kernel(self) -> Kernel:
        return self.sampler.rungs[0].kernel

    def choose_field(self, found: FieldSelection | None) -> bool:
        """Whether a kernel about one mode's Gaussian is taken."""
        if found is not None:
            self.field = found.kernel
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
            light = len(minima.weights) - 1
            others = f", and {light} other{'s' * (light > 1)} of next to no weight" if light else ""
            self.decisions.append(f"{descents} found one mode{others}: one kernel, {self._kernel}")
        else:
            self._several(found, descents, "points there" if where else self._points)
        if heavier and self.led:
            self.led = False
            self.decisions[-1] += f"; chains begin at {self._points}, around which there is more mass than at minima"

    def _several(self, found: ModeSearchResult, descents: str, points: str) -> None:
        """Jump between minima at once if two have a known mass; if they seem to be one ridge, once a trial fails."""
        minima, heavy, modes = found.minima, found.heavy, len(found.minima.gaussian)
        if minima.measured:
            self._jumps = minima.position[heavy], np.asarray(np.linalg.cholesky(minima.extents[heavy]))
        self._modes, self.jumping = max(1, modes), modes > 1
        flat = "minima that are flat in some direction, as on a ridge"
        if not self.jumping:
            self.decisions.append(f"{descents} found {len(heavy)} {flat}: one kernel, {self._kernel}")
            return
        shares = ", ".join(f"{weight:.2g}" for weight in minima.weights[minima.gaussian][:6])
        looked = f", some of them from the lowest of {found.searched:,} {points}" if found.searched else ""
        self.decisions.append(
            f"{descents}{looked} found {modes} modes, of weights {shares} by their Gaussians"
            f"{f', and {len(heavy) - modes} {flat}' if modes < len(heavy) else ''}: a pilot run shows whether chains "
            f"pass between them, by {self._kernel}"
        )

    def add(self, position: Array, energy: Array) -> None:
        """Positions (chains, d) and energies (chains,) after a step of the trial."""
        self._positions.append(position[:, :: self._every].copy())
        self._energies.append(energy.copy())

    def judged(self, dimension: int, affords: Callable[[float], bool]) -> bool:
        """Whether the run goes on with this stage; otherwise with the next one, from a new warm-up.

        ``affords`` says whether there may be a trial of paths so many times as long.
        """
        (worst, per_draw), steps = self._measured(), self.steps
        above = float(np.median(self._energies)) - self._lowest
        if per_draw >= LEAST_ESS_PER_DRAW:
            if self.pilot is None:
                self.pilot = {
                    "steps": steps,
                    "r_hat": worst,
                    "promised": min(per_draw, 1.0),
                    "asked": LEAST_ESS_PER_DRAW,
                }
                self.decisions.append(
                    f"a pilot run of {steps} steps passed: R-hat {worst:.3f}, ESS per draw {min(per_draw, 1.0):.2g}"
                )
            if not any(steps < look <= self._draws // 2 for look in LOOKS):
                self._settle()
            return True
        failed = f"a pilot run of {steps} steps failed: R-hat {worst:.3f}, ESS per draw {per_draw:.2g}"
        if self.pilot is not None:
            failed = (
                f"the first {steps} draws were worse than the pilot run: R-hat {worst:.3f}, ESS per draw {per_draw:.2g}"
            )
        if self.led and self._modes == 1 and above > far(dimension) + dimension:
            self.led, self.astray = False, above
            self.decisions.append(
                f"{failed}; the draws lie {above:.3g} above the lowest minimum, where there is next to "
                f"no mass: chains begin at {self._points}, not at minima"
            )
        elif not self._next(failed, worst, affords):
            self._settle()
            return True
        self.failed += 1
        self.pilot, self._positions, self._energies = None, [], []
        return False

    def _settle(self) -> None:
        self.over, self._positions, self._energies = True, [], []

    def stop(self, budget: int) -> None:
        """Take this stage as it is: the budget leaves no evaluations for its warm-up, or its trial."""
        cut = f"a pilot run was cut short after {self.steps} steps" if self.steps else "warm-up was cut short"
        if self.pilot is None:
            self.decisions.append(f"{cut} by the budget of {budget:,} evaluations: {self._kernel}, untested")
        self._settle()

    def _measured(self) -> tuple[float, float]:
        """The largest R-hat of the pilot run's draws so far, and their smallest effective sample size per draw."""
        draws = np.stack(self._positions, axis=1)
        energies = np.stack(self._energies, axis=1)[..., None]
        values = np.concatenate([draws, np.square(draws - draws.mean(axis=(0, 1))), energies], axis=2)
        worst = 1.0 if len(draws) == 1 else float(np.nanmax(rhat(values), initial=1.0))
        return worst, float(np.nanmin(ess(values), initial=np.inf)) / values[..., 0].size

    def _next(self, failed: str, worst: float, affords: Callable[[float], bool]) -> bool:
        """Whether a stage follows one that has failed: longer paths while the budget has room for them, or a ladder."""
        if self._jumps is not None and not self.jumping:
            self.decisions.append(f"{failed}: jumps between {len(self._jumps[0])} minima of the ridge")
            self.jumping = True
            return True
        several, apart, short = self._modes > 1, worst > APART, self.stage + 1 < len(LENGTHS)
        times = LENGTHS[self.stage + 1] / LENGTHS[self.stage] if short else 0.0
        if short and not (several and apart):
            if affords(times):
                self.decisions.append(f"{failed}: paths {times:g} times as long")
                self.stage += 1
                return True
            failed += "; longer paths would take more evaluations than the budget has"
        if several or (self._to_prior and apart):
            self.stage = len(self._stages) - 1
            ladder = "from the prior to the posterior" if self._to_prior else "of temperatures"
            self.decisions.append(f"{failed}: a ladder {ladder}")
            return True
        # where there is one mode, and chains go about in it, however slowly, a ladder would only be slower
        self.decisions.append(f"{failed}: on with {self._kernel}")
        return False

    def report(self) -> list[str]:
        """The chosen sampler, and the reasons."""
        return (
            [*self.decisions, f"a pilot run is under way, {self.steps} steps of it by now"]
            if self.steps and self.pilot is None
            else list(self.decisions)
        )
