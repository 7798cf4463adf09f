"""A run for which no sampler was chosen: what it is made with, and why, in words."""

from __future__ import annotations

import numpy as np

from invsamp.automatic import LENGTHS, Automatic
from invsamp.contract import Array
from invsamp.diagnostics.draws import ess, rhat
from invsamp.engine.scouting import NEGLIGIBLE, Scouted
from invsamp.engine.streams import Saved
from invsamp.ladder import Sampler

#: Steps of a trial after warm-up, whose draws decide and are not kept.
TRIAL = 200
#: A trial has failed if some R-hat is above, or a draw worth less than such a share of an independent one.
WORST_RHAT, LEAST_WORTH = 1.1, 0.05
#: Above this R-hat chains that began in several modes have stayed there: longer paths would not help.
APART = 1.5
#: Parameters, evenly spread, by which a trial is judged.
JUDGED = 500


class Choice:
    """The stage of an `Automatic` sampler that a run is at, and the trial of it.

    Parameters
    ----------
    sampler : Automatic
    dimension, fidelities : int
        Of the problem.
    to_prior : bool
        Whether a ladder can reach the prior.
    """

    def __init__(self, sampler: Automatic, dimension: int, fidelities: int, to_prior: bool) -> None:
        self._stages = sampler.stages(dimension, fidelities)
        self._to_prior = to_prior
        self.stage = 0
        self._modes, self._worths = 1, list[float]()
        self._settled = False  # on a kernel that has failed, as there is nothing better
        #: What was chosen, and why.
        self.told: list[str] = []
        self._every = max(1, -(-dimension // JUDGED))
        self._positions: list[Array] = []
        self._energies: list[Array] = []

    @property
    def sampler(self) -> Sampler:
        """Of the present stage."""
        return self._stages[self.stage]

    @property
    def widest(self) -> Sampler:
        """The last one, which needs all fidelities."""
        return self._stages[-1]

    @property
    def last(self) -> bool:
        """Whether there is no trial of this stage."""
        return self._settled or self.stage == len(self._stages) - 1

    @property
    def complete(self) -> bool:
        """Whether the trial has all its draws."""
        return len(self._positions) == TRIAL

    def scouted(self, found: Scouted, evaluations: int) -> None:
        """Choose the first stage by what descents have found."""
        minima, weights = found.minima, found.minima.weights
        heavy = int(np.count_nonzero(weights > NEGLIGIBLE))
        descents = f"{found.descents} descents from the prior ({evaluations:,} evaluations)"
        if found.endless:
            self.told.append(
                f"{found.endless} of {descents} fall without end: the posterior may be improper, or have a spike"
            )
        if not len(minima.energies):
            self.told.append(f"{descents} found no minimum: one kernel, {self.sampler.rungs[0].kernel}")
        elif heavy == 1:
            others = f", and {len(weights) - 1} others of no weight" if len(weights) > 1 else ""
            self.told.append(f"{descents} found one mode{others}: one kernel, {self.sampler.rungs[0].kernel}")
        else:
            self._modes = heavy
            shares = ", ".join(f"{weight:.2g}" for weight in weights[weights > NEGLIGIBLE][:6])
            self.told.append(
                f"{descents} found {heavy} modes, of weights {shares} by their Gaussians: on trial, whether chains of "
                f"one kernel that begin in all of them pass between them, {self.sampler.rungs[0].kernel}"
            )

    def add(self, position: Array, energy: Array) -> None:
        """Positions (chains, d) and energies (chains,) after a step of the trial."""
        self._positions.append(position[:, :: self._every].copy())
        self._energies.append(energy.copy())

    def judged(self) -> bool:
        """Whether the trial, which ends, lets this stage pass; otherwise the next one is that of the run."""
        draws = np.stack(self._positions, axis=1)
        energies = np.stack(self._energies, axis=1)[..., None]
        self._positions, self._energies = [], []
        centred = draws - draws.mean(axis=(0, 1))
        values = np.concatenate([draws, np.square(centred), energies], axis=2)
        worst = 1.0 if len(draws) == 1 else float(np.nanmax(rhat(values), initial=1.0))
        sizes = ess(values)
        worth = float(np.nanmin(sizes, initial=np.inf)) / values[..., 0].size
        if worst <= WORST_RHAT and worth >= LEAST_WORTH:
            self.told.append(
                f"a trial of {TRIAL} steps passed: R-hat {worst:.3f}, a draw is worth {min(worth, 1.0):.2g}"
            )
            return True
        failed = f"a trial of {TRIAL} steps failed: R-hat {worst:.3f}, a draw is worth {worth:.2g}"
        self._worths.append(worth)
        apart = self._modes > 1 and worst > APART
        if self.stage + 1 < len(LENGTHS) and not apart:
            self.stage += 1
            longer = LENGTHS[self.stage] / LENGTHS[self.stage - 1]
            self.told.append(f"{failed}: paths {longer:g} times as long")
        elif self._to_prior or self._modes > 1:
            self.stage = len(self._stages) - 1
            ladder = "from the prior to the posterior" if self._to_prior else "of temperatures"
            self.told.append(f"{failed}: a ladder {ladder}")
        else:
            # without modes a ladder of temperatures would only be slower
            self.stage, self._settled = int(np.argmax(self._worths)), True
            self.told.append(f"{failed}: back to {self.sampler.rungs[0].kernel}, which was the best")
        return False

    def state(self) -> Saved:
        """For `restore`."""
        trial = [np.array(self._positions), np.array(self._energies)] if self._positions else None
        known = {"modes": self._modes, "worths": list(self._worths), "settled": self._settled}
        return {"stage": self.stage, "told": list(self.told), "trial": trial} | known

    def restore(self, state: Saved) -> None:
        """Go on from a state."""
        self.stage, self.told = state["stage"], list(state["told"])
        self._modes, self._worths, self._settled = state["modes"], list(state["worths"]), state["settled"]
        self._positions, self._energies = ([], []) if state["trial"] is None else map(list, state["trial"])

    def report(self) -> list[str]:
        """What was chosen, and why."""
        return list(self.told)
